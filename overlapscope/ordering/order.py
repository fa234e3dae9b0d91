"""Whether something orders work behind earlier work, or an access of the host behind work."""

from __future__ import annotations

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
)
"""Parts of the names of calls that order work, or tell the host, in ways that are not in a trace."""


class Race(IntEnum):
    """What is known of two accesses: something may order them; nothing does; the later one began too early."""

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
        issued = work.issued_ns(self.graph.calls)
        known = (work.call[first] != NO_ID) & (np.append(work.call, 0)[then] != NO_ID)
        seen = known & (work.end_ns[first] > start_ns + self.config.clear_ns)
        unordered = known & ~seen & ~self._from_graph(first) & ~self._from_graph(then) & self._waits_known
        for process in np.unique(work.process[first[unordered]]).tolist():
            mine = np.flatnonzero(unordered & (work.process[first] == process))
            clocks = self._clocks[process]
            one, other = clocks.streams.number[first[mine]], np.append(clocks.streams.number, NO_ID)[then[mine]]
            complete = clocks.known(other, known_ns[mine])[np.arange(len(mine)), one]
            unordered[mine] = (one != other) & (issued[first[mine]] >= complete)
            unordered[mine] &= ~self._may_be_told(process, issued[first[mine]], known_ns[mine])
        default = DefaultStreams(self.graph, self.config.clear_ns)
        unordered[unordered] = ~default.may_order(first[unordered], then[unordered])
        return np.select([seen, unordered], [Race.SEEN, Race.UNORDERED], Race.NOT_KNOWN).astype(np.int8)

    @cached_property
    def _clocks(self) -> dict[int, Clocks]:
        processes = sorted({process for process, _, _ in self.graph.streams})
        return {process: clocks_of(self.graph, process, self.config.clear_ns) for process in processes}

    @cached_property
    def _waits_known(self) -> bool:
        """Whether it is known of each wait for an event which stream it holds back."""
        calls = self.graph.trace.api_calls
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
