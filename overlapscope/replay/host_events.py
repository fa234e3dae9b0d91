"""How much of what host threads did a trace has recorded."""

from __future__ import annotations

import numpy as np

from overlapscope.model.columns import Int64
from overlapscope.replay.graph import Graph


def operators_in(graph: Graph, gaps: Int64) -> Int64:
    """How many operators, ranges and Python frames begin in each gap of their thread."""
    trace, edges = graph.trace, graph.edges
    begin, end = graph.time_ns[edges.source[gaps]], graph.time_ns[edges.target[gaps]]
    call = edges.target[gaps] // 2
    process, thread = graph.calls.process[call], graph.calls.thread[call]
    count = np.zeros(len(gaps), np.int64)
    for table in (trace.cpu_ops, trace.ranges, trace.frames):
        for owner in set(zip(process.tolist(), thread.tolist(), strict=True)):
            starts = table.start_ns[(table.process == owner[0]) & (table.thread == owner[1])]
            mine = np.flatnonzero((process == owner[0]) & (thread == owner[1]))
            first, last = (np.searchsorted(starts, moment[mine]) for moment in (begin, end))
            count[mine] += np.maximum(last - first, 0)
    return count
