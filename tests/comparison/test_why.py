"""Why the time differs: made loops in which one thing was changed, and programs that were really fixed."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from benchmarks.prediction import PAIRS
from overlapscope import compare, open_trace
from overlapscope.comparison import why as attribution
from overlapscope.comparison.figures import MENTIONED_SHARE
from overlapscope.comparison.swaps import Part
from overlapscope.comparison.why import Why, shapley, two_orders
from tests import kineto_maker as make
from tests.comparison.loop import Loop
from tests.conftest import SAMPLES
from tests.notation import trace_of
from tests.opened import trace_at

PAGEABLE = Loop(memory="pageable", copy_us=400)


def why(tmp_path: Path, before: Loop, after: Loop) -> Why:
    found = compare(before.trace(tmp_path / "before"), after.trace(tmp_path / "after")).why
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("before", "after", "part", "words"),
    [
        (PAGEABLE, Loop(), Part.MEMORY, "pinning 4 copies"),
        (Loop(), PAGEABLE, Part.MEMORY, "pageable memory for 4 copies"),
        (Loop(copy_us=400), Loop(), Part.COPY_TIMES, "copy times"),
        (Loop(sync=True, gap_us=600), Loop(gap_us=600), Part.WAITS, "dropping 4 synchronisations"),
        (Loop(gap_us=600), Loop(sync=True, gap_us=600), Part.WAITS, "adding 4 synchronisations"),
        (Loop(reads=True, gap_us=600), Loop(gap_us=600), Part.WAITS, "dropping 4 reads of single values"),
        (Loop(), Loop(stream=13), Part.STREAMS, "moving 4 copies off the kernels' stream"),
        (Loop(stream=13), Loop(), Part.STREAMS, "moving 4 copies to the kernels' stream"),
        (Loop(kernel_us=900), Loop(kernel_us=600), Part.KERNEL_TIMES, "kernel times"),
        (Loop(gap_us=2_000), Loop(gap_us=1_000), Part.HOST, "host time between calls"),
        (Loop(allocation_us=900), Loop(), Part.ALLOCATIONS, "fewer allocations (4 -> 0)"),
        (Loop(), Loop(allocation_us=900), Part.ALLOCATIONS, "more allocations (0 -> 4)"),
        (Loop(memory="pageable", pieces=4), Loop(memory="pageable"), Part.ORDER, "fewer copies (16 -> 4)"),
        (PAGEABLE, replace(PAGEABLE, copy_us=100, kib=16), Part.ORDER, "smaller copies (256 KiB -> 64 KiB)"),
    ],
)
def test_one_change_is_what_the_difference_is_attributed_to(
    before: Loop, after: Loop, part: Part, words: str, tmp_path: Path
) -> None:
    found = why(tmp_path, before, after)
    first = found.reasons[0]
    assert (first.part, first.words) == (part, words)
    assert first.saved_ns == pytest.approx(found.saved_ns, rel=0.05)
    assert abs(found.unexplained_ns) <= 0.05 * abs(found.saved_ns)


def test_parts_and_what_is_unexplained_add_up(tmp_path: Path) -> None:
    before, after = replace(PAGEABLE, sync=True, gap_us=90, kernel_us=350), Loop(stream=13)
    found = why(tmp_path, before, after)
    assert found.saved_ns == found.before_ns - found.after_ns
    assert {reason.part for reason in found.reasons} >= {Part.MEMORY, Part.STREAMS, Part.HOST, Part.KERNEL_TIMES}
    assert abs(found.unexplained_ns) < 0.05 * found.saved_ns


def test_the_other_way_round_the_same_parts_cost_what_they_saved(tmp_path: Path) -> None:
    there, back = why(tmp_path, PAGEABLE, Loop(stream=13)), why(tmp_path, Loop(stream=13), PAGEABLE)
    saved = {reason.part: reason.saved_ns for reason in there.reasons}
    assert {reason.part: -reason.saved_ns for reason in back.reasons} == pytest.approx(saved, abs=2)


def test_nothing_is_attributed_to_what_did_not_change(tmp_path: Path) -> None:
    found = why(tmp_path, Loop(), Loop())
    assert found.saved_ns == found.unexplained_ns == 0
    assert not [reason for reason in found.reasons if reason.saved_ns or reason.done]


def test_synchronisations_and_reads_are_counted_apart(tmp_path: Path) -> None:
    found = why(tmp_path, Loop(reads=True, sync=True, gap_us=600), Loop(gap_us=600))
    (waits,) = (reason for reason in found.reasons if reason.part == Part.WAITS)
    assert waits.words == "dropping 4 synchronisations and 4 reads of single values"


def test_synchronisations_that_stand_elsewhere_are_not_others(tmp_path: Path) -> None:
    """They may be matched otherwise by chance, where nothing was done."""
    calls = ["launch a 0-5 -> stream 7: 10-300", "launch b 310-315 -> stream 7: 320-900"]
    wait = "stream-sync {}-{} -> stream 7"
    texts = [
        " | ".join([calls[0], wait.format(6, 302), *calls[1:]]),
        " | ".join([*calls, wait.format(316, 902)]),
    ]
    sides = []
    for number, text in enumerate(texts):
        (tmp_path / str(number)).mkdir()
        sides.append(trace_of(tmp_path / str(number), "thread 1: " + text, **make.H200))
    found = compare(*sides).why
    assert found is not None
    (waits,) = (reason for reason in found.reasons if reason.part == Part.WAITS)
    assert (waits.words, waits.done) == ("where the same synchronisations stand", False)


def test_host_time_that_goes_with_copies_is_not_theirs(tmp_path: Path) -> None:
    """A batch of 500 us is made before each copy, in an operator of 30 us; without both a step takes 540 us less."""
    sides = []
    for name, with_copies in (("before", True), ("after", False)):
        now, lines = 0, []
        for _ in range(4):
            if with_copies:
                lines.append(
                    f"range load {now}-{now + 500} | op aten::to {now + 505}-{now + 535} | "
                    f"copy 4KiB pageable HtoD {now + 515}-{now + 530} -> stream 7: {now + 520}-{now + 525}"
                )
                now += 540
            lines.append(f"launch gemm {now + 5}-{now + 10} -> stream 7: {now + 15}-{now + 25}")
            lines.append(f"sync {now + 11}-{now + 26}")
            now += 60
        (tmp_path / name).mkdir()
        sides.append(trace_of(tmp_path / name, "thread 1: " + " | ".join(lines), **make.H200))
    found = compare(*sides).why
    assert found is not None
    saved = {reason.part: (reason.words, reason.saved_ns) for reason in found.reasons}
    assert saved[Part.ORDER] == ("fewer copies (4 -> 0)", pytest.approx(4 * 30_000, abs=20_000))
    assert saved[Part.HOST][1] == pytest.approx(3 * 510_000, rel=0.05), "the first batch is before all GPU work"


def test_fewer_copies_are_not_what_costs_time(tmp_path: Path) -> None:
    found = why(tmp_path, Loop(pieces=4), Loop(pieces=1, gap_us=900, kernel_us=900))
    assert all(reason.saved_ns >= 0 for reason in found.reasons if "fewer copies" in reason.words)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("copy_order-weights-first", "copy_order-ids-first", "issuing 6 copies ahead of others"),
        ("copy_order-ids-first", "copy_order-weights-first", "issuing 6 copies behind others"),
        ("pinning_guide-concurrent-busy-engine", "pinning_guide-concurrent", "6 copies DtoH instead of HtoD"),
    ],
)
def test_the_order_on_a_copy_engine_goes_with_the_order_of_issue(before: str, after: str, words: str) -> None:
    found = compare(*(trace_at(SAMPLES / f"{name}.json.gz") for name in (before, after))).why
    assert found is not None
    assert found.reasons[0].words == words
    assert found.reasons[0].saved_ns == pytest.approx(found.saved_ns, rel=0.1)


def test_calls_are_matched_with_those_between_the_same_others(tmp_path: Path) -> None:
    """The synchronisation that is gone is not the last one, which follows another call."""
    begin = "launch a 0-5 -> stream 7: 10-20 | sync 30-31"
    end = "cudaProfilerStop {}-{} | sync {}-{} | launch b {}-{} -> stream 7: {}-{}"
    sides = []
    for name, text in (
        ("before", "| sync 40-41 |" + end.format(900, 901, 910, 911, 912, 913, 914, 920)),
        ("after", "|" + end.format(200, 201, 210, 211, 212, 213, 214, 220)),
    ):
        (tmp_path / name).mkdir()
        sides.append(trace_of(tmp_path / name, f"thread 1: {begin} {text}", **make.H200))
    found = compare(*sides).why
    assert found is not None
    assert found.reasons[0].part == Part.HOST
    assert abs(found.unexplained_ns) <= 0.05 * found.saved_ns


def test_shares_are_averages_over_all_orders_and_add_up() -> None:
    """Two parts that each hide the other share what they save together; the third one is by itself."""

    def length(done: frozenset[Part]) -> int:
        return 100 - (60 if done & {Part.MEMORY, Part.WAITS} else 0) - (10 if Part.HOST in done else 0)

    parts = (Part.MEMORY, Part.WAITS, Part.HOST)
    expected = {Part.MEMORY: 30, Part.WAITS: 30, Part.HOST: 10}
    assert shapley(parts, length) == pytest.approx(expected)
    assert two_orders(parts, length) == pytest.approx(expected)
    by_hand = dict.fromkeys(parts, 0.0)
    for order in permutations(parts):
        for place, part in enumerate(order):
            by_hand[part] += (length(frozenset(order[:place])) - length(frozenset(order[: place + 1]))) / 6
    assert by_hand == pytest.approx(expected)


def test_a_large_trace_is_attributed_by_two_orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = PAGEABLE.trace(tmp_path / "before"), Loop(stream=13).trace(tmp_path / "after")
    monkeypatch.setattr(attribution, "MOST_SIMULATED", 10**9)
    exact = compare(before, after).why
    monkeypatch.setattr(attribution, "MOST_SIMULATED", 0)
    quick = compare(before, after).why
    assert exact is not None
    assert quick is not None
    assert (exact.every_order, quick.every_order) == (True, False)
    assert quick.saved_ns == exact.saved_ns
    assert quick.reasons[0].part == exact.reasons[0].part


SAID = {
    "pin": ("pinning",),
    "non-blocking": ("synchronisation",),
    "side-stream": ("off the kernels' stream",),
    "prefetch": ("off the kernels' stream", "earlier", "fewer copies"),
    "no-scalar-sync": ("single value", "synchronisation"),
    "pin-ahead": ("pin_memory", "host time"),
    "preallocate": ("fewer allocations",),
    "batch-copies": ("fewer copies",),
    "copy-first": ("ahead of others",),
}
"""By which words a sentence names each change; where the GPU decides what to fetch, there are fewer copies."""
WITHOUT_A_CALL = {"offload": "non-blocking"}
"""What a workload's pinned variant does in no call of its own: its copies have no synchronisation to drop."""
FEW = ("gemm_copy-pageable-copy-first-blocking-same", "offload-pageable-same", "pinning_guide-list-to", "scalar_reads")
FEW += ("prefetcher-non-blocking", "dataloader_train-pinned")
"""Begins of those that are compared each time."""


def sample_pairs() -> list[Any]:
    """Every pair of samples in every kind of recording: faulty, fixed, and what was done."""
    found = []
    for suffix in ("json.gz", "sqlite.gz"):
        for pair in PAIRS:
            paths = [SAMPLES / f"{name}.{suffix}" for name in (pair.faulty, pair.fixed)]
            slow = suffix == "sqlite.gz" or not pair.faulty.startswith(FEW)
            marks = [pytest.mark.predictions] if slow else []
            if all(path.exists() for path in paths):
                found.append(pytest.param(*paths, pair.changes, marks=marks, id=f"{pair.faulty}-{pair.fixed}-{suffix}"))
    return found


@pytest.mark.parametrize(("faulty", "fixed", "changes"), sample_pairs())
def test_what_was_done_is_named(faulty: Path, fixed: Path, changes: tuple[str, ...]) -> None:
    found = compare(open_trace(faulty), open_trace(fixed))
    assert found.why is not None
    words = " ".join(reason.words for reason in found.why.reasons)
    for name in (change.partition("=")[0] for change in changes):
        if WITHOUT_A_CALL.get(faulty.name.partition("-")[0]) != name:
            assert any(said in words for said in SAID[name]), (name, words)
    least_ns = MENTIONED_SHARE * found.why.saved_ns
    largest = max((reason for reason in found.why.reasons if reason.done), key=lambda each: each.saved_ns, default=None)
    if found.wall.changed and largest is not None and largest.saved_ns >= least_ns:
        assert largest.words in found.sentence
    if found.wall.changed:
        assert abs(found.why.unexplained_ns) <= 0.25 * abs(found.why.saved_ns)
