"""What device work waits for: stream order, events, the legacy default stream, and what is not recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from overlapscope import open_trace, what_if
from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.model.trace import Trace
from tests import kineto_maker as make, nsys_maker as nsys
from tests.notation import trace_of

GPUS = {"deviceProperties": [{"id": index, "name": "NVIDIA H200"} for index in range(2)]}


def dependencies_of(graph: Graph, *kinds: DependencyKind) -> Dependencies:
    return graph.dependencies.take(graph.dependencies.of_kind(*kinds))


def kernels_bound_by(graph: Graph) -> list[DependencyKind]:
    """What each piece of work most likely waited for."""
    starts = graph.work_start(np.arange(len(graph.work)))
    return [DependencyKind(kind) for kind in graph.bound_by(starts).tolist()]


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
    kernels = build_graph(trace_of(tmp_path, *events))
    last = dependencies_of(kernels, DependencyKind.STREAM_ORDER)
    last = last.take(last.target == kernels.work_start(np.array([queued])))
    assert last.weight_ns.tolist() == [apart_ns]


@pytest.mark.parametrize(
    "wait",
    ["record 5-6 | wait 7-8", "record A 5-6 -> stream 13 | wait A 7-8 -> stream 7"],
    ids=["not recorded", "recorded"],
)
def test_an_event_is_waited_for_after_a_change(wait: str, tmp_path: Path) -> None:
    """A copy, an event, a wait, a slow allocation, a kernel: without the allocation it still comes after the copy."""
    trace = trace_of(
        tmp_path,
        f"""
        thread 1: copy 10MB pinned HtoD 0-4 -> stream 13: 6-3_006 | {wait}
                  cudaMalloc 10-5_010 | launch 5_020-5_024 -> stream 7: 5_026-5_126
        """,
    )
    after = what_if(trace, ["preallocate"]).after
    assert after.kernels.start_ns[0] >= after.copies.end_ns[0]
    assert after.kernels.start_ns[0] < trace.kernels.start_ns[0]


def test_a_kernel_that_starts_before_the_one_before_it_ends_follows_its_start(tmp_path: Path) -> None:
    """As with programmatic dependent launch."""
    text = "launch 0-4 -> stream 7: 10-110 | launch 5-9 -> stream 7: 105-205"
    graph = build_graph(trace_of(tmp_path, text))
    order = dependencies_of(graph, DependencyKind.STREAM_ORDER)
    assert order.source.tolist() == graph.work_start(np.array([0])).tolist()
    assert order.weight_ns.tolist() == [95_000]


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
    mine = build_graph(open_trace(nsys.write(tmp_path / "t.sqlite", tables, names)))
    edges = dependencies_of(mine, DependencyKind.LEGACY_DEFAULT_STREAM)
    place_of = mine.work.stream.tolist()
    waits = {(place_of[a], place_of[b]) for a, b in zip(*map(mine.work_of, (edges.source, edges.target)), strict=True)}
    assert waits == {(13, 7)}


@pytest.mark.parametrize(
    ("begins", "waits"), [(1_012, DependencyKind.NOT_RECORDED), (1_040, DependencyKind.LAUNCH)], ids=["near", "late"]
)
def test_what_starts_right_after_other_work_for_no_known_reason_may_have_waited_for_it(
    begins: float, waits: DependencyKind, tmp_path: Path
) -> None:
    text = f"launch 0-4 -> stream 13: 10-1_010 | launch 5-9 -> stream 14: {begins}-2_000"
    graph = build_graph(trace_of(tmp_path, text))
    assert kernels_bound_by(graph) == [DependencyKind.LAUNCH, waits]
    unknown = dependencies_of(graph, DependencyKind.NOT_RECORDED)
    assert unknown.inferred.all()


def staged(tmp_path: Path, streams: tuple[int, int] = (7, 15), *, recorded: bool = True, first: int = 0) -> Trace:
    """A pageable copy of 5 ms and a kernel of 1 ms on the ``first`` GPU; a kernel on the other waits for them.

    Unless it is ``recorded``, only its start right after the other kernel says what it waits for.
    """
    source, waiting = (f"gpu {gpu} stream {stream}" for gpu, stream in zip((first, 1 - first), streams, strict=True))
    event = " A" if recorded else ""
    return trace_of(
        tmp_path,
        f"""
        thread 1: copy 55MB pageable HtoD 0-5_000 -> {source}: 5-4_995 | launch 5_004-5_008 -> {source}: 5_012-6_012
                  record{event} 5_010-5_011{f" -> {source}" * recorded} | wait{event} 5_012-5_013 -> {waiting}
                  launch 5_015-5_019 -> {waiting}: 6_014-6_514
        """,
        **GPUS,
    )


@pytest.mark.parametrize("recorded", [True, False])
def test_a_kernel_waits_for_an_event_of_another_gpu(recorded: bool, tmp_path: Path) -> None:
    trace = staged(tmp_path, recorded=recorded)
    assert trace.syncs.source_stream.tolist() == [7]
    after = what_if(trace, ["pin"]).after.kernels
    assert after.start_ns[0] - trace.start_ns < 2_000_000
    assert after.start_ns[1] == after.end_ns[0] + 2_000


@pytest.mark.parametrize("first", [0, 1])
def test_a_number_that_both_gpus_have_is_the_own_one_s(first: int, tmp_path: Path) -> None:
    """As in traces that number the streams of each GPU from the first: nothing says that another is meant."""
    graph = build_graph(staged(tmp_path, (7, 7), first=first))
    assert not graph.dependencies.of_kind(DependencyKind.EVENT, DependencyKind.OTHER_DEVICE).any()
