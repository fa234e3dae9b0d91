"""The host is slower right after it staged a large copy: its caches have lost what they had of the program.

By how much, a recording calibrates: on hosts of H200s the first two operators after 16 MiB or more took three times as
long as usual, those after 1 MiB hardly longer.
"""

from __future__ import annotations

import numpy as np

from overlapscope.measure.issue import synchronised_copy
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.replay.config import ReplayConfig
from overlapscope.replay.graph import Because, Graph
from overlapscope.replay.host_events import kinds_in


def without_staging(graph: Graph, copies: Int64, config: ReplayConfig) -> Graph:
    """The graph in which the calls of some ``copies``, as work, stage nothing: what follows them is as fast as usual.

    What Python and torch do between two calls takes the calibration's share of it. Where it is longer, other work is in
    it, and each event takes less by as much as those of the calibration do, once for each name, since then it is in the
    caches again; but no less than that share. A call's own synchronisation counts as part of it.
    """
    recording = graph.trace.metadata.recording
    measured = sorted(recording.after_copies if recording else (), key=lambda entry: entry.size_bytes)
    if not measured:
        return graph
    sizes, issue, usual = np.array([(0, 1, 1)] + [(e.size_bytes, e.issue_ns, e.usual_ns) for e in measured], float).T
    sized = _staged_bytes(graph, copies)
    edges = graph.edges
    gaps = np.flatnonzero(edges.of_kind(Because.GAP))
    gaps = gaps[sized[edges.source[gaps] // 2] > 0]
    staged = sized[edges.source[gaps] // 2]
    extra = np.interp(staged, sizes, np.maximum(issue - usual, 0) / config.profiler.events_issued)
    share = np.interp(staged, sizes, np.minimum(usual / issue, 1))
    lag = edges.lag_ns.copy()
    usual = share * lag[gaps]
    less = np.maximum(usual, lag[gaps] - extra * kinds_in(graph, gaps))
    lag[gaps] = np.where(usual <= config.launch_gap_ns, usual, less).astype(np.int64)
    return graph.with_lags(lag)


def _staged_bytes(graph: Graph, copies: Int64) -> Int64:
    """For each call the bytes that some copies had it stage, also for the synchronisation that follows it."""
    work, table = graph.work, graph.trace.copies
    staged = np.zeros(len(graph.calls) + 1, np.int64)
    mine = copies[work.call[copies] != NO_ID]
    np.maximum.at(staged, work.call[mine], table.size_bytes[work.row[mine]])
    size_of = np.zeros(len(table) + 1, np.int64)
    size_of[work.row[mine]] = table.size_bytes[work.row[mine]]
    synchronised: Int64 = size_of[synchronised_copy(graph.trace)[graph.calls.row]]
    return np.maximum(staged[:-1], synchronised)
