"""Replays: a trace as it was, and what changes do to it."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from overlapscope.replay.build import graph_of
from overlapscope.replay.catalogue import EDITS, changed
from overlapscope.replay.changes import NAMES, Change, understood
from overlapscope.replay.engine import replay
from overlapscope.replay.graph import Because, Edges, Graph
from overlapscope.replay.moved import moved
from overlapscope.replay.what_if import Base
from rich.console import Console

from overlapscope import audit, diagnose, open_trace, what_if
from overlapscope.diagnosis.config import DEFAULT as DIAGNOSIS
from overlapscope.errors import ChangeNotUnderstood, RangeNotFound
from overlapscope.measure.windows import of_range, whole
from overlapscope.model.columns import NO_ID
from overlapscope.model.enums import ApiKind, Direction, MemoryKind
from overlapscope.model.trace import Trace
from overlapscope.report.findings import findings
from tests import kineto_maker as make
from tests import nsys_maker as nsys
from tests.conftest import CASES, SAMPLES

TRACES = sorted([*SAMPLES.glob("*-*.gz"), *CASES.glob("*.gz")])
SOME = [
    SAMPLES / f"{name}.json.gz"
    for name in ("moe_prefetch-pageable", "offload-pageable-same", "prefetcher-non-blocking")
]


@cache
def graph(path: Path) -> Graph:
    return graph_of(open_trace(path))


# As it was


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_an_unchanged_replay_gives_the_trace_back(path: Path) -> None:
    mine = graph(path)
    assert (replay(mine).time_ns == mine.time_ns).all()


def test_any_trace_can_be_replayed(corpus_trace: Path, tmp_path: Path) -> None:
    path = corpus_trace
    if path.name.endswith(".sqlite.gz"):
        path = tmp_path / corpus_trace.name.removesuffix(".gz")
        path.write_bytes(gzip.decompress(corpus_trace.read_bytes()))
    mine = graph_of(open_trace(path))
    played = replay(mine)
    assert (played.time_ns == mine.time_ns).all()
    for name in NAMES:
        value = {"prefetch": 1.0, "faster-link": 50.0}.get(name)
        edited = changed(mine, [Change(name, value)]).graph
        if name != "coalesce":  # which gathers on the host, and waits for all that it gathers
            assert replay(edited).time_ns.max(initial=0) <= mine.time_ns.max(initial=0) + 100_000


@pytest.mark.parametrize("path", SOME, ids=lambda path: path.name)
def test_a_moved_trace_is_a_trace(path: Path) -> None:
    """Unchanged, every table is as it was; changed, rows still belong to the same calls."""
    trace = open_trace(path)
    same = moved(replay(graph(path)))
    for name, table in trace.tables():
        if name == "event_records":
            continue
        for spec in table.columns():
            assert (getattr(getattr(same, name), spec.name) == getattr(table, spec.name)).all(), (name, spec.name)
    after = what_if(trace, ["pin", "non-blocking", "side-stream"]).after
    assert sorted(after.kernels.duration_ns.tolist()) == sorted(trace.kernels.duration_ns.tolist())
    for table in (after.kernels, after.copies):
        assert (table.start_ns >= after.api_calls.start_ns[table.call]).all(), "nothing starts before its launch"
        assert (np.diff(table.start_ns) >= 0).all()


def test_a_prefetched_copy_is_issued_by_an_earlier_call() -> None:
    """In the replayed trace it belongs to the call before which it could not start."""
    trace = open_trace(SAMPLES / "prefetcher-non-blocking.json.gz")
    after = what_if(trace, ["prefetch=2"]).after
    known = after.copies.call != NO_ID
    issued = after.api_calls.start_ns[after.copies.call]
    assert (after.copies.start_ns[known] >= issued[known]).all(), "nothing starts before its launch"
    large = after.copies.size_bytes > 1 << 20
    per_call = np.unique(after.copies.call[large & known], return_counts=True)[1]
    assert per_call.max() == 3, "the first group's calls issue those of the next two steps too"


# Properties


def edges_of(mine: Graph, because: Because) -> Edges:
    return mine.edges.take(mine.edges.of_kind(because))


@pytest.mark.parametrize("change", [name for name in NAMES if name != "faster-link"])
@pytest.mark.parametrize("path", SOME, ids=lambda path: path.name)
def test_every_order_holds_after_every_change(path: Path, change: str) -> None:
    """Every edge that the edit left, and engines; what edits may not leave out is below."""
    edited = changed(graph(path), [Change(change, 1.0 if change == "prefetch" else None)]).graph
    times = replay(edited).time_ns
    assert (times[edited.edges.target] >= times[edited.edges.source] + edited.edges.lag_ns).all()
    work = edited.work
    start, end = times[edited.work_start(np.arange(len(work)))], times[edited.work_end(np.arange(len(work)))]
    for key in {
        (int(process), int(engine)) for process, engine in zip(work.process, work.engine, strict=True) if engine
    }:
        rows = np.flatnonzero((work.process == key[0]) & (work.engine == key[1]))
        order = rows[np.argsort(start[rows], kind="stable")]
        assert (start[order][1:] >= end[order][:-1]).all(), "one copy at a time on an engine"


SYNCED = [
    *SOME,
    *(
        SAMPLES / f"{name}.json.gz"
        for name in (
            "pinning_guide-read-after-wait",
            "scalar_reads-cpu",
            "offload-pinned-same",
            "gemm_copy-pinned-kernels-first-non-blocking-same",
            "prefetcher-prefetcher",
        )
    ),
    *(
        CASES / f"{name}.json.gz"
        for name in ("read_after_event", "read_after_synchronise", "prefetched", "two_copy_streams")
    ),
]


CHANGES = [
    ("side-stream",),
    ("prefetch=1",),
    ("pin", "side-stream"),
    ("preallocate",),
    ("graph",),
    ("coalesce", "faster-link=200"),
    ("pin", "prefetch=2", "graph"),
]


@pytest.mark.parametrize("changes", CHANGES, ids="+".join)
@pytest.mark.parametrize("path", SYNCED, ids=lambda path: path.name)
def test_streams_run_one_at_a_time_and_are_waited_for(path: Path, changes: tuple[str, ...]) -> None:
    """In the replayed trace work of a stream overlaps no more than it did; who waited for it still does.

    Unless a synchronisation is taken to be a copy's, which prefetching drops, and says.
    """
    trace = open_trace(path)
    found = what_if(trace, changes)
    after = found.after
    known = dict(zip(stream_keys(trace), map(overlap_ns, streams_of(trace)), strict=True))
    for key, work in zip(stream_keys(after), streams_of(after), strict=True):
        assert overlap_ns(work) <= known.get(key, 0)
    waits = waited_for(trace)
    assert sum(waits) > 0, "nothing is waited for"
    if not any("taken to be there for the copy" in text for text in found.basis):
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


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_faster_work_never_makes_a_run_longer(data: st.DataObject) -> None:
    mine = graph(SOME[0])
    run = np.flatnonzero(mine.edges.of_kind(Because.RUN, Because.GAP, Because.CALL))
    chosen = data.draw(st.lists(st.sampled_from(run.tolist()), min_size=1, max_size=20))
    lag = mine.edges.lag_ns.copy()
    lag[chosen] = lag[chosen] // data.draw(st.integers(2, 100))
    assert (replay(mine.with_lags(lag)).time_ns <= mine.time_ns).all()


def test_changes_do_not_depend_on_their_order() -> None:
    names = ["side-stream", "pin", "non-blocking"]
    trace = open_trace(SOME[1])
    assert what_if(trace, names).predicted_ns == what_if(trace, names[::-1]).predicted_ns


def test_a_replay_is_the_same_each_time() -> None:
    assert (replay(graph(SOME[0])).bound_by == replay(graph_of(open_trace(SOME[0]))).bound_by).all()


def test_a_kernel_of_no_length_that_seems_to_wait_for_itself_unties_nothing_else(tmp_path: Path) -> None:
    """It ends when a synchronisation before its launch does; a pinned copy, long after that, holds its call."""
    trace = small(
        tmp_path,
        make.call(12, 1, name="cudaStreamSynchronize", correlation=3),
        make.call(13, 5, correlation=4),
        make.kernel(13, 0, stream=29, correlation=4),
        make.call(415, 101, name="cudaMemcpyAsync", correlation=12),
        make.copy(416, 100, kinds="DtoH (Device -> Pinned)", stream=28, correlation=12),
        make.call(521, 101, name="cudaMemcpyAsync", correlation=13),
    )
    found = what_if(trace, [])
    assert found.replayed_ns == found.measured_ns


def test_a_circle_is_refused() -> None:
    mine = graph(SOME[0])
    back = Edges.of(mine.edges.target[:1], mine.edges.source[:1], 0, Because.GAP)
    with pytest.raises(ValueError, match="circle"):
        replay(mine.with_edges(mine.edges, back))


# By hand


def small(tmp_path: Path, *events: make.Event, **header: Any) -> Trace:
    return open_trace(make.write(tmp_path / "t.json", *events, **header))


GPU = {"deviceProperties": [{"id": 0, "name": "NVIDIA H200"}]}


def test_pinning_frees_the_host_and_shortens_the_copy(tmp_path: Path) -> None:
    """A 55 MB pageable copy holds its call for 5 ms; pinned, it takes 1 ms, and the kernel runs beside it."""
    trace = small(
        tmp_path,
        make.call(0, 4, correlation=1),
        make.kernel(5, 500, correlation=1),
        make.call(10, 5000, name="cudaMemcpyAsync", correlation=2),
        make.copy(12, 4996, size=55_000_000, correlation=2),
        make.call(5020, 4, correlation=3),
        make.kernel(5025, 500, correlation=3),
        **GPU,
    )
    found = what_if(trace, ["pin"])
    assert found.replayed_ns == 5_525_000
    assert found.predicted_ns == pytest.approx(1_020_000, rel=0.02), "the copy ends last"
    assert found.after.copies.source_kind.tolist() == [MemoryKind.PINNED]
    assert any("PCIe 5" in text for text in found.basis)


def test_an_event_is_waited_for_after_a_change(tmp_path: Path) -> None:
    """A copy, an event, a wait, a slow allocation, a kernel: without the allocation it still comes after the copy."""
    events = [
        make.call(0, 4, name="cudaMemcpyAsync", correlation=1),
        make.copy(6, 3000, kinds="HtoD (Pinned -> Device)", size=10_000_000, stream=13, correlation=1),
        make.call(5, 1, name="cudaEventRecord", correlation=2),
        make.call(7, 1, name="cudaStreamWaitEvent", correlation=3),
        make.call(10, 5000, name="cudaMalloc", correlation=4),
        make.call(5020, 4, correlation=5),
        make.kernel(5026, 100, correlation=5),
    ]
    recorded = make.sync("Stream Wait Event", 7, 1, stream=7, correlation=3, wait_on_stream=13,
                         wait_on_cuda_event_id=1, wait_on_cuda_event_record_corr_id=2)  # fmt: skip
    for trace in (small(tmp_path, *events), small(tmp_path, *events, recorded)):
        after = what_if(trace, ["preallocate"]).after
        assert after.kernels.start_ns[0] >= after.copies.end_ns[0]
        assert after.kernels.start_ns[0] < trace.kernels.start_ns[0]


@pytest.mark.parametrize(
    ("queued", "pause_us", "late_us", "apart_ns"),
    [(30, 0.7, 0, 700), (10, 0.7, 0, 2_000), (30, 9, 0, 2_000), (30, 0.7, 95, 2_000)],
    ids=["as in the trace", "too few", "no longer than ever", "launched too late to tell"],
)
def test_what_passes_between_kernels_is_as_in_the_trace(
    queued: int, pause_us: float, late_us: float, apart_ns: int, tmp_path: Path
) -> None:
    """Where enough wait for the one before them. The last one comes long after, without an allocation."""
    events, each = [], 100 + pause_us
    for index in range(queued):
        called = each * index + 100 + late_us if late_us else 6 * index
        events += [
            make.call(called, 4, correlation=index + 1),
            make.kernel(200 + each * index, 100, correlation=index + 1),
        ]
    end = 200 + each * queued + 100
    events += [
        make.call(end, 5_000, name="cudaMalloc", correlation=90),
        make.call(end + 5_010, 4, correlation=91),
        make.kernel(end + 5_020, 100, correlation=91),
    ]
    kernels = graph_of(small(tmp_path, *events))
    last = edges_of(kernels, Because.STREAM)
    last = last.take(last.target == kernels.work_start(np.array([queued])))
    assert last.lag_ns.tolist() == [apart_ns]


@pytest.mark.parametrize("sync", ["cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize"])
def test_a_synchronisation_that_did_not_wait_waits_after_a_change(tmp_path: Path, sync: str) -> None:
    """After a pageable copy it returns at once; after a pinned one it waits for the copy, whether recorded or not."""
    trace = small(
        tmp_path,
        make.call(0, 5000, name="cudaMemcpyAsync", correlation=1),
        make.copy(4, 4990, size=55_000_000, stream=7, correlation=1),
        make.call(5002, 3, name=sync, correlation=2),
        make.call(5010, 4, correlation=3),
        make.kernel(5016, 100, correlation=3),
        **GPU,
    )
    after = what_if(trace, ["pin"]).after
    assert after.api_calls.end_ns[1] >= after.copies.end_ns[0]
    assert after.api_calls.start_ns[1] < 100_000 + trace.start_ns


def test_a_pageable_copy_holds_its_call_as_long_as_it_takes(tmp_path: Path) -> None:
    """On a side stream its call is free of the kernels before it, and still holds until the copy ends."""
    trace = small(
        tmp_path,
        make.call(0, 4, correlation=1),
        make.kernel(5, 3000, correlation=1),
        make.call(10, 5000, name="cudaMemcpyAsync", correlation=2),
        make.copy(3010, 1990, size=20_000_000, stream=7, correlation=2),
    )
    after = what_if(trace, ["side-stream"]).after
    assert after.copies.start_ns[0] < 1_000_000 + trace.start_ns
    assert abs(int(after.api_calls.end_ns[1] - after.copies.end_ns[0])) < 20_000


def test_a_launch_held_by_another_thread_s_copy_is_free_once_that_is_pinned(tmp_path: Path) -> None:
    trace = small(
        tmp_path,
        make.call(0, 5000, name="cudaMemcpyAsync", correlation=1, tid=2),
        make.copy(4, 4990, size=55_000_000, stream=13, correlation=1),
        make.call(100, 4905, correlation=2),
        make.kernel(5040, 1000, correlation=2),
        **GPU,
    )
    assert what_if(trace, ["pin"]).predicted_ns < 1_300_000


def with_a_result(copy_us: float, **place: Any) -> list[make.Event]:
    """A kernel of 1 ms, a copy to the host, another kernel of 1 ms, one after the other."""
    return [
        make.call(0, 4, correlation=1),
        make.kernel(6, 1000, correlation=1),
        make.call(10, 4, name="cudaMemcpyAsync", correlation=2),
        make.copy(1008, copy_us, correlation=2, **place),
        make.call(20, 4, correlation=3),
        make.kernel(1010 + copy_us, 1000, correlation=3),
    ]


def test_what_comes_back_is_not_sent_before_it_has_come(tmp_path: Path) -> None:
    """An activation goes to the host and back on one stream, with kernels between."""
    trace = small(
        tmp_path,
        *with_a_result(200, size=10_000_000, **DOWN),
        make.call(30, 4, name="cudaMemcpyAsync", correlation=4),
        make.copy(2212, 200, correlation=4, size=10_000_000, **UP),
    )
    after = what_if(trace, ["side-stream"]).after
    back, there = (after.copies.take(after.copies.direction == way) for way in (Direction.DTOH, Direction.HTOD))
    assert there.start_ns[0] >= back.end_ns[0]
    assert there.start_ns[0] < 2_000_000 + trace.start_ns


def test_the_upper_bound_lets_buffers_go_round(tmp_path: Path) -> None:
    """Pinned copies of 1 ms, kernels of 0.1 after one of 10: with two buffers, most copies come after it."""
    events, at = [], 200
    for step in range(6):
        long = 10_000 if step == 0 else 100
        events += [
            make.call(20 * step, 4, name="cudaMemcpyAsync", correlation=2 * step + 1),
            make.copy(at, 1000, size=55_000_000, kinds="HtoD (Pinned -> Device)", stream=7, correlation=2 * step + 1),
            make.call(20 * step + 10, 4, correlation=2 * step + 2),
            make.kernel(at + 1001, long, correlation=2 * step + 2),
        ]
        at += 1002 + long
    found = what_if(small(tmp_path, *events, **GPU), ["side-stream"])
    assert found.predicted_ns == pytest.approx(11_700_000, rel=0.02)
    assert found.high_ns == pytest.approx(15_600_000, rel=0.02)


def test_host_work_between_two_calls_is_not_handed_to_another_thread(tmp_path: Path) -> None:
    """The main thread runs an operator for 10 ms; meanwhile another thread copies."""
    trace = small(
        tmp_path,
        make.call(0, 4, correlation=1),
        make.kernel(6, 50, correlation=1),
        make.cpu_op("data_prep", 10, 9980),
        make.call(100, 9000, name="cudaMemcpyAsync", correlation=2, tid=2),
        make.copy(110, 8980, size=55_000_000, stream=13, correlation=2),
        make.call(10_000, 4, correlation=3),
        make.kernel(10_006, 100, correlation=3),
        **GPU,
    )
    assert what_if(trace, ["pin"]).predicted_ns > 9_900_000


def test_a_tiny_pinned_copy_tells_nothing_of_a_large_one(tmp_path: Path) -> None:
    trace = small(
        tmp_path,
        make.call(0, 4, name="cudaMemcpyAsync", correlation=1),
        make.copy(6, 2, kinds="HtoD (Pinned -> Device)", size=8, correlation=1),
        make.call(20, 5000, name="cudaMemcpyAsync", correlation=2),
        make.copy(24, 4990, size=55_000_000, correlation=2),
        **GPU,
    )
    assert what_if(trace, ["pin"]).after.copies.duration_ns[1] == pytest.approx(1_000_000, rel=0.02)


def test_pageable_copies_are_not_prefetched() -> None:
    found = what_if(open_trace(SAMPLES / "moe_prefetch-pageable.json.gz"), ["prefetch"], "moe_prefetch")
    assert found.predicted_ns > 0.95 * found.replayed_ns
    assert any("pin them first" in text for text in found.basis)


@pytest.mark.parametrize(
    ("name", "link"),
    [
        ("NVIDIA A100-SXM4-80GB", "PCIe 4 x16"),
        ("Tesla V100-SXM2-16GB", "PCIe 3 x16"),
        ("Quadro RTX 6000", "PCIe 3 x16"),
        ("NVIDIA RTX 6000 Ada Generation", "PCIe 4 x16"),
        ("NVIDIA A2", "PCIe 4 x8"),
        ("NVIDIA GeForce RTX 4060 Ti", "PCIe 4 x8"),
        ("AMD Instinct MI300X", "PCIe 5 x16"),
        ("NVIDIA GH200 480GB", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
    ],
)
def test_the_usual_link_of_a_gpu_goes_by_its_name(tmp_path: Path, name: str, link: str | None) -> None:
    """As their data sheets have it; links that a name does not tell are not guessed."""
    events = (
        make.call(0, 900, name="cudaMemcpyAsync", correlation=1),
        make.copy(2, 800, size=1_000_000, correlation=1),
    )
    basis = what_if(small(tmp_path, *events, deviceProperties=[{"id": 0, "name": name}]), ["pin"]).basis
    assert any(link in text for text in basis) if link else not any("PCIe" in text for text in basis)


def test_without_a_known_link_copies_keep_their_length(tmp_path: Path) -> None:
    trace = small(
        tmp_path,
        make.call(0, 1000, name="cudaMemcpyAsync", correlation=2),
        make.copy(2, 996, size=55_000_000, correlation=2),
    )
    found = what_if(trace, ["pin"])
    assert found.after.copies.duration_ns.tolist() == [996_000]
    assert any("no pinned bandwidth is known" in text for text in found.basis)


@pytest.mark.parametrize(("size", "left"), [(4, 0), (4096, 3)])
def test_a_value_that_is_not_read_is_not_copied(size: int, left: int, tmp_path: Path) -> None:
    """A copy of more than a value stays, and nothing waits for it."""
    down = {"kinds": "DtoH (Device -> Pageable)", "stream": 7}
    trace = small(
        tmp_path,
        make.call(0, 4, correlation=1),
        make.kernel(5, 100, correlation=1),
        make.call(6, 102, name="cudaMemcpyAsync", correlation=2),
        make.copy(105, 3, size=size, correlation=2, **down),
        make.call(110, 5, name="cudaStreamSynchronize", correlation=3),
        make.call(120, 4, correlation=4),
        make.kernel(130, 100, correlation=4),
    )
    found = what_if(trace, ["no-host-read"])
    assert found.after.copies.duration_ns.tolist() == [left * 1000]
    copy, wait = (found.after.api_calls.duration_ns[row] for row in (1, 2))
    assert copy < 6_000
    assert (copy == 0) == (size == 4)
    assert wait == 0


def test_a_side_stream_lets_a_copy_run_under_the_kernels_before_it(tmp_path: Path) -> None:
    pinned = {"kinds": "HtoD (Pinned -> Device)", "stream": 7}
    trace = small(
        tmp_path,
        make.call(0, 4, correlation=1),
        make.kernel(5, 1000, correlation=1),
        make.call(5, 4, name="cudaMemcpyAsync", correlation=2),
        make.copy(1006, 400, correlation=2, **pinned),
        make.call(10, 4, correlation=3),
        make.kernel(1407, 1000, correlation=3),
    )
    found = what_if(trace, ["side-stream"])
    assert found.replayed_ns - found.predicted_ns == pytest.approx(400_000, abs=5_000)
    assert found.after.copies.stream.tolist() != [7]
    assert found.low_ns <= found.predicted_ns <= found.high_ns


ABOUT = {"schema": "overlapscope.recording/1"}
GIVEN = {"told": {"op_start_ns": [4_000, 30_000], "tensor": [0, 0]}, "not told": None}


@pytest.mark.parametrize("given", GIVEN)
def test_only_the_operators_that_were_given_a_tensor_wait_for_its_copy(given: str, tmp_path: Path) -> None:
    """A copy, a kernel that reads something else, one that reads it; a kernel of no operator may read anything."""
    events = []
    for number, (begin, operator) in enumerate([(4, "copy_"), (12, "mm"), (30, "relu"), (40, None)], 1):
        name = "cudaMemcpyAsync" if operator == "copy_" else "cudaLaunchKernel"
        events.append(make.call(begin + 1, 4, name=name, correlation=number))
        if operator:
            events.append(make.cpu_op(f"aten::{operator}", begin, 6))
    pinned = {"kinds": "HtoD (Pinned -> Device)", "stream": 7}
    events.append(make.copy(20, 400, correlation=1, **pinned))
    events += [make.kernel(421 + 101 * index, 100, correlation=index + 2) for index in range(3)]
    trace = small(tmp_path, *events, overlapscope=ABOUT | {"touches": GIVEN[given]})
    found = what_if(trace, ["side-stream"])
    first = found.after.kernels.start_ns[0] - found.after.copies.start_ns[0]
    if given == "told":
        assert first < 200_000, "it reads something else"
        assert found.after.kernels.start_ns[1] >= found.after.copies.end_ns[0]
        assert found.low_ns == found.predicted_ns
    else:
        assert first > 400_000
        assert found.low_ns < found.predicted_ns
    again = what_if(found.after, ["side-stream"])
    assert again.replayed_ns >= again.predicted_ns, "operators are elsewhere in a replayed trace"


def test_a_kernel_of_no_operator_may_read_anything(tmp_path: Path) -> None:
    pinned = {"kinds": "HtoD (Pinned -> Device)", "stream": 7}
    events = [
        make.cpu_op("aten::copy_", 4, 6),
        make.call(5, 4, name="cudaMemcpyAsync", correlation=1),
        make.copy(20, 400, correlation=1, **pinned),
        make.cpu_op("mine::fused", 11, 6),
        make.call(12, 4, correlation=2),
        make.kernel(421, 100, correlation=2),
        make.cpu_op("aten::relu", 30, 6),
        make.call(31, 4, correlation=3),
        make.kernel(522, 100, correlation=3),
    ]
    touches = {"op_start_ns": [4_000, 30_000], "tensor": [0, 0]}
    after = what_if(small(tmp_path, *events, overlapscope=ABOUT | {"touches": touches}), ["side-stream"]).after
    assert after.kernels.start_ns[0] >= after.copies.end_ns[0]


def test_an_event_after_a_moved_copy_is_still_one_after_the_kernel_before_it(tmp_path: Path) -> None:
    """A kernel of 4 ms, a copy, a record, on stream 7; stream 9 waits for that."""
    events = [
        make.call(0, 4, correlation=1),
        make.kernel(10, 4_000, correlation=1, stream=7),
        make.call(6, 4, name="cudaMemcpyAsync", correlation=2),
        make.copy(4_011, 1_000, correlation=2, **UP),
        make.call(11, 1, name="cudaEventRecord", correlation=3),
        make.call(13, 1, name="cudaStreamWaitEvent", correlation=4),
        make.sync("Stream Wait Event", 13, 1, stream=9, correlation=4, wait_on_stream=7, wait_on_cuda_event_id=1,
                  wait_on_cuda_event_record_corr_id=3),
        make.call(16, 4, correlation=5),
        make.kernel(5_013, 100, correlation=5, stream=9),
    ]  # fmt: skip
    kernels = what_if(small(tmp_path, *events), ["side-stream"]).after.kernels
    assert kernels.start_ns[1] >= kernels.end_ns[0]


@pytest.mark.parametrize("change", ["non-blocking", "prefetch"])
def test_a_synchronisation_of_the_program_s_own_may_have_to_stay(change: str, tmp_path: Path) -> None:
    """Four times a kernel of 5 ms, an asynchronous copy of 1 ms, the whole device, 5 ms of host work."""
    events = []
    for number in range(1, 9, 2):
        begin = 5_500 * (number - 1)
        events += [
            make.call(begin, 4, correlation=number),
            make.kernel(begin + 10, 5_000, correlation=number),
            make.call(begin + 5, 4, name="cudaMemcpyAsync", correlation=number + 1),
            make.copy(begin + 5_011, 1_000, correlation=number + 1, **UP),
            make.call(begin + 10, 6_004, name="cudaDeviceSynchronize", correlation=100 + number),
        ]
    found = what_if(small(tmp_path, *events), [change])
    assert found.low_ns == found.predicted_ns < found.replayed_ns - 10_000_000
    assert found.high_ns >= 4 * 5_000_000 + 3 * 4_900_000, "kernels, and host work that waits for them"
    assert any("taken to be there for the copy" in text for text in found.basis)


def on(event: make.Event, device: int) -> make.Event:
    return {**event, "args": {**event["args"], "device": device}}


def test_a_synchronisation_waits_for_its_own_device_only(tmp_path: Path) -> None:
    """A copy of 5 ms on one, a kernel of 4 ms on the other, both on stream 7; the copy is faster then."""
    events = [
        make.call(0, 4, correlation=1),
        on(make.kernel(10, 4_000, correlation=1, stream=7), 1),
        make.call(6, 4, name="cudaMemcpyAsync", correlation=2),
        on(make.copy(12, 5_000, size=55_000_000, correlation=2, **UP), 0),
        make.call(20, 4_993, name="cudaStreamSynchronize", correlation=3),
        on(make.sync("Stream Sync", 20, 4_993, stream=7, correlation=3), 0),
        make.call(5_020, 4, correlation=4),
        on(make.kernel(5_030, 5_000, correlation=4, stream=7), 0),
    ]
    found = what_if(small(tmp_path, *events), ["faster-link=1000"])
    assert found.after.api_calls.end_ns[2] - found.after.start_ns < 1_000_000


@pytest.mark.parametrize("overlap_us", [0, 5])
def test_kernels_that_overlap_a_little_do_not_overlap_more_in_a_graph(overlap_us: int, tmp_path: Path) -> None:
    """Fifty of 100 us; with programmatic dependent launch each begins 5 us before the last one ends."""
    events = []
    for index in range(50):
        events += [
            make.call(5 * index, 4, correlation=index + 1),
            make.kernel(10 + (100 - overlap_us) * index, 100, correlation=index + 1),
        ]
    found = what_if(small(tmp_path, *events), ["graph"])
    assert found.predicted_ns == pytest.approx(50 * (100_000 - 1_000 * overlap_us), rel=0.01)


DOWN = {"kinds": "DtoH (Device -> Pinned)", "stream": 7}
UP = {"kinds": "HtoD (Pinned -> Device)", "stream": 7}


READS = {
    "at once": {"copy_start_ns": [20_000], "op_start_ns": [2_040_000]},
    "later": {"copy_start_ns": [20_000], "op_start_ns": [2_060_000]},
    "never": {"copy_start_ns": [], "op_start_ns": []},
    "not told": None,
}


@pytest.mark.parametrize("read", READS)
def test_what_comes_to_the_host_is_waited_for_before_it_is_read(read: str, tmp_path: Path) -> None:
    """A result of 2 ms in a blocking copy, an operator and a launch, and again."""
    events = [
        make.cpu_op("aten::copy_", 20, 2_012),
        make.call(22, 6, name="cudaMemcpyAsync", correlation=1),
        make.copy(30, 2_000, correlation=1, **DOWN),
        make.call(29, 2_002, name="cudaStreamSynchronize", correlation=2),
        make.cpu_op("aten::detach", 2_040, 2),
        make.call(2_052, 4, correlation=3),
        make.kernel(2_057, 10, correlation=3),
        make.cpu_op("aten::neg", 2_060, 2),
        make.call(2_075, 4, correlation=4),
        make.kernel(2_080, 10, correlation=4),
    ]
    found = what_if(small(tmp_path, *events, overlapscope=ABOUT | {"reads": READS[read]}), ["non-blocking"])
    result = found.after.copies.end_ns[0]
    third, fourth = found.after.api_calls.start_ns[-2:]
    if read == "at once":
        assert result + 12_000 == third
    elif read == "later":
        assert third < result == fourth - 15_000
    else:
        assert fourth < result
    unknown = read in {"never", "not told"}
    assert (found.high_ns > found.predicted_ns) is unknown
    assert any("when the host reads" in text for text in found.basis) is unknown
    assert what_if(found.trace, ["non-blocking", "no-host-read"]).predicted_ns <= found.predicted_ns


@pytest.mark.parametrize("call", ["cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize"])
def test_the_host_still_waits_for_what_comes_to_it(call: str, tmp_path: Path) -> None:
    """A kernel, its result of 5 ms, another kernel, a synchronisation: it ends no sooner than the copy."""
    events = [
        *with_a_result(5000, **DOWN),
        make.call(25, 2, name="cudaEventRecord", correlation=4),
        make.call(30, 6985, name=call, correlation=5),
    ]
    after = what_if(small(tmp_path, *events), ["side-stream"]).after
    assert after.kernels.start_ns[1] < after.copies.end_ns[0]
    assert after.api_calls.end_ns.max() >= after.copies.end_ns[0]


def test_another_stream_still_waits_for_what_it_may_read(tmp_path: Path) -> None:
    """Told that the kernel after the copy reads something else; stream 9 waits for that kernel, and reads the copy."""
    names = {1: "cudaMemcpyAsync", 3: "cudaEventRecord", 4: "cudaStreamWaitEvent"}
    events = [make.call(10 * n + 1, 4, name=names.get(n, "cudaLaunchKernel"), correlation=n) for n in (1, 2, 3, 4, 5)]
    events += [make.cpu_op(f"aten::{name}", 10 * n, 8) for n, name in ((1, "copy_"), (2, "mm"), (5, "relu"))]
    events += [
        make.copy(75, 4000, correlation=1, **UP),
        make.kernel(4080, 100, correlation=2),
        make.sync("Stream Wait Event", 42, 1, stream=9, correlation=4, wait_on_stream=7, wait_on_cuda_event_id=1,
                  wait_on_cuda_event_record_corr_id=3),
        make.kernel(4190, 100, stream=9, correlation=5),
    ]  # fmt: skip
    touches = {"op_start_ns": [10_000, 50_000], "tensor": [0, 0]}
    after = what_if(small(tmp_path, *events, overlapscope=ABOUT | {"touches": touches}), ["side-stream"]).after
    by_stream = dict(zip(after.kernels.stream.tolist(), after.kernels.start_ns.tolist(), strict=True))
    assert by_stream[7] < after.copies.end_ns[0] <= by_stream[9]


def test_a_short_copy_that_stays_orders_nothing(tmp_path: Path) -> None:
    """Steps of a tiny copy, a large one and a kernel on one stream; only the large ones move, and meet nothing."""
    events, now = [], 0.0
    for step in range(6):
        for number, (length, size) in enumerate(((2, 64), (5000, 1 << 28), (5000, None))):
            correlation = 3 * step + number + 1
            name = "cudaMemcpyAsync" if size else "cudaLaunchKernel"
            events.append(make.call(5 * correlation, 4, name=name, correlation=correlation))
            start = max(now, 5 * correlation + 5)
            if size:
                events.append(make.copy(start, length, correlation=correlation, size=size, **UP))
            else:
                events.append(make.kernel(start, length, stream=7, correlation=correlation))
            now = start + length + 1
        events.append(make.annotation("big", 5 * (3 * step + 2) - 1, 5))
    found = what_if(small(tmp_path, *events), ["side-stream:range=big"])
    assert found.predicted_ns == pytest.approx(35_000_000, rel=0.01)
    big = found.after.copies.size_bytes > 64
    start, end = found.after.copies.start_ns[big], found.after.copies.end_ns[big]
    assert (start[1:] >= end[:-1]).all(), "one at a time on the engine"


def test_a_call_that_blocks_by_name_blocks_from_pinned_memory_too(tmp_path: Path) -> None:
    events = [
        make.call(0, 5005, name="cudaMemcpy", correlation=1),
        make.copy(4, 5000, correlation=1, kinds="HtoD (Pageable -> Device)", size=55_000_000),
        make.call(5015, 4, correlation=2),
        make.kernel(5025, 1000, stream=9, correlation=2),
    ]
    trace = small(tmp_path, *events, **GPU)
    pinned = what_if(trace, ["pin"])
    assert pinned.predicted_ns == pytest.approx(2_020_000, rel=0.02)
    assert what_if(trace, ["pin", "non-blocking"]).predicted_ns == pytest.approx(1_020_000, rel=0.05)


def test_the_program_s_own_wait_for_a_result_stays(tmp_path: Path) -> None:
    """An asynchronous copy to the host, then cudaDeviceSynchronize: as it should be; non-blocking changes nothing."""
    events = [
        make.call(0, 4, name="cudaMemcpyAsync", correlation=1),
        make.copy(6, 5000, correlation=1, **DOWN),
        make.call(10, 4998, name="cudaDeviceSynchronize", correlation=2),
        make.call(5100, 4, correlation=3),
        make.kernel(5110, 100, correlation=3),
    ]
    found = what_if(small(tmp_path, *events), ["non-blocking"])
    assert found.predicted_ns == found.replayed_ns


def test_who_waits_for_the_device_waits_for_what_was_prefetched(tmp_path: Path) -> None:
    """Steps of a copy and a kernel of 1 ms each that end with cudaDeviceSynchronize."""
    events, now = [], 0.0
    for step in range(6):
        events += [
            make.call(now, 4, name="cudaMemcpyAsync", correlation=3 * step + 1),
            make.copy(now + 6, 1000, correlation=3 * step + 1, size=1 << 26, **UP),
            make.call(now + 10, 4, correlation=3 * step + 2),
            make.kernel(now + 1008, 1000, stream=7, correlation=3 * step + 2),
            make.call(now + 15, 1995, name="cudaDeviceSynchronize", correlation=3 * step + 3),
        ]
        now += 2020
    after = what_if(small(tmp_path, *events), ["prefetch=1"]).after
    syncs = after.api_calls.end_ns[after.api_calls.kind == ApiKind.DEVICE_SYNC]
    issued = after.api_calls.start_ns[after.copies.call]
    for end, call in zip(after.copies.end_ns.tolist(), issued.tolist(), strict=True):
        assert end <= syncs[np.searchsorted(syncs, call)]


@pytest.mark.parametrize("prepares_us", [50, 2_000])
def test_a_loader_that_works_before_it_copies_is_still_waited_for(prepares_us: int, tmp_path: Path) -> None:
    """Another thread prepares and copies 10 ms from pageable memory, and the main thread waits for it, six times."""
    events, now, correlation = [], 0.0, 0
    for _ in range(6):
        now += prepares_us
        correlation += 2
        events += [
            make.call(now, 10_000, name="cudaMemcpyAsync", correlation=correlation, tid=2),
            make.copy(now + 5, 9_990, correlation=correlation, size=55_000_000, kinds="HtoD (Pageable -> Device)"),
            make.call(now + 10_050, 4, correlation=correlation + 1),
            make.kernel(now + 10_060, 1000, correlation=correlation + 1),
            make.call(now + 10_060, 1010, name="cudaDeviceSynchronize", correlation=1000 + correlation),
        ]
        now += 10_060 + 1010 + 20
    found = what_if(small(tmp_path, *events, **GPU), ["pin"])
    assert found.replayed_ns - found.predicted_ns == pytest.approx(6 * 10_000_000, rel=0.05), "no call is held"


@pytest.mark.parametrize(
    ("faulty", "mended"),
    [
        ("one_stream", "non_blocking_external_stream"),
        ("blocking_external_stream", "non_blocking_external_stream"),
        ("graph_one_branch", "graph_parallel_branch"),
    ],
)
@pytest.mark.parametrize("suffix", ["json.gz", "sqlite.gz"])
def test_what_really_happened_lies_between_the_bounds(faulty: str, mended: str, suffix: str) -> None:
    """Recorded pairs whose kernels do not read what is copied, which a trace cannot show where streams are shared."""
    found = what_if(open_trace(CASES / f"{faulty}.{suffix}"), ["side-stream"], "pass")
    real = of_range(open_trace(CASES / f"{mended}.{suffix}"), "pass").wall_ns
    assert 0.95 * found.low_ns < real < 1.05 * found.high_ns
    assert found.low_ns <= found.predicted_ns <= found.high_ns


def test_the_profiler_s_cost_is_taken_out_of_what_the_host_did() -> None:
    """Six hundred small copies took 14 ms under the profiler and 4.1 without."""
    trace = open_trace(SAMPLES / "pinning_guide-list-pinned-ahead.json.gz")
    found = what_if(trace, [], "pinning_guide")
    assert found.predicted_ns == found.replayed_ns == found.measured_ns
    assert found.unprofiled is not None
    assert found.unprofiled.predicted_ns < 0.4 * found.measured_ns


def overhead(ts: float, dur: float, name: str = "Activity Buffer Request") -> make.Event:
    """As Kineto writes it: of no thread."""
    return {"ph": "X", "cat": "overhead", "name": name, "pid": -1, "tid": 0, "ts": ts, "dur": dur, "args": {}}


def test_what_the_profiler_did_for_itself_is_taken_out(tmp_path: Path) -> None:
    """Two buffers, one before the first call and one between two; loading a module is the program's own."""
    trace = small(
        tmp_path,
        make.annotation("step", 0, 3000),
        overhead(10, 500),
        make.call(600, 4, correlation=1),
        make.kernel(610, 100, correlation=1),
        overhead(700, 300),
        overhead(1050, 200, "Lazy Function Loading"),
        make.call(1300, 4, correlation=2),
        make.kernel(1310, 100, correlation=2),
        make.call(1400, 1500, name="cudaDeviceSynchronize", correlation=3),
    )
    found = what_if(trace, [], "step")
    assert found.replayed_ns == found.measured_ns == 3_000_000
    assert found.unprofiled is None, "what an event cost stays in"
    assert found.partly_unprofiled is not None
    assert found.partly_unprofiled.replayed_ns == pytest.approx(3_000_000 - 800_000, abs=5_000)
    assert found.to_dict()["unprofiled"] is None
    assert found.to_dict()["partly_unprofiled"]["replayed_ns"] == found.partly_unprofiled.replayed_ns
    assert "without what shows of the profiler" in found.sentence
    assert any("only a part is known" in text for text in found.basis)


@pytest.mark.parametrize(
    ("before", "after", "gone_us"),
    [(100, 915, 800), (600, 915, 0), (100, 1_300, 0)],
    ids=["waits for it too", "is busy meanwhile", "goes on later"],
)
def test_what_the_profiler_did_is_gone_on_every_thread_that_waited_for_it(
    before: float, after: float, gone_us: float, tmp_path: Path
) -> None:
    """A buffer of 800 us, on whichever thread; one that goes on right after it has waited for it, too."""
    trace = small(
        tmp_path,
        make.call(0, 4, correlation=1),
        make.kernel(10, 5, correlation=1),
        make.call(before, 4, tid=2, correlation=2),
        make.kernel(before + 10, 5, stream=9, correlation=2),
        overhead(108, 800),
        *(make.cpu_op("aten::add", 20, 885, tid=tid) for tid in (1, 2)),  # neither waits for the other
        make.call(910, 4, correlation=3),
        make.kernel(920, 5, correlation=3),
        make.call(after, 4, tid=2, correlation=4),
        make.kernel(after + 10, 5, stream=9, correlation=4),
        make.call(2_000, 4, tid=2, correlation=5),
    )
    found = what_if(trace, [])
    assert (found.replayed_ns - found.own.replayed_ns) / 1e3 == pytest.approx(gone_us, abs=2)


def test_without_a_calibration_the_profiler_s_cost_stays_in_and_is_said(tmp_path: Path) -> None:
    found = what_if(small(tmp_path, make.call(0, 4, correlation=1), make.kernel(5, 5, correlation=1)), [])
    assert found.unprofiled is found.partly_unprofiled is None
    assert any("stays in" in text for text in found.basis)


def test_affairs_of_the_profiler_outside_of_the_window_are_not_spoken_of(tmp_path: Path) -> None:
    trace = small(
        tmp_path,
        make.call(600, 4, correlation=1),
        make.kernel(610, 100, correlation=1),
        overhead(800, 300),
        make.call(1300, 4, correlation=2),
        make.annotation("step", 1400, 300),
        make.call(1410, 4, correlation=3),
        make.kernel(1420, 100, correlation=3),
    )
    found = what_if(trace, [], "step")
    assert found.partly_unprofiled is None
    assert any("is not known" in text for text in found.basis)


NESTED = [
    event
    for index in range(30)
    for event in (
        make.cpu_op("aten::outer", 100 * index, 60),
        make.cpu_op("aten::inner", 100 * index + 2, 57),
        make.call(100 * index + 10, 4, correlation=index + 1),
        make.kernel(100 * index + 20, 5, correlation=index + 1),
    )
]


def test_what_operators_take_around_others_is_a_part_of_the_profiler_s_cost(tmp_path: Path) -> None:
    """2 us before the inner one begins and 1 after it ends, at least; host-bound: each event costs twice that."""
    found = what_if(small(tmp_path, *NESTED), [])
    assert found.unprofiled is None
    assert found.partly_unprofiled is not None
    assert found.partly_unprofiled.event_ns == pytest.approx(6_000)
    assert found.replayed_ns - found.partly_unprofiled.replayed_ns == pytest.approx(29 * 3 * 6_000, rel=0.02)
    few = small(tmp_path, *NESTED[:40])
    assert what_if(few, []).partly_unprofiled is None, "ten tell nothing"


def launches(count: int, *, gap: float) -> list[make.Event]:
    """A host-bound thread: an operator and in it a launch of 4 us, every ``gap``; the device has little to do."""
    events = []
    for index in range(count):
        begin = gap * index
        events += [
            make.cpu_op("aten::add_", begin, gap - 2),
            make.call(begin + 3, 4, correlation=index + 1),
            make.kernel(begin + 9, 1, correlation=index + 1),
        ]
    return events


def recorded_in(wall_us: float, unprofiled_us: list[float], call_us: float) -> dict[str, Any]:
    """A recording that took this long, with steps of these times before it, and calls that cost this at least."""
    issued = {"kernel_ns": 4_000, "copy_ns": 4_000}
    profiled = {"kernel_ns": 4_000 + round(1_000 * call_us), "copy_ns": 4_000 + round(2_000 * call_us)}
    times = [round(1e3 * each) for each in unprofiled_us]
    return ABOUT | {
        "issue": {"unprofiled": issued, "profiled": profiled},
        "steps": {
            "recorded": {"steps": 1, "wall_ns": round(1e3 * wall_us)},
            "unprofiled": {"steps": len(times), "wall_ns": sum(times), "host_ns": times},
        },
    }


def test_an_operator_costs_what_the_trace_tells_and_a_call_what_its_calibration_does(tmp_path: Path) -> None:
    """2 us before the inner operator begins and 1 after it ends; 4 us at least for a call, so 8 are thought."""
    issue = recorded_in(1, [], call_us=4)["issue"]
    found = base_of(small(tmp_path, *NESTED, overlapscope=ABOUT | {"issue": issue}))
    assert found.profiler is not None
    assert (found.profiler.operator_ns, found.profiler.call_ns) == pytest.approx((3_000, 8_000))
    assert found.unprofiled_ns is not None
    assert found.replayed_ns - found.unprofiled_ns == pytest.approx(29 * (2 * 3_000 + 8_000), rel=0.02)


def test_an_event_costs_what_makes_the_steps_as_long_as_they_were(tmp_path: Path) -> None:
    """A hundred launches, 20 us apart, which took 17 without the profiler: an operator of 1 us and a call of 2 each."""
    about = recorded_in(2_000, [1_700] * 5, call_us=1)
    found = what_if(small(tmp_path, *launches(100, gap=20), overlapscope=about), [])
    assert found.unprofiled is not None
    assert found.unprofiled.event_ns == pytest.approx(1_500, rel=0.02)
    assert found.unprofiled.replayed_ns == pytest.approx(1_700_000, rel=0.01)
    assert not any("the host works" in text for text in found.basis)


def test_what_events_do_not_explain_is_the_pace_of_the_host(tmp_path: Path) -> None:
    """Three fifths of it without the profiler: events cost more than guessed, and the host is faster than recorded."""
    about = recorded_in(2_000, [1_200] * 5, call_us=1)
    found = what_if(small(tmp_path, *launches(100, gap=20), overlapscope=about), [])
    assert found.unprofiled is not None
    assert 2_000 < found.unprofiled.event_ns < 1_500 * 1.75, "three quarters more at most"
    assert found.unprofiled.replayed_ns == pytest.approx(1_200_000, rel=0.02)
    assert any("the host works 2" in text and "% less" in text for text in found.basis)


def test_steps_that_differ_by_more_say_nothing_of_what_an_event_costs(tmp_path: Path) -> None:
    """One kernel of 2 ms, few events: it is in the middle of what is possible, and the host's pace as recorded."""
    about = recorded_in(2_100, [1_900, 2_000, 2_050, 2_100, 2_200], call_us=1)
    events = [make.call(0, 4, correlation=1), make.kernel(5, 2_000, correlation=1)]
    found = base_of(small(tmp_path, *events, *launches(3, gap=20)[3:], overlapscope=about))
    assert found.profiler is not None
    assert (found.profiler.operator_ns, found.profiler.call_ns) == pytest.approx((1_000, 2_000))
    assert found.profiler.pace == pytest.approx(1, abs=0.01)


def test_what_the_device_bounds_says_little_of_the_host_s_pace(tmp_path: Path) -> None:
    """A kernel of 1.9 ms after 60 us of the host's work, half of which is what steps took less."""
    about = recorded_in(2_000, [1_970] * 5, call_us=1)
    events = [make.call(0, 4, correlation=1), make.call(64, 4, correlation=2), make.kernel(74, 1_926, correlation=2)]
    found = base_of(small(tmp_path, *events, overlapscope=about))
    assert found.profiler is not None
    assert found.profiler.pace == pytest.approx(1, abs=0.05)
    assert found.unprofiled_ns is not None
    assert found.unprofiled_ns > 1_990_000


def base_of(trace: Trace) -> Base:
    return Base.of(trace, whole(trace))


@pytest.mark.parametrize("longer", [-6, 6], ids=["held to the end", "returned before"])
@pytest.mark.parametrize("slower", [1.25, 0.8])
def test_where_copies_are_staged_most_of_the_time_their_pace_is_the_likeliest_to_differ(
    slower: float, longer: float, tmp_path: Path
) -> None:
    """Ten staged copies of 1 ms, each with a launch after it; steps took a quarter longer or a fifth less."""
    events = []
    for index in range(10):
        begin = 1_020 * index
        events += [
            make.call(begin, 1_000, name="cudaMemcpyAsync", correlation=2 * index + 1),
            make.copy(begin + 4, 996 + longer, correlation=2 * index + 1, size=10_000_000),
            make.call(begin + 1_010, 4, correlation=2 * index + 2),
            make.kernel(begin + 1_016, 1, correlation=2 * index + 2),
        ]
    about = recorded_in(10_200, [10_200 * slower] * 5, call_us=1)
    found = base_of(small(tmp_path, *events, overlapscope=about))
    assert found.profiler is not None
    assert found.profiler.staging == pytest.approx(slower, abs=0.03)
    assert found.profiler.pace == pytest.approx(1, abs=0.01)
    assert found.profiler.call_ns == pytest.approx(2_000, rel=0.05)
    assert found.unprofiled_ns == pytest.approx(10_200_000 * slower, rel=0.02)


def staging(begin: float, gaps: list[float], sizes: list[int], stream: int = 13) -> list[make.Event]:
    """Pageable copies that hold their calls for 1 ms, and launches (of size 0), with so much time before each."""
    events, at = [], begin
    for number, (gap, size) in enumerate(zip(gaps, sizes, strict=True), round(begin) + 1):
        at += gap
        name, work = ("cudaMemcpyAsync", make.copy(at + 4, 990, correlation=number, size=size, stream=stream))
        if not size:
            name, work = ("cudaLaunchKernel", make.kernel(at + 10, 50, correlation=number))
        held = 1_000 if size else 4
        events += [make.call(at, held, name=name, correlation=number), work]
        at += held
    return events


def gaps_us(found: Any) -> list[float]:
    """What passes between calls, thread by thread, in us."""
    calls = found.after.api_calls.take(np.argsort(found.after.api_calls.thread, kind="stable"))
    return ((calls.start_ns[1:] - calls.end_ns[:-1]) / 1e3).tolist()


def test_what_is_gathered_in_two_places_goes_into_two_buffers(tmp_path: Path) -> None:
    """Each of two ranges has four small copies, the last of one soon before the first of the other."""
    events = [make.annotation("a", 0, 40), make.annotation("b", 40, 40)]
    for index in range(8):
        events += [
            make.call(10 * index + 2, 4, name="cudaMemcpyAsync", correlation=index + 1),
            make.copy(10 * index + 8, 1, correlation=index + 1, size=4_096, kinds="HtoD (Pinned -> Device)"),
        ]
    trace = small(tmp_path, *events, **GPU)
    both = what_if(trace, ["coalesce:range=a", "coalesce:range=b"]).after.copies
    assert np.flatnonzero(both.duration_ns).tolist() == [0, 4]
    assert np.flatnonzero(what_if(trace, ["coalesce"]).after.copies.duration_ns).tolist() == [0]


def test_several_changes_of_a_kind_are_one(tmp_path: Path) -> None:
    """What one half of the copies takes when it is pinned, is no measurement of what pinned copies take."""
    events = staging(0, [0, 100], [1 << 24, 0]) + staging(2_104, [100, 140], [1 << 24, 0], stream=14)
    trace = small(tmp_path, *events, **GPU)
    whole = what_if(trace, ["pin"])
    for changes in (["pin:stream=13", "pin:stream=14"], ["pin:stream=14", "pin:stream=13"], ["pin:stream=14", "pin"]):
        found = what_if(trace, changes)
        assert (found.predicted_ns, gaps_us(found)) == (whole.predicted_ns, gaps_us(whole))
        assert (found.after.copies.duration_ns == whole.after.copies.duration_ns).all()
    for changes in (["pin:stream=9", "pin:stream=8"], ["prefetch=2:stream=13", "prefetch=1:stream=14"]):
        one, other = (what_if(trace, order) for order in (changes, changes[::-1]))
        assert (one.basis, one.predicted_ns) == (other.basis, other.predicted_ns)


def test_a_host_that_runs_ahead_in_every_other_step_is_not_unsure(tmp_path: Path) -> None:
    ticks = [400_000, 2_600_000] * 5
    about = recorded_in(2_000, [1_500] * 10, call_us=1)
    about["steps"]["unprofiled"]["host_ns"] = ticks
    trace = small(tmp_path, *launches(100, gap=20), overlapscope=about)
    assert trace.metadata.recording is not None
    assert trace.metadata.recording.unsure == 0
    assert base_of(trace).unprofiled_ns == pytest.approx(1_500_000, rel=0.02)


def test_what_the_profiler_does_for_itself_pays_for_no_event(tmp_path: Path) -> None:
    """The same program, and 400 us of a full buffer in the middle of it."""

    def lasting(pause: float) -> int | None:
        events = [*launches(50, gap=20), *(each | {"ts": each["ts"] + pause} for each in launches(100, gap=20)[150:])]
        if pause:
            events.append(overhead(998, pause))
        issue = recorded_in(1, [], call_us=4)["issue"]
        return base_of(small(tmp_path, *events, overlapscope=ABOUT | {"issue": issue})).unprofiled_ns

    assert lasting(400) == pytest.approx(lasting(0), abs=2_000)


def test_a_device_that_bounds_at_first_sight_does_not_end_the_search(tmp_path: Path) -> None:
    """Kernels of 20 us every 20: a slower host shows only where it takes longer than they do."""
    events = []
    for index in range(100):
        events += [
            make.cpu_op("aten::add_", 20 * index, 18),
            make.call(20 * index + 3, 4, correlation=index + 1),
            make.kernel(20 * index + 9, 20, correlation=index + 1),
        ]
    found = base_of(small(tmp_path, *events, overlapscope=recorded_in(2_010, [2_310] * 8, call_us=1)))
    assert found.unprofiled_ns == pytest.approx(2_310_000, rel=0.05)


def test_what_is_not_explained_is_said(tmp_path: Path) -> None:
    """A kernel takes all of the time, and steps took half of it."""
    events = [make.call(0, 4, correlation=1), make.kernel(9, 2_000, correlation=1)]
    found = what_if(small(tmp_path, *events, overlapscope=recorded_in(2_009, [1_000] * 5, call_us=1)), [])
    assert any("longer than the steps were without the profiler" in text for text in found.basis)


def test_nothing_to_replay_is_no_reason_to_fail(tmp_path: Path) -> None:
    trace = small(tmp_path, make.cpu_op("aten::add", 0, 50), overlapscope=recorded_in(50, [40] * 5, call_us=1))
    found = what_if(trace, ["pin"])
    assert found.predicted_ns == found.replayed_ns


def test_what_a_short_gap_cannot_pay_the_next_one_pays(tmp_path: Path) -> None:
    """Two launches 1 us apart, then 30 us until the next: three events of 2 us each are 6, wherever they are."""
    events = []
    for index in range(50):
        begin = 40 * index
        for number, at in enumerate((begin, begin + 5)):
            events += [
                make.call(at, 4, correlation=2 * index + number + 1),
                make.kernel(at + 5, 1, correlation=2 * index + number + 1),
            ]
    about = recorded_in(2_000, [1_800] * 5, call_us=1)
    found = what_if(small(tmp_path, *events, overlapscope=about), [])
    assert found.unprofiled is not None
    assert found.unprofiled.event_ns == pytest.approx(2_000, rel=0.03)


BOTH_WAYS = [
    {"direction": "HtoD", "alone_ns": 100, "beside_ns": 125},
    {"direction": "DtoH", "alone_ns": 100, "beside_ns": 200},
]


@pytest.mark.parametrize("known", [True, False])
def test_copies_of_both_directions_at_once_are_slower(known: bool, tmp_path: Path) -> None:
    """One down after one up, on one stream; on two, each is beside the other for most of its time."""
    events = [
        make.call(0, 4, name="cudaMemcpyAsync", correlation=1),
        make.copy(6, 1000, correlation=1, **UP),
        make.call(10, 4, name="cudaMemcpyAsync", correlation=2),
        make.copy(1008, 1000, correlation=2, **DOWN),
    ]
    about = {"overlapscope": ABOUT | {"both_ways": BOTH_WAYS}} if known else {}
    found = what_if(small(tmp_path, *events, **about), ["side-stream"])
    after = found.after.copies
    together = after.end_ns[0] - after.start_ns[1]
    up, down = (after.end_ns - after.start_ns).tolist()
    if known:
        assert up == pytest.approx(1_000_000 + 0.2 * together, rel=0.01)
        assert down == pytest.approx(1_000_000 + 0.5 * min(after.end_ns) - 0.5 * max(after.start_ns), rel=0.01)
    else:
        assert (up, down) == (1_000_000, 1_000_000)


def test_copies_that_were_beside_each_other_are_as_slow_as_they_were(tmp_path: Path) -> None:
    """Nothing changes, or what is beside them goes away: then they are as fast as alone."""
    events = [
        make.call(0, 4, name="cudaMemcpyAsync", correlation=1),
        make.copy(6, 1000, correlation=1, **UP),
        make.call(5, 4, name="cudaMemcpyAsync", correlation=2),
        make.copy(12, 1000, correlation=2, **DOWN | {"stream": 9}),
        make.call(1020, 4, correlation=3),
        make.kernel(1030, 10, correlation=3),
    ]
    trace = small(tmp_path, *events, overlapscope=ABOUT | {"both_ways": BOTH_WAYS})
    same = what_if(trace, ["no-host-read"]).after.copies
    assert (same.end_ns - same.start_ns).tolist() == [1_000_000, 1_000_000]
    faster = what_if(trace, ["faster-link=1000"]).after.copies
    assert (faster.end_ns - faster.start_ns < 100_000).all()


@pytest.mark.parametrize("rate", [10, 10.1, 12, 21])
def test_a_faster_link_makes_copies_beside_each_other_no_slower(rate: float, tmp_path: Path) -> None:
    """Each way four copies of 1 MB in 100 us, all of it beside the other way: 10 GB/s."""
    events = []
    for number in range(1, 9, 2):
        begin = 50 * number
        events += [
            make.call(number, 0.5, name="cudaMemcpyAsync", correlation=number),
            make.copy(begin, 100, size=1_000_000, correlation=number, **UP),
            make.call(number + 0.6, 0.3, name="cudaMemcpyAsync", correlation=number + 1),
            make.copy(begin, 100, size=1_000_000, correlation=number + 1, **DOWN | {"stream": 9}),
        ]
    trace = small(tmp_path, *events, overlapscope=ABOUT | {"both_ways": BOTH_WAYS})
    found = what_if(trace, [f"faster-link={rate}"])
    assert found.predicted_ns <= found.replayed_ns
    assert found.predicted_ns == pytest.approx(found.replayed_ns * 10 / rate, rel=0.15)


def test_without_a_change_the_program_s_own_time_is_the_same(tmp_path: Path) -> None:
    """Copies of both directions that are beside each other without the profiler only."""
    events = [make.call(0, 4, name="cudaMemcpyAsync", correlation=1), make.copy(6, 300, correlation=1, **UP)]
    events += [make.cpu_op("aten::view", 10 + 15 * index, 4) for index in range(20)]
    events += [
        make.call(310, 4, name="cudaMemcpyAsync", correlation=2),
        make.copy(320, 300, correlation=2, **DOWN | {"stream": 9}),
    ]
    about = recorded_in(620, [500] * 5, call_us=4) | {"both_ways": BOTH_WAYS}
    found = what_if(small(tmp_path, *events, overlapscope=about), [])
    assert found.unprofiled is not None
    assert found.unprofiled.replayed_ns == found.unprofiled.predicted_ns < found.replayed_ns


PAGEABLE_RESULT = [
    make.cpu_op("aten::copy_", 20, 2_012),
    make.call(22, 2_009, name="cudaMemcpyAsync", correlation=1),
    make.copy(30, 2_000, correlation=1, kinds="DtoH (Device -> Pageable)"),
    make.call(2_052, 4, correlation=2),
    make.kernel(2_057, 10, correlation=2),
]
HUGE = 10**400
COSTLY = (("unprofiled", 1), ("profiled", 10**17))
DAMAGED = {
    "sizes": {"copies": [{"direction": "DtoH", "host_memory": "pinned", "size_bytes": HUGE, "copy_ns": 1}]},
    "times": {"copies": [{"direction": "DtoH", "host_memory": "pinned", "size_bytes": 1, "copy_ns": 10**18}]},
    "pieces": {"gathers": [{"size_bytes": 1, "gather_ns": HUGE}]},
    "gathers": {"gathers": [{"size_bytes": 1, "gather_ns": 1}], "gather_start_ns": 2**63 - 1, "view_ns": 2**63 - 1},
    "slow pieces": {"gathers": [{"size_bytes": 1, "gather_ns": 2**63 - 1}]},
    "costly events": {"issue": {name: {"kernel_ns": at, "copy_ns": at} for name, at in COSTLY}},
    "issue": {"issue": {"unprofiled": {"kernel_ns": HUGE, "copy_ns": 1}, "profiled": {"kernel_ns": 2, "copy_ns": 2}}},
    "steps": {"steps": {name: {"steps": HUGE, "wall_ns": HUGE} for name in ("recorded", "unprofiled")}},
    "host": {"steps": {"unprofiled": {"steps": 5, "wall_ns": 5, "host_ns": [HUGE] * 5}}},
    "lanes": {"devices": [{"number": 0, "link": {"pcie_generation": 5, "pcie_width": HUGE}}]},
    "read before": {"reads": {"copy_start_ns": [20_000], "op_start_ns": [0]}},
    "read of nothing": {"reads": {"copy_start_ns": [20_000], "op_start_ns": [5]}},
}


@pytest.mark.parametrize("damaged", DAMAGED)
def test_a_damaged_calibration_neither_ends_a_prediction_nor_makes_it_absurd(damaged: str, tmp_path: Path) -> None:
    events = [make.call(2, 4, correlation=3), make.kernel(8, 4, correlation=3), *PAGEABLE_RESULT]
    trace = small(tmp_path, *events, overlapscope=ABOUT | DAMAGED[damaged], **GPU)
    for changes in (["pin"], ["pin", "non-blocking"], ["coalesce"], []):
        found = what_if(trace, changes)
        assert 0 < found.low_ns <= found.predicted_ns <= found.high_ns <= found.replayed_ns
        assert (found.after.copies.duration_ns >= 0).all()


def test_a_pinned_result_is_still_waited_for_before_it_is_read(tmp_path: Path) -> None:
    """It came by an asynchronous copy to pageable memory, whose call was the wait."""
    events = [*PAGEABLE_RESULT, make.cpu_op("aten::sum", 2_040, 2)]
    told = what_if(small(tmp_path, *events, overlapscope=ABOUT | {"reads": READS["at once"]}), ["pin"])
    assert told.after.api_calls.start_ns[1] >= told.after.copies.end_ns[0]
    assert told.high_ns == told.predicted_ns
    untold = what_if(small(tmp_path, *events), ["pin"])
    assert untold.high_ns > untold.predicted_ns + 20_000, "it may be read after the call, as it was"


@pytest.mark.parametrize("changes", [["pin"], ["pin", "non-blocking"]])
@pytest.mark.parametrize("making", [("aten::to", "aten::_to_copy"), ("aten::to",), ("aten::copy_",), ()])
def test_a_new_tensor_on_the_host_is_read_at_once(making: tuple[str, ...], changes: list[str], tmp_path: Path) -> None:
    """As ``.cpu()`` makes one; what goes to a buffer that was there may be read later. The other way is a bound."""
    around = [make.cpu_op(name, 10 + at, 2_040 - 2 * at) for at, name in enumerate(making)]
    large = make.copy(30, 2_000, correlation=1, kinds="DtoH (Device -> Pageable)", size=100 << 20, stream=7)
    result = [large if event["cat"] == "gpu_memcpy" else event for event in PAGEABLE_RESULT]
    wait = make.call(2_034, 6, name="cudaStreamSynchronize", correlation=3)
    beside = [make.call(2_070, 4, correlation=4), make.kernel(2_080, 2_000, stream=9, correlation=4)]
    events = [*around, *result, wait, make.sync("Stream Sync", 2_034, 6, stream=7, correlation=3), *beside]
    found = what_if(small(tmp_path, *events, **GPU), changes)
    calls, copies = found.after.api_calls, found.after.copies
    waited = calls.start_ns[-1] >= copies.end_ns[0]
    at_once = making[:1] == ("aten::to",)
    assert waited == (at_once or changes == ["pin"]), "the synchronisation is there for pinned memory too"
    assert any("read at once" in text for text in found.basis) == at_once
    if changes == ["pin"]:
        return
    assert (found.low_ns < found.predicted_ns - 500_000) == at_once
    assert (found.high_ns > found.predicted_ns + 500_000) != at_once


@pytest.mark.parametrize(("issue", "call_us"), [({"call_ns": 2_000}, 2), ({"copy_ns": 3_000}, 3), ({}, 9)])
def test_a_pinned_copy_s_call_takes_what_the_calibration_says(
    issue: dict[str, int], call_us: float, tmp_path: Path
) -> None:
    """No pinned copy is in the trace; without a calibration its call takes as long as a launch, 9 us."""
    events = []
    for index in range(10):
        begin = 100 * index
        events += [
            make.call(begin, 9, correlation=2 * index + 1),
            make.kernel(begin + 12, 1, correlation=2 * index + 1),
            make.call(begin + 20, 40, name="cudaMemcpyAsync", correlation=2 * index + 2),
            make.copy(begin + 30, 25, size=4096, correlation=2 * index + 2),
        ]
    about = ABOUT | {"issue": {"unprofiled": {"copy_ns": 4_000} if issue else {}, "profiled": issue}}
    after = what_if(small(tmp_path, *events, overlapscope=about, **GPU), ["pin"]).after
    copies = after.api_calls.take(after.api_calls.kind == ApiKind.COPY)
    wanted = 4_000 if issue == {"copy_ns": 3_000} else 1_000 * call_us
    assert np.median(copies.end_ns - copies.start_ns) == wanted, "what issuing takes bounds it where no call was timed"


def test_threads_that_ask_each_other_seldom_are_seen_among_chance_meetings(tmp_path: Path) -> None:
    """One thread asks another for eight copies, after a silence of 9 ms; while both are busy, they meet by chance."""
    events: list[make.Event] = []
    correlation = 0

    def call(begin: float, tid: int) -> None:
        nonlocal correlation
        correlation += 1
        name = "cudaMemcpyAsync" if tid == 2 else "cudaLaunchKernel"
        events.append(make.call(begin, 3, tid=tid, name=name, correlation=correlation))
        events.append(
            make.copy(begin + 5, 2, correlation=correlation, **UP)
            if tid == 2
            else make.kernel(begin + 5, 2, correlation=correlation)
        )

    for step in range(4):
        begin = 10_000.0 * step
        call(begin, 1)
        for index in range(8):
            call(begin + 400 + 11 * index, 2)
            call(begin + 400 + 11 * index + 6 + index % 3, 1)
    mine = graph_of(small(tmp_path, *events))
    edges = edges_of(mine, Because.HANDOFF)
    asked = {
        (int(mine.calls.thread[source // 2]), int(mine.calls.thread[target // 2]))
        for source, target, lag in zip(edges.source, edges.target, edges.lag_ns, strict=True)
        if lag > 300_000
    }
    assert asked == {(1, 2)}


def queue_of(count: int, *, room: int, each: float = 100) -> list[make.Event]:
    """Launches of 2 us, ``room`` of which fit into the queue, of kernels that take far longer."""
    events, now = [], 0.0
    for index in range(count):
        made_room = 10 + (index - room) * each  # when the kernel `room` places before starts
        end = max(now + 2, made_room) if index >= room else now + 2
        events += [
            make.call(now, end - now, correlation=index + 1),
            make.kernel(10 + index * each, each - 1, correlation=index + 1),
        ]
        now = end + 1
    return events


def test_a_launch_that_waits_for_room_in_the_queue_waits_less_when_the_device_is_faster(tmp_path: Path) -> None:
    mine = graph_of(small(tmp_path, *queue_of(1100, room=1000)))
    edges = edges_of(mine, Because.QUEUE)
    assert len(edges) == pytest.approx(70, abs=3), "when the queue is full, thirty kernels have begun"
    run = mine.edges.of_kind(Because.RUN)
    faster = replay(mine.with_lags(np.where(run, mine.edges.lag_ns // 10, mine.edges.lag_ns)))
    last = mine.call_end(np.array([len(mine.calls) - 1]))
    assert faster.time_ns[last] < 0.5 * mine.time_ns[last]
    assert not len(edges_of(graph_of(small(tmp_path, *queue_of(300, room=200))), Because.QUEUE)), "not full by far"


def test_the_legacy_default_stream_and_blocking_streams_wait_for_each_other(tmp_path: Path) -> None:
    """What the file lists as such; a stream that is non-blocking waits for nothing."""
    names = {1: "cudaLaunchKernel_v7000", 2: "gemm"}
    calls = [nsys.call(index * 10, index * 10 + 4, 1, correlation=index + 1) for index in range(3)]
    kernel = {"demangledName": 2, "shortName": 2}
    kernels = [
        nsys.work(100, 1_000_100, stream=13, correlation=1, **kernel),
        nsys.work(1_001_100, 2_001_100, stream=7, correlation=2, **kernel),
        nsys.work(200, 1_000_200, stream=14, correlation=3, **kernel),
    ]
    place = {"contextId": 1, "processId": 10}
    streams = [{"streamId": number, "flag": flag} | place for number, flag in ((7, 3), (13, 1), (14, 2))]
    tables = {
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
        "TARGET_INFO_CUDA_STREAM": streams,
        "TARGET_INFO_CUDA_CONTEXT_INFO": [place | {"deviceId": 0}],
    }
    mine = graph_of(open_trace(nsys.write(tmp_path / "t.sqlite", tables, names)))
    edges = edges_of(mine, Because.LEGACY)
    place_of = mine.work.stream.tolist()
    waits = {(place_of[a], place_of[b]) for a, b in zip(*map(mine.work_of, (edges.source, edges.target)), strict=True)}
    assert waits == {(13, 7)}


def test_gathering_takes_what_the_calibration_says(tmp_path: Path) -> None:
    about = {
        "schema": "overlapscope.recording/1",
        "copies": [{"direction": "HtoD", "host_memory": "pinned", "size_bytes": 1 << 20, "copy_ns": 20_000}],
        "gathers": [{"size_bytes": 1024, "gather_ns": 1_000}, {"size_bytes": 3072, "gather_ns": 5_000}],
    }
    events = []
    for index in range(8):
        events += [
            make.call(20 * index, 8, name="cudaMemcpyAsync", correlation=index + 1),
            make.copy(20 * index + 10, 2, correlation=index + 1, size=2048),
        ]
    found = what_if(small(tmp_path, *events, overlapscope=about), ["coalesce"])
    gathered = edges_of(found.played.graph, Because.CALL).lag_ns.max()
    assert gathered == pytest.approx(8 * 3_000, abs=10_000)
    assert any("gathering on the host: the calibration" in text for text in found.basis)


@pytest.mark.parametrize(
    ("sizes", "made", "takes"),
    [([2048] * 8, False, 3 + 8 * 2), ([2048, 2044] * 4, False, 3 + 8 * 6), ([2048] * 8, True, 3 + 8 * 2)],
    ids=["of one size", "ragged", "that were tensors"],
)
def test_pieces_of_several_sizes_take_longer_to_gather(
    sizes: list[int], made: bool, takes: float, tmp_path: Path
) -> None:
    """Views of each piece may come to it, or not, and views of what arrives, where those were tensors of their own."""
    gathers = [{"size_bytes": size, "gather_ns": 2_000, "ragged_ns": 6_000} for size in (1024, 4096)]
    about = ABOUT | {
        "copies": [{"direction": "HtoD", "host_memory": "pinned", "size_bytes": 1 << 20, "copy_ns": 20_000}],
        "gathers": gathers,
        "gather_start_ns": 3_000,
        "view_ns": 1_000,
    }
    events = []
    for index, size in enumerate(sizes):
        events += [
            make.cpu_op("aten::_to_copy" if made else "aten::copy_", 20 * index - 2, 12),
            make.call(20 * index, 8, name="cudaMemcpyAsync", correlation=index + 1),
            make.copy(20 * index + 10, 2, correlation=index + 1, size=size),
        ]
    found = what_if(small(tmp_path, *events, overlapscope=about), ["coalesce"])
    assert found.high_ns - found.predicted_ns == pytest.approx(16_000 if made else 8_000)
    assert any("views" in text for text in found.basis)
    played = found.played.graph
    without = what_if(small(tmp_path, *events, overlapscope=about | {"gathers": []}), ["coalesce"]).played.graph
    longest, plain = (int(edges_of(graph, Because.CALL).lag_ns.max()) for graph in (played, without))
    assert (longest - plain) / 1e3 == pytest.approx(takes - 8 * 2, abs=0.01), "else as long as staging them"


def test_pieces_that_went_out_of_the_caches_are_in_the_upper_bound(tmp_path: Path) -> None:
    """Eight that are gathered in 2 us each right after each other, in 5 after other work; of two sizes in 3 and 9."""
    cold, warm = {"gather_ns": 5_000, "ragged_ns": 9_000}, {"warm_gather_ns": 2_000, "warm_ragged_ns": 3_000}
    about = ABOUT | {
        "copies": [{"direction": "HtoD", "host_memory": "pinned", "size_bytes": 1 << 20, "copy_ns": 20_000}],
        "gathers": [{"size_bytes": size, **cold, **warm} for size in (1024, 4096)],
    }
    for sizes, usual_us, more_us in (([2048] * 8, 16, 24), ([2048, 2044] * 4, 24, 48)):
        events = []
        for index, size in enumerate(sizes):
            events += [
                make.call(20 * index, 5, name="cudaMemcpyAsync", correlation=index + 1),
                make.copy(20 * index + 10, 2, correlation=index + 1, size=size),
            ]
        found = what_if(small(tmp_path, *events, overlapscope=about), ["coalesce"])
        taken = int(edges_of(found.played.graph, Because.CALL).lag_ns.max())
        assert taken == pytest.approx(1_000 * (5 + usual_us), abs=500), "and the call itself"
        assert found.high_ns - found.predicted_ns == pytest.approx(1_000 * more_us)
        assert any("in no cache" in text for text in found.basis)


# Changes together, and what they are about


OTHERS = {
    "a worker of a loader": [make.annotation("load", 300 * index, 280, pid=77, tid=77) for index in range(8)],
    "the profiler": [make._event("overhead", "Activity Buffer Request", -1, 0, 2_400, 5, {})],
}


@pytest.mark.parametrize("other", OTHERS)
def test_processes_without_calls_go_with_the_others(other: str, tmp_path: Path) -> None:
    """Two milliseconds of staging; what another process does meanwhile makes a shorter program no longer."""
    events = [
        make.annotation("step", 0, 2_400),
        make.call(10, 2_000, name="cudaMemcpyAsync", correlation=1),
        make.copy(14, 1_990, correlation=1, size=20_000_000),
        make.call(2_030, 4, correlation=2),
        make.kernel(2_040, 300, correlation=2),
        make.call(2_050, 300, name="cudaDeviceSynchronize", correlation=3),
    ]
    about = ABOUT | {"copies": [{"direction": "HtoD", "host_memory": "pinned", "size_bytes": 20_000_000, "copy_ns": 1}]}
    trace = small(tmp_path, *events, *OTHERS[other], overlapscope=about)
    found, within = what_if(trace, ["pin"]), what_if(trace, ["pin"], "step")
    assert found.predicted_ns == pytest.approx(within.predicted_ns, abs=20_000)
    assert found.after.end_ns - found.after.start_ns == pytest.approx(found.predicted_ns, abs=20_000)


def test_a_change_made_to_one_half_and_then_the_other_is_made_to_all() -> None:
    trace = open_trace(SAMPLES / "offload-pinned-same.json.gz")
    halves = [f"side-stream:range={name}" for name in ("offload to host", "bring back")]
    both = [what_if(trace, some, "offload").predicted_ns for some in (["side-stream"], halves, halves[::-1])]
    assert both == [both[0]] * 3
    assert both[0] < min(what_if(trace, half, "offload").predicted_ns for half in halves)


def test_prefetching_leaves_what_has_a_stream_of_its_own_there() -> None:
    """Its copies are pageable, which prefetching lets be."""
    trace = open_trace(SAMPLES / "gemm_copy-pageable-copy-first-non-blocking-same.json.gz")
    aside, ahead = (what_if(trace, some, "gemm_copy") for some in (["side-stream"], ["side-stream", "prefetch"]))
    assert ahead.predicted_ns == aside.predicted_ns < aside.replayed_ns


def test_copies_with_a_short_one_between_them_stay_one_after_the_other(tmp_path: Path) -> None:
    issued = {"name": "cudaMemcpyAsync"}
    trace = small(
        tmp_path,
        make.call(5, 4, correlation=1, **issued),
        make.copy(8, 3.3, correlation=1, size=65_536, **UP),
        make.call(9.5, 4, correlation=2, **issued),
        make.copy(12.5, 1.5, correlation=2, size=2_048, stream=20),
        make.call(16.5, 4, correlation=3, **issued),
        make.copy(19.5, 52, correlation=3, size=1 << 20, **UP),
    )
    copies = what_if(trace, ["prefetch=1"]).after.copies
    first, last = np.flatnonzero(copies.size_bytes > 2_048)
    assert copies.end_ns[first] <= copies.start_ns[last]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("pin:stream=99", "nothing in the trace is meant"),
        ("coalesce", "no small copies to the device are in a row"),
        ("faster-link=1", "no pinned copy is slower"),
        ("side-stream", "does not say what reads a copy"),
    ],
)
def test_what_a_change_finds_nothing_to_do_for_is_said(change: str, says: str, tmp_path: Path) -> None:
    events = [
        make.call(0, 4, name="cudaMemcpyAsync", correlation=1),
        make.copy(6, 1_000, correlation=1, size=10_000_000, **UP),
        make.call(10, 4, correlation=2),
        make.kernel(1_008, 10, correlation=2, stream=7),
    ]
    found = what_if(small(tmp_path, *events), [change])
    assert any(says in text for text in found.basis)


def test_a_fix_that_may_win_is_not_said_to_win_nothing() -> None:
    """Torch's profiler by itself does not know which kernel reads which copy."""
    found = diagnose(open_trace(CASES.parent.parent / "benchmarks/pairs/producer_thread-faulty-plain.json.gz"), "step")
    (finding,) = [each for each in found.findings if each.code == "OVL002"]
    assert finding.saving_ns is not None
    assert finding.saving_ns < 100_000
    assert finding.saving_high_ns is not None
    assert finding.saving_high_ns > 5_000_000
    assert finding.rank == 1


def test_a_diagnosis_plans_what_was_really_done() -> None:
    found = diagnose(open_trace(SAMPLES / "moe_prefetch-pageable.json.gz"), "moe_prefetch")
    assert found.plan is not None
    assert [step.changes for step in found.plan.steps[:2]] == [("pin",), ("pin", "non-blocking")]
    assert found.findings[0].saving_ns is not None
    assert found.findings[0].saving_ns > 0.5 * found.window.wall_ns
    times = [step.predicted_ns for step in found.plan.steps]
    assert times == sorted(times, reverse=True), "each step wins something"
    assert [step.fixes for step in found.plan.steps[:2]] == [("OVL001",), ()], "only then is blocking what costs"
    first = what_if(found.trace, ["pin"], "moe_prefetch")
    assert first.unprofiled is not None
    assert found.plan.steps[0].unprofiled_ns == first.unprofiled.predicted_ns < found.plan.steps[0].predicted_ns
    assert found.plan.unprofiled_ns == first.unprofiled.replayed_ns
    said = audit(found.trace, "moe_prefetch").to_dict()["simulation"]
    assert said == {
        "simulated_ns": found.plan.simulated_ns,
        "unprofiled_ns": first.unprofiled.replayed_ns,
    }


def test_what_is_too_large_for_a_plan_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    trace = open_trace(SAMPLES / "gemm_copy-pageable-copy-first-blocking-same.json.gz")
    found = diagnose(trace, config=replace(DIAGNOSIS, max_simulated_nodes=10))
    assert found.plan is None
    assert found.findings[0].saving_ns is None
    Console().print(*findings(found))
    told = capsys.readouterr().out
    assert "what-if" in told
    assert "Mended and replayed" not in told


# What is asked for


@pytest.mark.parametrize(
    "text", ["pin", "prefetch=2", "faster-link=50", "pin:range=copy,stream=13", "pin:stream=1,source=f(a, b)"]
)
def test_a_change_is_read_and_written_alike(text: str) -> None:
    assert str(Change.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "pin:stream=inf",
        "pin:stream=13.7",
        "prefetch=inf",
        "prefetch=nan",
        "faster-link=nan",
        "faster-link=1e-300",
        "graph:stream=7",
        "pin=3",
        "faster-link",
        "prefetch=0",
        "prefetch=x",
        "prefetch=1.5",
        "pin:colour=red",
        "pin:range",
        "pin:stream=x",
    ],
)
def test_a_change_that_makes_no_sense_is_said(text: str) -> None:
    with pytest.raises(ChangeNotUnderstood):
        Change.parse(text)


def test_changes_that_contradict_each_other_are_said() -> None:
    with pytest.raises(ChangeNotUnderstood, match="prefetch=1 and prefetch=2 contradict each other"):
        understood(["prefetch", "pin", "prefetch=2"])
    assert len(understood(["prefetch=1:range=a", "prefetch=2:range=b"])) == 2
    assert understood("pin") == understood([Change("pin"), "pin"]) == (Change("pin"),)


def test_every_change_has_an_edit() -> None:
    assert set(EDITS) == set(NAMES)


def test_a_change_can_be_limited() -> None:
    trace = open_trace(SAMPLES / "gemm_copy-pageable-copy-first-non-blocking-side.json.gz")
    everything, nothing = what_if(trace, ["pin"], "gemm_copy"), what_if(trace, ["pin:stream=99"], "gemm_copy")
    assert nothing.predicted_ns == nothing.replayed_ns
    for pattern in ("copy", "co*", "c?py"):
        assert what_if(trace, [f"pin:range={pattern}"], "gemm_copy").predicted_ns == everything.predicted_ns
    part = what_if(trace, [Change("pin", copies=(3, 4))], "gemm_copy")
    assert everything.predicted_ns < part.predicted_ns < nothing.predicted_ns
    with pytest.raises(RangeNotFound):
        what_if(trace, ["pin"], "nowhere")


def test_json_has_what_is_promised() -> None:
    trace = open_trace(SAMPLES / "gemm_copy-pageable-copy-first-non-blocking-side.json.gz")
    found = json.loads(json.dumps(what_if(trace, ["pin"], "gemm_copy").to_dict(), allow_nan=False))
    assert found["schema"] == "overlapscope.what-if/2"
    assert found["window"]["range"] == "gemm_copy"
    assert found["changes"] == ["pin"]
    assert found["low_ns"] <= found["predicted_ns"] <= found["high_ns"] < found["replayed_ns"]
    assert found["unprofiled"].keys() == {"replayed_ns", "predicted_ns", "low_ns", "high_ns"}
