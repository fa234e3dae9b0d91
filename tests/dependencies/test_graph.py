"""The graph of a trace: its simulation gives the trace back, whatever the trace is like."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from overlapscope import open_trace, what_if
from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.graph import Dependencies, bound
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.dependencies.simulate import simulate
from overlapscope.whatif.catalogue import changed, parse
from overlapscope.whatif.changes import NAMES
from tests import kineto_maker as make
from tests.notation import trace_of
from tests.opened import swept
from tests.real_traces import TRACES, graph


def test_labels_are_told_apart() -> None:
    assert len({kind.label for kind in DependencyKind}) == len(DependencyKind)


@pytest.mark.parametrize("path", swept(TRACES))
def test_an_unchanged_simulation_gives_the_trace_back(path: Path) -> None:
    mine = graph(path)
    assert (simulate(mine).time_ns == mine.time_ns).all()


def test_any_trace_can_be_simulated(corpus_trace: Path, tmp_path: Path) -> None:
    """As it is exactly, and with each change: no later than it was, in any order of the changes."""
    path = corpus_trace
    if path.name.endswith(".sqlite.gz"):
        path = tmp_path / corpus_trace.name.removesuffix(".gz")
        path.write_bytes(gzip.decompress(corpus_trace.read_bytes()))
    mine = build_graph(open_trace(path))
    assert (simulate(mine).time_ns == mine.time_ns).all()
    changes = [parse("faster-link=50" if name == "faster-link" else name) for name in NAMES]
    for each in changes:
        edited = changed(mine, [each]).graph
        # batch-copies packs on the host, and waits for all that it packs; copy-first lets long copies go later;
        # workers hand over what the host would make faster by itself
        if each.name not in {"batch-copies", "copy-first", "workers"}:
            assert simulate(edited).time_ns.max(initial=0) <= mine.time_ns.max(initial=0) + 100_000
    together, reversed_ = (simulate(changed(mine, some).graph) for some in (changes, changes[::-1]))
    assert (together.time_ns == reversed_.time_ns).all()


def test_the_last_of_several_dependencies_has_what_was_seen_and_others_what_is_usual() -> None:
    """Into a node at 100 from nodes at 0, 60 and 90; into another one that waits for nothing that came so late."""
    time = np.array([0, 60, 90, 100, 500])
    source, target, usual = np.array([0, 1, 2, 2]), np.array([3, 3, 3, 4]), np.array([200, 5, 5, 5])
    kinds = [DependencyKind.EXECUTION, DependencyKind.EVENT, DependencyKind.STREAM_ORDER, DependencyKind.LAUNCH]
    parts = [
        Dependencies.of(source[row : row + 1], target[row : row + 1], usual[row : row + 1], kind)
        for row, kind in enumerate(kinds)
    ]
    found = bound(time, Dependencies.concat(*parts))
    assert found.weight_ns.tolist() == [100, 5, 5, 410]
    found = bound(time, Dependencies.concat(*parts[1:]))
    assert found.weight_ns.tolist() == [5, 10, 410]


@pytest.mark.parametrize("starts_after", [4, 5])
def test_a_copy_is_what_blocks_its_call_even_where_it_starts_when_a_plain_call_would_end(
    starts_after: int, tmp_path: Path
) -> None:
    """Plain calls take 4 us; a pageable copy's takes 1 ms, and returns before its copy ends."""
    mine = build_graph(
        trace_of(
            tmp_path,
            f"""
            thread 1: copy 10MB pageable HtoD 0-1_000 -> stream 13: {starts_after}-1_006
                      launch 1_010-1_014 -> stream 7: 1_016-1_017
            """,
        )
    )
    returns = mine.call_end(np.array([0]))
    assert mine.bound_by(returns).tolist() == [DependencyKind.STAGING]
    own = mine.dependencies.take(mine.dependencies.of_kind(DependencyKind.API_CALL))
    assert own.weight_ns[own.target == returns].tolist() == [4_000]


def test_dependencies_know_which_of_others_connect_the_same_nodes() -> None:
    some = Dependencies.of(np.array([0, 1, -1]), np.array([2, 3, 3]), 7, DependencyKind.EVENT)
    assert some.source.tolist() == [0, 1], "what comes from nowhere is left out"
    others = Dependencies.of(np.array([1, 3]), np.array([3, 1]), 0, DependencyKind.LAUNCH)
    assert some.among(others).tolist() == [False, True]
    assert some.among(Dependencies.none()).tolist() == [False, False]


def test_a_kernel_of_no_length_that_seems_to_wait_for_itself_takes_no_other_dependency_out(tmp_path: Path) -> None:
    """It ends when a synchronisation before its launch does; a pinned copy, long after that, blocks its call."""
    trace = trace_of(
        tmp_path,
        """
        thread 1: stream-sync 12-13 | launch 13-18 -> stream 29: 13-13
                  copy 1KB pinned DtoH 415-516 -> stream 28: 416-516 | copy 521-622
        """,
    )
    found = what_if(trace, [])
    assert found.simulated_ns == found.measured_ns


def test_calls_that_take_no_time_do_not_wait_for_themselves(tmp_path: Path) -> None:
    """Two threads call at the same moments, and all calls take nothing."""
    events = [make.kernel(3, 5, correlation=1)]
    for index in range(8):
        begin = 1_000 * index + 37 * (index * index % 11)
        events += [make.call(begin, 0, tid=tid, correlation=index + 1 if tid == 1 else 0) for tid in (1, 2)]
    found = what_if(trace_of(tmp_path, *events), ["pin"])
    assert found.predicted_ns == found.simulated_ns


@pytest.mark.parametrize("calls", ["stream-sync 0-5 | launch 10-15", "record 0-5 | wait 10-15 | event-sync 20-25"])
def test_calls_without_any_device_work_are_simulated(calls: str, tmp_path: Path) -> None:
    found = what_if(trace_of(tmp_path, calls), ["pin", "side-stream"])
    assert found.predicted_ns == found.simulated_ns == 10_000 * calls.count("|") + 5_000


def test_calls_inside_others_have_no_nodes_of_their_own(tmp_path: Path) -> None:
    """A driver's call inside a runtime's, whose kernel belongs to the outer one."""
    outer, inner = make.call(0, 20, correlation=1), make.call(5, 10, name="cuLaunchKernel", correlation=2)
    trace = trace_of(tmp_path, outer, inner | {"cat": "cuda_driver"}, make.kernel(25, 5, correlation=2))
    mine = build_graph(trace)
    assert len(mine.calls) == 1
    assert mine.work.call.tolist() == [0]
    assert mine.call_of.tolist() == [0, 0, -1]
    assert (simulate(mine).time_ns == mine.time_ns).all()
