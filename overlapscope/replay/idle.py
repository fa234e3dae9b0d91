"""When host threads are busy, and where they idle for longer than Python takes between two calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from overlapscope.measure.spans import Spans, union
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.replay.autograd import by_autograd
from overlapscope.replay.config import ReplayConfig
from overlapscope.replay.graph import Graph


@dataclass(frozen=True, eq=False)
class Threads:
    """When each of a graph's threads, by its number, is ``busy`` with a call or an operator.

    ``engine`` says which of its calls are those of threads of torch's autograd engine.
    """

    busy: list[Spans]
    engine: Bool


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
    busy = []
    for first, past in pairwise([*calls.first.tolist(), len(calls)]):
        own = slice(first, past)
        rows = rows_of.get((int(calls.process[first]), int(calls.thread[first])), order[:0])
        start = np.concatenate([calls.start_ns[own], ops.start_ns[rows], affairs.start_ns])
        end = np.concatenate([calls.end_ns[own], ops.end_ns[rows], affairs.end_ns])
        busy.append(union(start, end))
    return Threads(busy, by_autograd(graph))


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
        mine, spans = long[owner == thread], threads.busy[thread]
        start, end = np.append(since_ns[mine[0]], spans.end_ns[:-1]), spans.start_ns
        gap = np.searchsorted(since_ns[mine], start, "right") - 1
        inside = (gap >= 0) & (end <= calls.start_ns[after[mine]][gap]) & (end - start > config.launch_gap_ns)
        gap, start, end = gap[inside], start[inside], end[inside]
        longest = np.lexsort((start - end, gap))
        longest = longest[np.diff(gap[longest], prepend=NO_ID) > 0]
        yield thread, Idle(mine[gap[longest]], start[longest], end[longest])
