"""`Run`: a recorded trace, and what can be asserted of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from overlapscope.budget.check import baseline_of, check
from overlapscope.budget.files import found_budget, read_baseline, read_budget, write_baseline
from overlapscope.budget.limits import ALL_CAUSES, Budget, Limits, Tolerances
from overlapscope.budget.result import CheckResult
from overlapscope.capture.recorder import record
from overlapscope.errors import BudgetNotUnderstood
from overlapscope.model.trace import Trace
from overlapscope.pytest_plugin.failure import explained, plainly
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
        self._assert_named({"no": list(rules)}, within)

    def assert_syncs(self, at_most: int = 0, *, within: str | None = None) -> None:
        """Assert that no step has more synchronisations."""
        __tracebackhide__ = True
        self._assert_named({"syncs": at_most}, within)

    def assert_scalar_reads(self, at_most: int = 0, *, within: str | None = None) -> None:
        """Assert that the host reads no more values from the GPU in any step."""
        __tracebackhide__ = True
        self._assert_named({"scalar_reads": at_most}, within)

    def assert_pageable(self, at_most: int = 0, *, within: str | None = None) -> None:
        """Assert that no more bytes are copied from or to pageable memory."""
        __tracebackhide__ = True
        self._assert_named({"pageable_bytes": at_most}, within)

    def assert_blocked(self, at_most: float, *, within: str | None = None) -> None:
        """Assert that calls block a thread for no more than this share of the host time."""
        __tracebackhide__ = True
        self._assert_named({"blocked": at_most}, within)

    def assert_hidden(self, at_least: float, *, within: str | None = None) -> None:
        """Assert that at least this share of the hideable copy time is hidden."""
        __tracebackhide__ = True
        self._assert_named({"hidden": at_least}, within)

    def assert_idle(self, at_most: float | None = None, *, within: str | None = None, **shares: float) -> None:
        """Assert that no GPU is idle for more than this share of the time; by cause or rule, such as ``copy_call``."""
        __tracebackhide__ = True
        every = {} if at_most is None else {ALL_CAUSES: at_most}
        self._assert_named({"idle": {**every, **shares}}, within)

    def assert_saving(self, at_most: float, *, within: str | None = None) -> None:
        """Assert that the simulated fixes together save no more than this share of the time."""
        __tracebackhide__ = True
        self._assert_named({"saving": at_most}, within)

    def _assert_named(self, values: Mapping[str, Any], within: str | None) -> None:
        """Assert limits by their short names."""
        __tracebackhide__ = True
        self.assert_limits(plainly(limits_named, values), within)

    def assert_limits(self, limits: Limits, within: str | None = None) -> None:
        """Assert that these limits are kept."""
        __tracebackhide__ = True
        if not list(limits):
            raise BudgetNotUnderstood("an assertion without a limit asserts nothing")
        self._assert(plainly(check, self.trace, _budget(limits, within)))

    def broken(self, limits: Limits, within: str | None = None) -> str:
        """What such an assertion would say; nothing where it would not fail."""
        return self._explained(check(self.trace, _budget(limits, within)))

    def assert_budget(self, path: str | Path | None = None) -> None:
        """Assert that the limits in a file are kept; without one, those in the root folder of the tests."""
        __tracebackhide__ = True
        read, where = (found_budget, self._settings.root) if path is None else (read_budget, path)
        budget = plainly(read, where)
        if budget is None:
            raise BudgetNotUnderstood(f"{self._settings.root}: no limits in overlapscope.toml or pyproject.toml")
        self._assert(plainly(check, self.trace, budget))

    def assert_baseline(self, within: str | None = None, tolerances: Tolerances = Tolerances()) -> None:
        """Assert that nothing is worse than the stored baseline; ``--overlap-update-baseline`` stores it."""
        __tracebackhide__ = True
        path, budget = self._settings.baseline, _budget(Limits(), within, tolerances)
        if self._settings.update_baseline:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_baseline(plainly(baseline_of, self.trace, budget), path)
            return
        if not path.exists():
            raise AssertionError(f"there is no baseline {path}: pytest --overlap-update-baseline writes it")
        self._assert(plainly(check, self.trace, budget, plainly(read_baseline, path)))

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
