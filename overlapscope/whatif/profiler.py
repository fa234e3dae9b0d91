"""The profiler's own cost, taken out of a graph.

A profiler spends host time for every event that it records: an operator, a range, a Python frame, a call; and now and
then for itself, such as for a full buffer, which it records too. What an event costs: `profiler_cost`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.measure.host import MODULE_LOADING, QUEUE_FULL
from overlapscope.measure.spans import covered, each_of, union
from overlapscope.model.columns import Bool, Int64
from overlapscope.model.enums import MemoryKind
from overlapscope.model.tables import Overheads
from overlapscope.model.trace import Trace

_PROGRAMS_OWN = MODULE_LOADING | {QUEUE_FULL}
"""What Kineto records as overhead (CUPTI's CUpti_ActivityOverheadKind) and the program has without a profiler too."""

_SOON_NS = 20_000
"""No launch takes longer than that by itself."""


@dataclass(frozen=True)
class Cost:
    """What the profiler spent for an operator and for a call, and whether a calibration says so; else a part of it.

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
        """Count."""
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
        for those, factor in ((self.host, cost.host_factor), (self.staged, cost.staging_factor)):
            weight[those] = np.rint(factor * weight[those]).astype(np.int64)
        edges = replace(self.graph.dependencies, weight_ns=weight)
        return replace(self.graph, dependencies=edges, time_ns=time, trace=self.without_overhead)

    def event_ns(self, cost: Cost) -> float:
        """What it spent for an event, of either kind, on average."""
        operators, calls = int(self.operators.sum()), len(self.gaps)
        spent = cost.operator_ns * operators + cost.call_ns * calls
        return spent / (operators + calls) if operators + calls else 0.0

    @cached_property
    def without_overhead(self) -> Trace:
        """The trace without what the profiler recorded of its own overhead; what programs have too stays."""
        trace = self.graph.trace
        return replace(trace, overheads=trace.overheads.take(~_profilers_own(trace)))


def _events_in(graph: Graph, gaps: Int64) -> Int64:
    """How many operators, ranges and Python frames begin in each gap of their thread."""
    trace, edges, calls = graph.trace, graph.dependencies, graph.calls
    begin, end = graph.time_ns[edges.source[gaps]], graph.time_ns[edges.target[gaps]]
    owner, count = calls.owner[edges.target[gaps] // 2], np.zeros(len(gaps), np.int64)
    for number in np.unique(owner).tolist():
        mine, one = np.flatnonzero(owner == number), calls.first[number]
        for table in (trace.cpu_ops, trace.ranges, trace.frames):
            starts = table.start_ns[(table.process == calls.process[one]) & (table.thread == calls.thread[one])]
            first, last = (np.searchsorted(starts, edge[mine]) for edge in (begin, end))
            count[mine] += np.maximum(last - first, 0)
    return count


def _gaps(graph: Graph) -> Int64:
    """What host threads do between calls, once for each call: since that of another thread that it follows, if any."""
    handed = graph.dependencies.of_kind(DependencyKind.THREAD_HANDOFF)
    own = graph.dependencies.of_kind(DependencyKind.PROGRAM_ORDER) & ~np.isin(
        graph.dependencies.target, graph.dependencies.target[handed]
    )
    return np.flatnonzero(handed | own)


def _carried(graph: Graph, gaps: Int64, weight_ns: Int64, cost_ns: Int64) -> Int64:
    """What is left of some gaps of this length without their cost, or as much of it as was left over on their thread.

    What is still owed after each is the sum of all that was too much, since it was last nothing.
    """
    call = graph.dependencies.target[gaps] // 2
    order = np.argsort(call, kind="stable")
    call, owes = call[order], (cost_ns - weight_ns)[order]
    thread = np.append(False, (np.diff(graph.calls.thread[call]) != 0) | (np.diff(graph.calls.process[call]) != 0))
    left = np.empty(len(gaps), np.int64)
    for mine in np.split(np.arange(len(gaps)), np.flatnonzero(thread)):
        total = np.cumsum(owes[mine])
        owed = total - np.minimum(np.minimum.accumulate(total), 0)
        left[order[mine]] = np.diff(owed, prepend=0) - owes[mine]
    return left


def _profilers_own(trace: Trace) -> Bool:
    """Which overheads are the profiler's only."""
    names = trace.names.find(*_PROGRAMS_OWN)
    own: Bool = ~np.isin(trace.overheads.name_id, names)
    return own


def _overhead_in(graph: Graph, call: Int64, begin_ns: Int64, end_ns: Int64) -> Int64:
    """How long the profiler was busy with itself in some intervals, on the threads of some calls."""
    table = graph.trace.overheads
    table = table.take(_profilers_own(graph.trace))
    row, process_of, thread_of = _whose(graph, table)
    result = np.zeros(len(call), np.int64)
    for process, thread in set(zip(process_of.tolist(), thread_of.tolist(), strict=True)):
        own = row[(process_of == process) & (thread_of == thread)]
        mine = (graph.calls.process[call] == process) & (graph.calls.thread[call] == thread)
        result[mine] = covered(begin_ns[mine], end_ns[mine], union(table.start_ns[own], table.end_ns[own]))
    return result


def _whose(graph: Graph, table: Overheads) -> tuple[Int64, Int64, Int64]:
    """Rows of what the profiler did for itself, with process and thread; where it does not say: whose call ended next.

    And who waited for it too.
    """
    calls, row = graph.calls, np.arange(len(table))
    if not len(calls):
        return row, table.process, table.thread
    by_end = np.argsort(calls.end_ns, kind="stable")
    following = by_end[np.minimum(np.searchsorted(calls.end_ns[by_end], table.end_ns), len(by_end) - 1)]
    named = np.isin(table.process, calls.process)
    process: Int64 = np.where(named, table.process, calls.process[following])
    thread: Int64 = np.where(named, table.thread, calls.thread[following])
    which, call = _waited(graph, table.take(~named))
    places = (
        np.append(row, row[~named][which]),
        np.append(process, calls.process[call]),
        np.append(thread, calls.thread[call]),
    )
    row, process, thread = np.unique(np.stack(places), axis=1)
    return row, process, thread


def _waited(graph: Graph, table: Overheads) -> tuple[Int64, Int64]:
    """Which of this delayed which calls: of threads that made none for most of it, and one soon after it."""
    calls = graph.calls
    order = np.argsort(calls.start_ns, kind="stable")
    first, last = (np.searchsorted(calls.start_ns[order], table.end_ns + later) for later in (0, _SOON_NS))
    which, place = each_of(first, last)
    call = order[place]
    before = calls.owner[call - 1] == calls.owner[call]
    waited = before & (call > 0) & (2 * calls.end_ns[call - 1] <= (table.start_ns + table.end_ns)[which])
    return which[waited], call[waited]
