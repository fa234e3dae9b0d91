"""Where host threads neither call CUDA nor run operators for longer than Python takes between two calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from overlapscope.measure.spans import Spans, union
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.replay.config import ReplayConfig
from overlapscope.replay.graph import Graph


@dataclass(frozen=True, eq=False)
class Idle:
    """The longest stretch of each gap of a thread in which it ran no operator: which gap, and from when to when."""

    gap: Int64
    start_ns: Int64
    end_ns: Int64


def idle_threads(graph: Graph, since_ns: Int64, after: Int64, config: ReplayConfig) -> Iterator[tuple[int, Idle]]:
    """Threads with long gaps before calls: one of those, and where the thread idles in its gaps.

    Each gap lasts from ``since_ns``, the end of the thread's last call or the begin of the trace, to the start of the
    call ``after`` it.
    """
    calls, ops = graph.calls, graph.trace.cpu_ops
    long = calls.start_ns[after] - since_ns > config.launch_gap_ns
    for owner in np.unique(calls.owner[after[long]]).tolist():
        mine = np.flatnonzero(long & (calls.owner[after] == owner))
        first = int(after[mine[0]])
        own = (ops.process == calls.process[first]) & (ops.thread == calls.thread[first])
        spans = busy(graph, calls.owner == owner, own)
        start, end = np.append(since_ns[mine[0]], spans.end_ns[:-1]), spans.start_ns
        gap = np.searchsorted(since_ns[mine], start, "right") - 1
        inside = (gap >= 0) & (end <= calls.start_ns[after[mine]][gap]) & (end - start > config.launch_gap_ns)
        gap, start, end = gap[inside], start[inside], end[inside]
        longest = np.lexsort((start - end, gap))
        longest = longest[np.diff(gap[longest], prepend=NO_ID) > 0]
        yield first, Idle(mine[gap[longest]], start[longest], end[longest])


def busy(graph: Graph, calls: Bool, ops: Bool) -> Spans:
    """When any of these calls and operators was running."""
    table, trace = graph.calls, graph.trace
    return union(
        np.concatenate([table.start_ns[calls], trace.cpu_ops.start_ns[ops]]),
        np.concatenate([table.end_ns[calls], trace.cpu_ops.end_ns[ops]]),
    )
