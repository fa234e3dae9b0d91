"""The critical path: a chain from the last node back, whose parts add up to the time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from overlapscope import open_trace, what_if
from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.simulate import CriticalPath, critical_path, node_name, simulate
from tests.notation import trace_of
from tests.real_traces import SOME, graph

STAGED = """
    thread 1: copy 4MB pageable HtoD 0-1_000 -> stream 13: 4-990 | launch gemm 1_010-1_014 -> stream 7: 1_020-3_020
              sync 1_030-3_025
"""


def test_it_says_what_waited_for_what(tmp_path: Path) -> None:
    """A copy blocks the host for 1 ms, then the host waits for a kernel of 2 ms."""
    simulation = simulate(build_graph(trace_of(tmp_path, STAGED)))
    rows = [tuple(entry.values()) for entry in critical_path(simulation).to_dict()]
    copy, launch = ("cudaMemcpyAsync on thread 1", "cudaLaunchKernel on thread 1")
    device = "HtoD copy (pageable) on stream 13"
    assert rows == [
        (4_000, f"{device}, start", "launch", False, 4_000, f"{copy}, start"),
        (990_000, f"{device}, end", "execution", False, 986_000, f"{device}, start"),
        (1_000_000, f"{copy}, end", "staging of a copy", False, 10_000, f"{device}, end"),
        (1_010_000, f"{launch}, start", "program order", False, 10_000, f"{copy}, end"),
        (1_014_000, f"{launch}, end", "duration of the call", False, 4_000, f"{launch}, start"),
        (1_020_000, "gemm on stream 7, start", "launch", False, 6_000, f"{launch}, end"),
        (3_020_000, "gemm on stream 7, end", "execution", False, 2_000_000, "gemm on stream 7, start"),
        (3_025_000, "cudaDeviceSynchronize on thread 1, end", "synchronisation", False, 5_000, "gemm on stream 7, end"),
    ]


def test_its_parts_are_named_for_people(tmp_path: Path) -> None:
    simulation = simulate(build_graph(trace_of(tmp_path, STAGED)))
    made_of = critical_path(simulation).made_of
    assert made_of == {
        "kernels": 2_000_000,
        "copies to the device": 986_000,
        "calls": 14_000,
        "the host's own work": 10_000,
        "launches and gaps on the device": 10_000,
        "synchronisations": 5_000,
    }
    assert list(made_of.values()) == sorted(made_of.values(), reverse=True)


@pytest.mark.parametrize("path", SOME, ids=lambda path: path.name)
def test_it_is_a_chain_that_adds_up(path: Path) -> None:
    simulation = simulate(graph(path))
    found, edges = critical_path(simulation), simulation.graph.dependencies
    assert (edges.target[found.rows[:-1]] == edges.source[found.rows[1:]]).all()
    first, last = edges.source[found.rows[0]], edges.target[found.rows[-1]]
    assert simulation.time_ns[last] == simulation.time_ns.max()
    assert found.added_ns.sum() == simulation.time_ns[last] - simulation.time_ns[first]
    assert sum(found.made_of.values()) == found.added_ns.sum()


def test_a_prediction_has_one_with_and_without_its_changes() -> None:
    found = what_if(open_trace(SOME[1]), ["pin", "non-blocking"], "offload")
    before, after = (found.critical_path(changed=changed) for changed in (False, True))
    assert before.added_ns.sum() > after.added_ns.sum() > 0
    assert found.made_of == after.made_of
    frame = after.to_pandas()
    assert frame.added_ns.sum() == after.added_ns.sum()
    assert list(frame.columns) == ["end_ns", "what", "dependency", "inferred", "added_ns", "after"]


def test_it_goes_back_no_further_than_is_asked_for() -> None:
    simulation = simulate(graph(SOME[0]))
    whole = critical_path(simulation)
    since = int(np.median(simulation.graph.time_ns))
    part = critical_path(simulation, since_ns=since)
    assert 0 < len(part) < len(whole)
    assert (part.rows == whole.rows[-len(part) :]).all()
    assert (simulation.graph.time_ns[simulation.graph.dependencies.target[part.rows]] > since).all()


def test_an_empty_one_is_made_of_nothing() -> None:
    simulation = simulate(graph(SOME[0]))
    nothing = CriticalPath.none(simulation)
    assert (len(nothing), nothing.made_of, nothing.to_dict()) == (0, {}, [])


def test_every_node_has_a_name_that_people_can_read() -> None:
    mine = graph(SOME[0])
    names = {node_name(mine, node) for node in range(len(mine.time_ns))}
    assert all(name.endswith((", start", ", end")) for name in names)
