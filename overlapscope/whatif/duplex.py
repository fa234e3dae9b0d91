"""Pinned copies of both directions at once are slower than alone, though each direction has a copy engine of its own.

By how much, a recording calibrates: on H200s over PCIe 5, about 6 % to the device and 10 % to the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from overlapscope.dependencies.chains import Chains
from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.dependencies.simulate import Simulation
from overlapscope.measure.spans import covered, union
from overlapscope.model.columns import Float64, Int64
from overlapscope.model.enums import Direction, MemoryKind

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
        took = graph.dependencies.weight_ns[_executions(graph)]
        return cls(lost, 1 - _lost_ns(graph, graph.time_ns, lost) / np.maximum(took, 1))

    def simulate(self, after: Graph) -> Simulation:
        """Simulate a changed graph with copies as long as what then runs beside them makes them."""
        chains = Chains.of(after)
        simulated = Simulation(after, chains.times(after))
        if not self.lost:
            return simulated
        run = _executions(after)
        alone = after.dependencies.weight_ns[run] * self.alone
        for _ in range(_ROUNDS):
            weight = simulated.graph.dependencies.weight_ns.copy()
            weight[run] = np.rint(alone + _lost_ns(after, simulated.time_ns, self.lost)).astype(np.int64)
            if (np.abs(weight - simulated.graph.dependencies.weight_ns) <= 1).all():
                break
            weighed = after.with_dependencies(replace(after.dependencies, weight_ns=weight))
            simulated = Simulation(weighed, chains.times(weighed))
        return simulated


def _executions(graph: Graph) -> Int64:
    """The dependency of each op's own duration."""
    return graph.into(graph.work_end(np.arange(len(graph.work))), DependencyKind.EXECUTION)


def _lost_ns(graph: Graph, time_ns: Int64, lost: Mapping[Direction, float]) -> Float64:
    """What each copy loses to those of the other direction on its device that run beside it."""
    work, pinned = graph.work, graph.of_memory(MemoryKind.PINNED)
    starts, ends = (time_ns[node(np.arange(len(work)))] for node in (graph.work_start, graph.work_end))
    result = np.zeros(len(work))
    for process, device in set(zip(work.process[pinned].tolist(), work.device[pinned].tolist(), strict=True)):
        here = pinned & (work.process == process) & (work.device == device)
        for direction, share in lost.items():
            mine, other = (here & (work.engine == each) for each in (direction, _OPPOSITE[direction]))
            result[mine] = share * covered(starts[mine], ends[mine], union(starts[other], ends[other]))
    return result
