"""Whether something orders work behind earlier work, or an access of the host behind work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.model.columns import NO_ID, Bool, Int8, Int64
from overlapscope.model.enums import ApiKind
from overlapscope.ordering.clocks import Clocks, clocks_of
from overlapscope.ordering.config import DEFAULT, OrderingConfig
from overlapscope.ordering.default_stream import DefaultStreams

_UNSEEN = (
    "LaunchHostFunc",
    "StreamAddCallback",
    "StreamWaitValue",
    "StreamBatchMemOp",
    "WaitExternalSemaphores",
    "waitExternalSemaphores",
    "EventElapsedTime",
    "ModuleLoad",
    "ModuleUnload",
    "LibraryLoad",
)
"""Parts of the names of calls that order work, or tell the host, in ways that are not in a trace.

A time between two events is there when both are complete, and loading code may wait for the GPU (CUDA C++ Programming
Guide, Lazy Loading).
"""


class Race(IntEnum):
    """What is known of two accesses: something may order them; nothing does; the later one began too early.

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
    config: OrderingConfig = DEFAULT

    def of_work(self, first: Int64, then: Int64) -> Int8:
        """`Race` of each piece of work ``then`` with work ``first`` that was issued before it."""
        work = self.graph.work
        return self._of(first, then, work.start_ns[then], work.issued_ns(self.graph.calls)[then])

    def of_host(self, first: Int64, moment_ns: Int64) -> Int8:
        """`Race` of what the host does at some moments with work ``first`` that was issued before."""
        return self._of(first, np.full(len(first), NO_ID), moment_ns, moment_ns)

    def _of(self, first: Int64, then: Int64, start_ns: Int64, known_ns: Int64) -> Int8:
        work = self.graph.work
        known = (work.call[first] != NO_ID) & (np.append(work.call, 0)[then] != NO_ID)
        early = known & (work.end_ns[first] > start_ns + self.config.clear_ns)
        complete = np.zeros(len(first), np.bool_)
        complete[known] = self._complete(first[known], then[known], known_ns[known])
        seen = early & ~(complete & (work.device[first] != np.append(work.device, NO_ID)[then]))
        unordered = known & ~early & ~complete & ~self._from_graph(first) & ~self._from_graph(then) & self._waits_known
        unordered[unordered] = ~self._may_follow(first[unordered], then[unordered], known_ns[unordered])
        return np.select([seen, unordered], [Race.SEEN, Race.UNORDERED], Race.NOT_KNOWN).astype(np.int8)

    def _complete(self, first: Int64, then: Int64, known_ns: Int64) -> Bool:
        """Which work is known to be complete, at some moments, to the streams of other work or to the host."""
        issued = self.graph.work.issued_ns(self.graph.calls)
        result = np.zeros(len(first), np.bool_)
        for process, mine in self._by_process(first):
            clocks = self._clocks[process]
            one, other = clocks.streams.number[first[mine]], np.append(clocks.streams.number, NO_ID)[then[mine]]
            known = clocks.known(other, known_ns[mine])[np.arange(len(mine)), one]
            result[mine] = (one == other) | (issued[first[mine]] < known)
        return result

    def _may_follow(self, first: Int64, then: Int64, known_ns: Int64) -> Bool:
        """Whether something that is not in a trace may order work, or what the host does, behind other work."""
        issued = self.graph.work.issued_ns(self.graph.calls)
        result = np.zeros(len(first), np.bool_)
        for process, mine in self._by_process(first):
            default = DefaultStreams(self.graph, self._clocks[process], self.config.clear_ns)
            result[mine] = default.may_order(first[mine], then[mine], known_ns[mine])
            result[mine] |= self._may_be_told(process, issued[first[mine]], known_ns[mine])
        return result

    def _by_process(self, some: Int64) -> Iterator[tuple[int, Int64]]:
        """The processes of some work, each with the places of its own."""
        process = self.graph.work.process[some]
        return ((each, np.flatnonzero(process == each)) for each in np.unique(process).tolist())

    @cached_property
    def _clocks(self) -> dict[int, Clocks]:
        processes = sorted({process for process, _, _ in self.graph.streams})
        return {process: clocks_of(self.graph, process, self.config.clear_ns) for process in processes}

    @cached_property
    def _waits_known(self) -> bool:
        """Whether no wait for an event is lost, and it is known of each which stream it holds back."""
        health, calls = self.graph.trace.health, self.graph.trace.api_calls
        if health.damaged or health.has("records-dropped"):
            return False
        waits = np.flatnonzero(calls.kind == ApiKind.WAIT_EVENT)
        return bool(np.isin(waits, self.graph.trace.syncs.call).all())

    def _from_graph(self, some: Int64) -> Bool:
        """Which work a CUDA graph launched: the order within a graph is not in a trace."""
        call = np.append(self.graph.work.call, NO_ID)[some]
        launched: Bool = np.append(self.graph.calls.kind, ApiKind.OTHER)[call] == ApiKind.GRAPH_LAUNCH
        return launched

    def _may_be_told(self, process: int, since_ns: Int64, until_ns: Int64) -> Bool:
        """Between which moments a call was made that may order in ways which are not in a trace."""
        calls, names = self.graph.trace.api_calls, self.graph.trace.names
        named = [number for number, name in enumerate(names.values) if any(part in name for part in _UNSEEN)]
        moments = np.sort(calls.start_ns[np.isin(calls.name_id, named) & (calls.process == process)])
        told: Bool = np.searchsorted(moments, until_ns) > np.searchsorted(moments, since_ns)
        return told
