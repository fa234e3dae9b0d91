"""Whether something orders work behind earlier work, or an access of the host behind work."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.measure.spans import intersect, union
from overlapscope.model.columns import NO_ID, Bool, Int8, Int64
from overlapscope.model.enums import ApiKind, StreamKind
from overlapscope.ordering.clocks import Clocks, clocks_of
from overlapscope.ordering.config import DEFAULT, OrderingConfig

LEGACY_DEFAULT = (0, 7)
"""Ids that CUPTI and ROCm give to the legacy default stream."""


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
        unordered[unordered] = ~self._may_block(first[unordered], then[unordered])
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

    def _may_block(self, first: Int64, then: Int64) -> Bool:
        """Whether the streams of work may be the legacy default stream and one that waits for it."""
        result = np.zeros(len(first), np.bool_)
        pairs = {pair: self._pair_may_block(*pair) for pair in set(self._streams(first, then))}
        for row, pair in enumerate(self._streams(first, then)):
            result[row] = pairs[pair]
        return result

    def _streams(self, first: Int64, then: Int64) -> list[tuple[int, int, int, int]]:
        work = self.graph.work
        stream = np.append(work.stream, NO_ID)
        columns = (work.process[first], work.device[first], stream[first], stream[then])
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def _pair_may_block(self, process: int, device: int, one: int, other: int) -> bool:
        kinds = {self._kind(process, device, stream) for stream in (one, other)}
        if other == NO_ID or StreamKind.NON_BLOCKING in kinds:
            return False
        legacy = StreamKind.LEGACY_DEFAULT in kinds or bool({one, other} & set(LEGACY_DEFAULT))
        return legacy and not self._ran_together(process, device, one, other)

    def _kind(self, process: int, device: int, stream: int) -> int:
        table = self.graph.trace.streams
        rows = (table.process == process) & (table.device == device) & (table.stream == stream)
        return int(np.append(table.kind[rows], StreamKind.UNKNOWN)[0])

    def _ran_together(self, process: int, device: int, one: int, other: int) -> bool:
        """Whether two streams ever worked at the same time: then neither waits for the other by itself."""
        work = self.graph.work
        here = (work.process == process) & (work.device == device)
        spans = [
            union(work.start_ns[rows], work.end_ns[rows])
            for rows in (here & (work.stream == one), here & (work.stream == other))
        ]
        return intersect(*spans).total_ns > self.config.clear_ns
