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

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import exp, lgamma, log, sqrt

import numpy as np

from overlapscope.dependencies.config import DependencyConfig
from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.measure.spans import Spans, merge, union
from overlapscope.measure.threads import rows_by_thread
from overlapscope.model.columns import NO_ID, Bool, Float64, Int64

_AUTOGRAD_THREAD = "pt_autograd"  # what torch calls the threads of its engine
_AUTOGRAD_NODE = "autograd::engine::evaluate_function"
_NEVER = np.iinfo(np.int64).max
_LEAST = 1e-6  # shorter answers are no surer

Pair = tuple[int, int]
"""Two threads by their numbers: the second waits for the first."""


def hand_offs(graph: Graph, config: DependencyConfig) -> tuple[Dependencies, Int64]:
    """From the last calls of threads to the call with which a thread that waited for them goes on.

    Returns:
        The dependencies, all inferred, and for each call how long its thread had been idle in such a wait, in ns.
    """
    threads = _threads(graph, config)
    accepted = {pair for pair in _accepted(threads, config) for pair in (pair, pair[::-1])}
    calls, idle_ns = graph.calls, np.zeros(len(graph.calls), np.int64)
    parts = [np.empty((2, 0), np.int64)]
    past = np.append(calls.first, len(calls))
    for other, mine in sorted(accepted):
        idle = threads[mine].idle
        rows = np.flatnonzero(_silence(threads[other].busy, idle).fell)
        ends = calls.end_ns[past[other] : past[other + 1]]
        source = past[other] + np.searchsorted(ends, idle.end_ns[rows], "right") - 1
        known = (source >= past[other]) & (calls.end_ns[source] <= calls.start_ns[idle.call[rows]])
        parts.append(np.stack([source, idle.call[rows]])[:, known])
        idle_ns[idle.call[rows[known]]] = (idle.end_ns - idle.start_ns)[rows[known]]
    source, target = np.concatenate(parts, axis=1)
    latest = np.full(len(calls), np.iinfo(np.int64).min)
    np.maximum.at(latest, target, calls.end_ns[source])
    after_ns = calls.start_ns[target] - latest[target]
    found = Dependencies.of(
        graph.call_end(source), graph.call_start(target), after_ns, DependencyKind.THREAD_HANDOFF, inferred=True
    )
    return found, idle_ns


@dataclass(frozen=True, eq=False)
class _Idle:
    """The longest idle stretch before each of some calls of a thread."""

    call: Int64
    start_ns: Int64
    end_ns: Int64

    def take(self, rows: Bool | Int64) -> _Idle:
        """Some of them."""
        return _Idle(self.call[rows], self.start_ns[rows], self.end_ns[rows])

    def some(self, most: int) -> _Idle:
        """At most so many of them, spread evenly."""
        return self.take(np.unique(np.linspace(0, len(self.call) - 1, min(most, len(self.call))).astype(np.int64)))


@dataclass(frozen=True, eq=False)
class _Thread:
    """A thread that makes calls: when it is busy with a call or an operator, and where it is idle between."""

    process: int
    busy: Spans
    idle: _Idle
    autograd: bool


@dataclass(frozen=True, eq=False)
class _Silence:
    """For each idle stretch of a thread: were others active in it, did all fall silent in it, and since when."""

    active: Bool
    fell: Bool
    since_ns: Int64


def _threads(graph: Graph, config: DependencyConfig) -> list[_Thread]:
    """All threads with calls, by their numbers; the profiler's own overhead counts as busy on each."""
    calls, trace = graph.calls, graph.trace
    overhead = union(trace.overheads.start_ns, trace.overheads.end_ns)
    ops_of = rows_by_thread(trace.cpu_ops.process, trace.cpu_ops.thread)
    begins = {
        process: min(
            int(table.start_ns[table.process == process].min(initial=_NEVER))
            for table in (calls, trace.cpu_ops, trace.ranges)
        )
        for process in np.unique(calls.process).tolist()
    }
    autograd, found = autograd_threads(graph), []
    for first, past in pairwise([*calls.first.tolist(), len(calls)]):
        owner = int(calls.process[first]), int(calls.thread[first])
        ops = ops_of.get(owner, np.empty(0, np.int64))
        busy = merge(
            union(calls.start_ns[first:past], calls.end_ns[first:past]),
            union(trace.cpu_ops.start_ns[ops], trace.cpu_ops.end_ns[ops]),
            overhead,
        )
        idle = _idle(busy, begins[owner[0]], np.arange(first, past), calls.start_ns[first:past], config)
        found.append(_Thread(owner[0], busy, idle, owner in autograd))
    return found


def autograd_threads(graph: Graph) -> set[Pair]:
    """Process and thread of torch's autograd engine: by the names of threads, else by the operators that they ran."""
    trace = graph.trace
    ops = trace.cpu_ops
    nodes = [index for index, name in enumerate(trace.names.values) if name.startswith(_AUTOGRAD_NODE)]
    ran = np.isin(ops.name_id, nodes)
    named = {place for place, name in trace.metadata.thread_names.items() if _AUTOGRAD_THREAD in name}
    return named | set(zip(ops.process[ran].tolist(), ops.thread[ran].tolist(), strict=True))


def _idle(busy: Spans, begin_ns: int, call: Int64, start_ns: Int64, config: DependencyConfig) -> _Idle:
    """Idle stretches: the time between two busy spans, or since the trace began, the longest before each call."""
    start, end = np.append(begin_ns, busy.end_ns[:-1]), busy.start_ns
    following = np.searchsorted(start_ns, end)
    some = (following < len(call)) & (end - start > config.idle_ns)
    start, end, following = start[some], end[some], following[some]
    longest = np.lexsort((start - end, following))
    longest = longest[np.diff(following[longest], prepend=NO_ID) > 0]
    return _Idle(call[following[longest]], start[longest], end[longest])


def _accepted(threads: list[_Thread], config: DependencyConfig) -> Iterator[Pair]:
    """Pairs of threads of which one waits for the other."""
    called = {number: _caller(threads, number, config) for number, each in enumerate(threads) if each.autograd}
    yield from ((caller, number) for number, caller in called.items() if caller is not None)
    for mine, thread in enumerate(threads):
        if thread.autograd:
            continue
        idle = thread.idle
        for engine in (number for number, caller in called.items() if caller == mine):
            idle = idle.take(~_silence(threads[engine].busy, idle).active)  # it waited for that
        idle = idle.some(config.most_tested)
        silence = _silences(threads, mine, idle)
        for group, level in _groups(silence, config.significance, len(threads)):
            if len(group) == 1 and not _may_be_significant(silence[group[0]], idle, config):
                continue
            busy = merge(*(threads[number].busy for number in group))
            if significance(_prompt(busy, idle, config), config.truncation) <= level:
                yield from ((number, mine) for number in group)


def _silences(threads: list[_Thread], mine: int, idle: _Idle) -> dict[int, _Silence]:
    """Other threads of the process that fell silent in idle stretches of one; autograd's work for their caller only."""
    peers = (
        number
        for number, each in enumerate(threads)
        if number != mine and each.process == threads[mine].process and not each.autograd
    )
    silence = {number: _silence(threads[number].busy, idle) for number in peers}
    return {number: found for number, found in silence.items() if found.fell.any()}


def _caller(threads: list[_Thread], mine: int, config: DependencyConfig) -> int | None:
    """The thread that an autograd thread works for: the one that it follows most closely."""
    idle = threads[mine].idle.some(config.most_tested)
    after = {
        number: float(np.median((idle.end_ns - found.since_ns)[found.fell]))
        for number, found in _silences(threads, mine, idle).items()
    }
    return min(after, key=lambda number: after[number], default=None)


def _groups(silence: dict[int, _Silence], level: float, threads: int) -> Iterator[tuple[list[int], float]]:
    """What a thread may have waited for, with the level of its test: all that were silent whenever it went on; or one.

    The more threads and groups, the likelier is one by chance: the level is divided by their number (Bonferroni).
    A thread that was seen to wait once is tested at the level itself.
    """
    active = np.array([found.active for found in silence.values()])
    seen = active.any(axis=0).sum() if len(active) else 0
    together = [
        number
        for number, found in silence.items()
        if not (found.active & ~found.fell).any() and 2 * found.active.sum() >= seen
    ]
    if together:
        yield together, level if seen == 1 else level / threads
    for number in silence:
        if [number] != together:
            yield [number], level / threads / len(silence)


def _may_be_significant(silence: _Silence, idle: _Idle, config: DependencyConfig) -> bool:
    """Whether answers are shorter than chance makes them by two standard deviations; others reach no level.

    The logarithms of those up to the truncation are summed, as in the test. No answer is less likely by chance than
    its share of the stretch.
    """
    fell, usual = silence.fell, log(1 / config.truncation) + 1
    near = (idle.end_ns - silence.since_ns)[fell] / (idle.end_ns - idle.start_ns)[fell]
    found = float(-np.log(np.clip(near[near <= config.truncation], _LEAST, 1)).sum())
    expected = int(silence.active.sum()) * config.truncation
    return found > expected * usual + 2 * sqrt(expected * (1 + (1 - config.truncation) * usual**2))


def _silence(busy: Spans, idle: _Idle) -> _Silence:
    ended = np.searchsorted(busy.end_ns, idle.end_ns, "right")
    begun = np.searchsorted(busy.start_ns, idle.end_ns)
    since = np.append(busy.end_ns, 0)[ended - 1]
    active = (begun > np.searchsorted(busy.start_ns, idle.start_ns)) | ((ended > 0) & (since > idle.start_ns))
    return _Silence(active, (ended > 0) & (since > idle.start_ns) & (ended == begun), since)


def _prompt(busy: Spans, idle: _Idle, config: DependencyConfig) -> Float64:
    """For each idle stretch in which others were active, how likely it would end so promptly by chance.

    The share of the stretch that lies as near after the beginning of one of the others' rests. A rest is longer than
    Python takes between two calls.
    """
    silence = _silence(busy, idle)
    rest, until = busy.end_ns, np.append(busy.start_ns[1:], _NEVER)[: len(busy)]
    long = until - rest >= config.idle_ns
    rest, until = rest[long], until[long]
    first, past = (np.searchsorted(rest, moment, "right") for moment in (idle.start_ns, idle.end_ns))
    found = silence.fell & (past > 0) & (np.append(rest, 0)[past - 1] == silence.since_ns)
    by_chance = np.ones(len(idle.call))
    for row in np.flatnonzero(found).tolist():
        rests = slice(first[row], past[row])
        after = idle.end_ns[row] - silence.since_ns[row]
        near = np.minimum(np.minimum(until[rests], idle.end_ns[row]) - rest[rests], after).sum()
        by_chance[row] = min(near / (idle.end_ns[row] - idle.start_ns[row]), 1.0)
    return by_chance[silence.active]


def significance(by_chance: Float64, truncation: float) -> float:
    """How likely probabilities as small as these come together by chance; only those up to ``truncation`` count.

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
