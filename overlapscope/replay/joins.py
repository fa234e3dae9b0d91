"""Host threads that wait until several others have nothing more to do, as one that hands out work does."""

from __future__ import annotations

import numpy as np

from overlapscope.measure.spans import Spans, union
from overlapscope.model.columns import Bool, Float64, Int64
from overlapscope.replay.chance import together
from overlapscope.replay.config import ReplayConfig
from overlapscope.replay.graph import Because, Edges, Graph
from overlapscope.replay.idle import Idle, Threads, idle_threads

_SEVERAL = 2  # with one, a thread takes turns, or is fed by it


def joins(graph: Graph, since_ns: Int64, threads: Threads, config: ReplayConfig) -> Edges:
    """From the last calls of other threads to the call with which a thread goes on that waited for all of them.

    It is idle while they are busy, and goes on when none of them is any more, each time; that it does so by chance is
    no likelier than ``config.chance``, for all threads together. A thread's first call may wait for one, and is held
    against chance by itself; autograd's threads work for the one that asks for gradients.
    """
    calls, engine = graph.calls, threads.engine
    first = calls.first
    names = graph.trace.api_calls.name_id[calls.row]
    parts = [Edges.none()]
    for thread, idle in idle_threads(graph, since_ns, np.arange(len(calls)), threads, config):
        same = (calls.process[first] == calls.process[first[thread]]) & ~engine[first]
        others = np.flatnonzero(same & (np.arange(len(first)) != thread))
        if engine[first[thread]] or not len(others):
            continue
        busy, silent = _active(threads, others, idle)
        met = busy.any(0)
        for name in np.unique(names[idle.gap[met]]).tolist():
            mine = np.flatnonzero((names[idle.gap] == name) & met)
            pool = others[(2 * busy[:, mine].sum(1) >= len(mine)) & silent[:, mine].all(1)]
            once = len(mine) == 1 and idle.gap[mine[0]] == first[thread]
            level = config.chance if once else config.chance / len(first)  # one of many (Bonferroni)
            if len(pool) < (1 if once else _SEVERAL):
                continue
            by_chance = _at_rest(_any(threads, pool), idle, mine, config)
            if together(by_chance) <= level:
                waits = mine[by_chance < 1]
                parts += [_joined(graph, pool, idle.end_ns[each], idle.gap[each]) for each in waits]
    return Edges.together(*parts)


def _active(threads: Threads, others: Int64, idle: Idle) -> tuple[Bool, Bool]:
    """Which of the others did something in each idle stretch, and which did nothing when it ended."""
    busy, silent = np.zeros((2, len(others), len(idle.gap)), np.bool_)
    for row, other in enumerate(others.tolist()):
        spans = threads.busy[other]
        until = np.append(spans.start_ns, np.iinfo(np.int64).max)
        past = np.searchsorted(spans.end_ns, idle.end_ns, "right")
        busy[row] = past > np.searchsorted(spans.end_ns, idle.start_ns, "right")
        silent[row] = until[past] >= idle.end_ns
    return busy, silent


def _any(threads: Threads, some: Int64) -> Spans:
    """When any of these is busy."""
    parts = [threads.busy[each] for each in some]
    start, end = (np.concatenate([getattr(part, edge) for part in parts]) for edge in ("start_ns", "end_ns"))
    return union(start, end)


def _at_rest(busy: Spans, idle: Idle, some: Int64, config: ReplayConfig) -> Float64:
    """How likely it is by chance that some idle stretches ended so soon after others had come to rest.

    A rest is longer than Python between two calls, unless one of these is not. By chance a stretch ends anywhere: so
    soon after the begin of any rest in it, or at another moment.
    """
    since, until = busy.end_ns, np.append(busy.start_ns[1:], np.iinfo(np.int64).max)[: len(busy)]
    start, now = idle.start_ns[some], idle.end_ns[some]
    last = np.searchsorted(since, now, "right") - 1
    rested = (last >= 0) & (since[last] > start)
    least = min((until - since)[last[rested]].min(initial=config.launch_gap_ns), config.launch_gap_ns)
    since, until = since[until - since >= least], until[until - since >= least]
    by_chance = np.ones(len(some))
    for index in np.flatnonzero(rested).tolist():
        rests = slice(*np.searchsorted(since, [start[index], now[index]], "right"))
        soon = np.minimum(until[rests] - since[rests], now[index] - since[rests][-1]).sum()
        by_chance[index] = min(soon / (now[index] - start[index]), 1)
    return by_chance


def _joined(graph: Graph, pool: Int64, end_ns: int, call: int) -> Edges:
    """A call follows the last ones of these threads before a moment, and comes as long after the latest as it did."""
    calls = graph.calls
    past = np.append(calls.first, len(calls))
    last = np.array([np.searchsorted(calls.end_ns[past[own] : past[own + 1]], end_ns, "right") for own in pool])
    source = (past[pool] + last - 1)[last > 0]
    source = source[calls.end_ns[source] <= end_ns]  # calls of a thread overlap in a trace that is not sound
    lag = int(calls.start_ns[call] - calls.end_ns[source].max(initial=0))
    return Edges.of(graph.call_end(source), graph.call_start(np.full(len(source), call)), lag, Because.HANDOFF)
