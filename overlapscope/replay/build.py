"""The graph of a trace."""

from __future__ import annotations

from overlapscope.model.trace import Trace
from overlapscope.replay.config import DEFAULT, ReplayConfig
from overlapscope.replay.device import device_edges
from overlapscope.replay.graph import Because, Graph, moments
from overlapscope.replay.host import host_edges


def graph_of(trace: Trace, config: ReplayConfig = DEFAULT) -> Graph:
    """What every call and every piece of device work of a trace waited for."""
    graph = moments(trace)
    run = graph.edges.take(graph.edges.of_kind(Because.RUN))
    return graph.with_edges(run, host_edges(graph, config), device_edges(graph, config))
