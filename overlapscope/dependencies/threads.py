"""Thread hand-offs: an idle thread goes on when others have finished what it waits for.

A trace records no locks, queues or joins between host threads. They show in time only: a thread is idle, others fall
silent in that stretch, and it goes on promptly after the last of them. One rule finds them. For each thread and each
group of others that fell silent in its idle stretches, how promptly it went on is compared with chance: by chance a
stretch ends anywhere, and is as near to the last beginning of a rest as that with the probability ``prompt``. These
probabilities are combined over all stretches into one test. Where a thread waits for another, it also hands work to
it: an accepted pair counts in both directions.

Threads of torch's autograd engine need no test: they work for the thread that called ``backward()``, which waits for
them and for nothing else meanwhile.

Source of the test: Zaykin et al., Truncated product method for combining P-values, Genetic Epidemiology 22, 2002.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import exp, lgamma, log, sqrt

import numpy as np

from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.measure.grouping import NEVER, at, first_from, rows_by_thread
from overlapscope.measure.places import named
from overlapscope.measure.spans import Spans, merge, spans_of, union
from overlapscope.model.columns import NO_ID, NO_TIME, Bool, Columnar, Float64, Int64

_AUTOGRAD_THREAD = "pt_autograd"  # what torch calls the threads of its engine
_AUTOGRAD_NODE = re.compile("^(autograd::engine::evaluate_function|torch::autograd::AccumulateGrad$)")
_IDLE_NS = 200_000
"""A thread without a call or operator for this long is idle, in ns.

Python between two calls takes 10 to 60 us under a profiler.
"""
_SIGNIFICANCE = 0.01
"""Level of the test for hand-offs."""
TRUNCATION = 0.25
"""A hand-off that is likelier than this by chance says nothing (truncated product method)."""
MOST_TESTED = 200
"""The test looks at this many idle stretches of a thread; more make it no surer."""
_LEAST = 1e-6  # shorter answers are no surer

Pair = tuple[int, int]
"""Two threads by their numbers: the second waits for the first."""


def hand_offs(graph: Graph) -> tuple[Dependencies, Int64]:
    """The dependencies by thread hand-offs: of the call with which a waiting thread goes on, on others' last calls.

    Returns:
        The dependencies, all inferred, and for each call how long its thread had been idle in such a wait, in ns.
    """
    threads = _threads(graph)
    accepted = {pair for pair in _accepted(threads) for pair in (pair, pair[::-1])}
    calls, idle_ns = graph.calls, np.zeros(len(graph.calls), np.int64)
    parts = [np.empty((2, 0), np.int64)]
    past = np.append(calls.first, len(calls))
    for other, waiting in sorted(accepted):
        idle = threads[waiting].idle
        rows = np.flatnonzero(_silence(threads[other].busy, idle).fell)
        ends = calls.end_ns[past[other] : past[other + 1]]
        source = past[other] + np.searchsorted(ends, idle.end_ns[rows], "right") - 1
        known = (source >= past[other]) & (calls.end_ns[source] <= calls.start_ns[idle.call[rows]])
        parts.append(np.stack([source, idle.call[rows]])[:, known])
        idle_ns[idle.call[rows[known]]] = (idle.end_ns - idle.start_ns)[rows[known]]
    source, target = np.concatenate(parts, axis=1)
    latest = np.full(len(calls), NO_TIME)
    np.maximum.at(latest, target, calls.end_ns[source])
    after_ns, nodes = calls.start_ns[target] - latest[target], (graph.call_end(source), graph.call_start(target))
    return Dependencies.of(*nodes, after_ns, DependencyKind.THREAD_HANDOFF, inferred=True), idle_ns


@dataclass(frozen=True, eq=False)
class _Idle(Columnar):
    """The longest idle stretch before each of some calls of a thread."""

    call: Int64
    start_ns: Int64
    end_ns: Int64

    def sample(self, most: int) -> _Idle:
        """At most so many of them, spread evenly."""
        return self.take(np.unique(np.linspace(0, len(self) - 1, min(most, len(self))).astype(np.int64)))


@dataclass(frozen=True, eq=False)
class _Thread:
    """A thread that makes calls: when it is busy with a call or an operator, and where it is idle between."""

    process: int
    busy: Spans
    idle: _Idle
    autograd: bool


@dataclass(frozen=True, eq=False)
class _Silence:
    """Whether others were active in each idle stretch of a thread, whether all fell silent in it, and since when."""

    active: Bool
    fell: Bool
    since_ns: Int64


def _threads(graph: Graph) -> list[_Thread]:
    """All threads with calls, by their numbers; the profiler's own overhead counts as busy on each."""
    calls, trace = graph.calls, graph.trace
    overhead = spans_of(trace.overheads)
    ops_of = rows_by_thread(trace.cpu_ops.process, trace.cpu_ops.thread)
    begins = {
        process: min(
            int(table.start_ns[table.process == process].min(initial=NEVER))
            for table in (calls, trace.cpu_ops, trace.ranges)
        )
        for process in np.unique(calls.process).tolist()
    }
    autograd, threads = autograd_threads(graph), []
    for first, past in pairwise([*calls.first.tolist(), len(calls)]):
        owner = int(calls.process[first]), int(calls.thread[first])
        ran = spans_of(trace.cpu_ops, ops_of.get(owner, slice(0)))
        busy = merge(union(calls.start_ns[first:past], calls.end_ns[first:past]), ran, overhead)
        idle = _idle(busy, begins[owner[0]], np.arange(first, past), calls.start_ns[first:past])
        threads.append(_Thread(owner[0], busy, idle, owner in autograd))
    return threads


def autograd_threads(graph: Graph) -> set[Pair]:
    """Process and thread of torch's autograd engine: by the names of threads, else by the operators that they ran."""
    ops, names = graph.trace.cpu_ops, graph.trace.metadata.thread_names
    ran = ops.take(named(ops, _AUTOGRAD_NODE))
    return {place for place, name in names.items() if _AUTOGRAD_THREAD in name} | set(ran.threads)


def _idle(busy: Spans, begin_ns: int, call: Int64, start_ns: Int64) -> _Idle:
    """Idle stretches: the time between two busy spans, or since the trace began, the longest before each call."""
    start, end = np.append(begin_ns, busy.end_ns[:-1]), busy.start_ns
    stretches = _Idle(first_from(call, start_ns, end), start, end)
    stretches = stretches.take((stretches.call != NO_ID) & (end - start > _IDLE_NS))
    longest = np.lexsort((stretches.start_ns - stretches.end_ns, stretches.call))
    return stretches.take(longest[np.diff(stretches.call[longest], prepend=NO_ID) > 0])


def _accepted(threads: list[_Thread]) -> Iterator[Pair]:
    """Pairs of threads of which one waits for the other."""
    called = {number: _caller(threads, number) for number, each in enumerate(threads) if each.autograd}
    yield from ((caller, number) for number, caller in called.items() if caller is not None)
    for waiting, thread in enumerate(threads):
        if thread.autograd:
            continue
        idle = thread.idle
        for engine in (number for number, caller in called.items() if caller == waiting):
            idle = idle.take(~_silence(threads[engine].busy, idle).active)  # it waited for that
        idle = idle.sample(MOST_TESTED)
        silence = _silences(threads, waiting, idle)
        for group, level in _groups(silence, _SIGNIFICANCE, len(threads)):
            if len(group) == 1 and not _may_be_significant(silence[group[0]], idle):
                continue
            busy = merge(*(threads[number].busy for number in group))
            if significance(_prompt(busy, idle), TRUNCATION) <= level:
                yield from ((number, waiting) for number in group)


def _silences(threads: list[_Thread], waiting: int, idle: _Idle) -> dict[int, _Silence]:
    """Other threads of the process that fell silent in idle stretches of one; autograd's work for their caller only."""
    peers = (
        number
        for number, each in enumerate(threads)
        if number != waiting and each.process == threads[waiting].process and not each.autograd
    )
    silences = {number: _silence(threads[number].busy, idle) for number in peers}
    return {number: silence for number, silence in silences.items() if silence.fell.any()}


def _caller(threads: list[_Thread], waiting: int) -> int | None:
    """The thread that an autograd thread works for: the one that it follows most closely."""
    idle = threads[waiting].idle.sample(MOST_TESTED)
    after = {
        number: float(np.median((idle.end_ns - silence.since_ns)[silence.fell]))
        for number, silence in _silences(threads, waiting, idle).items()
    }
    return min(after, key=lambda number: after[number], default=None)


def _groups(silence: dict[int, _Silence], level: float, threads: int) -> Iterator[tuple[list[int], float]]:
    """The threads that one may have waited for, with the level of the test: all silent when it went on, or one.

    The more threads and groups, the likelier is one by chance: the level is divided by their number (Bonferroni).
    A thread that was seen to wait once is tested at the level itself.
    """
    active = np.array([each.active for each in silence.values()])
    seen = active.any(axis=0).sum() if len(active) else 0
    together = [
        number
        for number, each in silence.items()
        if not (each.active & ~each.fell).any() and 2 * each.active.sum() >= seen
    ]
    if together:
        yield together, level if seen == 1 else level / threads
    for number in silence:
        if [number] != together:
            yield [number], level / threads / len(silence)


def _may_be_significant(silence: _Silence, idle: _Idle) -> bool:
    """Whether answers are shorter than chance makes them by two standard deviations; others reach no level.

    The logarithms of those up to the truncation are summed, as in the test. No answer is less likely by chance than
    its share of the stretch.
    """
    fell, mean = silence.fell, log(1 / TRUNCATION) + 1
    near = (idle.end_ns - silence.since_ns)[fell] / (idle.end_ns - idle.start_ns)[fell]
    total = float(-np.log(np.clip(near[near <= TRUNCATION], _LEAST, 1)).sum())
    expected = int(silence.active.sum()) * TRUNCATION
    return total > expected * mean + 2 * sqrt(expected * (1 + (1 - TRUNCATION) * mean**2))


def _silence(busy: Spans, idle: _Idle) -> _Silence:
    ended = np.searchsorted(busy.end_ns, idle.end_ns, "right")
    begun = np.searchsorted(busy.start_ns, idle.end_ns)
    since = at(busy.end_ns, ended - 1, 0)
    recent = (ended > 0) & (since > idle.start_ns)
    active = (begun > np.searchsorted(busy.start_ns, idle.start_ns)) | recent
    return _Silence(active, recent & (ended == begun), since)


def _prompt(busy: Spans, idle: _Idle) -> Float64:
    """For each idle stretch in which others were active, how likely it would end so promptly by chance.

    The share of the stretch that lies as near after the beginning of one of the others' rests. A rest is longer than
    Python takes between two calls.
    """
    silence = _silence(busy, idle)
    rest, until = busy.end_ns, np.append(busy.start_ns[1:], NEVER)[: len(busy)]
    long = until - rest >= _IDLE_NS
    rest, until = rest[long], until[long]
    first, past = (np.searchsorted(rest, moment, "right") for moment in (idle.start_ns, idle.end_ns))
    answers = silence.fell & (past > 0) & (at(rest, past - 1, 0) == silence.since_ns)
    by_chance = np.ones(len(idle.call))
    for row in np.flatnonzero(answers).tolist():
        rests = slice(first[row], past[row])
        after = idle.end_ns[row] - silence.since_ns[row]
        near = np.minimum(np.minimum(until[rests], idle.end_ns[row]) - rest[rests], after).sum()
        by_chance[row] = min(near / (idle.end_ns[row] - idle.start_ns[row]), 1.0)
    return by_chance[silence.active]


def significance(by_chance: Float64, truncation: float) -> float:
    """The probability that chance gives values as small as these; only values up to ``truncation`` count.

    The truncated product method: the probability that the product of those up to the truncation is as small.

    >>> round(significance(np.array([0.01, 0.8, 0.9]), 0.25), 3)
    0.096
    """
    count, small = len(by_chance), np.clip(by_chance[by_chance <= truncation], _LEAST, 1)
    if not len(small):
        return 1.0
    product, total = float(np.log(small).sum()), 0.0
    for number in range(1, count + 1):
        times = lgamma(count + 1) - lgamma(number + 1) - lgamma(count - number + 1)
        times += (count - number) * log(1 - truncation)
        total += exp(min(times + _log_product_below(number, product, truncation), 0.0))
    return min(total, 1.0)


def _log_product_below(count: int, product: float, truncation: float) -> float:
    """Log of the probability that so many uniform numbers up to the truncation have at most this log product."""
    beyond = count * log(truncation) - product
    if beyond <= 0:
        return count * log(truncation)
    terms = np.arange(count)
    factorials = np.cumsum(np.log(np.maximum(terms, 1)))
    return product + float(np.logaddexp.reduce(terms * log(beyond) - factorials))
