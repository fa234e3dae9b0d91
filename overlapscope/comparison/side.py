"""One side of a comparison: its traces, each with its analysis and its audit."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from overlapscope.analysis.analysis import Analysis
from overlapscope.comparison.matching import Matching, first, match
from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.finding import Finding
from overlapscope.measure.windows import Window
from overlapscope.model.trace import Trace
from overlapscope.report.content import audit
from overlapscope.report.data import Audit, DeviceAudit


@dataclass(frozen=True, eq=False)
class Run:
    """One trace of a side: its analysis and its audit; ``unprofiled`` says that its times are without the profiler."""

    analysis: Analysis
    unprofiled: bool = False

    @cached_property
    def audit(self) -> Audit:
        """Its audit without a plan, whose simulations take most of the time and which few comparisons ask for."""
        return audit(self.analysis, plan=False)

    @property
    def stated(self) -> Analysis:
        """The analysis whose times count."""
        return self.analysis.stated if self.unprofiled else self.analysis

    @property
    def devices(self) -> tuple[DeviceAudit, ...]:
        """The figures of its GPUs that count."""
        return self.audit.stated if self.unprofiled else self.audit.devices

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Its findings with the times that count."""
        return (self.audit.conclusion if self.unprofiled else self.audit.diagnosis).findings

    @property
    def trace(self) -> Trace:
        """The trace."""
        return self.analysis.trace

    @property
    def window(self) -> Window:
        """The analysed part of the trace."""
        return self.analysis.window

    @property
    def occurrences(self) -> int:
        """How often the window's range occurs; 1 for a whole trace."""
        return len(self.window.start_ns)

    def idle_ns(self, cause: Cause) -> int:
        """The time for which the GPUs were idle for a cause."""
        return sum(device.idle.sum_ns(cause) for device in self.devices)

    @property
    def is_unprofiled(self) -> bool:
        """Whether its time without the profiler is known; a trace without GPU work has nothing to simulate."""
        return self.analysis.baseline.unprofiled_ns is not None and len(self.analysis.graph.work) > 0

    @property
    def wall_ns(self) -> int:
        """The length of the window that counts."""
        return self.stated.window.wall_ns


def matching_of(before: Run, after: Run) -> Matching:
    """What two traces have in common in the first occurrences that both have."""
    count = min(before.occurrences, after.occurrences)
    windows = first(before.window, count), first(after.window, count)
    return match(before.analysis.graph, after.analysis.graph, windows)


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
        return run.wall_ns / self.divisor(run)

    def divisor(self, run: Run) -> int:
        """The number by which the figures of a run are divided."""
        return max(run.occurrences, 1) if self.per_occurrence else 1


def sides_of(before: Sequence[Run], after: Sequence[Run]) -> tuple[Side, Side]:
    """Two sides on one baseline: without the profiler where that is known of all, else as recorded."""
    runs = (*before, *after)
    unprofiled = all(run.is_unprofiled for run in runs)
    per_occurrence = len({run.occurrences for run in runs}) > 1
    one, two = (tuple(replace(run, unprofiled=unprofiled) for run in side) for side in (before, after))
    return Side(one, unprofiled, per_occurrence), Side(two, unprofiled, per_occurrence)
