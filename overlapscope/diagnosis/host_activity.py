"""What a host thread was doing at each moment: disjoint segments, each with a cause and the call it was in."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.diagnosis.causes import OF_HOST_WORK, Cause
from overlapscope.measure.first_use import FirstUse
from overlapscope.measure.host import blocked_from_ns
from overlapscope.measure.host_work import HostWorkTimes, spans_on
from overlapscope.measure.spans import Spans, meeting, subtract, union
from overlapscope.model.columns import NO_ID, Bool, Columnar, Int8, Int64
from overlapscope.model.enums import ALLOCATIONS, SYNC_CALLS, ApiKind


@dataclass(frozen=True, eq=False)
class Segments(Columnar):
    """Stretches of a thread, sorted and disjoint; ``call`` is the row in api_calls that it was in or blocked by."""

    start_ns: Int64
    end_ns: Int64
    cause: Int8
    call: Int64

    @classmethod
    def of(cls, start_ns: Int64, end_ns: Int64, cause: Int64 | Int8 | int, call: Int64 | int = NO_ID) -> Segments:
        """The segments that have a length."""
        causes, calls = (np.broadcast_to(values, len(start_ns)) for values in (cause, call))
        return cls(start_ns, end_ns, causes.astype(np.int8), calls.astype(np.int64)).take(end_ns > start_ns)

    @property
    def spans(self) -> Spans:
        """The time that the segments cover."""
        return union(self.start_ns, self.end_ns)

    def within(self, begin_ns: Int64, until_ns: Int64) -> tuple[Int64, Segments]:
        """The parts of the segments inside each of some intervals, with the index of that interval."""
        which, segment = meeting(begin_ns, until_ns, self.start_ns, self.end_ns)
        part = self.take(segment)
        start, end = np.maximum(part.start_ns, begin_ns[which]), np.minimum(part.end_ns, until_ns[which])
        return which, replace(part, start_ns=start, end_ns=end)

    def over(self, bottom: Segments) -> Segments:
        """The union of these segments and others; where both are, these count."""
        if not len(self) or not len(bottom):
            return self if len(self) else bottom
        free = subtract(bottom.spans, self.spans)
        _, rest = bottom.within(free.start_ns, free.end_ns)
        segments = Segments.concat(self, rest)
        return segments.take(np.argsort(segments.start_ns, kind="stable"))


class HostActivity:
    """The segments of each thread of a graph, worked out when they are first asked for."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._blocked_ns = blocked_from_ns(graph.trace.api_calls)[graph.calls.row]
        self._first_use = FirstUse(graph.trace)
        self._host_work = HostWorkTimes(graph.trace)
        self._recorded: dict[int, Segments] = {}
        self._known: dict[int, Segments] = {}

    @property
    def first_calls(self) -> Bool:
        """Mask of calls of the graph that set something up."""
        return self._first_use.calls[self._graph.calls.row]

    def of(self, owner: int) -> Segments:
        """The segments of the thread of this number, from the begin of the trace to its end.

        A thread of which nothing is recorded may wait for another one: there the segments of the busiest thread of its
        process count.
        """
        if owner not in self._known:
            trace, calls = self._graph.trace, self._graph.calls
            process = calls.owner[calls.process == calls.process[calls.first[owner]]]
            busiest = int(np.argmax(np.bincount(process)))
            always = Segments.of(np.array([trace.start_ns]), np.array([trace.end_ns]), Cause.HOST_NOT_RECORDED)
            recorded = self._recorded_of(owner)
            recorded = recorded if owner == busiest else recorded.over(self._recorded_of(busiest))
            self._known[owner] = recorded.over(always)
        return self._known[owner]

    def _recorded_of(self, owner: int) -> Segments:
        if owner not in self._recorded:
            self._recorded[owner] = self._segments(owner)
        return self._recorded[owner]

    def _segments(self, owner: int) -> Segments:
        graph, first = self._graph, int(self._graph.calls.first[owner])
        place, trace = (int(graph.calls.process[first]), int(graph.calls.thread[first])), graph.trace
        rows = np.flatnonzero(graph.calls.owner == owner)
        start, end = one_after_the_other(graph.calls.start_ns[rows], graph.calls.end_ns[rows])
        once = _flat(self._first_use.of(*place), Cause.FIRST_USE)
        profiler = _flat(subtract(spans_on(trace.overheads, *place), once.spans), Cause.PROFILER)
        segments = self._locked(rows).over(self._calls(rows, start, end)).over(profiler).over(once)
        for kind, cause in OF_HOST_WORK.items():
            segments = segments.over(_flat(self._host_work.of(kind, *place), cause))
        return segments.over(_flat(self._host_work.recorded(*place), Cause.HOST_WORK))

    def _calls(self, rows: Int64, start: Int64, end: Int64) -> Segments:
        """The segments of calls; calls that copy have two, before and after the moment from which they block."""
        calls = self._graph.calls
        kind = calls.kind[rows]
        cause = np.select(
            [np.isin(kind, SYNC_CALLS), self.first_calls[rows], np.isin(kind, ALLOCATIONS)],
            [Cause.SYNCHRONISATION, Cause.FIRST_USE, Cause.ALLOCATION],
            Cause.API_CALL,
        )
        blocked = np.where(kind == ApiKind.COPY, np.clip(self._blocked_ns[rows], start, end), end)
        return Segments.of(
            np.stack([start, blocked], axis=1).ravel(),
            np.stack([blocked, end], axis=1).ravel(),
            np.stack([cause, np.full(len(rows), Cause.COPY_CALL)], axis=1).ravel(),
            np.repeat(calls.row[rows], 2),
        )

    def _locked(self, rows: Int64) -> Segments:
        """The segments in which calls waited for a call of another thread, whose cause they have."""
        graph, calls = self._graph, self._graph.calls
        edges = graph.dependencies.take(graph.dependencies.of_kind(DependencyKind.DRIVER_LOCK))
        here = np.isin(edges.target // 2, rows)
        other, locked = edges.source[here] // 2, edges.target[here] // 2
        order = np.argsort(calls.end_ns[other], kind="stable")
        other, locked = other[order], locked[order]
        begin = np.maximum(self._blocked_ns[other], self._blocked_ns[locked])
        begin, until = one_after_the_other(begin, np.maximum(begin, calls.end_ns[other]))
        cause = np.where(calls.kind[other] == ApiKind.COPY, Cause.COPY_CALL, Cause.ALLOCATION)
        return Segments.of(begin, until, cause, calls.row[other])


def _flat(spans: Spans, cause: Cause) -> Segments:
    return Segments.of(spans.start_ns, spans.end_ns, cause)


def one_after_the_other(start_ns: Int64, end_ns: Int64) -> tuple[Int64, Int64]:
    """Intervals made disjoint in their order: each begins when those before it are over."""
    if not len(start_ns):
        return start_ns, end_ns
    reached = np.maximum.accumulate(end_ns)
    start = np.maximum(start_ns, np.concatenate([start_ns[:1], reached[:-1]]))
    return start, np.maximum(start, end_ns)
