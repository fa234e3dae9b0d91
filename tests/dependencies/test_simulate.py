"""The longest way to each node: less of anything makes nothing later, and cycles are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from overlapscope import open_trace
from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.graph import Dependencies
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.dependencies.simulate import has_cycle, in_cycles, simulate
from tests.real_traces import SOME, graph


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_faster_work_never_makes_a_run_longer(data: st.DataObject) -> None:
    mine = graph(SOME[0])
    kinds = (DependencyKind.EXECUTION, DependencyKind.PROGRAM_ORDER, *OWN_DURATION)
    run = np.flatnonzero(mine.dependencies.of_kind(*kinds))
    chosen = data.draw(st.lists(st.sampled_from(run.tolist()), min_size=1, max_size=20))
    weight = mine.dependencies.weight_ns.copy()
    weight[chosen] = weight[chosen] // data.draw(st.integers(2, 100))
    faster = replace(mine, dependencies=replace(mine.dependencies, weight_ns=weight))
    assert (simulate(faster).time_ns <= mine.time_ns).all()


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_every_node_comes_by_the_longest_way_to_it(data: st.DataObject) -> None:
    """Any order of the nodes in time and by number, chains or none: a fixpoint of all dependencies, found by trying."""
    count = data.draw(st.integers(2, 12))
    place = data.draw(st.permutations(range(count)))
    pairs = data.draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=25))
    chain = [(node, node + 1) for node in range(count - 1)]
    edges = [(a, b) for a, b in pairs + data.draw(st.lists(st.sampled_from(chain))) if place[a] < place[b]]
    weights = data.draw(st.lists(st.integers(-5, 50), min_size=len(edges), max_size=len(edges)))
    began = data.draw(st.lists(st.integers(0, 100), min_size=count, max_size=count))
    source, target = np.array(edges, np.int64).reshape(-1, 2).T
    waits = Dependencies.of(source, target, np.array(weights, np.int64), DependencyKind.EVENT)
    simulated = simulate(replace(graph(SOME[0]), time_ns=np.array(began, np.int64), dependencies=waits))
    expected = dict(enumerate(began))
    for node in np.argsort(place).tolist():
        ways = [
            (expected[a] + w, -row) for row, ((a, b), w) in enumerate(zip(edges, weights, strict=True)) if b == node
        ]
        expected[node] = max(ways)[0] if ways else began[node]
        assert simulated.bound_by[node] == (-max(ways)[1] if ways else -1)
    assert simulated.time_ns.tolist() == [expected[node] for node in range(count)]


def test_a_simulation_is_the_same_each_time() -> None:
    assert (simulate(graph(SOME[0])).bound_by == simulate(build_graph(open_trace(SOME[0]))).bound_by).all()


def test_what_bound_a_node_leads_into_it_and_explains_its_time() -> None:
    simulated = simulate(graph(SOME[0]))
    edges, waits = simulated.graph.dependencies, np.flatnonzero(simulated.bound_by >= 0)
    row = simulated.bound_by[waits]
    assert (edges.target[row] == waits).all()
    assert (simulated.time_ns[edges.source[row]] + edges.weight_ns[row] == simulated.time_ns[waits]).all()


def test_a_cycle_is_refused() -> None:
    mine = graph(SOME[0])
    edge = mine.dependencies.take(np.array([0]))
    cycle = mine.with_dependencies(
        mine.dependencies, Dependencies.of(edge.target, edge.source, 0, DependencyKind.PROGRAM_ORDER)
    )
    assert has_cycle(cycle)
    assert not has_cycle(mine)
    assert in_cycles(cycle)[[edge.source[0], edge.target[0]]].all()
    assert not in_cycles(mine).any()
    with pytest.raises(ValueError, match="cycle"):
        simulate(cycle)
