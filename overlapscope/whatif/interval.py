"""A prediction on one basis, as recorded or without the profiler: the time with some changes, and its interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import hypot

import numpy as np

from overlapscope.dependencies.apart import apart
from overlapscope.dependencies.critical_path import CriticalPath, critical_path
from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.simulate import Simulation
from overlapscope.measure.windows import Window
from overlapscope.whatif.bounds import bounding_graphs
from overlapscope.whatif.catalogue import changed
from overlapscope.whatif.change import Change
from overlapscope.whatif.config import SimulationConfig
from overlapscope.whatif.editor import Editor
from overlapscope.whatif.length import length_ns
from overlapscope.whatif.sources import (
    Edit,
    Shares,
    busy_ns,
    by_company,
    by_fix,
    by_new_memory,
    by_order,
    by_pace,
    by_profiler,
    by_unexplained,
)
from overlapscope.whatif.uncertainty import Estimate, Part


@dataclass(frozen=True, eq=False)
class Basis:
    """A graph that is changed, and how it runs.

    ``otherwise`` are the same graph with more and with less taken out of it for the profiler, where that is not known.
    ``unexplained`` is the share by which it is longer than the steps that were timed without a profiler.
    ``measured`` says that the time of the unchanged graph was measured, so that nothing about it is unknown.
    """

    graph: Graph
    window: Window
    run: Callable[[Graph], Simulation]
    config: SimulationConfig
    otherwise: tuple[Graph, ...] = ()
    unexplained: float = 0.0
    measured: bool = False

    @cached_property
    def simulated(self) -> Simulation:
        """With nothing changed."""
        return self.run(self.graph)

    @cached_property
    def simulated_ns(self) -> int:
        """How long the window takes with nothing changed."""
        return length_ns(self.simulated, self.window)

    def predict(self, changes: tuple[Change, ...], *, bounds: bool) -> tuple[Editor, Simulation, Estimate]:
        """Make the changes and simulate; without ``bounds`` there is no interval."""
        editor = changed(self.graph, changes, self.config)
        after = self.run(editor.graph)
        predicted = length_ns(after, self.window)
        if not bounds or (self.measured and not changes):
            return editor, after, Estimate.exact(predicted)
        parts = self._parts(editor, after, changes, predicted)
        least = round(busy_ns(after, self.window) * (1 - self.config.uncertainty.device))
        return editor, after, Estimate.of(predicted, parts, least, self._most_ns(changes))

    def _parts(
        self, editor: Editor, after: Simulation, changes: tuple[Change, ...], predicted_ns: int
    ) -> tuple[Part, ...]:
        """What each reason adds."""
        config, edit = self.config.uncertainty, Edit(self.graph, editor.graph, self.window)
        less, more = bounding_graphs(self.graph, editor, changes)
        others = [self._length_ns(changed(graph, changes, self.config).graph) for graph in self.otherwise]
        shares = Shares.of(path_of(after, self.window))
        return (
            by_order(predicted_ns, self._length_ns, less, more, editor.graph),
            by_fix(predicted_ns, self._length_ns, self._with_what_follows(changes)),
            by_new_memory(predicted_ns, shares, edit, config),
            by_profiler(predicted_ns, others),
            by_unexplained(predicted_ns, self.unexplained),
            by_company(self.simulated, after, self.window, config),
            *by_pace(predicted_ns, shares, self.graph.trace, config),
        )

    def _with_what_follows(self, changes: tuple[Change, ...]) -> Graph | None:
        """The graph with what the changes may bring along as well; None where they bring nothing."""
        more = [each for change in changes for each in change.may_bring(self.graph.trace)]
        return changed(self.graph, (*changes, *more), self.config).graph if more else None

    def _most_ns(self, changes: tuple[Change, ...]) -> int | None:
        """A slow run of the unchanged program, which changes that only take waits and work away do not exceed."""
        if not changes or not all(change.only_removes for change in changes):
            return None
        shares = Shares.of(path_of(self.simulated, self.window))
        slower = by_pace(self.simulated_ns, shares, self.graph.trace, self.config.uncertainty)
        dearer = by_profiler(self.simulated_ns, [self._length_ns(graph) for graph in self.otherwise]).more_ns
        return round(self.simulated_ns + dearer + hypot(*(part.more_ns for part in slower)))

    def _length_ns(self, graph: Graph) -> int:
        return length_ns(self.run(graph), self.window)


def path_of(simulated: Simulation, window: Window) -> CriticalPath:
    """The chain of calls and device work that a window's length is made of."""
    graph = simulated.graph
    within = (graph.time_ns >= window.first_ns) & (graph.time_ns <= window.last_ns)
    inside = np.flatnonzero(within & ~apart(graph))
    if not len(inside):
        return CriticalPath.none(simulated)
    last = int(inside[np.argmax(simulated.time_ns[inside])])
    return critical_path(simulated, last, window.first_ns)
