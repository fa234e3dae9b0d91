"""What a host thread was doing at each moment: disjoint segments, each with a cause and the call it was in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.dependencies.config import DependencyConfig
from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.host_work import HostWorkKinds, spans_of
from overlapscope.measure.host import blocked_from_ns
from overlapscope.measure.spans import Spans, meeting, merge, subtract, union
from overlapscope.model.columns import NO_ID, Bool, Int8, Int64
from overlapscope.model.enums import ALLOCATIONS, SYNC_CALLS, ApiKind


@dataclass(frozen=True, eq=False)
class Segments:
    """Stretches of a thread, sorted and disjoint; ``call`` is the row in api_calls that it was in or blocked by."""

    start_ns: Int64
    end_ns: Int64
    cause: Int8
    call: Int64

    @classmethod
    def of(cls, start_ns: Int64, end_ns: Int64, cause: Int64 | Int8 | int, call: Int64 | int = NO_ID) -> Segments:
        """Those of some length."""
        some = end_ns > start_ns
        columns = (np.broadcast_to(values, len(start_ns))[some] for values in (cause, call))
        kinds, calls = columns
        return cls(start_ns[some], end_ns[some], kinds.astype(np.int8), calls.astype(np.int64))

    @property
    def spans(self) -> Spans:
        """The time that they cover."""
        return union(self.start_ns, self.end_ns)

    def within(self, begin_ns: Int64, until_ns: Int64) -> tuple[Int64, Segments]:
        """The parts of the segments inside each of some intervals, with the index of that interval."""
        which, mine = meeting(begin_ns, until_ns, self.start_ns, self.end_ns)
        start = np.maximum(self.start_ns[mine], begin_ns[which])
        return which, Segments(start, np.minimum(self.end_ns[mine], until_ns[which]), self.cause[mine], self.call[mine])

    def over(self, bottom: Segments) -> Segments:
        """These segments on others: where both are, these count."""
        if not len(self.start_ns) or not len(bottom.start_ns):
            return self if len(self.start_ns) else bottom
        free = subtract(bottom.spans, self.spans)
        _, rest = bottom.within(free.start_ns, free.end_ns)
        columns = [
            np.concatenate([getattr(self, name), getattr(rest, name)])
            for name in ("start_ns", "end_ns", "cause", "call")
        ]
        order = np.argsort(columns[0], kind="stable")
        return Segments(*(column[order] for column in columns))


class HostActivity:
    """The segments of each thread of a graph, worked out when they are first asked for."""

    def __init__(self, graph: Graph, config: DependencyConfig) -> None:
        self._graph = graph
        self._blocked_ns = blocked_from_ns(graph.trace, config.host)[graph.calls.row]
        self._kinds = HostWorkKinds(graph.trace)
        self._recorded: dict[int, Segments] = {}
        self._known: dict[int, Segments] = {}

    @property
    def first_calls(self) -> Bool:
        """Which calls of the graph set something up."""
        return self._kinds.first_calls[self._graph.calls.row]

    def of(self, owner: int) -> Segments:
        """What the thread of this number was doing, from the begin of the trace to its end.

        While nothing of it is recorded it may wait for another thread: then what counts is what the busiest thread of
        its process did.
        """
        if owner not in self._known:
            trace, calls = self._graph.trace, self._graph.calls
            process = calls.owner[calls.process == calls.process[calls.first[owner]]]
            busiest = int(np.argmax(np.bincount(process)))
            always = Segments.of(np.array([trace.start_ns]), np.array([trace.end_ns]), Cause.HOST_NOT_RECORDED)
            own = self._recorded_of(owner)
            self._known[owner] = (own if owner == busiest else own.over(self._recorded_of(busiest))).over(always)
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
        working = merge(
            *(spans_of(table, *place) for table in (trace.cpu_ops, trace.frames, trace.ranges, trace.modules))
        )
        once = _flat(self._kinds.first_use(*place), Cause.FIRST_USE)
        profiler = _flat(subtract(spans_of(trace.overheads, *place), once.spans), Cause.PROFILER)
        loading = _flat(self._kinds.loading(*place), Cause.DATA_LOADING)
        calls = self._locked(rows).over(self._calls(rows, start, end))
        return calls.over(profiler).over(once).over(loading).over(_flat(working, Cause.HOST_WORK))

    def _calls(self, rows: Int64, start: Int64, end: Int64) -> Segments:
        """Calls; those that copy in two parts, before and after the moment from which they block."""
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
        """Parts of calls in which they waited for another thread's call: its own cause counts."""
        graph, calls = self._graph, self._graph.calls
        edges = graph.dependencies.take(graph.dependencies.of_kind(DependencyKind.DRIVER_LOCK))
        here = np.isin(edges.target // 2, rows)
        other, mine = edges.source[here] // 2, edges.target[here] // 2
        order = np.argsort(calls.end_ns[other], kind="stable")
        other, mine = other[order], mine[order]
        begin = np.maximum(self._blocked_ns[other], self._blocked_ns[mine])
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
