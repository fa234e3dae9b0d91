"""The work of a graph along its streams."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.measure.distinct import distinct_columns
from overlapscope.model.columns import Int64


@dataclass(frozen=True, eq=False)
class Streams:
    """All work, stream by stream (``order``); the place of each op in that; and a number for each op's stream."""

    order: Int64
    place: Int64
    stream: Int64

    @classmethod
    def of(cls, graph: Graph) -> Streams:
        """Those of a graph."""
        work = graph.work
        order = np.lexsort((np.arange(len(work)), work.stream, work.device, work.process))
        place = np.empty(len(work), np.int64)
        place[order] = np.arange(len(work))
        keys = np.stack([work.process, work.device, work.stream])[:, order]
        number = np.empty(len(work), np.int64)
        number[order] = np.cumsum(np.append(False, (keys[:, 1:] != keys[:, :-1]).any(axis=0)))[: len(work)]
        return cls(order, place, number)

    @cached_property
    def first(self) -> Int64:
        """The first op of each stream."""
        return self.order[np.flatnonzero(np.diff(self.stream[self.order], prepend=-1))]


def codes(keys: Int64) -> Int64:
    """One number for each different column, in their order."""
    return distinct_columns(keys)[1]
