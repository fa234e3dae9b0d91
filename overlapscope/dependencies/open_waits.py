"""What streams may have waited for where the trace leaves it open.

Kineto on CUDA 12.9 and later records that a stream waits for an event, and not which one. Where calls and times do not
show it either, nothing is assumed in the graph: an edge too many would make other work wait that never did. That the
stream was free would be a guess too, so the upper bound of a prediction has all that may have been: the last work of
every other stream of the process that was issued before the wait and had ended before the stream went on.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from overlapscope.dependencies.config import DependencyConfig
from overlapscope.dependencies.device import event_dependencies
from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.formatting import counted
from overlapscope.measure.stream_waits import open_waits
from overlapscope.model.tables import EventWaits
from overlapscope.model.trace import Trace


def about_open_waits(trace: Trace) -> tuple[str, ...]:
    """What a prediction assumes of them, as a phrase; empty where there are none."""
    count = int(open_waits(trace).sum())
    if not count:
        return ()
    have, them = ("has", "it") if count == 1 else ("have", "them")
    waits = f"{counted(count, 'stream wait')} {have} no recorded event"
    return (f"{waits}: the upper bound lets {them} wait for every other stream",)


def possible_waits(graph: Graph, config: DependencyConfig) -> Dependencies:
    """Dependencies that may be there, all inferred, with no more weight than the trace leaves room for."""
    unknown = graph.trace.event_waits.take(open_waits(graph.trace))
    if not len(unknown):
        return Dependencies.none()
    parts = []
    for process, device, stream in graph.streams:
        waits = unknown.take((unknown.process == process) & (unknown.stream != stream))
        columns = {spec.name: getattr(waits, spec.name) for spec in EventWaits.columns()}
        columns |= {
            "source_stream": np.full(len(waits), stream, np.int64),
            "source_device": np.full(len(waits), device, np.int32),
            "inferred": np.ones(len(waits), np.bool_),
        }
        parts.append(event_dependencies(graph, EventWaits.build(graph.trace.names, len(waits), columns), config))
    edges = Dependencies.together(Dependencies.none(), *parts)
    seen = graph.time_ns[edges.target] - graph.time_ns[edges.source]
    return replace(edges, weight_ns=np.minimum(edges.weight_ns, seen)).take(seen >= 0)
