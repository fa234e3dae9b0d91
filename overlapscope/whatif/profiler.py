"""The profiler's own cost: what it spent for each event, and the graph without it.

A profiler spends host time for every event that it records: an operator, a range, a Python frame, a call; and now and
then for itself, such as for a full buffer, which it records too.

What operators take around the operators in them is a part of it: the profiler writes down both between the two begins
and between the two ends, while dispatching takes little. What it takes around the quickest of them is the least that an
event costs, and events cost up to three times that. Twice that is taken where there is no calibration, for operators
and for calls, of which the profiler writes down more.

A calibration tells of calls: what issuing a tiny kernel and a tiny copy cost more under the profiler, by the calls that
these are. (torch's profiler records no operators yet in the steps before its recording, in which that is timed.) That
is the least again, since everything was in the processor's caches, and calls cost up to three times that: twice is the
first guess. An operator then costs what the trace itself tells.

Where a trace knows what its steps took without the profiler (`overlapscope.record`), three things may explain the
difference: what events cost, a quarter more or less than guessed, as is twice by its bounds; the speed of the host, and
that of its pageable copies, while the trace was recorded and while the steps were timed. Speeds differ by a tenth. The
likeliest explanation is taken, which moves most what matters most and is known least (least squares).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import exp

import numpy as np

from overlapscope.calibration.schema import Calibration
from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.measure.grouping import distinct_columns, each_value, rows_by_thread
from overlapscope.measure.host import MODULE_LOADING, QUEUE_FULL
from overlapscope.measure.places import enclosing
from overlapscope.measure.spans import covered, each_of, spans_of
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import MemoryKind
from overlapscope.model.tables import Overheads
from overlapscope.model.trace import Trace
from overlapscope.whatif.interval import Basis

_PROGRAMS_OWN = MODULE_LOADING | {QUEUE_FULL}
"""What Kineto records as overhead (CUPTI's CUpti_ActivityOverheadKind) and the program has without a profiler too."""

_SOON_NS = 20_000
"""No launch takes longer than that by itself."""


@dataclass(frozen=True)
class Cost:
    """The profiler's cost of an operator and of a call, and whether a calibration says so; else a part of it.

    ``host_factor`` is how long the host's own work usually takes, as a share of what it took while the trace was
    recorded, and ``staging_factor`` how long its pageable copies do: a processor is faster in one second than in the
    next. ``unexplained`` is by how much, as a share, the simulation without the profiler is still longer than the steps
    without it were.
    """

    operator_ns: float
    call_ns: float
    calibrated: bool
    host_factor: float = 1.0
    staging_factor: float = 1.0
    unexplained: float = 0.0


@dataclass(frozen=True, eq=False)
class Profiled:
    """A graph, and what the profiler recorded on its host threads, counted once for all costs.

    ``gaps`` are edges of host work before calls, with so many ``operators`` in each, ranges and frames too;
    ``overhead_ns`` is how long the profiler was busy with itself in each of the ``host`` edges, ``before_ns`` the same
    before the ``first`` nodes of threads; ``staged`` are the edges of pageable copies and of calls that end before
    theirs, which the host's memory bounds.
    """

    graph: Graph
    gaps: Int64
    operators: Int64
    host: Int64
    overhead_ns: Int64
    first: Int64
    before_ns: Int64
    staged: Bool

    @classmethod
    def of(cls, graph: Graph) -> Profiled:
        """Count what the profiler recorded on the host threads of a graph."""
        edges, time, calls = graph.dependencies, graph.time_ns, np.arange(len(graph.calls))
        gaps = _gaps(graph)
        host = np.flatnonzero(edges.of_kind(DependencyKind.PROGRAM_ORDER, DependencyKind.THREAD_HANDOFF, *OWN_DURATION))
        begin, end = time[edges.source[host]], time[edges.target[host]]
        overhead = _overhead_in(graph, edges.target[host] // 2, begin, end)
        alone = calls[~np.isin(graph.call_start(calls), edges.target)]
        first = graph.call_start(alone)
        before = _overhead_in(graph, alone, np.full(len(first), time.min(initial=0)), time[first])
        pageable = np.flatnonzero(graph.of_memory(MemoryKind.PAGEABLE))
        staged = np.isin(edges.target, graph.work_end(pageable)) & edges.of_kind(DependencyKind.EXECUTION)
        staged |= np.isin(edges.source, graph.work_start(pageable)) & edges.of_kind(DependencyKind.STAGING)
        return cls(graph, gaps, _events_in(graph, gaps), host, overhead, first, before, staged)

    def without(self, cost: Cost) -> Graph:
        """The graph with less host time for every event between two calls, and for each call, at its usual speed.

        Events differ, and that is what they cost on average: where it is more than there is between two calls, the rest
        is taken out before the thread's next ones. What the profiler recorded of its own overhead is gone too, also
        before a thread's first call.
        """
        weight, time = self.graph.dependencies.weight_ns.copy(), self.graph.time_ns.copy()
        weight[self.host] = np.maximum(weight[self.host] - self.overhead_ns, 0)
        owed = np.rint(cost.operator_ns * self.operators + cost.call_ns).astype(np.int64)
        weight[self.gaps] = _carried(self.graph, self.gaps, weight[self.gaps], owed)
        time[self.first] -= self.before_ns
        for rows, factor in ((self.host, cost.host_factor), (self.staged, cost.staging_factor)):
            weight[rows] = np.rint(factor * weight[rows]).astype(np.int64)
        edges = replace(self.graph.dependencies, weight_ns=weight)
        return replace(self.graph, dependencies=edges, time_ns=time, trace=self.without_overhead)

    def event_ns(self, cost: Cost) -> float:
        """The average cost of an event of either kind, in ns."""
        operators, calls = int(self.operators.sum()), len(self.gaps)
        spent = cost.operator_ns * operators + cost.call_ns * calls
        return spent / (operators + calls) if operators + calls else 0.0

    @cached_property
    def without_overhead(self) -> Trace:
        """The trace without what the profiler recorded of its own overhead; what programs have too stays."""
        trace = self.graph.trace
        return replace(trace, overheads=trace.overheads.take(~_by_profiler(trace)))


def _events_in(graph: Graph, gaps: Int64) -> Int64:
    """The number of operators, ranges and Python frames that begin in each gap of their thread."""
    trace, edges, calls = graph.trace, graph.dependencies, graph.calls
    begin, end = graph.time_ns[edges.source[gaps]], graph.time_ns[edges.target[gaps]]
    owner, count = calls.owner[edges.target[gaps] // 2], np.zeros(len(gaps), np.int64)
    for number, rows in each_value(owner):
        one = calls.first[number]
        for table in (trace.cpu_ops, trace.ranges, trace.frames):
            starts = table.start_ns[(table.process == calls.process[one]) & (table.thread == calls.thread[one])]
            first, last = (np.searchsorted(starts, edge[rows]) for edge in (begin, end))
            count[rows] += np.maximum(last - first, 0)
    return count


def _gaps(graph: Graph) -> Int64:
    """The gaps of host threads, one before each call: since the call of another thread that it follows, if any."""
    edges = graph.dependencies
    handed = edges.of_kind(DependencyKind.THREAD_HANDOFF)
    alone = edges.of_kind(DependencyKind.PROGRAM_ORDER) & ~np.isin(edges.target, edges.target[handed])
    return np.flatnonzero(handed | alone)


def _carried(graph: Graph, gaps: Int64, weight_ns: Int64, cost_ns: Int64) -> Int64:
    """The rest of gaps of this length without their cost, or as much of it as was left over on their thread.

    What is still owed after each is the sum of all that was too much, since it was last nothing.
    """
    call = graph.dependencies.target[gaps] // 2
    order = np.argsort(call, kind="stable")
    left = np.empty(len(gaps), np.int64)
    for _, places in each_value(graph.calls.owner[call[order]]):
        rows = order[places]
        owes = (cost_ns - weight_ns)[rows]
        total = np.cumsum(owes)
        owed = total - np.minimum(np.minimum.accumulate(total), 0)
        left[rows] = np.diff(owed, prepend=0) - owes
    return left


def _by_profiler(trace: Trace) -> Bool:
    """Which overheads are the profiler's only."""
    return ~np.isin(trace.overheads.name_id, trace.names.find(*_PROGRAMS_OWN))


def _overhead_in(graph: Graph, call: Int64, begin_ns: Int64, end_ns: Int64) -> Int64:
    """The profiler's overhead within intervals on the threads of calls, in ns."""
    table = graph.trace.overheads
    table = table.take(_by_profiler(graph.trace))
    row, process, thread = _threads_of_overheads(graph, table)
    overheads, result = rows_by_thread(process, thread), np.zeros(len(call), np.int64)
    for place, asked in rows_by_thread(graph.calls.process[call], graph.calls.thread[call]).items():
        if place in overheads:
            result[asked] = covered(begin_ns[asked], end_ns[asked], spans_of(table, row[overheads[place]]))
    return result


def _threads_of_overheads(graph: Graph, table: Overheads) -> tuple[Int64, Int64, Int64]:
    """Rows of overheads, with the process and thread of each: the recorded ones, where the trace has them.

    Elsewhere an overhead is of the thread of which a call ends next, and of each thread that waited for it meanwhile.
    """
    calls, row = graph.calls, np.arange(len(table))
    if not len(calls):
        return row, table.process, table.thread
    by_end = np.argsort(calls.end_ns, kind="stable")
    following = by_end[np.minimum(np.searchsorted(calls.end_ns[by_end], table.end_ns), len(by_end) - 1)]
    recorded = np.isin(table.process, calls.process)
    process = np.where(recorded, table.process, calls.process[following])
    thread = np.where(recorded, table.thread, calls.thread[following])
    which, call = _waited(graph, table.take(~recorded))
    waited = np.stack([row[~recorded][which], calls.process[call], calls.thread[call]])
    row, process, thread = distinct_columns(np.append(np.stack([row, process, thread]), waited, axis=1))[0]
    return row, process, thread


def _waited(graph: Graph, table: Overheads) -> tuple[Int64, Int64]:
    """Which overheads delayed which calls: those of threads that made none for most of one, and one soon after it."""
    calls = graph.calls
    order = np.argsort(calls.start_ns, kind="stable")
    first, last = (np.searchsorted(calls.start_ns[order], table.end_ns + later) for later in (0, _SOON_NS))
    which, place = each_of(first, last)
    call = order[place]
    before = calls.owner[call - 1] == calls.owner[call]
    waited = before & (call > 0) & (2 * calls.end_ns[call - 1] <= (table.start_ns + table.end_ns)[which])
    return which[waited], call[waited]


_CALLS_ISSUED = 3
"""Calls of a tiny kernel and a tiny copy together: theirs, and the copy's question whether its stream is captured."""
_MOST_TIMES = 3.0
"""An event costs up to so many times the least known of it, which was measured with everything in the caches."""
NEGLIGIBLE = 0.01
"""Less than this share of the time says nothing of the host, also where steps seem to differ by less."""
_MOST_EVENT_NS = 10_000.0
"""The most that an event can cost where issuing was not measured, in ns."""
_SPREAD = 0.1
"""By how much, as a share, the host's speed differs between two stretches of one process.

On hosts of H200s equal steps differed by a tenth, some by far more.
"""
_ROUNDS = 4
"""Rounds of the search for the likeliest costs."""
_MOST_OFF = 3.0
"""No guess is off by more than this many of its spreads, the usual bound for outliers."""
_ENOUGH_OPERATORS = 20
"""Operators with others inside them that are needed to learn the cost of an event."""
_LEAST = 0.25
"""Quantile of the time around operators that is taken for the cost of an event."""
OPERATOR_NS = 4_300.0
"""The most that an operator cost torch's profiler in 71 recordings on hosts of H200s, in ns.

Only recordings count in which the profiler cost a tenth of the time or more.
"""
CALL_NS = 17_900.0
"""The most that a call cost torch's profiler in those recordings, in ns."""
_EVENTS = 0.5
"""By how much, as a share, a cost may be off where only issuing was timed: one to three times the least known."""

Off = tuple[float, ...]
"""By how many of their spreads the cost of an event and the speed factors of host and staging are off their guesses."""
NOT_OFF: Off = (0.0, 0.0, 0.0)
_LONGER = np.array([-1.0, 1.0, 1.0])  # which way makes what a program takes longer


@dataclass(frozen=True)
class Guess:
    """The first guess of a cost, and how far off events and speed factors may be, as shares."""

    likely: Cost
    events: float
    factors: float

    def cost(self, off: Off) -> Cost:
        """The cost where the guess is off by these spreads."""
        times = max(1 + off[0] * self.events, 0.0)
        host, staging = (exp(self.factors * each) for each in off[1:])
        operator_ns, call_ns = times * self.likely.operator_ns, times * self.likely.call_ns
        return replace(self.likely, operator_ns=operator_ns, call_ns=call_ns, host_factor=host, staging_factor=staging)


def profiler_cost(profiled: Profiled, recorded: Basis) -> Cost | None:
    """The profiler's cost as far as it is known; None where nothing of it is, or it shows nowhere."""
    trace = profiled.graph.trace
    guess = _guess(trace, timed=trace.calibration.profiler_factor is not None)
    if guess is None:
        return Cost(0.0, 0.0, calibrated=False) if len(trace.overheads) else None
    return _explaining(guess, profiled, recorded)


def other_costs(cost: Cost | None, profiled: Profiled, recorded: Basis) -> tuple[Cost, ...]:
    """The highest and lowest other costs of the profiler; nothing where steps were timed without it.

    Other tools than torch's profiler slow a program that they do not record yet, so that no step is timed without them.
    But no step is slower without them than those that were timed: where events cost nothing, the host was slow.
    """
    calibration = profiled.graph.trace.calibration
    timed = calibration.profiler_factor is not None
    if cost is not None and cost.calibrated and calibration.issue_profiled is not None:
        if timed:
            return ()
        times = (1 + _EVENTS, 1 - _EVENTS)
        return tuple(replace(cost, operator_ns=each * cost.operator_ns, call_ns=each * cost.call_ns) for each in times)
    known = cost or Cost(0.0, 0.0, calibrated=False)
    operator_ns, call_ns = max(known.operator_ns, OPERATOR_NS), max(known.call_ns, CALL_NS)
    nothing = replace(known, operator_ns=0.0, call_ns=0.0)
    if timed:
        nothing = _explaining(Guess(nothing, 0.0, _SPREAD), profiled, recorded)
    return replace(known, operator_ns=operator_ns, call_ns=call_ns), nothing


def _explaining(guess: Guess, profiled: Profiled, recorded: Basis) -> Cost:
    """The likeliest cost by which the recorded steps are as long as those that were timed; without these the guess."""
    calibration = profiled.graph.trace.calibration
    factor = calibration.profiler_factor
    wanted = recorded.simulated.length_ns / factor if factor else 0.0
    if not wanted:
        return guess.likely

    @cache
    def length(off: Off) -> int:
        return recorded.run(profiled.without(guess.cost(off))).length_ns

    off = _likeliest(length, wanted, wanted * max(calibration.unsure, NEGLIGIBLE))
    return replace(guess.cost(off), unexplained=length(off) / wanted - 1)


def _guess(trace: Trace, *, timed: bool) -> Guess | None:
    """The guess of the events' cost; None where neither the trace tells it nor steps ``timed`` without them."""
    around_ns, most_ns = _around_operators_ns(trace), _MOST_EVENT_NS
    call_ns, middle = _issuing_ns(trace.calibration), (1 + _MOST_TIMES) / 2
    spread = (_MOST_TIMES - 1) / 4 / middle
    if call_ns:
        operator_ns = min(around_ns, most_ns) or call_ns
        return Guess(Cost(operator_ns, middle * call_ns, calibrated=True), spread, _SPREAD)
    if event_ns := min(middle * around_ns, most_ns):
        return Guess(Cost(event_ns, event_ns, calibrated=timed), spread, _SPREAD)
    event_ns = most_ns / 4  # it was not measured: a part of what it may be
    return Guess(Cost(event_ns, event_ns, calibrated=True), 1.0, _SPREAD) if timed else None


def _likeliest(length: Callable[[Off], int], wanted: float, noise: float) -> Off:
    """The likeliest error of each guess, where lengths are what is wanted but for some noise.

    Least squares by Gauss-Newton. Lengths bend: how they change is looked at on the way to what is wanted, and further
    ahead where a round has won little.
    """

    def unlikely(off: Off) -> float:
        return ((wanted - length(off)) / noise) ** 2 + float(np.square(off).sum())

    best, reach = NOT_OFF, 1.0
    for _ in range(_ROUNDS):
        here, towards = np.array(best), reach * (_LONGER if length(best) < wanted else -_LONGER)
        ahead = [tuple(each) for each in (here + np.diag(towards)).tolist()]
        slope = np.array([length(each) - length(best) for each in ahead], float) / towards
        rest = wanted - length(best) + slope @ here
        step = slope * rest / (slope @ slope + noise**2) - here
        before = unlikely(best)
        for times in (1, 2, 4):  # what bounds the length at first may end soon
            off = tuple(np.clip(here + times * step, -_MOST_OFF, _MOST_OFF).tolist())
            best = min(best, off, key=unlikely)
            if unlikely(best) <= before / 2:
                break
        else:
            reach *= 2
        if abs(length(best) - wanted) <= noise / 2:
            break
    return best


def _issuing_ns(calibration: Calibration) -> float:
    """The cost of a call from issuing tiny kernels and copies with and without the profiler, in ns; 0 if not known."""
    totals = [
        cost.kernel_ns + cost.copy_ns
        for cost in (calibration.issue_profiled, calibration.issue_unprofiled)
        if cost is not None and cost.kernel_ns and cost.copy_ns
    ]
    call_ns = max(totals[0] - totals[1], 0) / _CALLS_ISSUED if len(totals) > 1 else 0.0
    return call_ns if call_ns <= _MOST_EVENT_NS else 0.0  # what no profiler costs was not measured


def _around_operators_ns(trace: Trace) -> float:
    """The least time of operators before their first inner one begins and after their last one has ended, in ns."""
    ops = trace.cpu_ops
    outer = enclosing(ops)
    inner = np.flatnonzero(outer != NO_ID)
    around, first = np.unique(outer[inner], return_index=True)
    if len(around) < _ENOUGH_OPERATORS:
        return 0.0
    ended = np.full(len(ops), np.iinfo(np.int64).min)
    np.maximum.at(ended, outer[inner], ops.end_ns[inner])
    before = ops.start_ns[inner[first]] - ops.start_ns[around]
    after = np.maximum(ops.end_ns[around] - ended[around], 0)
    return float(np.quantile(before, _LEAST) + np.quantile(after, _LEAST))
