"""Host threads that take turns: work that goes from a silent one to another and back, as a backward pass does."""

from __future__ import annotations

import numpy as np

from overlapscope.measure.places import following
from overlapscope.measure.spans import covered, union
from overlapscope.model.columns import NO_ID, NO_TIME, Bool, Int64
from overlapscope.replay.autograd import threads_told
from overlapscope.replay.chance import steady, unlikely
from overlapscope.replay.config import ReplayConfig
from overlapscope.replay.graph import Because, Edges, Graph


def turns(graph: Graph, before: Int64, after: Int64, engine: Bool, config: ReplayConfig) -> Edges:
    """Work that goes from a silent thread to another and back, as a backward pass does.

    A thread makes no call between ``before`` and ``after``; if another one's calls lie wholly within and it was
    silent on both sides, the first of these follows ``before``, and ``after`` follows the last. Any two threads
    take turns like that, though; those that wait for each other answer promptly, see `_prompt`. Of several that a call
    may answer it is one of autograd's ``engine``, else the latest.
    """
    calls = graph.calls
    idle = ~_at_work(graph, before, after)
    parts = [np.empty((4, 0), np.int64)]
    threads = sorted(set(zip(calls.process.tolist(), calls.thread.tolist(), strict=True)))
    for process, thread in threads:
        theirs = np.flatnonzero((calls.process == process) & (calls.thread == thread))
        gaps = (calls.process[before] == process) & (calls.thread[before] != thread)
        one, two = before[gaps], after[gaps]
        if not len(one) or not len(theirs):
            continue
        first = np.searchsorted(calls.start_ns[theirs], calls.end_ns[one])
        last = np.searchsorted(calls.end_ns[theirs], calls.start_ns[two], "right") - 1
        alone = (last >= first) & (first < len(theirs))
        begun = np.append(calls.start_ns[theirs], np.iinfo(np.int64).max)
        alone &= begun[last + 1] >= calls.start_ns[two]
        alone &= idle[gaps] & (calls.start_ns[two] - calls.end_ns[one] > config.near_ns)  # else nothing was waited for
        parts.append(np.stack([one[alone], two[alone], theirs[first[alone]], theirs[last[alone]]]))
    one, two, first, last = np.concatenate(parts, axis=1)
    source, target = np.concatenate([one, last]), np.concatenate([first, two])
    real = _prompt(graph, source, target)
    source, target = source[real], target[real]
    real = _may_wait(graph, source, target, engine, config)
    source, target = source[real], target[real]
    lag = calls.start_ns[target] - calls.end_ns[source]
    latest = np.lexsort((lag, ~(engine[source] | engine[target]), target))
    latest = latest[np.diff(target[latest], prepend=NO_ID) > 0]
    source, target, lag = source[latest], target[latest], lag[latest]
    return Edges.of(graph.call_end(source), graph.call_start(target), lag, Because.HANDOFF)


def _prompt(graph: Graph, asked: Int64, answer: Int64) -> Bool:
    """Which of the turns that threads take are those of a thread that waits for the one that it answers.

    Threads that have nothing to do with each other go on at any moment of their silence, so that half of the answers
    come in the second half of it; where these are more than a quarter, by the time of the silence, the two count as
    such. Threads that wait for each other meet by chance too, when both are busy, but that is in short silences.
    An answer begins with the thread's first operator, where these are known.
    """
    calls = graph.calls
    silent = _silence_ns(graph, answer)
    late = 2 * (_active_from(graph, asked, answer) - calls.end_ns[asked]) > silent
    which = _pairs(graph, asked, answer)
    turns, random = (np.bincount(which, time) for time in (silent, silent * late))
    prompt: Bool = (4 * random <= turns)[which]
    return prompt


def _may_wait(graph: Graph, asked: Int64, answer: Int64, engine: Bool, config: ReplayConfig) -> Bool:
    """Which of these pairs of threads may wait for each other, where the trace tells which are autograd's.

    Such a thread works for the one whose calls come right before its own. Others do not answer by chance.
    """
    calls, owner = graph.calls, graph.calls.owner
    may = np.ones(len(asked), np.bool_)
    if not len(asked) or not threads_told(graph):
        return may
    engines = np.unique(owner[engine])
    lag = calls.start_ns[answer] - calls.end_ns[asked]
    which, one, two = _pairs(graph, asked, answer), owner[asked], owner[answer]
    medians = {pair: float(np.median(lag[which == pair])) for pair in np.unique(which).tolist()}
    for number in engines.tolist():
        before = np.unique(which[two == number]).tolist()
        if before:
            works_for = one[which == min(before, key=lambda pair: medians[pair])][0]
            may &= (two != number) | (one == works_for)
            may &= (one != number) | (two == works_for)
    for pair in np.unique(which[~np.isin(one, engines) & ~np.isin(two, engines)]).tolist():
        mine = which == pair
        may[mine] &= mine.sum() < config.telling_times or _answers(graph, asked[mine], answer[mine], config)
    return may


def _answers(graph: Graph, asked: Int64, answer: Int64, config: ReplayConfig) -> bool:
    """Whether one thread answers another: not by chance, or in times that differ far less than its silences."""
    calls = graph.calls
    names = graph.trace.api_calls.name_id[calls.row]
    like = (calls.owner == calls.owner[asked[0]]) & np.isin(names, names[asked])
    silence = _silence_ns(graph, answer)
    end, lag = calls.start_ns[answer], calls.start_ns[answer] - calls.end_ns[asked]
    first, last = (np.searchsorted(calls.end_ns[like], each, "right") for each in (end - silence, end))
    return unlikely(silence, lag, last - first, config.chance) or steady(lag, silence, 2.0)


def _pairs(graph: Graph, asked: Int64, answer: Int64) -> Int64:
    """A number for the two threads of each turn."""
    owner = graph.calls.owner
    pairs: Int64 = np.unique(owner[asked] * (len(graph.calls) + 1) + owner[answer], return_inverse=True)[1]
    return pairs


def _silence_ns(graph: Graph, answer: Int64) -> Int64:
    """How long the thread of each answer had made no call; 0 for its first."""
    calls = graph.calls
    own = (answer > 0) & (calls.owner[answer - 1] == calls.owner[answer])
    return np.where(own, calls.start_ns[answer] - calls.end_ns[answer - 1], 0)


def _active_from(graph: Graph, asked: Int64, answer: Int64) -> Int64:
    """When threads begin to do something between a call of another thread and their own answer to it."""
    calls, ops = graph.calls, graph.trace.cpu_ops
    first = following(ops, calls.process[answer], calls.thread[answer], calls.end_ns[asked])
    begins = np.append(ops.start_ns, NO_TIME)[first]
    return np.where(first == NO_ID, calls.start_ns[answer], np.minimum(begins, calls.start_ns[answer]))


def _at_work(graph: Graph, before: Int64, after: Int64) -> Bool:
    """Whether a thread ran operators for most of the time between two of its calls: then it waited for no other."""
    calls, ops = graph.calls, graph.trace.cpu_ops
    result = np.zeros(len(before), np.bool_)
    for process, thread in set(zip(calls.process[before].tolist(), calls.thread[before].tolist(), strict=True)):
        mine = (calls.process[before] == process) & (calls.thread[before] == thread)
        own = (ops.process == process) & (ops.thread == thread)
        begin, end = calls.end_ns[before[mine]], calls.start_ns[after[mine]]
        result[mine] = 2 * covered(begin, end, union(ops.start_ns[own], ops.end_ns[own])) > end - begin
    return result
