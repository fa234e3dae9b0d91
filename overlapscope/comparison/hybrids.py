"""Programs in the simulation that are partly as before a change and partly as after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from overlapscope.comparison.matching import Matching
from overlapscope.comparison.parts import Parts, mapped
from overlapscope.comparison.swaps import Part, rows_in, swapped
from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.diagnosis.causes import Cause
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.whatif.baseline import Baseline
from overlapscope.whatif.retimed import length_ns

_HOST_OR_WORK = (*OWN_DURATION, DependencyKind.EXECUTION, DependencyKind.PROGRAM_ORDER, DependencyKind.THREAD_HANDOFF)


@dataclass(frozen=True, eq=False)
class Program:
    """One side in the simulation.

    Attributes:
        base: the simulation of the trace.
        graph: its graph, without what is known of the profiler.
        window: the occurrences that count, the first ones.
        idle_ns: the idle time of its GPUs by cause, in one occurrence where those differ in number.
    """

    base: Baseline
    graph: Graph
    window: Window
    idle_ns: Mapping[Cause, float]

    @classmethod
    def of(cls, base: Baseline, window: Window, idle_ns: Mapping[Cause, float]) -> Program:
        """The program of a trace."""
        return cls(base, (base.bare or base.recorded).graph, window, idle_ns)

    def bounded_by(self, other: Graph, nodes: Int64) -> Program:
        """The program with waits that bind nothing at most as long as in another graph, of which these are the nodes.

        A dependency that bound nothing has a typical weight. In the other graph it may have bound the same work, with
        the weight that was measured there. Simulated again, the program takes as long as before.
        """
        edges, others = self.graph.dependencies, other.dependencies
        others = mapped(others.take(~others.of_kind(*_HOST_OR_WORK)), nodes)
        bound_by = self.base.link.simulate(self.graph).bound_by
        free = np.ones(len(edges), np.bool_)
        free[bound_by[bound_by != NO_ID]] = False
        row = rows_in(edges, others, len(self.graph.time_ns))
        shorter = np.minimum(edges.weight_ns, np.append(others.weight_ns, 0)[row])
        weight = np.where(free & (row != NO_ID), shorter, edges.weight_ns)
        return replace(self, graph=replace(self.graph, dependencies=replace(edges, weight_ns=weight)))

    @property
    def profiler_ns(self) -> int:
        """What is known of the profiler's cost, in the occurrences that count."""
        return self.length_ns(self.base.graph) - self.length_ns(self.graph)

    def length_ns(self, graph: Graph) -> int:
        """How long the occurrences take in a changed graph."""
        return length_ns(self.base.link.simulate(graph), self.window)


class Hybrids:
    """Programs that are partly as before and partly as after; each is simulated once."""

    def __init__(self, before: Program, after: Program, matching: Matching) -> None:
        one = before.bounded_by(after.graph, matching.nodes)
        two = after.bounded_by(before.graph, matching.flipped.nodes)
        both = matching.between(one.graph, two.graph)
        self._sides, self._swaps = (one, two), (Parts(both).swaps, Parts(both.flipped).swaps)
        self._lengths_ns: dict[frozenset[Part], int] = {}
        alone = self._swaps[0].alone
        differing = (part for part in alone if not all(swaps.alone[part].is_empty for swaps in self._swaps))
        self.parts = (*differing, Part.ORDER)

    def length_ns(self, as_after: frozenset[Part]) -> int:
        """The time with these parts as after; work and calls are those of the side that their order is from."""
        if as_after not in self._lengths_ns:
            side = int(Part.ORDER in as_after)
            program, swaps = self._sides[side], self._swaps[side]
            wanted = [part for part in self.parts[:-1] if (part in as_after) != bool(side)]
            self._lengths_ns[as_after] = program.length_ns(swapped(program.graph, swaps.of(wanted)))
        return self._lengths_ns[as_after]
