"""Whether something orders work behind earlier work, or an access of the host behind work."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.measure.grouping import at, each_value
from overlapscope.measure.places import named
from overlapscope.model.columns import NO_ID, Bool, Int8, Int64
from overlapscope.model.enums import ApiKind
from overlapscope.ordering.clocks import CLEAR_NS, Clocks, DefaultStreams, clocks_of

_UNSEEN = re.compile(
    "LaunchHostFunc|StreamAddCallback|StreamWaitValue|StreamBatchMemOp|[wW]aitExternalSemaphores|EventElapsedTime"
    "|ModuleLoad|ModuleUnload|LibraryLoad"
)
"""Parts of the names of calls that order work, or tell the host, in ways that are not in a trace.

A time between two events is there when both are complete, and loading code may wait for the GPU (CUDA C++ Programming
Guide, Lazy Loading).
"""


class Race(IntEnum):
    """The order of two accesses: something may order them, nothing does, or the later one began too early.

    On one GPU times decide that. The clocks of the host and of another GPU are some tens of microseconds off at times:
    where the trace has a synchronisation that orders the two, it is right.
    """

    NOT_KNOWN = 0
    UNORDERED = 1
    SEEN = 2


@dataclass(frozen=True, eq=False)
class Order:
    """The order of a trace's work, as far as streams, events and synchronisations make it."""

    graph: Graph

    def of_work(self, first: Int64, then: Int64) -> Int8:
        """`Race` of each piece of work ``then`` with work ``first`` that was issued before it."""
        work = self.graph.work
        return self._of(first, then, work.start_ns[then], work.issued_ns(self.graph.calls)[then])

    def of_host(self, first: Int64, moment_ns: Int64) -> Int8:
        """`Race` of what the host does at some moments with work ``first`` that was issued before."""
        return self._of(first, np.full(len(first), NO_ID), moment_ns, moment_ns)

    def _of(self, first: Int64, then: Int64, start_ns: Int64, known_ns: Int64) -> Int8:
        work = self.graph.work
        known = (work.call[first] != NO_ID) & (at(work.call, then, 0) != NO_ID)
        early = known & (work.end_ns[first] > start_ns + CLEAR_NS)
        complete = np.zeros(len(first), np.bool_)
        complete[known] = self._complete(first[known], then[known], known_ns[known])
        seen = early & ~(complete & (work.device[first] != at(work.device, then)))
        unordered = known & ~early & ~complete & ~self._from_graph(first) & ~self._from_graph(then) & self._waits_known
        unordered[unordered] = ~self._may_follow(first[unordered], then[unordered], known_ns[unordered])
        return np.select([seen, unordered], [Race.SEEN, Race.UNORDERED], Race.NOT_KNOWN).astype(np.int8)

    def _complete(self, first: Int64, then: Int64, known_ns: Int64) -> Bool:
        """Which work is known to be complete, at some moments, to the streams of other work or to the host."""
        issued = self.graph.work.issued_ns(self.graph.calls)
        result = np.zeros(len(first), np.bool_)
        for process, rows in each_value(self.graph.work.process[first]):
            clocks = self._clocks[process]
            one, other = clocks.streams.number[first[rows]], at(clocks.streams.number, then[rows])
            known = clocks.known(other, known_ns[rows])[np.arange(len(rows)), one]
            result[rows] = (one == other) | (issued[first[rows]] < known)
        return result

    def _may_follow(self, first: Int64, then: Int64, known_ns: Int64) -> Bool:
        """Whether something that is not in a trace may order work, or what the host does, behind other work."""
        issued = self.graph.work.issued_ns(self.graph.calls)
        result = np.zeros(len(first), np.bool_)
        for process, rows in each_value(self.graph.work.process[first]):
            default = DefaultStreams(self.graph, self._clocks[process])
            result[rows] = default.may_order(first[rows], then[rows], known_ns[rows])
            result[rows] |= self._may_be_told(process, issued[first[rows]], known_ns[rows])
        return result

    @cached_property
    def _clocks(self) -> dict[int, Clocks]:
        processes = sorted({process for process, _, _ in self.graph.streams})
        return {process: clocks_of(self.graph, process) for process in processes}

    @cached_property
    def _waits_known(self) -> bool:
        """Whether no wait for an event is lost, and it is known of each which stream it holds back."""
        health, calls = self.graph.trace.health, self.graph.trace.api_calls
        if health.damaged or health.has("records-dropped"):
            return False
        waits = np.flatnonzero(calls.kind == ApiKind.WAIT_EVENT)
        return bool(np.isin(waits, self.graph.trace.syncs.call).all())

    def _from_graph(self, work: Int64) -> Bool:
        """Which work a CUDA graph launched: the order within a graph is not in a trace."""
        return at(self.graph.calls.kind == ApiKind.GRAPH_LAUNCH, at(self.graph.work.call, work), False)

    def _may_be_told(self, process: int, since_ns: Int64, until_ns: Int64) -> Bool:
        """Between which moments a call was made that may order in ways which are not in a trace."""
        calls = self.graph.trace.api_calls
        moments = np.sort(calls.start_ns[named(calls, _UNSEEN) & (calls.process == process)])
        return np.greater(np.searchsorted(moments, until_ns), np.searchsorted(moments, since_ns))
