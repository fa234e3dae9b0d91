"""The longest way to each node: less of anything makes nothing later, and cycles are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
