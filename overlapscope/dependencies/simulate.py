"""Simulate a graph: the longest way to each node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.dependencies.apart import apart
from overlapscope.dependencies.graph import Graph
from overlapscope.model.columns import NO_ID, Bool, Int64


@dataclass(frozen=True, eq=False)
class Simulation:
    """When each node of a graph comes, and which edge bound it (`NO_ID` for nodes that wait for nothing)."""

    graph: Graph
    time_ns: Int64
    bound_by: Int64

    @property
    def length_ns(self) -> int:
        """From the first begin of calls and work to their last end, but for threads apart; 0 without any."""
        times = self.time_ns[~apart(self.graph)]
        return int(times.max() - times.min()) if len(times) else 0


def simulate(graph: Graph) -> Simulation:
    """Let every node come as soon as its edges allow; those without edges stay where they were.

    Raises:
        ValueError: the graph has a cycle.
    """
    edges = graph.dependencies
    by_target = np.argsort(edges.target, kind="stable")
    first = np.searchsorted(edges.target[by_target], np.arange(len(graph.time_ns) + 1)).tolist()
    source, weight = edges.source[by_target].tolist(), edges.weight_ns[by_target].tolist()
    times: list[int] = graph.time_ns.tolist()
    bound = [NO_ID] * len(times)
    for node in _order(graph).tolist():
        begin, end = first[node], first[node + 1]
        if begin == end:
            continue
        best, latest = begin, times[source[begin]] + weight[begin]
        for edge in range(begin + 1, end):
            reached = times[source[edge]] + weight[edge]
            if reached > latest:
                best, latest = edge, reached
        times[node] = latest
        bound[node] = best
    edge_of = np.append(by_target, NO_ID)[np.array(bound, np.int64)]
    return Simulation(graph, np.array(times, np.int64), edge_of)


def has_cycle(graph: Graph) -> bool:
    """Whether some nodes wait for each other, so that it cannot be simulated."""
    try:
        _order(graph)
    except ValueError:
        return True
    return False


def in_cycles(graph: Graph) -> Bool:
    """Which nodes wait for each other, or come between such."""
    edges, count = graph.dependencies, len(graph.time_ns)
    waiting = np.ones(count, np.bool_)
    for source, target in ((edges.source, edges.target), (edges.target, edges.source)):
        waiting[_one_after_the_other(source, target, count)] = False
    return waiting


def _order(graph: Graph) -> Int64:
    """Nodes such that every edge leads forward: by their time in the trace, or sorted out where that does not do."""
    kinds = np.arange(len(graph.time_ns)) % 2
    order = np.lexsort((kinds, graph.time_ns))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    if (place[graph.dependencies.source] < place[graph.dependencies.target]).all():
        return order
    sorted_out = _one_after_the_other(graph.dependencies.source, graph.dependencies.target, len(order))
    if len(sorted_out) < len(order):
        raise ValueError("the graph has a cycle")
    return sorted_out


def _one_after_the_other(source: Int64, target_of: Int64, count: int) -> Int64:
    """Kahn's algorithm: nodes such that every edge leads forward, without those that cycles keep waiting."""
    by_source = np.argsort(source, kind="stable")
    first = np.searchsorted(source[by_source], np.arange(count + 1)).tolist()
    target = target_of[by_source].tolist()
    missing = np.bincount(target_of, minlength=count).tolist()
    order = [node for node in range(count) if not missing[node]]
    for node in order:  # grows
        for edge in range(first[node], first[node + 1]):
            following = target[edge]
            missing[following] -= 1
            if not missing[following]:
                order.append(following)
    return np.array(order, np.int64)
