"""Changes of real traces: every order still holds, whatever changes and in whichever order."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from overlapscope import what_if
from overlapscope.dependencies.simulate import has_cycle, simulate
from overlapscope.errors import RangeNotFound
from overlapscope.model.columns import NO_ID
from overlapscope.model.enums import ApiKind, Direction
from overlapscope.model.trace import Trace
from overlapscope.whatif.catalogue import changed, parse, understood
from overlapscope.whatif.changes import NAMES
from overlapscope.whatif.changes.pin import Pin
from tests.conftest import SAMPLES
from tests.notation import trace_of
from tests.opened import swept, trace_at
from tests.real_traces import SOME, SYNCHRONISED, TRACES, baseline, graph

ALL = [f"{name}=200" if name == "faster-link" else name for name in NAMES]


@pytest.mark.parametrize("change", ALL)
@pytest.mark.parametrize("path", SOME, ids=lambda path: path.name)
def test_every_order_holds_after_every_change(path: Path, change: str) -> None:
    """Every edge that the change left, and copy engines; what changes may not leave out is below."""
    edited = changed(graph(path), [parse(change)]).graph
    times, edges, work = simulate(edited).time_ns, edited.dependencies, edited.work
    assert (times[edges.target] >= times[edges.source] + edges.weight_ns).all()
    start, end = times[edited.work_start(np.arange(len(work)))], times[edited.work_end(np.arange(len(work)))]
    for key in {
        (int(process), int(engine)) for process, engine in zip(work.process, work.engine, strict=True) if engine
    }:
        rows = np.flatnonzero((work.process == key[0]) & (work.engine == key[1]))
        order = rows[np.argsort(start[rows], kind="stable")]
        assert (start[order][1:] >= end[order][:-1]).all(), "one copy at a time on a copy engine"


TOGETHER = [
    ("side-stream",),
    ("prefetch=1",),
    ("pin", "side-stream"),
    ("preallocate",),
    ("cuda-graph",),
    ("batch-copies", "faster-link=200"),
    ("pin", "prefetch=2", "cuda-graph"),
]


@pytest.mark.parametrize("changes", TOGETHER, ids="+".join)
@pytest.mark.parametrize("path", SYNCHRONISED, ids=lambda path: path.name)
def test_streams_run_one_at_a_time_and_are_waited_for(path: Path, changes: tuple[str, ...]) -> None:
    """In the simulated trace work of a stream overlaps no more than it did; who waited for it still does.

    Unless a synchronisation is taken to be a copy's, which prefetching drops, and says.
    """
    trace = trace_at(path)
    found = baseline(path).predict(understood(changes), bounds=False)
    after = found.after
    known = dict(zip(stream_keys(trace), map(overlap_ns, streams_of(trace)), strict=True))
    for key, work in zip(stream_keys(after), streams_of(after), strict=True):
        assert overlap_ns(work) <= known.get(key, 0)
    waits = waited_for(trace)
    assert sum(waits) > 0, "nothing is waited for"
    if not any("taken to be there for the copy" in text for text in found.assumptions):
        assert waited_for(after) == waits


def waited_for(trace: Trace) -> list[int]:
    """After how many kernels of its stream or device each synchronisation comes, and with the device, copies to it.

    Of copies to the device, prefetching issues some earlier than the trace shows; others may have streams of their own.
    """
    calls, syncs = trace.api_calls, trace.syncs
    stream_of = np.full(len(calls), NO_ID)
    stream_of[syncs.call[syncs.call != NO_ID]] = syncs.stream[syncs.call != NO_ID]
    down = trace.copies.take(trace.copies.direction == Direction.DTOH)
    found = []
    for sync in np.flatnonzero(np.isin(calls.kind, (ApiKind.DEVICE_SYNC, ApiKind.STREAM_SYNC))):
        whole = calls.kind[sync] == ApiKind.DEVICE_SYNC
        found.append(0)
        for table in (trace.kernels, down) if whole else (trace.kernels,):
            mine = (table.call != NO_ID) & (whole | (table.stream == stream_of[sync]))
            mine &= calls.start_ns[table.call] < calls.start_ns[sync]
            found[-1] += int((mine & (table.end_ns <= calls.end_ns[sync])).sum())
    return found


def stream_keys(trace: Trace) -> list[tuple[int, int]]:
    """Device and number of each stream with work."""
    tables = trace.device_work
    return sorted({key for table in tables for key in zip(table.device.tolist(), table.stream.tolist(), strict=True)})


def streams_of(trace: Trace) -> list[tuple[Any, Any]]:
    tables = trace.device_work
    rows = [
        [(table.device == device) & (table.stream == stream) for table in tables]
        for device, stream in stream_keys(trace)
    ]
    return [
        tuple(
            np.concatenate([getattr(table, edge)[mine] for table, mine in zip(tables, some, strict=True)])
            for edge in ("start_ns", "end_ns")
        )
        for some in rows
    ]


def overlap_ns(work: tuple[Any, Any]) -> int:
    order = np.lexsort((work[1], work[0]))
    reached = np.maximum.accumulate(work[1][order])[:-1]
    return int(np.maximum(np.minimum(reached, work[1][order][1:]) - work[0][order][1:], 0).sum())


@pytest.mark.parametrize("path", swept(TRACES))
def test_all_changes_together_leave_no_cycle_and_no_stream_that_does_two_things_at_once(path: Path) -> None:
    """Those of one kind and those of all kinds, in either order."""
    trace, changes = trace_at(path), understood(ALL)
    known = dict(zip(stream_keys(trace), map(overlap_ns, streams_of(trace)), strict=True))
    edited = changed(graph(path), changes).graph
    assert not has_cycle(edited)
    assert (simulate(edited).time_ns == simulate(changed(graph(path), changes[::-1]).graph).time_ns).all()
    after = baseline(path).predict(changes, bounds=False).after
    for key, work in zip(stream_keys(after), streams_of(after), strict=True):
        assert overlap_ns(work) <= known.get(key, 0)


@settings(deadline=None, max_examples=10)
@given(
    st.sampled_from(SOME), st.lists(st.sampled_from(ALL), min_size=2, unique=True), st.randoms(use_true_random=False)
)
def test_changes_in_any_order_are_the_same_and_lie_between_their_bounds(
    path: Path, names: list[str], random: Any
) -> None:
    shuffled = random.sample(names, len(names))
    one, other = (what_if(trace_at(path), some) for some in (names, shuffled))
    assert (one.low_ns, one.predicted_ns, one.high_ns) == (other.low_ns, other.predicted_ns, other.high_ns)
    assert one.low_ns <= one.predicted_ns <= one.high_ns


def test_changes_do_not_depend_on_their_order() -> None:
    trace = trace_at(SOME[1])
    found = [what_if(trace, names).predicted_ns for names in permutations(["side-stream", "pin", "non-blocking"])]
    assert found == [found[0]] * 6


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("pin:stream=99", "the trace has no copy or call to which"),
        ("batch-copies", "no small copies to the device are in a row"),
        ("faster-link=1", "no pinned copy is slower"),
        ("side-stream", "does not say what reads a copy"),
    ],
)
def test_what_a_change_finds_nothing_to_do_for_is_said(change: str, says: str, tmp_path: Path) -> None:
    text = "copy 10MB pinned HtoD 0-4 -> stream 7: 6-1_006 | launch 10-14 -> stream 7: 1_008-1_018"
    found = what_if(trace_of(tmp_path, text), [change])
    assert any(says in text for text in found.assumptions)


def test_a_change_can_be_limited() -> None:
    trace = trace_at(SAMPLES / "gemm_copy-pageable-copy-first-non-blocking-side.json.gz")
    everything, nothing = what_if(trace, ["pin"], "gemm_copy"), what_if(trace, ["pin:stream=99"], "gemm_copy")
    assert nothing.predicted_ns == nothing.simulated_ns
    for pattern in ("copy", "co*", "c?py"):
        assert what_if(trace, [f"pin:within={pattern}"], "gemm_copy").predicted_ns == everything.predicted_ns
    part = what_if(trace, [Pin(copies=(3, 4))], "gemm_copy")
    assert everything.predicted_ns < part.predicted_ns < nothing.predicted_ns
    with pytest.raises(RangeNotFound):
        what_if(trace, ["pin"], "nowhere")
