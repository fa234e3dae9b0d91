"""Simulate a graph: the longest way to each node."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from overlapscope.dependencies.apart import apart
from overlapscope.dependencies.chains import Chains, one_after_the_other
from overlapscope.dependencies.graph import Graph
from overlapscope.model.columns import NO_ID, Bool, Int64


@dataclass(frozen=True, eq=False)
class Simulation:
    """When each node of a graph comes."""

    graph: Graph
    time_ns: Int64

    @property
    def length_ns(self) -> int:
        """From the first begin of calls and work to their last end, but for threads apart; 0 without any."""
        times = self.time_ns[~apart(self.graph)]
        return int(times.max() - times.min()) if len(times) else 0

    @cached_property
    def bound_by(self) -> Int64:
        """The row of the dependency that bound each node, `NO_ID` for nodes that wait for nothing."""
        edges = self.graph.dependencies
        reached = self.time_ns[edges.source] + edges.weight_ns == self.time_ns[edges.target]
        rows = np.flatnonzero(reached)[::-1]
        result = np.full(len(self.time_ns), NO_ID, np.int64)
        result[edges.target[rows]] = rows  # the last one written is the first row
        return result


def simulate(graph: Graph) -> Simulation:
    """Let every node come as soon as its edges allow; those without edges stay where they were.

    Raises:
        ValueError: the graph has a cycle.
    """
    return Simulation(graph, Chains.of(graph).times(graph))


def has_cycle(graph: Graph) -> bool:
    """Whether some nodes wait for each other, so that it cannot be simulated."""
    if _leads_forward(graph):
        return False
    try:
        Chains.of(graph)
    except ValueError:
        return True
    return False


def _leads_forward(graph: Graph) -> bool:
    """Whether every dependency leads to a later node of the trace, at one time from starts to ends and by number."""
    source, target = graph.dependencies.source, graph.dependencies.target
    before, after = graph.time_ns[source], graph.time_ns[target]
    together = np.flatnonzero(before >= after)
    one, other = source[together], target[together]
    forward = (one % 2 < other % 2) | ((one % 2 == other % 2) & (one < other))
    return bool(((before == after)[together] & forward).all())


def in_cycles(graph: Graph) -> Bool:
    """Which nodes wait for each other, or come between such."""
    edges, count = graph.dependencies, len(graph.time_ns)
    waiting = np.ones(count, np.bool_)
    for source, target in ((edges.source, edges.target), (edges.target, edges.source)):
        waiting[one_after_the_other(source, target, count)] = False
    return waiting
