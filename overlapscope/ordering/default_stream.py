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

LEGACY_DEFAULT = (0, 7)
"""Ids that CUPTI and ROCm give to the legacy default stream."""


@dataclass(frozen=True, eq=False)
class DefaultStreams:
    """The legacy default streams of a trace; work that overlaps by ``clear_ns`` ran together."""

    graph: Graph
    clear_ns: int

    def may_order(self, first: Int64, then: Int64) -> Bool:
        """Whether it may order work behind other work: one is on it, or it had work between the two."""
        work, issued = self.graph.work, self.graph.work.issued_ns(self.graph.calls)
        result = np.zeros(len(first), np.bool_)
        here = (then != NO_ID) & (work.process[first] == work.process[then]) & (work.device[first] == work.device[then])
        keys = np.stack([work.process[first], work.device[first], work.stream[first], work.stream[then]])
        pairs, pair = distinct_columns(keys)
        for number in np.unique(pair[here]).tolist():
            (process, device, one, other), mine = pairs[:, number].tolist(), here & (pair == number)
            for legacy in self._legacy(process, device):
                if not all(self._may_block(process, device, legacy, each) for each in {one, other} - {legacy}):
                    continue
                rows = (work.process == process) & (work.device == device) & (work.stream == legacy)
                moments = np.sort(issued[rows])
                since, until = (np.searchsorted(moments, issued[each[mine]]) for each in (first, then))
                result[mine] |= (until > since) | (legacy in {one, other})
        return result

    def _legacy(self, process: int, device: int) -> Iterator[int]:
        for owner, number, stream in self.graph.streams:
            if (owner, number) == (process, device):
                kind = self._kind(process, device, stream)
                if kind == StreamKind.LEGACY_DEFAULT or (stream in LEGACY_DEFAULT and kind == StreamKind.UNKNOWN):
                    yield stream

    def _may_block(self, process: int, device: int, legacy: int, other: int) -> bool:
        """Whether a stream and the default one may wait for each other: no, where they ever worked together."""
        if self._kind(process, device, other) == StreamKind.NON_BLOCKING:
            return False
        work = self.graph.work
        here = (work.process == process) & (work.device == device)
        spans = [
            union(work.start_ns[rows], work.end_ns[rows])
            for rows in (here & (work.stream == legacy), here & (work.stream == other))
        ]
        return intersect(*spans).total_ns <= self.clear_ns

    def _kind(self, process: int, device: int, stream: int) -> int:
        table = self.graph.trace.streams
        rows = (table.process == process) & (table.device == device) & (table.stream == stream)
        return int(np.append(table.kind[rows], StreamKind.UNKNOWN)[0])
