"""Host threads that wait until several others have nothing more to do, as one that hands out work does."""

from __future__ import annotations

import numpy as np

from overlapscope.measure.spans import Spans
from overlapscope.model.columns import Int64
from overlapscope.replay.autograd import by_autograd
from overlapscope.replay.chance import steady, unlikely
from overlapscope.replay.config import ReplayConfig
from overlapscope.replay.graph import Because, Edges, Graph
from overlapscope.replay.idle import Idle, busy, idle_threads

_SEVERAL = 2  # of one, two other modules tell more


def joins(graph: Graph, since_ns: Int64, after: Int64, config: ReplayConfig) -> Edges:
    """From the last calls of other threads to the call with which a thread goes on that waited for all of them.

    It is idle while several others are busy, and goes on when none is any more. That this is so by chance, each time,
    must be all but impossible. Where there is one other, the two take turns, or the one feeds the other, unless it is the
    thread's first call; autograd's threads work for the one that asks for gradients.
    """
    engine = by_autograd(graph)
    calls, ops = graph.calls, graph.trace.cpu_ops
    names = graph.trace.api_calls.name_id[calls.row]
    parts = [Edges.none()]
    for call, idle in idle_threads(graph, since_ns, after, config):
        if engine[call]:
            continue
        others = (calls.process == calls.process[call]) & (calls.owner != calls.owner[call]) & ~engine
        theirs = (ops.process == calls.process[call]) & np.isin(ops.thread, calls.thread[others])
        last = _last_calls(graph, others, idle)
        lag, causes = _at_rest(busy(graph, others, theirs), idle)
        first = calls.owner[after[idle.gap] - 1] != calls.owner[call]
        causes[np.array([len(each) for each in last], np.int64) < np.where(first, 1, _SEVERAL)] = 0
        answers = names[after[idle.gap]]
        for name in np.unique(answers[causes > 0]).tolist():
            some = np.flatnonzero((answers == name) & (causes > 0))
            silence = idle.end_ns[some] - idle.start_ns[some]
            usual = 2 * len(some) >= int((answers == name).sum()) and steady(lag[some], silence)
            if usual and unlikely(silence, lag[some], causes[some], config.chance):
                parts += [_joined(graph, last[each], int(after[idle.gap[each]])) for each in some.tolist()]
    return Edges.together(*parts)


def _last_calls(graph: Graph, others: Int64, idle: Idle) -> list[Int64]:
    """For each idle stretch the last call of every other thread that ended in it."""
    calls, theirs = graph.calls, np.flatnonzero(others)
    theirs = theirs[np.argsort(calls.end_ns[theirs], kind="stable")]
    first, past = (np.searchsorted(calls.end_ns[theirs], each, "right") for each in (idle.start_ns, idle.end_ns))
    result = []
    for begin, end in zip(first.tolist(), past.tolist(), strict=True):
        latest = theirs[begin:end][::-1]
        result.append(latest[np.unique(calls.owner[latest], return_index=True)[1]])
    return result


def _at_rest(rests: Spans, idle: Idle) -> tuple[Int64, Int64]:
    """How long the others have been at rest where each idle stretch ends, and how often they rested as long in it.

    Never, where one of them is still busy then, or none was before.
    """
    until = np.append(rests.start_ns[1:], np.iinfo(np.int64).max)  # each rest begins with the end of a span
    last = np.searchsorted(rests.end_ns, idle.end_ns, "right") - 1
    causes = np.zeros(len(idle.gap), np.int64)
    since = idle.start_ns.copy()
    for index in np.flatnonzero(last >= 0).tolist():
        first = int(np.searchsorted(rests.end_ns, idle.start_ns[index], "right"))
        if first <= last[index] and until[last[index]] >= idle.end_ns[index]:
            some = slice(first, int(last[index]) + 1)
            length = until[some] - rests.end_ns[some]
            since[index], causes[index] = rests.end_ns[some][-1], (length >= length[-1]).sum()
    return idle.end_ns - since, causes


def _joined(graph: Graph, last: Int64, call: int) -> Edges:
    """A call follows each of these, and comes as long after the latest as it did."""
    calls = graph.calls
    lag = int(calls.start_ns[call] - calls.end_ns[last].max())
    return Edges.of(graph.call_end(last), graph.call_start(np.full(len(last), call)), lag, Because.HANDOFF)
