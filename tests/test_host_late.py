"""What the host did when it launched late, and which launches block."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import Finding, audit, diagnose
from overlapscope.diagnosis.finding import Severity
from tests.notation import trace_of

LOADER = "op enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def loop(steps: int, text: str, period: int = 10_000) -> str:
    """Some lines repeated, their times shifted by a period; `{0}` is the begin of a step."""
    return "\n".join(_shifted(text, step * period) for step in range(steps))


def _shifted(text: str, by: int) -> str:
    return " ".join(
        "-".join(str(int(part) + by) for part in word.rstrip(":").split("-")) if _is_time(word) else word
        for word in text.split(" ")
    )


def _is_time(word: str) -> bool:
    return "-" in word and word.replace("-", "").isdigit()


def host_late(tmp_path: Path, *lines: str) -> list[Finding]:
    return [entry for entry in diagnose(trace_of(tmp_path, *lines)).findings if entry.code == "OVL008"]


STEP = "thread 1: op aten::mm 5000-5020 | launch 5005-5010 -> stream 7: 5012-9990"


@pytest.mark.parametrize(
    ("did", "kind", "change"),
    [
        (f"thread 1: {LOADER} 10-4990", "data-loading", None),
        ("thread 1: op aten::sort 10-4990", "host-work", None),
        ("thread 1: ", "not-recorded", None),
        ("thread 1: cuModuleLoadData 10-4990", "first-use", None),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_long_gap_is_what_the_thread_did_in_it(did: str, kind: str, change: str | None, tmp_path: Path) -> None:
    """Half of each step the GPU waits; the launch comes late from an operator that takes 20 us."""
    found = host_late(tmp_path, loop(6, did), loop(6, STEP))
    assert [(entry.kind, entry.change) for entry in found] == [(kind, change)]
    assert found[0].idle_ns == pytest.approx(5 * 5_022_000, rel=0.01)


def test_short_gaps_are_launch_bound(tmp_path: Path) -> None:
    """Kernels of 10 us, of which the host issues one in 40 us."""
    found = host_late(tmp_path, loop(200, "thread 1: op aten::add 0-35 | launch 20-30 -> stream 7: 32-42", 40))
    assert [(entry.kind, entry.change) for entry in found] == [("launch-bound", "cuda-graph")]


def test_the_place_is_what_ran_while_the_gpu_was_idle(tmp_path: Path) -> None:
    """Not the operator whose launch came late."""
    (found,) = host_late(tmp_path, loop(6, f"thread 1: {LOADER} 10-4990"), loop(6, STEP))
    assert found.where.op == LOADER.removeprefix("op ")
    assert found.places[0].idle_ns > 0.9 * found.idle_ns


def test_the_place_is_what_covers_most_of_the_gap(tmp_path: Path) -> None:
    """An operator of 5 ms calls 20 others of 100 us, one in the middle of the gap: none of these is the place."""
    inner = " | ".join(f"op aten::as_strided {at}-{at + 100}" for at in range(600, 4600, 200))
    (found,) = host_late(tmp_path, loop(6, "thread 1: op aten::split 10-4990"), loop(6, inner), loop(6, STEP))
    assert found.where.op == "aten::split"


def test_two_kinds_are_two_findings(tmp_path: Path) -> None:
    """In each step 3 ms in the loader, and 2 ms of other work."""
    lines = (f"thread 1: {LOADER} 10-3000", "thread 1: op aten::sort 3000-4990")
    found = host_late(tmp_path, *(loop(6, line) for line in lines), loop(6, STEP))
    assert [entry.kind for entry in found] == ["data-loading", "host-work"]
    assert found[0].idle_ns > found[1].idle_ns > 0


def test_the_first_call_of_an_operator_is_first_use(tmp_path: Path) -> None:
    """It takes 60 ms once, as cuBLAS sets itself up in it, and 20 us ever after: information, below everything else."""
    first = (
        "thread 1: launch 0-5 -> stream 7: 10-100 | op aten::mm 100-60000 | launch 59990-59995 -> stream 7: 60000-60100"
    )
    found = diagnose(trace_of(tmp_path, first, loop(6, _shifted(STEP, 61_000)))).findings
    assert [(entry.kind, entry.severity) for entry in found if entry.kind == "first-use"] == [
        ("first-use", Severity.INFO)
    ]
    assert found[-1].kind == "first-use"


def blocking(tmp_path: Path, kernel_us: int, call_us: int) -> bool:
    """Whether launches are said to block, of short kernels and of others, all over when their call returns."""
    period = call_us + 100
    short = f"thread 1: launch 0-{min(call_us, 60)} -> stream 7: {min(call_us, 60) - 8}-{min(call_us, 60) - 4}"
    other = f"thread 1: launch 0-{call_us} -> stream 7: {call_us - kernel_us - 2}-{call_us - 2}"
    text = loop(40, short, 200), loop(40, _shifted(other, 10_000), period)
    return any(entry.code == "OVL012" for entry in diagnose(trace_of(tmp_path, *text)).findings)


def test_launches_that_last_as_long_as_their_kernels_block(tmp_path: Path) -> None:
    assert blocking(tmp_path, kernel_us=500, call_us=510)


def test_a_slow_host_is_no_blocking_launch(tmp_path: Path) -> None:
    """Every launch takes 60 us, whatever its kernel; kernels of 45 us are over when it returns."""
    assert not blocking(tmp_path, kernel_us=45, call_us=60)


def test_a_library_that_sets_itself_up_is_first_use(tmp_path: Path) -> None:
    """cudaFree in the first of six aten::linear, for 20 ms; the later ones make none."""
    first = "thread 1: launch 0-5 -> stream 7: 10-100\nop aten::linear 100-20120 | cudaFree 110-20110"
    later = "op aten::linear 21000-21020 | launch 21005-21010 -> stream 7: 21012-21500"
    found = diagnose(trace_of(tmp_path, first, loop(6, later, 600))).findings
    assert "OVL009" not in {entry.code for entry in found}
    assert "first-use" in {entry.kind for entry in found}


def test_an_allocation_of_every_step_is_no_first_use(tmp_path: Path) -> None:
    allocating = loop(6, "thread 1: op aten::empty 10-4000 | cudaMalloc 20-3990")
    found = diagnose(trace_of(tmp_path, allocating, loop(6, STEP))).findings
    assert found[0].code == "OVL009"


@pytest.mark.parametrize(
    ("call", "code"), [("cudaMalloc", "OVL009"), ("cudaHostAlloc", "OVL018"), ("cudaHostUnregister", "OVL018")]
)
def test_page_locking_is_told_from_allocating_on_the_gpu(call: str, code: str, tmp_path: Path) -> None:
    allocating = loop(6, f"thread 1: {call} 20-3990")
    finding, *_ = diagnose(trace_of(tmp_path, allocating, loop(6, STEP))).findings
    assert (finding.code, finding.change, finding.evidence["apis"]) == (code, "preallocate", call)
    assert finding.saving_ns is not None
    assert finding.saving_ns > 0.9 * finding.idle_ns


def test_a_call_before_the_first_gpu_work_costs_no_run_ahead(tmp_path: Path) -> None:
    """cudaMalloc for 50 ms, before anything runs; then kernels of 10 us, of which the host issues one in 40 us."""
    text = loop(200, "thread 1: op aten::add 60000-60035 | launch 60020-60030 -> stream 7: 60032-60042", 40)
    found = diagnose(trace_of(tmp_path, "thread 1: cudaMalloc 0-50000", text)).findings
    assert [entry.code for entry in found] == ["OVL008"]


def test_the_headline_says_first_use_and_what_comes_after(tmp_path: Path) -> None:
    first = (
        "thread 1: launch 0-5 -> stream 7: 10-100\nop aten::mm 100-60000 | launch 59990-59995 -> stream 7: 60000-60100"
    )
    text = (first, loop(6, _shifted(f"thread 1: {LOADER} 10-4990", 61_000)), loop(6, _shifted(STEP, 61_000)))
    said = audit(trace_of(tmp_path, *text)).headline
    assert "Mostly setup (context, module load), one time (" in said
    assert "Largest cause after that: the data loader (OVL008, 29.9 ms)." in said


def test_operators_that_always_take_long_are_launch_bound(tmp_path: Path) -> None:
    """A slow host: an operator in 200 us, a kernel of 10 us each."""
    found = host_late(tmp_path, loop(200, "thread 1: op aten::add 0-190 | launch 170-180 -> stream 7: 182-192", 200))
    assert [entry.kind for entry in found] == ["launch-bound"]


@pytest.mark.parametrize(
    ("call", "alone"),
    [
        ("cudaMalloc", False),  # a lone allocation may be one that every step makes
        ("cudaHostAlloc", False),
        ("cudaOccupancyMaxActiveBlocksPerMultiprocessor", True),
    ],
)
def test_a_call_is_first_use_the_first_time_only(call: str, alone: bool, tmp_path: Path) -> None:
    """Made once it sets something up; made in each of six phases, each with kernels of its own, it does not."""
    phase = """
    thread 1: launch k{0} 5-10 -> stream 7: 15-100 | launch k{0} 20-25 -> stream 7: 100-200
              {1} 230-4000 | launch l{0} 4010-4015 -> stream 7: 4020-4200
    """
    times = [_shifted(phase.format(number, call), 10_000 * number) for number in range(6)]
    once, often = (
        {entry.kind for entry in diagnose(trace_of(tmp_path, *text)).findings} for text in (times[:1], times)
    )
    assert ("first-use" in once) is alone
    assert "first-use" not in often
