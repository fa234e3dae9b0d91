"""`Run`: a recorded trace, and what can be asserted of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from overlapscope.budget.check import baseline_of, check
from overlapscope.budget.files import found_budget, read_baseline, read_budget, write_baseline
from overlapscope.budget.limits import Budget, Limits, Tolerances
from overlapscope.budget.result import CheckResult
from overlapscope.capture.recorder import record
from overlapscope.errors import BudgetNotUnderstood
from overlapscope.model.trace import Trace
from overlapscope.pytest_plugin.failure import explained
from overlapscope.pytest_plugin.markers import limits_named
from overlapscope.read.opening import open_trace
from overlapscope.report.content import audit
from overlapscope.report.data import Audit


@dataclass(frozen=True)
class Settings:
    """Where the runs of a test put their files, and how pytest was called."""

    folder: Path
    figure: Path
    baseline: Path
    update_baseline: bool
    require_gpu: bool
    root: Path


class Run:
    """A recorded trace, and what can be asserted of it.

    An assertion that fails names the finding, the place and the fix, and draws the timeline. ``within`` limits it to
    the ranges of a name (``*`` and ``?`` match), each of which is a step; without it, steps are those of torch's
    profiler.
    """

    def __init__(self, path: Path, settings: Settings) -> None:
        self.path = path
        self._settings = settings

    def __repr__(self) -> str:
        return f"<Run: {self.path}>"

    @cached_property
    def trace(self) -> Trace:
        """The trace."""
        return open_trace(self.path)

    @cached_property
    def audit(self) -> Audit:
        """Its audit."""
        return audit(self.trace)

    def assert_no(self, *rules: str, within: str | None = None) -> None:
        """Assert that these rules, by code or name, have no finding."""
        __tracebackhide__ = True
        self.assert_limits(limits_named({"no": list(rules)}), within)

    def assert_syncs(self, at_most: int, within: str | None = None) -> None:
        """Assert that no step has more synchronisations."""
        __tracebackhide__ = True
        self.assert_limits(limits_named({"syncs": at_most}), within)

    def assert_scalar_reads(self, at_most: int, within: str | None = None) -> None:
        """Assert that the host reads no more values from the GPU in any step."""
        __tracebackhide__ = True
        self.assert_limits(limits_named({"scalar_reads": at_most}), within)

    def assert_pageable(self, at_most_bytes: int = 0, within: str | None = None) -> None:
        """Assert that no more bytes are copied from or to pageable memory."""
        __tracebackhide__ = True
        self.assert_limits(limits_named({"pageable_bytes": at_most_bytes}), within)

    def assert_blocked(self, at_most: float, within: str | None = None) -> None:
        """Assert that calls block a thread for no more than this share of the host time."""
        __tracebackhide__ = True
        self.assert_limits(limits_named({"blocked": at_most}), within)

    def assert_hidden(self, at_least: float, within: str | None = None) -> None:
        """Assert that at least this share of the hideable copy time is hidden."""
        __tracebackhide__ = True
        self.assert_limits(limits_named({"hidden": at_least}), within)

    def assert_idle(self, at_most: float, cause: str = "all", within: str | None = None) -> None:
        """Assert that no GPU is idle for more than this share of the time, for one cause or rule, or for any."""
        __tracebackhide__ = True
        self.assert_limits(limits_named({"idle": {cause: at_most}}), within)

    def assert_saving(self, at_most: float, within: str | None = None) -> None:
        """Assert that the simulated fixes together save no more than this share of the time."""
        __tracebackhide__ = True
        self.assert_limits(limits_named({"saving": at_most}), within)

    def assert_limits(self, limits: Limits, within: str | None = None) -> None:
        """Assert that these limits are kept."""
        __tracebackhide__ = True
        if not list(limits):
            raise BudgetNotUnderstood("an assertion without a limit asserts nothing")
        self._assert(check(self.trace, _budget(limits, within)))

    def broken(self, limits: Limits, within: str | None = None) -> str:
        """What such an assertion would say; nothing where it would not fail."""
        return self._explained(check(self.trace, _budget(limits, within)))

    def assert_budget(self, path: str | Path | None = None) -> None:
        """Assert that the limits in a file are kept; without one, those in the root folder of the tests."""
        __tracebackhide__ = True
        budget = found_budget(self._settings.root) if path is None else read_budget(path)
        if budget is None:
            raise BudgetNotUnderstood(f"{self._settings.root}: no limits in overlapscope.toml or pyproject.toml")
        self._assert(check(self.trace, budget))

    def assert_baseline(self, within: str | None = None, tolerances: Tolerances = Tolerances()) -> None:
        """Assert that nothing is worse than the stored baseline; ``--overlap-update-baseline`` stores it."""
        __tracebackhide__ = True
        path, budget = self._settings.baseline, _budget(Limits(), within, tolerances)
        if self._settings.update_baseline:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_baseline(baseline_of(self.trace, budget), path)
            return
        if not path.exists():
            raise AssertionError(f"there is no baseline {path}: pytest --overlap-update-baseline writes it")
        self._assert(check(self.trace, budget, read_baseline(path)))

    def _assert(self, result: CheckResult) -> None:
        __tracebackhide__ = True
        if text := self._explained(result):
            raise AssertionError(text)

    def _explained(self, result: CheckResult) -> str:
        return "" if result.passed else explained(result, self._settings.figure, self.path)


class RecordedRun(Run):
    """A run that is being recorded: the block ends each step with `step`, or hands over a step with `run`."""

    def __init__(self, path: Path, settings: Settings, recording: record) -> None:
        super().__init__(path, settings)
        self._recording = recording

    @property
    def done(self) -> bool:
        """Whether all steps are recorded."""
        return self._recording.done

    def step(self) -> None:
        """End a step; the first one only warms up."""
        self._recording.step()

    def run(self, step: Callable[[], Any]) -> None:
        """Call ``step`` as often as it takes to record all steps."""
        self._recording.run(step)


def _budget(limits: Limits, within: str | None, tolerances: Tolerances = Tolerances()) -> Budget:
    if within is None:
        return Budget(limits=limits, tolerances=tolerances)
    return Budget(ranges={within: limits}, tolerances=tolerances)
