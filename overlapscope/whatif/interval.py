"""A prediction on one basis, as recorded or without the profiler: the time with some changes, and its interval."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from math import hypot

import numpy as np

from overlapscope.calibration.schema import Calibration
from overlapscope.dependencies.device import possible_waits
from overlapscope.dependencies.graph import Dependencies, Graph, detached
from overlapscope.dependencies.simulate import CriticalPath, Simulation, critical_path, has_cycle
from overlapscope.measure.windows import Window
from overlapscope.model.trace import Trace
from overlapscope.whatif.catalogue import Edits, changed
from overlapscope.whatif.change import Change, Editor
from overlapscope.whatif.changes.side_stream import UNKNOWN_CONSUMERS
from overlapscope.whatif.host_memory import UNKNOWN_READER
from overlapscope.whatif.retimed import length_ns
from overlapscope.whatif.sources import (
    DEVICE_SCATTER,
    Edit,
    Estimate,
    Part,
    Reason,
    Shares,
    beside_copies_ns,
    busy_ns,
    by_contention,
    by_new_memory,
    by_pace,
    by_unexplained,
)


def bounding_graphs(before: Graph, editor: Editor, changes: Iterable[Change]) -> tuple[Graph, Graph]:
    """The changed graph without what may not be needed, and with what may have to be there too.

    Such are the waits of which the trace does not say what they are for.
    """
    after = editor.graph
    different = {change.name: change for change in changes}.values()
    open_order = [bounds for each in different if (bounds := each.bounds(before, after)) is not None]
    avoidable = Dependencies.concat(editor.avoidable, *(bounds.avoidable for bounds in open_order))
    moved = Dependencies.concat(Dependencies.none(), *(bounds.possible for bounds in open_order[:1]))
    edges = after.dependencies
    gone = edges.among(avoidable) & np.isin(edges.kind, avoidable.kind)  # a copy engine stays one
    less = after.with_dependencies(edges.take(~gone)) if gone.any() else after
    waits = possible_waits(before)
    together = (editor.possible, moved, waits), (editor.possible, moved), (editor.possible,), (moved,), (waits,)
    for extra in (Dependencies.concat(*parts) for parts in together):
        more = after.with_dependencies(after.dependencies, extra)
        if len(extra) and not has_cycle(more):  # else it is more order than there can be
            return less, more
    return less, after


WIDE = 0.5
"""An interval of this width, as a share of what is predicted, is of little use."""

_TIMED = "a recording by `overlapscope record --unprofiled 10`, which times the steps without the profiler"
_WARM = (
    "a recording after more warm-up steps (`--warmup 5 --unprofiled 10`): those recorded took longer than the profiler "
    "explains"
)
_CONSUMERS = "a recording by `overlapscope record`, which notes the operators that use each copy"
_ORDER = "a recording after the fix: nothing recorded before it tells in which order the moved work will run"
_FIX = "naming the other changes that the fix makes, or a recording after it"
_CONTENTION = "a recording after the fix, whose kernels run beside the copies"
_LINK = "a recording on a host with nothing else to do: copies of one size took times that differ much"
_SIZES = "a recording that has the sizes of copies"
_PACE = "a recording after the fix: the host is faster or slower from run to run, by chance"

_READERS = (UNKNOWN_CONSUMERS, UNKNOWN_READER)


def narrower(bases: Sequence[Estimate], assumptions: Collection[str], trace: Trace) -> str | None:
    """The recording that helps against what adds most to the first of some intervals that is wider than `WIDE`.

    What differs from run to run by chance no recording tells: then it is the one that helps against the next reason.
    None where no interval is that wide.
    """
    wide = next((each for each in bases if each.width > WIDE), None)
    if wide is None:
        return None
    parts = sorted(wide.parts, key=lambda part: part.less_ns + part.more_ns, reverse=True)
    unread = any(text.endswith(_READERS) for text in assumptions)
    advice = (_against(part.reason, trace.calibration, unread=unread) for part in parts)
    return next(filter(None, advice), _PACE if parts else None)


def _against(reason: Reason, calibration: Calibration, *, unread: bool) -> str | None:
    """The recording that narrows one reason; None where none does.

    ``unread`` says that it is not known who reads copies, which recordings note.
    """
    timed = None not in (calibration.profiler_factor, calibration.issue_profiled)
    noted = calibration.copy_consumers is not None
    return {
        Reason.ORDER: _CONSUMERS if unread and not noted else _ORDER,
        Reason.FIX: _FIX,
        Reason.PROFILER: _WARM if timed else _TIMED,
        Reason.CONTENTION: _CONTENTION,
        Reason.HOST: None if timed else _TIMED,
        Reason.LINK: _LINK,
        Reason.SIZE: _SIZES,
    }.get(reason)


@dataclass(frozen=True, eq=False)
class Basis:
    """A graph that is changed, and how it runs.

    ``otherwise`` are this graph with more and with less taken out of it for the profiler, where that is not known.
    ``unexplained`` is the share by which it is longer than the steps that were timed without a profiler.
    ``measured`` says that the time of the unchanged graph was measured, so that nothing about it is unknown.
    ``host_unknown`` says that no calls were recorded, so that the profiler may have cost all time without device work.
    ``ran`` is the simulation of the unchanged graph where it is known. ``lengths`` has lengths of the window by changes
    and by what these make of the graph, since others may make the same of it.
    """

    graph: Graph
    window: Window
    run: Callable[[Graph], Simulation]
    otherwise: tuple[Graph, ...] = ()
    unexplained: float = 0.0
    measured: bool = False
    host_unknown: bool = False
    ran: Simulation | None = None
    lengths: dict[frozenset[Change] | bytes, int] = field(default_factory=dict)

    @cached_property
    def simulated(self) -> Simulation:
        """The simulation with nothing changed."""
        return self.run(self.graph) if self.ran is None else self.ran

    @cached_property
    def simulated_ns(self) -> int:
        """The time of the window with nothing changed, in ns."""
        return length_ns(self.simulated, self.window)

    @cached_property
    def edits(self) -> Edits:
        """The graph, to be changed."""
        return Edits(self.graph)

    def length_with(self, changes: tuple[Change, ...]) -> int:
        """The time of the window with changes, in ns; nothing is simulated twice."""
        wanted = frozenset(changes)
        if wanted not in self.lengths:
            graph = self.edits.changed(changes).graph
            made = _content(graph)
            if made not in self.lengths:
                self.lengths[made] = self.length_ns(graph)
            self.lengths[wanted] = self.lengths[made]
        return self.lengths[wanted]

    def is_edited_by(self, change: Change) -> bool:
        """Whether a change by itself makes anything else of the graph."""
        before, after = self.edits.changed((), in_order=True), self.edits.changed((change,))
        return _content(before.graph) != _content(after.graph)

    def run_with(self, changes: tuple[Change, ...]) -> Changed:
        """Make the changes and simulate."""
        editor = self.edits.changed(changes)
        result = Changed(self, changes, editor, self.run(editor.graph))
        self.lengths[frozenset(changes)] = result.predicted_ns
        return result

    def estimate(self, result: Changed) -> Estimate:
        """The time with changes and its interval; ``result`` may be of another basis with the same graph.

        Changes that only take waits and work away take no longer than a slow run of the unchanged program.
        """
        changes, predicted_ns = result.changes, result.predicted_ns
        if self.measured and not changes:
            return Estimate.exact(predicted_ns)
        busy = min(busy_ns(simulated, self.window) for simulated in (result.shortest, *result.with_more))
        others = [
            self.length_ns(changed(graph, changes).graph) if changes else length
            for graph, length in zip(self.otherwise, self._otherwise_ns, strict=True)
        ]
        profiler = Part.between(Reason.PROFILER, predicted_ns, [*others, *[busy] * self.host_unknown])
        parts = (*result.parts, profiler, by_unexplained(predicted_ns, self.unexplained))
        most_ns = self._slow_ns if changes and all(change.only_removes for change in changes) else None
        return Estimate.of(predicted_ns, parts, round(busy * (1 - DEVICE_SCATTER)), most_ns)

    @cached_property
    def _slow_ns(self) -> int:
        shares = Shares.of(path_of(self.simulated, self.window))
        slower = by_pace(self.simulated_ns, shares, self.graph.trace)
        dearest_ns = max([self.simulated_ns, *self._otherwise_ns])
        return round(dearest_ns + hypot(*(part.more_ns for part in slower)))

    @cached_property
    def _otherwise_ns(self) -> list[int]:
        return [self.length_ns(graph) for graph in self.otherwise]

    @cached_property
    def beside_copies_ns(self) -> int:
        """For how long kernels run beside copies with nothing changed."""
        return beside_copies_ns(self.simulated, self.window)

    def length_ns(self, graph: Graph) -> int:
        """The time of the window in the simulation of a graph, in ns."""
        return length_ns(self.run(graph), self.window)


def _content(graph: Graph) -> bytes:
    """A key of all that changes make of a graph: its dependencies, and the memory, streams and calls of copies."""
    edges, copies = graph.dependencies, graph.trace.copies
    key = blake2b()
    for name in ("source", "target", "weight_ns", "kind"):
        key.update(getattr(edges, name).tobytes())
    for name in ("stream", "source_kind", "target_kind", "call"):
        key.update(getattr(copies, name).tobytes())
    return key.digest()


@dataclass(frozen=True, eq=False)
class Changed:
    """The graph of a basis with some changes, simulated."""

    basis: Basis
    changes: tuple[Change, ...]
    editor: Editor
    after: Simulation

    @cached_property
    def predicted_ns(self) -> int:
        """The predicted time of the window, in ns."""
        return length_ns(self.after, self.basis.window)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The part that each reason adds to the interval, but for the profiler."""
        basis, predicted_ns = self.basis, self.predicted_ns
        shares, shortest_ns = Shares.of(path_of(self.after, basis.window)), length_ns(self.shortest, basis.window)
        with_more = [length_ns(simulated, basis.window) for simulated in self.with_more]
        return (
            self.order,
            Part.between(Reason.SIZE, predicted_ns, [min(shortest_ns, predicted_ns)]),
            Part.between(Reason.FIX, predicted_ns, [min(length, predicted_ns) for length in with_more]),
            by_new_memory(predicted_ns, shares, self._edit),
            by_contention(basis.beside_copies_ns, beside_copies_ns(self.after, basis.window)),
            *self._by_pace(shares),
        )

    def _by_pace(self, shares: Shares) -> tuple[Part, ...]:
        """The part of chance; where copies may be far shorter, the host may be what remains."""
        basis, trace = self.basis, self.basis.graph.trace
        more = by_pace(self.predicted_ns, shares, trace)
        if self.shortest is self.after:
            return more
        least = Shares.of(path_of(self.shortest, basis.window))
        less = by_pace(length_ns(self.shortest, basis.window), least, trace)
        return tuple(Part(each.reason, below.less_ns, each.more_ns) for below, each in zip(less, more, strict=True))

    @cached_property
    def order(self) -> Part:
        """The part of the order of the work, as far as the trace leaves that open."""
        bounds = bounding_graphs(self.basis.graph, self.editor, self.changes)
        lengths = [self.basis.length_ns(graph) for graph in bounds if graph is not self.editor.graph]
        return Part.between(Reason.ORDER, self.predicted_ns, [self.predicted_ns, *lengths])

    @cached_property
    def with_more(self) -> tuple[Simulation, ...]:
        """The simulation with what the fix may change besides; nothing where it may not."""
        basis = self.basis
        follow = [each for change in self.changes for each in change.may_bring(basis.graph.trace)]
        return (basis.run(basis.edits.changed((*follow, *self.changes)).graph),) if follow else ()

    @cached_property
    def shortest(self) -> Simulation:
        """The simulation where pinned copies of unknown size are as short as they can be."""
        graph = self._edit.with_least_sizes()
        return self.after if graph is None else self.basis.run(graph)

    @cached_property
    def _edit(self) -> Edit:
        return Edit(self.basis.graph, self.editor.graph, self.basis.window)


def path_of(simulated: Simulation, window: Window) -> CriticalPath:
    """The chain of calls and device work that a window's length is made of."""
    graph = simulated.graph
    within = (graph.time_ns >= window.first_ns) & (graph.time_ns <= window.last_ns)
    inside = np.flatnonzero(within & ~detached(graph))
    if not len(inside):
        return CriticalPath.none(simulated)
    last = int(inside[np.argmax(simulated.time_ns[inside])])
    return critical_path(simulated, last, window.first_ns)
