"""Pinned copies of both directions at once are slower than alone, though each direction has a copy engine of its own.

By how much, a recording calibrates: on H200s over PCIe 5, about 6 % to the device and 10 % to the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from overlapscope.measure.spans import covered, union
from overlapscope.model.columns import Float64, Int64
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.replay.engine import Replay, replay
from overlapscope.replay.graph import Because, Graph

_OPPOSITE = {Direction.HTOD: Direction.DTOH, Direction.DTOH: Direction.HTOD}
_ROUNDS = 4  # a slower copy overlaps more, a tenth of a tenth at a time


@dataclass(frozen=True, eq=False)
class Link:
    """What is known of copies that share a link: the share of each direction's time beside the other that is lost.

    ``before`` is the graph of the trace itself, whose copies are as slow as they were.
    """

    before: Graph
    lost: Mapping[Direction, float]

    @classmethod
    def of(cls, graph: Graph) -> Link:
        """As calibrated; nothing is lost where that is not known."""
        recording = graph.trace.metadata.recording
        entries = recording.both_ways if recording is not None else ()
        named = {direction.label: direction for direction in _OPPOSITE}
        lost = {
            named[entry.direction]: 1 - entry.alone_ns / entry.beside_ns
            for entry in entries
            if entry.direction in named and entry.beside_ns > entry.alone_ns
        }
        return cls(graph, lost)

    def replay(self, after: Graph) -> Replay:
        """Replay a changed graph with copies as long as what then runs beside them makes them."""
        played = replay(after)
        if not self.lost:
            return played
        run = after.into(after.work_end(np.arange(len(after.work))), Because.RUN)
        alone = self._alone_ns(after, run)
        for _ in range(_ROUNDS):
            lag = played.graph.edges.lag_ns.copy()
            lag[run] = np.rint(alone + self._lost_ns(after, played.time_ns)).astype(np.int64)
            if (np.abs(lag - played.graph.edges.lag_ns) <= 1).all():
                break
            played = replay(after.with_lags(lag))
        return played

    def _alone_ns(self, after: Graph, run: Int64) -> Float64:
        """How long each op takes with nothing beside it: a share of those that were slower for that was lost."""
        before = self.before
        took = before.edges.lag_ns[before.into(before.work_end(np.arange(len(before.work))), Because.RUN)]
        return after.edges.lag_ns[run] * (1 - self._lost_ns(before, before.time_ns) / np.maximum(took, 1))

    def _lost_ns(self, graph: Graph, time_ns: Int64) -> Float64:
        """What each copy loses to those of the other direction on its device that run beside it."""
        work, pinned = graph.work, graph.of_memory(MemoryKind.PINNED)
        starts, ends = (time_ns[moment(np.arange(len(work)))] for moment in (graph.work_start, graph.work_end))
        result = np.zeros(len(work))
        for process, device in set(zip(work.process[pinned].tolist(), work.device[pinned].tolist(), strict=True)):
            here = pinned & (work.process == process) & (work.device == device)
            for direction, share in self.lost.items():
                mine, other = (here & (work.engine == each) for each in (direction, _OPPOSITE[direction]))
                result[mine] = share * covered(starts[mine], ends[mine], union(starts[other], ends[other]))
        return result
