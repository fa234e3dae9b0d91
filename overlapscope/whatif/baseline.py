"""The unchanged program as recorded and without the profiler, and predictions of what changes would save it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from overlapscope.dependencies.device import open_waits_note
from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.simulate import Simulation, simulate
from overlapscope.formatting import share
from overlapscope.measure.windows import Window
from overlapscope.whatif.change import Change
from overlapscope.whatif.copy_speeds import Link
from overlapscope.whatif.host_memory import taken_for_granted
from overlapscope.whatif.interval import Basis, Changed, narrower
from overlapscope.whatif.prediction import CALIBRATED, IN_PART, UNKNOWN, Prediction, Unprofiled
from overlapscope.whatif.profiler import NEGLIGIBLE, Cost, Profiled, other_costs, profiler_cost
from overlapscope.whatif.retimed import length_ns
from overlapscope.whatif.sources import Estimate

_WORTH_SAYING = 0.03
"""What the cost of the profiler leaves unexplained is mentioned from this share of the time on."""
_REACHES_DOWN = "the lower bound without it has the most that an event cost in recordings that tell"


@dataclass(frozen=True, eq=False)
class Baseline:
    """A trace's graph with the profiler's cost in it and without, and what predictions have in common.

    ``recorded`` is the program under the profiler, ``bare`` without what is known of its cost; None where nothing is.
    """

    graph: Graph
    window: Window
    link: Link
    profiled: Profiled
    simulated: Simulation
    simulated_ns: int
    recorded: Basis
    profiler: Cost | None
    bare: Basis | None

    @classmethod
    def of(cls, graph: Graph, window: Window) -> Baseline:
        """Simulate a graph as it is."""
        link, profiled = Link.of(graph), Profiled.of(graph)
        simulated = simulate(graph)
        simulated_ns = length_ns(simulated, window)
        recorded = Basis(graph, window, link.simulate, measured=True)
        cost = profiler_cost(profiled, recorded)
        bare = None if cost is None else Basis(profiled.without(cost), window, link.simulate)
        if cost is not None and not cost.calibrated and bare is not None and bare.simulated_ns == simulated_ns:
            cost = bare = None  # nothing of what is known lies in the window
        return cls(graph, window, link, profiled, simulated, simulated_ns, recorded, cost, bare)

    @property
    def event_ns(self) -> float:
        """The profiler's cost of one event in ns, as far as it is known."""
        return 0.0 if self.profiler is None else self.profiled.event_ns(self.profiler)

    @property
    def unprofiled_ns(self) -> int | None:
        """The time of the window without the profiler in ns; None where only a part of its cost is known."""
        return self.own_ns if self.profiler is not None and self.profiler.calibrated else None

    @property
    def own_ns(self) -> int:
        """The time of the program itself: without what is known of the profiler."""
        return self.simulated_ns if self.bare is None else self.bare.simulated_ns

    @property
    def stated_ns(self) -> int:
        """The time that an audit states: without the profiler where all of its cost is known, else as recorded."""
        return self.simulated_ns if self.unprofiled_ns is None else self.unprofiled_ns

    @property
    def baseline(self) -> str:
        """The name of the stated time: ``unprofiled`` or ``recorded``."""
        return "recorded" if self.unprofiled_ns is None else "unprofiled"

    def predict(self, changes: tuple[Change, ...], *, bounds: bool = True) -> Prediction:
        """Simulate the graph with some changes; without ``bounds`` low and high are as predicted."""
        return self.prediction(self.recorded.run_with(changes), bounds=bounds)

    def prediction(self, result: Changed, *, bounds: bool = True) -> Prediction:
        """The prediction of changes that were simulated on one basis."""
        recorded, unprofiled = (
            result if result.basis is basis else basis.run_with(result.changes) for basis in (self.recorded, self.own)
        )
        editor = recorded.editor
        if bounds:
            bare, estimate = self._unprofiled.estimate(unprofiled), self.recorded.estimate(recorded)
            granted = (*editor.granted, *taken_for_granted(self.graph, editor.graph, editor.brought))
        else:
            bare, estimate = (Estimate.exact(each.predicted_ns) for each in (unprofiled, recorded))
            granted = ()
        return Prediction(
            trace=self.graph.trace,
            window=self.window,
            changes=result.changes,
            measured_ns=self.window.wall_ns,
            simulated_ns=self.simulated_ns,
            estimate=estimate,
            unprofiled=Unprofiled(self.known, self.event_ns, self.own_ns, bare),
            narrowed_by=narrower((bare, estimate), editor.assumptions, self.graph.trace),
            assumptions=(*granted, *editor.assumptions, *open_waits_note(self.graph.trace), *self._profiler_notes),
            granted=granted,
            in_order=editor.in_order,
            before=self.simulated,
            simulation=recorded.after,
        )

    @property
    def stated(self) -> Basis:
        """The basis on which an audit states times: without the profiler where all of its cost is known."""
        return self.recorded if self.unprofiled_ns is None else self.own

    @property
    def own(self) -> Basis:
        """The program itself: without what is known of the profiler."""
        return self.bare or self.recorded

    @cached_property
    def _unprofiled(self) -> Basis:
        """The program without the profiler, with what is not known of its cost."""
        others = other_costs(self.profiler, self.profiled, self.recorded)
        return replace(
            self.own,
            otherwise=tuple(self.profiled.without(cost) for cost in others),
            unexplained=0.0 if self.profiler is None else self.profiler.unexplained,
            measured=False,
            host_unknown=not len(self.graph.calls),
            ran=self.own.simulated,
        )

    @property
    def known(self) -> str:
        """The degree to which the profiler's cost is known."""
        if self.profiler is None or not len(self.graph.calls):
            return UNKNOWN
        return CALIBRATED if self.profiler.calibrated else IN_PART

    @property
    def _profiler_notes(self) -> tuple[str, ...]:
        cost = self.profiler
        if not len(self.graph.calls):
            busy = "without the profiler, the lower bound is what keeps the GPU busy"
            return (f"there are no API calls in the trace, so all work begins when it did; {busy}",)
        if cost is None:
            return (f"the profiler's own cost is not known, and stays in; {_REACHES_DOWN}",)
        less = f"{self.event_ns / 1e3:.1f} us less for each event that it recorded"
        if cost.calibrated:
            return (f"without the profiler: {less}", *_speed_notes(cost), *_unexplained_note(cost))
        seen = f"what it recorded of itself, and {less}" if self.event_ns else "what it recorded of itself"
        return (f"of the profiler's cost only a part is known: {seen}; {_REACHES_DOWN}",)


def _speed_notes(cost: Cost) -> Iterator[str]:
    factors = {"the host's work takes": cost.host_factor, "pageable copies take": cost.staging_factor}
    for what, factor in factors.items():
        if abs(1 - factor) >= NEGLIGIBLE:
            less = "less" if factor < 1 else "more"
            yield f"{what} {share(abs(1 - factor), 1)} {less} time than while it was recorded"


def _unexplained_note(cost: Cost) -> Iterator[str]:
    if abs(cost.unexplained) >= _WORTH_SAYING:
        longer = "longer" if cost.unexplained > 0 else "shorter"
        yield f"that makes it {share(abs(cost.unexplained), 1)} {longer} than the steps were without the profiler"
