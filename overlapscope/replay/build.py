"""The graph of a trace."""

from __future__ import annotations

import numpy as np

from overlapscope.model.trace import Trace
from overlapscope.replay.config import DEFAULT, ReplayConfig
from overlapscope.replay.device import device_edges
from overlapscope.replay.engine import has_circle, in_circles
from overlapscope.replay.graph import Because, Graph, moments
from overlapscope.replay.host import host_edges


def graph_of(trace: Trace, config: ReplayConfig = DEFAULT) -> Graph:
    """What every call and every piece of device work of a trace waited for."""
    graph = moments(trace)
    run = graph.edges.take(graph.edges.of_kind(Because.RUN))
    made = graph.with_edges(run, host_edges(graph, config), device_edges(graph, config))
    for kept in (_OWN, ()):
        if not has_circle(made):
            break
        made = _untied(made, kept)
    return made


_OWN = (Because.RUN, Because.CALL, Because.GAP, Because.ISSUE, Because.STREAM)


def _untied(graph: Graph, kept: tuple[Because, ...]) -> Graph:
    """The graph without waits in circles that lead back among moments at the same time.

    What takes no time may seem to wait for itself.
    """
    edges, time, circles = graph.edges, graph.time_ns, in_circles(graph)
    rank = np.lexsort((np.arange(len(time)) % 2, time)).argsort()
    back = (time[edges.source] == time[edges.target]) & (rank[edges.source] >= rank[edges.target])
    back &= circles[edges.source] & circles[edges.target]
    return graph.with_edges(edges.take(~back | edges.of_kind(*kept)))
