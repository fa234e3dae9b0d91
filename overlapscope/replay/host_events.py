"""How much of what host threads did a trace has recorded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from overlapscope.measure.spans import each_of
from overlapscope.model.columns import Int64
from overlapscope.replay.graph import Graph


def operators_in(graph: Graph, gaps: Int64) -> Int64:
    """How many operators, ranges and Python frames begin in each gap."""
    count = np.zeros(len(gaps), np.int64)
    for gap, _ in _events(graph, gaps):
        count += np.bincount(gap, minlength=len(gaps))
    return count


def kinds_in(graph: Graph, gaps: Int64) -> Int64:
    """How many host events of different names each gap contains, with the call after it."""
    count = np.ones(len(gaps), np.int64)
    for gap, name in _events(graph, gaps):
        different, first = np.unique(np.stack([gap, name]), axis=1, return_index=True)
        count += np.bincount(gap[first], minlength=len(gaps)) if different.size else 0
    return count


def _events(graph: Graph, gaps: Int64) -> Iterator[tuple[Int64, Int64]]:
    """Operators, ranges and frames that begin within gaps of their thread: for each the gap, and its name."""
    trace, edges = graph.trace, graph.edges
    begin, end = graph.time_ns[edges.source[gaps]], graph.time_ns[edges.target[gaps]]
    call = edges.target[gaps] // 2
    process, thread = graph.calls.process[call], graph.calls.thread[call]
    for table in (trace.cpu_ops, trace.ranges, trace.frames):
        for owner in set(zip(process.tolist(), thread.tolist(), strict=True)):
            rows = np.flatnonzero((table.process == owner[0]) & (table.thread == owner[1]))
            mine = np.flatnonzero((process == owner[0]) & (thread == owner[1]))
            first, last = (np.searchsorted(table.start_ns[rows], moment[mine]) for moment in (begin, end))
            member, place = each_of(first, np.maximum(first, last))
            yield mine[member], table.name_id[rows[place]].astype(np.int64)
