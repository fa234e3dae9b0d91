"""Host threads that others feed: they are idle until another has got so far, which then goes on, as with a queue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from overlapscope.model.columns import NO_ID, Int64
from overlapscope.replay.chance import steady, unlikely
from overlapscope.replay.config import ReplayConfig
from overlapscope.replay.graph import Because, Edges, Graph
from overlapscope.replay.idle import Idle, Threads, idle_threads


def fed(graph: Graph, before: Int64, after: Int64, threads: Threads, config: ReplayConfig) -> tuple[Edges, Int64]:
    """What some gaps between two calls of a thread wait for, and for how long each.

    A thread is idle, and goes on shortly after another one's call of some name. That it does so by chance, each time,
    must be all but impossible; and it answers steadily, see `chance`.
    """
    calls, engine = graph.calls, threads.engine
    parts = [(np.empty((2, 0), np.int64), np.empty(0, np.int64))]
    for thread, idle in idle_threads(graph, calls.end_ns[before], after, threads, config):
        if len(idle.gap) < config.telling_times or engine[call := int(after[idle.gap[0]])]:
            continue
        others = np.unique(calls.owner[(calls.process == calls.process[call]) & ~engine])
        others = others[others != thread]
        for other in others.tolist():  # the more there are, the likelier is one by chance (Bonferroni)
            theirs = np.flatnonzero(calls.owner == other)
            parts += _caused(graph, theirs, idle, after, replace(config, chance=config.chance / len(others)))
    found = np.concatenate([pair for pair, _ in parts], axis=1)
    waited = np.concatenate([each for _, each in parts])
    latest = np.lexsort((-calls.end_ns[found[0]], found[1]))
    latest = latest[np.diff(found[1][latest], prepend=NO_ID) > 0]
    source, gap = found[:, latest]
    lag = calls.start_ns[after[gap]] - calls.end_ns[source]
    waited_ns = np.zeros(len(after), np.int64)
    waited_ns[gap] = waited[latest]
    return Edges.of(graph.call_end(source), graph.call_start(after[gap]), lag, Because.HANDOFF), waited_ns


def _caused(
    graph: Graph, theirs: Int64, idle: Idle, after: Int64, config: ReplayConfig
) -> Iterator[tuple[Int64, Int64]]:
    """Calls of another thread, each with the gap that it ended; and how long was waited for each.

    Calls and answers are told apart by their names.
    """
    calls = graph.calls
    names = graph.trace.api_calls.name_id[calls.row]
    waited = idle.end_ns - idle.start_ns
    cause = np.searchsorted(calls.end_ns[theirs], idle.end_ns, "right") - 1
    lag = idle.end_ns - calls.end_ns[theirs[cause]]
    within = (cause >= 0) & (lag <= waited)
    answers = names[after[idle.gap]].astype(np.int64)
    kinds = answers * len(graph.trace.names) + names[theirs[cause]]
    for kind in np.unique(kinds[within]).tolist():
        some = np.flatnonzero(within & (kinds == kind))
        if len(some) < config.telling_times or 2 * len(some) < int((answers == answers[some[0]]).sum()):
            continue
        causes = calls.end_ns[theirs[names[theirs] == names[theirs[cause[some[0]]]]]]
        first, last = (np.searchsorted(causes, each[some], "right") for each in (idle.start_ns, idle.end_ns))
        if unlikely(waited[some], lag[some], last - first, config.chance) and steady(lag[some], waited[some]):
            yield np.stack([theirs[cause[some]], idle.gap[some]]), waited[some]
