"""The profiler's own cost, taken out of a graph.

A profiler spends host time for every event that it records: an operator, a range, a Python frame, a call. Where a trace
knows what its steps took without the profiler (`overlapscope.record`), the cost of an event is what makes the replayed
trace take that long; where that does not depend on it, or is not known, it is what issuing a tiny copy cost more under
the profiler, by the two events that this is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from overlapscope.model.columns import Int64
from overlapscope.replay.engine import replay
from overlapscope.replay.graph import Because, Graph

_EVENTS_PER_ISSUE = 2  # the operator and the call
_MOST_EVENT_NS = 10_000
_STEPS = 12  # of halving: to about 2 ns


def without_profiler(graph: Graph, event_ns: float) -> Graph:
    """The graph with this much less host time for every event recorded between two calls, and for each call."""
    edges = graph.edges
    gaps = np.flatnonzero(np.isin(edges.because, (Because.GAP, Because.HANDOFF)))
    lag = edges.lag_ns.copy()
    lag[gaps] = np.maximum(lag[gaps] - np.rint(event_ns * _events_in(graph, gaps)).astype(np.int64), 0)
    return replace(graph, edges=replace(edges, lag_ns=lag))


def _events_in(graph: Graph, gaps: Int64) -> Int64:
    """How many host events each gap contains, with the call after it."""
    trace, edges = graph.trace, graph.edges
    begin, end = graph.time_ns[edges.source[gaps]], graph.time_ns[edges.target[gaps]]
    call = edges.target[gaps] // 2
    process, thread = graph.calls.process[call], graph.calls.thread[call]
    count = np.ones(len(gaps), np.int64)
    for table in (trace.cpu_ops, trace.ranges, trace.frames):
        for owner in set(zip(process.tolist(), thread.tolist(), strict=True)):
            starts = table.start_ns[(table.process == owner[0]) & (table.thread == owner[1])]
            mine = (process == owner[0]) & (thread == owner[1])
            count[mine] += np.searchsorted(starts, end[mine]) - np.searchsorted(starts, begin[mine])
    return count


def event_cost_ns(graph: Graph) -> float | None:
    """What the profiler spent for an event; None where the trace does not know."""
    recording = graph.trace.metadata.recording
    if recording is None:
        return None
    issued, profiled = recording.issue_unprofiled, recording.issue_profiled
    least = 0.0
    if issued is not None and profiled is not None and issued.copy_ns and profiled.copy_ns:
        least = max(profiled.copy_ns - issued.copy_ns, 0) / _EVENTS_PER_ISSUE
    factor = recording.profiler_factor
    if factor is None:
        return least or None
    wanted = _length(graph) / factor
    low, high = least, float(_MOST_EVENT_NS)
    if _length(without_profiler(graph, low)) <= wanted:
        return least
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if _length(without_profiler(graph, middle)) <= wanted else (middle, high)
    return high


def _length(graph: Graph) -> int:
    times = replay(graph).time_ns
    return int(times.max() - times.min()) if len(times) else 0
