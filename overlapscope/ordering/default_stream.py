"""What the legacy default stream may order: it waits for blocking streams of its device, and they for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.measure.distinct import distinct_columns
from overlapscope.measure.spans import intersect, union
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import StreamKind
from overlapscope.ordering.clocks import BEFORE, Clocks

LEGACY_DEFAULT = (0, 7)
"""Ids that CUPTI and ROCm give to the legacy default stream."""


@dataclass(frozen=True, eq=False)
class DefaultStreams:
    """The legacy default streams of a process; work that overlaps by ``clear_ns`` ran together."""

    graph: Graph
    clocks: Clocks
    clear_ns: int

    def may_order(self, first: Int64, then: Int64, known_ns: Int64) -> Bool:
        """Whether it may order work, or the host (`NO_ID`) at some moments, behind other work of its process.

        What waits for the default stream waits for blocking streams too, and blocking streams for what it waited for.
        """
        result, number = np.zeros(len(first), np.bool_), self.clocks.streams.number
        pairs, pair = distinct_columns(np.stack([number[first], np.append(number, NO_ID)[then]]))
        for index, (one, other) in enumerate(pairs.T.tolist()):
            mine = pair == index
            for legacy in self._legacy(self.clocks.streams.keys[one][0]):
                if self._may_block(legacy, one):
                    result[mine] |= self._waited_for(legacy, other, first[mine], known_ns[mine])
                if other != NO_ID and self._may_block(legacy, other):
                    result[mine] |= self._knows(legacy, one, first[mine], known_ns[mine])
        return result

    def _waited_for(self, legacy: int, other: int, first: Int64, known_ns: Int64) -> Bool:
        """Whether a stream or the host waits for the default one, and so for blocking work that was there before."""
        since = self.graph.work.issued_ns(self.graph.calls)[first]
        if other == legacy:
            return np.ones(len(first), np.bool_)
        waited: Bool = self.clocks.known(np.full(len(first), other), known_ns)[:, legacy] > since
        if other != NO_ID and self._may_block(legacy, other):
            waited |= self._last_ns(legacy, known_ns) > since
        return waited

    def _knows(self, legacy: int, one: int, first: Int64, known_ns: Int64) -> Bool:
        """Whether the last work of the default stream before some moments knows work to be complete, or follows it."""
        last_ns, since = self._last_ns(legacy, known_ns), self.graph.work.issued_ns(self.graph.calls)[first]
        if one == legacy:
            return last_ns >= since
        known: Bool = self.clocks.known(np.full(len(first), legacy), last_ns)[:, one] > since
        return known

    def _last_ns(self, legacy: int, known_ns: Int64) -> Int64:
        """When the default stream got its last work before some moments."""
        issued = self.graph.work.issued_ns(self.graph.calls)[self.clocks.streams.work[legacy]]
        found: Int64 = np.append(issued, BEFORE)[np.searchsorted(issued, known_ns) - 1]
        return found

    def _legacy(self, device: int) -> Iterator[int]:
        for number, (owner, stream) in enumerate(self.clocks.streams.keys):
            kind = self._kind(number)
            if owner == device and (
                kind == StreamKind.LEGACY_DEFAULT or (stream in LEGACY_DEFAULT and kind == StreamKind.UNKNOWN)
            ):
                yield number

    def _may_block(self, legacy: int, other: int) -> bool:
        """Whether a stream and the default one may wait for each other: no, where they ever worked together."""
        streams, work = self.clocks.streams, self.graph.work
        if streams.keys[legacy][0] != streams.keys[other][0] or self._kind(other) == StreamKind.NON_BLOCKING:
            return False
        spans = (union(work.start_ns[rows], work.end_ns[rows]) for rows in (streams.work[legacy], streams.work[other]))
        return intersect(*spans).total_ns <= self.clear_ns

    def _kind(self, number: int) -> int:
        (device, stream), table = self.clocks.streams.keys[number], self.graph.trace.streams
        rows = (table.process == self.clocks.process) & (table.device == device) & (table.stream == stream)
        return int(np.append(table.kind[rows], StreamKind.UNKNOWN)[0])
