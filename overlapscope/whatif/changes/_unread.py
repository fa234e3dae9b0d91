"""What a thread does no more once it reads no value: the rest of the operators that read it."""

from __future__ import annotations

import numpy as np

from overlapscope.measure.places import enclosing, innermost
from overlapscope.measure.spans import covered, union
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.tables import HostWork
from overlapscope.model.trace import Trace
from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind

_READING = ("aten::is_nonzero", "aten::item", "aten::_local_scalar_dense", "aten::to", "aten::_to_copy", "aten::copy_")
"""What ``bool()``, ``.item()`` and ``.cpu()`` are made of."""


def without_operators(graph: Graph, reads: Int64) -> Graph:
    """The graph in which the operators around some calls that read take no time before and after their calls.

    As large a part of each gap is gone as lies in them.
    """
    calls, edges, time = graph.calls, graph.dependencies, graph.time_ns
    ops = _outermost(graph.trace)
    around = innermost(ops, calls.process[reads], calls.thread[reads], calls.start_ns[reads])
    around = np.unique(around[around != NO_ID])
    gaps = np.flatnonzero(edges.of_kind(DependencyKind.PROGRAM_ORDER))
    begin, end = time[edges.source[gaps]], time[edges.target[gaps]]
    inside = np.zeros(len(gaps), np.int64)
    for owner in np.unique(calls.owner[reads]).tolist():
        one = int(np.searchsorted(calls.owner, owner))
        mine = around[(ops.process[around] == calls.process[one]) & (ops.thread[around] == calls.thread[one])]
        own = np.flatnonzero(calls.owner[edges.target[gaps] // 2] == owner)
        inside[own] = covered(begin[own], end[own], union(ops.start_ns[mine], ops.end_ns[mine]))
    weight = edges.weight_ns.copy()
    weight[gaps] -= (weight[gaps] * (inside / np.maximum(end - begin, 1))).astype(np.int64)
    return graph.with_weights(weight)


def _outermost(trace: Trace) -> HostWork:
    reading = trace.cpu_ops.take(np.isin(trace.cpu_ops.name_id, trace.names.find(*_READING)))
    return reading.take(enclosing(reading) == NO_ID)
