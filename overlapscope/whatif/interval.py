"""A prediction on one basis, as recorded or without the profiler: the time with some changes, and its interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from math import hypot

import numpy as np

from overlapscope.dependencies.apart import apart
from overlapscope.dependencies.critical_path import CriticalPath, critical_path
from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.simulate import Simulation
from overlapscope.measure.windows import Window
from overlapscope.whatif.bounds import bounding_graphs
from overlapscope.whatif.catalogue import Edits, changed
from overlapscope.whatif.change import Change
from overlapscope.whatif.config import SimulationConfig
from overlapscope.whatif.editor import Editor
from overlapscope.whatif.length import length_ns
from overlapscope.whatif.sources import (
    Edit,
    Shares,
    beside_copies_ns,
    busy_ns,
    by_contention,
    by_fix,
    by_new_memory,
    by_order,
    by_pace,
    by_profiler,
    by_size,
    by_unexplained,
)
from overlapscope.whatif.uncertainty import Estimate, Part


@dataclass(frozen=True, eq=False)
class Basis:
    """A graph that is changed, and how it runs.

    ``otherwise`` are the same graph with more and with less taken out of it for the profiler, where that is not known.
    ``unexplained`` is the share by which it is longer than the steps that were timed without a profiler.
    ``measured`` says that the time of the unchanged graph was measured, so that nothing about it is unknown.
    ``host_unknown`` says that no calls were recorded, so that the profiler may have cost all time without device work.
    ``ran`` is the simulation of the unchanged graph where it is known, ``lengths`` are those of what was simulated.
    """

    graph: Graph
    window: Window
    run: Callable[[Graph], Simulation]
    config: SimulationConfig
    otherwise: tuple[Graph, ...] = ()
    unexplained: float = 0.0
    measured: bool = False
    host_unknown: bool = False
    ran: Simulation | None = None
    lengths: dict[tuple[Change, ...], int] = field(default_factory=dict)

    @cached_property
    def simulated(self) -> Simulation:
        """With nothing changed."""
        return self.run(self.graph) if self.ran is None else self.ran

    @cached_property
    def simulated_ns(self) -> int:
        """How long the window takes with nothing changed."""
        return length_ns(self.simulated, self.window)

    @cached_property
    def edits(self) -> Edits:
        """The graph, to be changed."""
        return Edits(self.graph, self.config)

    def length_with(self, changes: tuple[Change, ...]) -> int:
        """How long the window takes with some changes."""
        return self.lengths[changes] if changes in self.lengths else self.run_with(changes).predicted_ns

    def run_with(self, changes: tuple[Change, ...]) -> Changed:
        """Make the changes and simulate."""
        editor = self.edits.changed(changes)
        found = Changed(self, changes, editor, self.run(editor.graph))
        self.lengths[changes] = found.predicted_ns
        return found

    def estimate(self, found: Changed) -> Estimate:
        """The time with some changes and its interval; ``found`` may be of another basis with the same graph."""
        if self.measured and not found.changes:
            return Estimate.exact(found.predicted_ns)
        least = round(busy_ns(found.shortest, self.window) * (1 - self.config.uncertainty.device))
        parts = (*found.parts, *self._parts_of_profiler(found))
        return Estimate.of(found.predicted_ns, parts, least, self._most_ns(found.changes))

    def _parts_of_profiler(self, found: Changed) -> tuple[Part, Part]:
        """What is not known of the profiler's cost."""
        others = [
            self.length_ns(changed(graph, found.changes, self.config).graph) if found.changes else length
            for graph, length in zip(self.otherwise, self._otherwise_ns, strict=True)
        ]
        others += [busy_ns(found.shortest, self.window)] if self.host_unknown else []
        return by_profiler(found.predicted_ns, others), by_unexplained(found.predicted_ns, self.unexplained)

    def _most_ns(self, changes: tuple[Change, ...]) -> int | None:
        """A slow run of the unchanged program, which changes that only take waits and work away do not exceed."""
        only_less = changes and all(change.only_removes for change in changes)
        return self._slow_ns if only_less else None

    @cached_property
    def _slow_ns(self) -> int:
        shares = Shares.of(path_of(self.simulated, self.window))
        slower = by_pace(self.simulated_ns, shares, self.graph.trace, self.config.uncertainty)
        dearer = by_profiler(self.simulated_ns, self._otherwise_ns).more_ns
        return round(self.simulated_ns + dearer + hypot(*(part.more_ns for part in slower)))

    @cached_property
    def _otherwise_ns(self) -> list[int]:
        return [self.length_ns(graph) for graph in self.otherwise]

    @cached_property
    def beside_copies_ns(self) -> int:
        """For how long kernels run beside copies with nothing changed."""
        return beside_copies_ns(self.simulated, self.window)

    def length_ns(self, graph: Graph) -> int:
        """How long the window takes in the simulation of a graph."""
        return length_ns(self.run(graph), self.window)


@dataclass(frozen=True, eq=False)
class Changed:
    """The graph of a basis with some changes, simulated."""

    basis: Basis
    changes: tuple[Change, ...]
    editor: Editor
    after: Simulation

    @cached_property
    def predicted_ns(self) -> int:
        """How long the window takes."""
        return length_ns(self.after, self.basis.window)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """What each reason adds to the interval, but for the profiler."""
        basis, config = self.basis, self.basis.config.uncertainty
        shares = Shares.of(path_of(self.after, basis.window))
        return (
            self.order,
            by_size(self.predicted_ns, length_ns(self.shortest, basis.window)),
            by_fix(self.predicted_ns, basis.length_ns, self._with_what_follows),
            by_new_memory(self.predicted_ns, shares, self._edit, config),
            by_contention(basis.beside_copies_ns, beside_copies_ns(self.after, basis.window), config),
            *self._by_pace(shares),
        )

    def _by_pace(self, shares: Shares) -> tuple[Part, ...]:
        """What differs by chance; where copies may be far shorter, the host may be what remains."""
        basis, trace, config = self.basis, self.basis.graph.trace, self.basis.config.uncertainty
        more = by_pace(self.predicted_ns, shares, trace, config)
        if self.shortest is self.after:
            return more
        least = Shares.of(path_of(self.shortest, basis.window))
        less = by_pace(length_ns(self.shortest, basis.window), least, trace, config)
        return tuple(Part(each.reason, below.less_ns, each.more_ns) for below, each in zip(less, more, strict=True))

    @cached_property
    def order(self) -> Part:
        """What the order of the work adds, as far as the trace leaves that open."""
        less, more = bounding_graphs(self.basis.graph, self.editor, self.changes)
        return by_order(self.predicted_ns, self.basis.length_ns, less, more, self.editor.graph)

    @cached_property
    def shortest(self) -> Simulation:
        """The same where pinned copies of unknown size are as short as they can be."""
        graph = self._edit.with_least_sizes()
        return self.after if graph is None else self.basis.run(graph)

    @cached_property
    def _edit(self) -> Edit:
        return Edit(self.basis.graph, self.editor.graph, self.basis.window)

    @property
    def _with_what_follows(self) -> Graph | None:
        """The graph with what the changes may bring along as well; None where they bring nothing."""
        edits, changes = self.basis.edits, self.changes
        more = [each for change in changes for each in change.may_bring(edits.graph.trace)]
        return edits.changed((*more, *changes)).graph if more else None


def path_of(simulated: Simulation, window: Window) -> CriticalPath:
    """The chain of calls and device work that a window's length is made of."""
    graph = simulated.graph
    within = (graph.time_ns >= window.first_ns) & (graph.time_ns <= window.last_ns)
    inside = np.flatnonzero(within & ~apart(graph))
    if not len(inside):
        return CriticalPath.none(simulated)
    last = int(inside[np.argmax(simulated.time_ns[inside])])
    return critical_path(simulated, last, window.first_ns)
