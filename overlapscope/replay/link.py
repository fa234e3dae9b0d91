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

    ``alone`` is the share of its time in the trace that each op would have taken with nothing beside it.
    """

    lost: Mapping[Direction, float]
    alone: Float64

    @classmethod
    def of(cls, graph: Graph) -> Link:
        """As calibrated; nothing is lost where that is not known."""
        recording = graph.trace.metadata.recording
        entries = recording.duplex if recording is not None else ()
        named = {direction.label: direction for direction in _OPPOSITE}
        lost = {
            named[entry.direction]: 1 - entry.alone_ns / entry.beside_ns
            for entry in entries
            if entry.direction in named and entry.beside_ns > entry.alone_ns
        }
        took = graph.edges.lag_ns[_runs(graph)]
        return cls(lost, 1 - _lost_ns(graph, graph.time_ns, lost) / np.maximum(took, 1))

    def replay(self, after: Graph) -> Replay:
        """Replay a changed graph with copies as long as what then runs beside them makes them."""
        played = replay(after)
        if not self.lost:
            return played
        run = _runs(after)
        alone = after.edges.lag_ns[run] * self.alone
        for _ in range(_ROUNDS):
            lag = played.graph.edges.lag_ns.copy()
            lag[run] = np.rint(alone + _lost_ns(after, played.time_ns, self.lost)).astype(np.int64)
            if (np.abs(lag - played.graph.edges.lag_ns) <= 1).all():
                break
            played = replay(after.with_lags(lag))
        return played


def _runs(graph: Graph) -> Int64:
    """The edge of each op's own duration."""
    return graph.into(graph.work_end(np.arange(len(graph.work))), Because.RUN)


def _lost_ns(graph: Graph, time_ns: Int64, lost: Mapping[Direction, float]) -> Float64:
    """What each copy loses to those of the other direction on its device that run beside it."""
    work, pinned = graph.work, graph.of_memory(MemoryKind.PINNED)
    starts, ends = (time_ns[moment(np.arange(len(work)))] for moment in (graph.work_start, graph.work_end))
    result = np.zeros(len(work))
    for process, device in set(zip(work.process[pinned].tolist(), work.device[pinned].tolist(), strict=True)):
        here = pinned & (work.process == process) & (work.device == device)
        for direction, share in lost.items():
            mine, other = (here & (work.engine == each) for each in (direction, _OPPOSITE[direction]))
            result[mine] = share * covered(starts[mine], ends[mine], union(starts[other], ends[other]))
    return result
