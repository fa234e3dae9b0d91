"""When host threads are busy, and where they idle for longer than Python takes between two calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from overlapscope.measure.spans import Spans, union
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.replay.config import ReplayConfig
from overlapscope.replay.graph import Graph

Threads = list[Spans]
"""When each of a graph's threads, by its number, makes a call or runs an operator."""


@dataclass(frozen=True, eq=False)
class Idle:
    """The longest stretch of each gap of a thread in which it ran no operator: which gap, and from when to when."""

    gap: Int64
    start_ns: Int64
    end_ns: Int64


def busy_threads(graph: Graph) -> Threads:
    """All threads that make calls; what the profiler does for itself, it does on any."""
    calls, ops, affairs = graph.calls, graph.trace.cpu_ops, graph.trace.overheads
    order = np.lexsort((ops.thread, ops.process))
    process, thread = ops.process[order], ops.thread[order]
    parts = np.split(order, np.flatnonzero((np.diff(process) != 0) | (np.diff(thread) != 0)) + 1)
    rows_of = {(int(ops.process[rows[0]]), int(ops.thread[rows[0]])): rows for rows in parts if len(rows)}
    result = []
    for own in np.split(np.arange(len(calls)), np.flatnonzero(np.diff(calls.owner)) + 1):
        if len(own):
            rows = rows_of.get((int(calls.process[own[0]]), int(calls.thread[own[0]])), own[:0])
            start = np.concatenate([calls.start_ns[own], ops.start_ns[rows], affairs.start_ns])
            end = np.concatenate([calls.end_ns[own], ops.end_ns[rows], affairs.end_ns])
            result.append(union(start, end))
    return result


def idle_threads(
    graph: Graph, since_ns: Int64, after: Int64, threads: Threads, config: ReplayConfig
) -> Iterator[tuple[int, Idle]]:
    """Threads with long gaps before calls, and where each idles in its gaps.

    Each gap lasts from ``since_ns``, the end of the thread's last call or the begin of the trace, to the start of the
    call ``after`` it.
    """
    calls = graph.calls
    long = np.flatnonzero(calls.start_ns[after] - since_ns > config.launch_gap_ns)
    owner = calls.owner[after[long]]
    for thread in np.unique(owner).tolist():
        mine, spans = long[owner == thread], threads[thread]
        start, end = np.append(since_ns[mine[0]], spans.end_ns[:-1]), spans.start_ns
        gap = np.searchsorted(since_ns[mine], start, "right") - 1
        inside = (gap >= 0) & (end <= calls.start_ns[after[mine]][gap]) & (end - start > config.launch_gap_ns)
        gap, start, end = gap[inside], start[inside], end[inside]
        longest = np.lexsort((start - end, gap))
        longest = longest[np.diff(gap[longest], prepend=NO_ID) > 0]
        yield thread, Idle(mine[gap[longest]], start[longest], end[longest])
