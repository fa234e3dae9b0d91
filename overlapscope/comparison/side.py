"""One side of a comparison: its traces, each with its audit and its simulation."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.graph import Graph, nodes_of
from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.config import DiagnosisConfig
from overlapscope.measure.windows import Window
from overlapscope.model.trace import Trace
from overlapscope.report.content import AuditConfig, audit
from overlapscope.report.data import Audit
from overlapscope.whatif.config import SimulationConfig
from overlapscope.whatif.what_if import Baseline


@dataclass(frozen=True, eq=False)
class Run:
    """One trace: its audit, and its simulation, None where nothing is to be simulated."""

    audit: Audit
    base: Baseline | None

    @classmethod
    def of(cls, trace: Trace, within: str | None, config: AuditConfig) -> Run:
        """Audit a trace; without a plan, whose simulations take most of the time and which few comparisons ask for.

        Raises:
            RangeNotFound: the trace has no such range.
        """
        found = audit(trace, within, replace(config, diagnosis=replace(config.diagnosis, simulate=False)))
        return cls(found, _baseline(trace, found.window, config.diagnosis))

    @property
    def trace(self) -> Trace:
        """The trace."""
        return self.audit.trace

    @property
    def window(self) -> Window:
        """The analysed part of it."""
        return self.audit.window

    @property
    def occurrences(self) -> int:
        """How often the window's range occurs; 1 for a whole trace."""
        return len(self.window.start_ns)

    @cached_property
    def graph(self) -> Graph:
        """Calls and work; with what they waited for where it is simulated."""
        return nodes_of(self.trace) if self.base is None else self.base.graph

    def idle_ns(self, cause: Cause) -> int:
        """How long the GPUs were idle for a cause."""
        return sum(device.idle.sum_ns(cause) for device in self.audit.devices)

    @property
    def is_unprofiled(self) -> bool:
        """Whether its time without the profiler is known; a trace without GPU work has nothing to simulate."""
        return self.base is not None and self.base.unprofiled_ns is not None and len(self.graph.work) > 0

    def wall_ns(self, *, unprofiled: bool) -> int:
        """The length of the window, without the profiler where all of its cost is known and asked for."""
        without = None if self.base is None or not unprofiled else self.base.unprofiled_ns
        return self.window.wall_ns if without is None else without


def _baseline(trace: Trace, window: Window, config: DiagnosisConfig) -> Baseline | None:
    if not config.simulate:
        return None
    dependencies = config.dependencies
    return Baseline.of(build_graph(trace, dependencies), window, SimulationConfig(dependencies=dependencies))


@dataclass(frozen=True, eq=False)
class Side:
    """The traces of one side; ``unprofiled`` says which time counts, ``per_occurrence`` that it is one occurrence's."""

    runs: tuple[Run, ...]
    unprofiled: bool
    per_occurrence: bool

    @cached_property
    def typical(self) -> Run:
        """The run whose time is the nearest to the median."""
        times = [self.wall_ns(run) for run in self.runs]
        middle = statistics.median(times)
        return min(zip(self.runs, times, strict=True), key=lambda entry: abs(entry[1] - middle))[0]

    def wall_ns(self, run: Run) -> float:
        """The time of a run that counts."""
        return run.wall_ns(unprofiled=self.unprofiled) / self.divisor(run)

    def divisor(self, run: Run) -> int:
        """By what the figures of a run are divided."""
        return max(run.occurrences, 1) if self.per_occurrence else 1


def sides_of(before: Sequence[Run], after: Sequence[Run]) -> tuple[Side, Side]:
    """Two sides on one baseline: without the profiler where that is known of all, else as recorded."""
    runs = (*before, *after)
    unprofiled = all(run.is_unprofiled for run in runs)
    per_occurrence = len({run.occurrences for run in runs}) > 1
    return Side(tuple(before), unprofiled, per_occurrence), Side(tuple(after), unprofiled, per_occurrence)
