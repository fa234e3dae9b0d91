"""The longest way to each moment of a graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.replay.graph import Graph


@dataclass(frozen=True, eq=False)
class Replay:
    """When each moment of a graph comes, and which edge bound it (`NO_ID` for moments that wait for nothing)."""

    graph: Graph
    time_ns: Int64
    bound_by: Int64


def replay(graph: Graph) -> Replay:
    """Let every moment come as soon as its edges allow; those without edges stay where they were.

    Raises:
        ValueError: the graph has a circle.
    """
    edges = graph.edges
    by_target = np.argsort(edges.target, kind="stable")
    first = np.searchsorted(edges.target[by_target], np.arange(len(graph.time_ns) + 1)).tolist()
    source, lag = edges.source[by_target].tolist(), edges.lag_ns[by_target].tolist()
    times: list[int] = graph.time_ns.tolist()
    bound = [NO_ID] * len(times)
    for moment in _order(graph).tolist():
        begin, end = first[moment], first[moment + 1]
        if begin == end:
            continue
        best, latest = begin, times[source[begin]] + lag[begin]
        for edge in range(begin + 1, end):
            reached = times[source[edge]] + lag[edge]
            if reached > latest:
                best, latest = edge, reached
        times[moment] = latest
        bound[moment] = best
    edge_of = np.append(by_target, NO_ID)[np.array(bound, np.int64)]
    return Replay(graph, np.array(times, np.int64), edge_of)


def has_circle(graph: Graph) -> bool:
    """Whether some moments wait for each other, so that it cannot be replayed."""
    try:
        _order(graph)
    except ValueError:
        return True
    return False


def in_circles(graph: Graph) -> Bool:
    """Which moments wait for each other, or come between such."""
    edges, count = graph.edges, len(graph.time_ns)
    waiting = np.ones(count, np.bool_)
    for source, target in ((edges.source, edges.target), (edges.target, edges.source)):
        waiting[_one_after_the_other(source, target, count)] = False
    return waiting


def _order(graph: Graph) -> Int64:
    """Moments such that every edge leads forward: by their time in the trace, or sorted out where that does not do."""
    kinds = np.arange(len(graph.time_ns)) % 2
    order = np.lexsort((kinds, graph.time_ns))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    if (place[graph.edges.source] < place[graph.edges.target]).all():
        return order
    sorted_out = _one_after_the_other(graph.edges.source, graph.edges.target, len(order))
    if len(sorted_out) < len(order):
        raise ValueError("the graph has a circle")
    return sorted_out


def _one_after_the_other(source: Int64, target_of: Int64, count: int) -> Int64:
    """Kahn's algorithm: moments such that every edge leads forward, without those that circles keep waiting."""
    by_source = np.argsort(source, kind="stable")
    first = np.searchsorted(source[by_source], np.arange(count + 1)).tolist()
    target = target_of[by_source].tolist()
    missing = np.bincount(target_of, minlength=count).tolist()
    order = [moment for moment in range(count) if not missing[moment]]
    for moment in order:  # grows
        for edge in range(first[moment], first[moment + 1]):
            following = target[edge]
            missing[following] -= 1
            if not missing[following]:
                order.append(following)
    return np.array(order, np.int64)
