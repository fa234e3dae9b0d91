"""Programs that are partly as before and partly as after, in the simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from overlapscope.comparison.matching import Matching, first
from overlapscope.comparison.parts import Parts
from overlapscope.comparison.swaps import Part, Swaps, swapped
from overlapscope.comparison.usual import with_usual
from overlapscope.dependencies.graph import Graph
from overlapscope.diagnosis.causes import Cause
from overlapscope.measure.windows import Window, of_range
from overlapscope.whatif.retimed import retimed
from overlapscope.whatif.what_if import Baseline


@dataclass(frozen=True, eq=False)
class Program:
    """One side in the simulation.

    Its ``graph`` is without what is known of the profiler. ``window`` are the occurrences that count, the first ones.
    ``idle_ns`` is the idle time of its GPUs by cause, in one occurrence where those differ in number.
    """

    base: Baseline
    graph: Graph
    window: Window
    idle_ns: Mapping[Cause, float]

    @classmethod
    def of(cls, base: Baseline, window: Window, idle_ns: Mapping[Cause, float]) -> Program:
        """The program of a trace."""
        return cls(base, (base.bare or base.recorded).graph, window, idle_ns)

    def beside(self, other: Program, matching: Matching) -> Program:
        """The same, with waits that bind nothing at most as long as in another program."""
        bound_by = self.base.link.simulate(self.graph).bound_by
        return replace(self, graph=with_usual(self.graph, bound_by, other.graph, matching))

    @property
    def profiler_ns(self) -> int:
        """What is known of the profiler, in the occurrences that count."""
        return self.length_ns(self.base.graph) - self.length_ns(self.graph)

    def length_ns(self, graph: Graph) -> int:
        """How long the occurrences take in a changed graph; a whole trace, as long as its calls and work."""
        simulated = self.base.link.simulate(graph)
        if self.window.name is None:
            return simulated.length_ns + self._around_ns
        return first(of_range(retimed(simulated), self.window.name), len(self.window.start_ns)).wall_ns

    @cached_property
    def _around_ns(self) -> int:
        """What a whole trace has before its first call and after its last work."""
        simulated = (self.base.bare or self.base.recorded).simulated
        return self.base.own_ns - simulated.length_ns


class Hybrids:
    """Programs that are partly as before and partly as after; each is simulated once."""

    def __init__(self, before: Program, after: Program, swaps: tuple[Swaps, Swaps]) -> None:
        self._sides, self._swaps = (before, after), swaps
        self._known: dict[frozenset[Part], int] = {}
        alone = [part for part in swaps[0].alone if not all(side.alone[part].is_empty for side in swaps)]
        self.parts = (*alone, Part.ORDER)

    @classmethod
    def of(cls, before: Program, after: Program, matching: Matching) -> Hybrids:
        """Those of two programs."""
        before, after = before.beside(after, matching), after.beside(before, matching.flipped)
        there, back = Parts(before.graph, after.graph, matching), Parts(after.graph, before.graph, matching.flipped)
        return cls(before, after, (there.swaps, back.swaps))

    def length_ns(self, swapped_parts: frozenset[Part]) -> int:
        """How long it takes with some parts as after: work and calls are those of the side that their order is from."""
        if swapped_parts not in self._known:
            side = int(Part.ORDER in swapped_parts)
            program, swaps = self._sides[side], self._swaps[side]
            wanted = [part for part in self.parts[:-1] if (part in swapped_parts) != bool(side)]
            graph = swapped(program.graph, swaps.of(wanted))
            self._known[swapped_parts] = program.length_ns(graph)
        return self._known[swapped_parts]
