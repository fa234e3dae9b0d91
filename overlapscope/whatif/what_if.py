"""Predict what a change of the program would save."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.open_waits import about_open_waits
from overlapscope.dependencies.simulate import Simulation, simulate
from overlapscope.formatting import share
from overlapscope.measure.windows import Window, of_range, whole
from overlapscope.model.trace import Trace
from overlapscope.whatif.catalogue import changed, understood
from overlapscope.whatif.change import Change
from overlapscope.whatif.config import DEFAULT, SimulationConfig
from overlapscope.whatif.duplex import Link
from overlapscope.whatif.editor import Editor
from overlapscope.whatif.host_use import taken_for_granted
from overlapscope.whatif.interval import Basis, Changed
from overlapscope.whatif.length import length_ns
from overlapscope.whatif.narrower import narrower
from overlapscope.whatif.prediction import CALIBRATED, IN_PART, UNKNOWN, Prediction, Unprofiled
from overlapscope.whatif.profiler import Cost, Profiled
from overlapscope.whatif.profiler_cost import other_costs, profiler_cost
from overlapscope.whatif.retimed import retimed
from overlapscope.whatif.uncertainty import Estimate

_REACHES_DOWN = "the lower bound without it has the most that an event cost in recordings that tell"


def what_if(
    trace: Trace,
    changes: Iterable[Change | str] | Change | str,
    within: str | Window | None = None,
    config: SimulationConfig = DEFAULT,
) -> Prediction:
    """Predict how long a window would take with some changes of the program.

    Args:
        trace: an opened trace.
        changes: what would be different: changes such as ``Pin(within="train_step")`` or their text, such as ``"pin"``,
            ``"prefetch=2"`` or ``"non-blocking:within=copy,stream=7"`` (also ``source=TEXT``, of Python frames).
        within: predict for the host ranges of this name, or for a window; the whole trace otherwise.
        config: what the simulation assumes.

    Returns:
        A `Prediction`: times of the window in ns, as the profiler makes them and without it. Each has an interval, from
        ``low`` to ``high``, in which the time is expected: as wide as what the trace leaves open.

    Raises:
        ChangeNotUnderstood: a change is none that we know, or contradicts another.
        RangeNotFound: the trace has no such range.
    """
    wanted = understood(changes)
    window = within if isinstance(within, Window) else whole(trace) if within is None else of_range(trace, within)
    return Baseline.of(build_graph(trace, config.dependencies), window, config).predict(wanted)


def trace_with(
    trace: Trace, changes: Iterable[Change | str] | Change | str, config: SimulationConfig = DEFAULT
) -> Trace:
    """The simulated trace of a program with some changes: `Prediction.after` without all else of a prediction."""
    graph = build_graph(trace, config.dependencies)
    return retimed(Link.of(graph).simulate(changed(graph, understood(changes), config).graph))


@dataclass(frozen=True, eq=False)
class Baseline:
    """A trace's graph, the same without what is known of the profiler, and what predictions have in common.

    ``recorded`` is the program under the profiler, ``bare`` without what is known of its cost; None where nothing is.
    """

    graph: Graph
    window: Window
    config: SimulationConfig
    link: Link
    profiled: Profiled
    simulated: Simulation
    simulated_ns: int
    recorded: Basis
    profiler: Cost | None
    bare: Basis | None
    without_ns: int | None

    @classmethod
    def of(cls, graph: Graph, window: Window, config: SimulationConfig = DEFAULT) -> Baseline:
        """Simulate a graph as it is."""
        link, profiled = Link.of(graph), Profiled.of(graph)
        simulated = simulate(graph)
        simulated_ns = length_ns(simulated, window)
        recorded = Basis(graph, window, link.simulate, config, measured=True)
        cost = profiler_cost(profiled, recorded, config.profiler)
        bare = None if cost is None else Basis(profiled.without(cost), window, link.simulate, config)
        without_ns = None if bare is None else bare.simulated_ns
        if cost is not None and not cost.calibrated and without_ns == simulated_ns:
            cost = bare = without_ns = None  # nothing of what is known lies in the window
        return cls(graph, window, config, link, profiled, simulated, simulated_ns, recorded, cost, bare, without_ns)

    @property
    def event_ns(self) -> float:
        """What the profiler spent for an event, as far as that is known."""
        return 0.0 if self.profiler is None else self.profiled.event_ns(self.profiler)

    @property
    def unprofiled_ns(self) -> int | None:
        """How long the window takes without the profiler; None where only a part of its cost is known."""
        return self.without_ns if self.profiler is not None and self.profiler.calibrated else None

    @property
    def own_ns(self) -> int:
        """The time of the program itself: without what is known of the profiler."""
        return self.simulated_ns if self.without_ns is None else self.without_ns

    @property
    def stated_ns(self) -> int:
        """The time that an audit states: without the profiler where all of its cost is known, else as recorded."""
        return self.simulated_ns if self.unprofiled_ns is None else self.unprofiled_ns

    @property
    def baseline(self) -> str:
        """Which time that is: ``unprofiled`` or ``recorded``."""
        return "recorded" if self.unprofiled_ns is None else "unprofiled"

    def predict(self, changes: tuple[Change, ...], *, bounds: bool = True) -> Prediction:
        """Simulate the graph with some changes; without ``bounds`` low and high are as predicted."""
        return self.prediction(self.recorded.run_with(changes), bounds=bounds)

    def prediction(self, found: Changed, *, bounds: bool = True) -> Prediction:
        """What changes are predicted to give that were simulated on one basis."""
        recorded, own = (self._on(basis, found) for basis in (self.recorded, self.own))
        bare, assumed = self._estimate(self._unprofiled, own, bounds=bounds), recorded.editor.assumptions
        granted = self._granted(recorded.editor) if bounds else ()
        estimate = self._estimate(self.recorded, recorded, bounds=bounds)
        return Prediction(
            trace=self.graph.trace,
            window=self.window,
            changes=found.changes,
            measured_ns=self.window.wall_ns,
            simulated_ns=self.simulated_ns,
            estimate=estimate,
            unprofiled=Unprofiled(self.known, self.event_ns, self.own_ns, bare),
            narrowed_by=narrower((bare, estimate), assumed, self.graph.trace, self.config.uncertainty.wide),
            assumptions=(*granted, *assumed, *about_open_waits(self.graph.trace), *self._about_profiler),
            granted=granted,
            in_order=recorded.editor.in_order,
            before=self.simulated,
            simulation=recorded.after,
        )

    def _granted(self, editor: Editor) -> tuple[str, ...]:
        return (*editor.granted, *taken_for_granted(self.graph, editor.graph))

    @staticmethod
    def _on(basis: Basis, found: Changed) -> Changed:
        return found if found.basis is basis else basis.run_with(found.changes)

    @staticmethod
    def _estimate(basis: Basis, found: Changed, *, bounds: bool) -> Estimate:
        return basis.estimate(found) if bounds else Estimate.exact(found.predicted_ns)

    @property
    def stated(self) -> Basis:
        """On which basis an audit states times: without the profiler where all of its cost is known."""
        return self.recorded if self.unprofiled_ns is None else self.own

    @property
    def own(self) -> Basis:
        """The program itself: without what is known of the profiler."""
        return self.bare or self.recorded

    @cached_property
    def _unprofiled(self) -> Basis:
        """The same, with what is not known of the profiler."""
        basis = self.bare or self.recorded
        return replace(
            basis,
            otherwise=tuple(self.profiled.without(cost) for cost in self._other_costs()),
            unexplained=0.0 if self.profiler is None else self.profiler.unexplained,
            measured=False,
            host_unknown=not len(self.graph.calls),
            ran=basis.simulated,
        )

    def _other_costs(self) -> tuple[Cost, ...]:
        """What the profiler may have spent too; nothing else where steps were timed without it."""
        return other_costs(self.profiler, self.profiled, self.recorded, self.config)

    @property
    def known(self) -> str:
        """How much is known of what the profiler cost."""
        if self.profiler is None or not len(self.graph.calls):
            return UNKNOWN
        return CALIBRATED if self.profiler.calibrated else IN_PART

    @property
    def _about_profiler(self) -> tuple[str, ...]:
        cost = self.profiler
        if not len(self.graph.calls):
            busy = "without the profiler, the lower bound is what keeps the GPU busy"
            return (f"there are no API calls in the trace, so all work begins when it did; {busy}",)
        if cost is None:
            return (f"the profiler's own cost is not known, and stays in; {_REACHES_DOWN}",)
        less = f"{self.event_ns / 1e3:.1f} us less for each event that it recorded"
        if cost.calibrated:
            return (f"without the profiler: {less}", *self._about_speed, *self._about_the_rest)
        seen = f"what it recorded of itself, and {less}" if self.event_ns else "what it recorded of itself"
        return (f"of the profiler's cost only a part is known: {seen}; {_REACHES_DOWN}",)

    @property
    def _about_the_rest(self) -> tuple[str, ...]:
        rest = self.profiler.unexplained if self.profiler is not None else 0.0
        if abs(rest) < self.config.profiler.worth_saying:
            return ()
        longer = "longer" if rest > 0 else "shorter"
        return (f"that makes it {share(abs(rest), 1)} {longer} than the steps were without the profiler",)

    @property
    def _about_speed(self) -> tuple[str, ...]:
        if self.profiler is None:
            return ()
        factors = {
            "the host's work takes": self.profiler.host_factor,
            "pageable copies take": self.profiler.staging_factor,
        }
        return tuple(
            f"{what} {share(abs(1 - factor), 1)} {'less' if factor < 1 else 'more'} time than while it was recorded"
            for what, factor in factors.items()
            if abs(1 - factor) >= self.config.profiler.negligible
        )
