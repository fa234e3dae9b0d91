"""`Analysis`: a trace, a window and a configuration, and each fact that is derived from them, once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import overlapscope
from overlapscope.analysis.config import DEFAULT, Config
from overlapscope.analysis.window import window_of
from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.graph import Graph
from overlapscope.diagnosis.attribution import Attribution
from overlapscope.diagnosis.conclusion import concluded
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import DeviceDiagnosis, Diagnosis
from overlapscope.diagnosis.plan import with_plan, worth_simulating
from overlapscope.diagnosis.run import attributed, diagnosed
from overlapscope.fitness.fitness import Fitness, fitness_of
from overlapscope.measure.copies import CopyFacts, copy_facts
from overlapscope.measure.devices import Activity, activity, device_keys
from overlapscope.measure.windows import Window
from overlapscope.model.trace import Trace
from overlapscope.whatif.baseline import Baseline
from overlapscope.whatif.catalogue import understood
from overlapscope.whatif.change import Change
from overlapscope.whatif.prediction import Prediction
from overlapscope.whatif.retimed import retimed, window_after

if TYPE_CHECKING:
    from overlapscope.analysis.tables import CopyTable, FindingTable, GapTable, RangeTable, StreamTable
    from overlapscope.budget.baseline import Baseline as StoredFigures
    from overlapscope.budget.limits import Budget
    from overlapscope.budget.result import CheckResult
    from overlapscope.comparison.result import Comparison
    from overlapscope.report.data import Audit


def silent(_phase: str) -> None:
    """Tell nobody which part of the work begins."""


@dataclass(frozen=True, eq=False)
class _Program:
    """What does not depend on the window: the dependencies of a trace, and its idle time attributed by them.

    ``parts`` are the analyses of named ranges so far, by name, GPU and configuration.
    """

    trace: Trace
    on_phase: Callable[[str], None] = silent
    known: Graph | None = None
    parts: dict[tuple[str, int | None, Config], Analysis] = field(default_factory=dict)

    @cached_property
    def graph(self) -> Graph:
        if self.known is not None:
            return self.known
        self.on_phase("dependencies")
        return build_graph(self.trace)

    @cached_property
    def attribution(self) -> Attribution:
        return Attribution(self.graph)


@dataclass(frozen=True, eq=False, repr=False)
class Analysis:
    """A trace, a window of it and a configuration; each fact is computed when it is first asked for, and once.

    Attributes:
        trace: the trace.
        window: the analysed part of it.
        config: thresholds of findings, and how much an audit lists.
    """

    trace: Trace
    window: Window
    config: Config
    _program: _Program
    _known: Diagnosis | None = None

    def __repr__(self) -> str:
        """The trace and the window."""
        name = self.window.name or f"{self.window.first_ns} to {self.window.last_ns} ns"
        return f"<Analysis of {self.trace.metadata.path}: {name}>"

    @classmethod
    def of_graph(cls, graph: Graph, window: Window) -> Analysis:
        """The analysis of a trace whose graph is known."""
        return cls(graph.trace, window, DEFAULT, _Program(graph.trace, known=graph))

    @classmethod
    def of_diagnosis(cls, diagnosis: Diagnosis) -> Analysis:
        """The analysis of a window whose diagnosis is known."""
        return cls(diagnosis.trace, diagnosis.window, DEFAULT, _Program(diagnosis.trace), diagnosis)

    def within(
        self,
        within: str | Window | None = None,
        step: int | None = None,
        device: int | None = None,
        config: Config | None = None,
    ) -> Analysis:
        """The analysis of another window or configuration of the trace; what depends on neither is shared.

        The analysis of a named range is made once, and kept as long as any of the trace. The GPU stays, unless another
        one or a `Window` is given.

        Raises:
            RangeNotFound: the trace has no such range or step.
            WindowEmpty: the GPU has no work in the trace.
        """
        stays = device is None and not isinstance(within, Window)
        config = self.config if config is None else config
        named = isinstance(within, str) and step is None
        key = (str(within), self.window.device if stays else device, config) if named else None
        if key is not None and key in self._program.parts:
            return self._program.parts[key]
        window = window_of(self.trace, self.window if within is None and step is None else within, step, device)
        if window is self.window and config == self.config:
            return self
        if stays and window is not self.window:
            window = replace(window, device=self.window.device)
        part = replace(self, window=window, config=config, _known=None)
        if key is not None:
            self._program.parts[key] = part
        return part

    # Facts, in the order in which each needs those before it.

    @property
    def graph(self) -> Graph:
        """What each call and each piece of device work of the trace waited for."""
        return self._program.graph

    @property
    def attribution(self) -> Attribution:
        """The walks that attribute idle time of a GPU to causes."""
        return self._program.attribution

    @cached_property
    def copy_facts(self) -> CopyFacts:
        """The measurements of each copy of the trace within the window."""
        return copy_facts(self.trace, self.window)

    @cached_property
    def activities(self) -> tuple[Activity, ...]:
        """When each GPU of the window ran kernels, copies and memsets."""
        return tuple(activity(self.trace, key, self.window) for key in device_keys(self.trace, self.window))

    @cached_property
    def contexts(self) -> list[tuple[DeviceContext, DeviceDiagnosis]]:
        """The used GPUs with the facts that rules ask for, and the rules of their idle intervals."""
        return attributed(self.attribution, self.window, self.activities, self.copy_facts, self.config)

    @property
    def devices(self) -> tuple[DeviceDiagnosis, ...]:
        """The idle intervals of each used GPU, each with its rule."""
        return tuple(device for _, device in self.contexts) if self._known is None else self._known.devices

    @cached_property
    def recorded(self) -> Diagnosis:
        """The diagnosis of what was recorded: its findings have no savings, and it has no plan."""
        if self._known is not None:
            return self._known
        contexts = self.contexts
        self._program.on_phase("findings")
        return diagnosed(self.window, contexts, self.trace, self.config.report_share)

    @cached_property
    def baseline(self) -> Baseline:
        """The unchanged program, as recorded and without the profiler, from which changes are simulated."""
        return Baseline.of(self.graph, self.window)

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """The diagnosis with the simulated saving of each finding's change, and the plan."""
        if not worth_simulating(self.recorded):
            return self.recorded
        self._program.on_phase("simulating fixes")
        return with_plan(self)

    @cached_property
    def stated(self) -> Analysis:
        """The analysis whose times reports state: of the program without the profiler, where all of its cost is known.

        Elsewhere it is this one, since a trace that does not tell the profiler's cost carries no time without it.
        """
        if self.trace.metadata.recording is None or self.baseline.unprofiled_ns is None:
            return self
        simulated = self.baseline.own.simulated
        return analyse(retimed(simulated), window=window_after(simulated, self.window), config=self.config)

    @cached_property
    def conclusion(self) -> Diagnosis:
        """The diagnosis that reports state: the times of `stated`, with the savings and the plan of `diagnosis`."""
        return concluded(self.stated.recorded, self.diagnosis)

    def after(self, changes: tuple[Change, ...]) -> Analysis:
        """The analysis of the simulated program with some changes, in the window that stands for this one."""
        simulated = self.baseline.recorded.run_with(changes).after
        return analyse(retimed(simulated), window=window_after(simulated, self.window), config=self.config)

    # What people ask; each is the function of this name, of this analysis.

    def audit(self, *, plan: bool = True) -> Audit:
        """Everything that reports show; see `overlapscope.audit`."""
        return overlapscope.audit(self, plan=plan)

    def what_if(self, changes: Iterable[Change | str] | Change | str) -> Prediction:
        """The window's time with some changes of the program; see `overlapscope.what_if`."""
        return self.baseline.predict(understood(changes))

    def compare(self, after: Source) -> Comparison:
        """What another trace of the program changes; see `overlapscope.compare`."""
        return overlapscope.compare(self, after)

    def check(self, budget: Budget, baseline: StoredFigures | None = None) -> CheckResult:
        """The limits of a budget against the trace; see `overlapscope.check`."""
        return overlapscope.check(self, budget, baseline)

    def draw(self, **options: Any) -> Any:
        """A figure of the window's timeline; see `overlapscope.draw_timeline`."""
        return overlapscope.draw_timeline(self, **options)

    def report(self, path: str | PathLike[str]) -> None:
        """Write the page of the audit to a file; see `overlapscope.save_report`."""
        overlapscope.save_report(self, path)

    @property
    def findings(self) -> FindingTable:
        """The findings, ranked, one per row."""
        return overlapscope.finding_table(self)

    @property
    def copies(self) -> CopyTable:
        """The copies of the window, one per row."""
        return overlapscope.copy_table(self)

    @property
    def gaps(self) -> GapTable:
        """The idle stretches of the GPUs, one per row."""
        return overlapscope.gap_table(self)

    @property
    def ranges(self) -> RangeTable:
        """The range names of the window, one per row."""
        return overlapscope.range_table(self)

    @property
    def streams(self) -> StreamTable:
        """The streams of the window, one per row."""
        return overlapscope.stream_table(self)


Source = Analysis | Trace | str | PathLike[str]
"""What the public functions take: an analysis, an opened trace, or the path of one."""


def analyse(  # noqa: PLR0913, PLR0917 - the ways to choose a window
    source: Source,
    within: str | Window | None = None,
    step: int | None = None,
    device: int | None = None,
    window: Window | None = None,
    config: Config | None = None,
    on_phase: Callable[[str], None] | None = None,
) -> Analysis:
    """The analysis of a window of a trace.

    Args:
        source: an opened trace, the path of one, or an analysis, of which another window or configuration is wanted.
        within: the host ranges of this name (``*`` and ``?`` match; each occurrence counts up to the end of the device
            work issued inside it), or a `Window`.
        step: the step of torch's profiler with this number.
        device: only the GPUs of this number.
        window: a `Window`, such as `Window.between` makes of two times in ns.
        config: thresholds, with their reasons.
        on_phase: called with the name of each part of the work when it begins; an analysis keeps what it was made with.

    Raises:
        TypeError: ``source`` is none of these.
        ValueError: more than one of ``within``, ``step`` and ``window`` is given; or ``on_phase`` for an analysis.
        TraceError: the file cannot be read; see `open_trace`.
        RangeNotFound: the trace has no such range or step.
        WindowEmpty: the GPU has no work in the trace.
    """
    if sum(choice is not None for choice in (within, step, window)) > 1:
        raise ValueError("choose the window by one of within=, step= and window=")
    wanted = window if within is None else within
    if isinstance(source, Analysis):
        if on_phase is not None:
            raise ValueError("on_phase= is given with the trace: an analysis keeps what it was made with")
        return source.within(wanted, step, device, config)
    trace = overlapscope.open_trace(source) if isinstance(source, str | PathLike) else source
    if not isinstance(trace, Trace):
        raise TypeError(f"expected an Analysis, an opened trace or its path, not {type(source).__name__}")
    chosen = window_of(trace, wanted, step, device)
    return Analysis(trace, chosen, DEFAULT if config is None else config, _Program(trace, on_phase or silent))


def what_if(
    source: Source, changes: Iterable[Change | str] | Change | str, within: str | Window | None = None
) -> Prediction:
    """Predict how long a window would take with some changes of the program.

    Args:
        source: an opened trace, its path, or an analysis.
        changes: what would be different: changes such as ``Pin(within="train_step")`` or their text, such as ``"pin"``,
            ``"prefetch=2"`` or ``"non-blocking:within=copy,stream=7"`` (also ``source=TEXT``, of Python frames).
        within: predict for the host ranges of this name, or for a window; the whole trace otherwise.

    Returns:
        A `Prediction`: times of the window in ns, as the profiler makes them and without it. Each has an interval, from
        ``low`` to ``high``, in which the time is expected: as wide as what the trace leaves open.

    Raises:
        ChangeNotUnderstood: a change is none that we know, or contradicts another.
        RangeNotFound: the trace has no such range.
    """
    wanted = understood(changes)
    return analyse(source, within).what_if(wanted)


def doctor(source: Source) -> Fitness:
    """What a trace can answer and what not, with the setting of the profiler that would help most.

    Args:
        source: an opened trace, its path, or an analysis.
    """
    return fitness_of(analyse(source).trace)


def diagnose(source: Source, within: str | Window | None = None, *, plan: bool = True) -> Diagnosis:
    """Find out why the copies of a trace were not hidden, and what else its GPUs waited for.

    Args:
        source: an opened trace, its path, or an analysis.
        within: analyse only the host ranges of this name (``*`` and ``?`` match), or a `Window`; None for all.
        plan: simulate what fixes save, which takes most of the time.

    Raises:
        RangeNotFound: the trace has no such range.
    """
    analysis = analyse(source, within)
    return analysis.diagnosis if plan else analysis.recorded
