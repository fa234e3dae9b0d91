"""The graph of a trace."""

from __future__ import annotations

import numpy as np

from overlapscope.dependencies.device import device_dependencies
from overlapscope.dependencies.graph import Graph, nodes_of
from overlapscope.dependencies.host import host_dependencies
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.dependencies.simulate import has_cycle, in_cycles
from overlapscope.model.trace import Trace

_CERTAIN = (
    *OWN_DURATION,
    DependencyKind.EXECUTION,
    DependencyKind.PROGRAM_ORDER,
    DependencyKind.LAUNCH,
    DependencyKind.STREAM_ORDER,
)


def build_graph(trace: Trace) -> Graph:
    """The graph of a trace: what every call and every piece of device work waited for.

    Args:
        trace: an opened trace.

    Returns:
        A graph without cycles. With nothing changed, its simulation gives the times of the trace.
    """
    graph = nodes_of(trace)
    execution = graph.dependencies.take(graph.dependencies.of_kind(DependencyKind.EXECUTION))
    return without_cycles(graph.with_dependencies(execution, host_dependencies(graph), device_dependencies(graph)))


def without_cycles(graph: Graph) -> Graph:
    """The graph without the waits that close cycles among nodes at the same time; the surest are dropped last."""
    for kept in (_CERTAIN, ()):
        if not has_cycle(graph):
            break
        graph = _without_cycles(graph, kept)
    return graph


def _without_cycles(graph: Graph, kept: tuple[DependencyKind, ...]) -> Graph:
    """The graph without dependencies in cycles that lead back among nodes at the same time.

    What takes no time may seem to wait for itself.
    """
    edges, time, cycles = graph.dependencies, graph.time_ns, in_cycles(graph)
    rank = np.lexsort((np.arange(len(time)) % 2, time)).argsort()
    back = (time[edges.source] == time[edges.target]) & (rank[edges.source] >= rank[edges.target])
    back &= cycles[edges.source] & cycles[edges.target]
    return graph.with_dependencies(edges.take(~back | edges.of_kind(*kept)))
