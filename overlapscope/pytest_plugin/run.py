"""`Run`: a recorded trace, the assertions on it, and their limits by the short names of markers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from overlapscope.analysis.analysis import Analysis, analyse
from overlapscope.budget.baseline import read_baseline, write_baseline
from overlapscope.budget.check import baseline_of, check
from overlapscope.budget.configuration import budget_of_folder, check_names, limits_from, read_budget
from overlapscope.budget.limits import ALL_CAUSES, Budget, Limits, Tolerances
from overlapscope.budget.outputs import outcome_parts
from overlapscope.budget.result import CheckResult
from overlapscope.capture.recorder import record
from overlapscope.document.text import plain_text
from overlapscope.errors import BudgetNotUnderstood, OverlapscopeError
from overlapscope.model.trace import Trace
from overlapscope.plot.timeline import save_timeline
from overlapscope.report.content import audit
from overlapscope.report.data import Audit

__tracebackhide__ = True
"""For pytest, which shows the line of the test where an assertion of this module fails."""
_T = TypeVar("_T")
_WITHIN = "within"
_NO_LIMITS = "overlap: has to be given limits by name, such as syncs=1"
NAMES = {
    "no": "no_findings",
    "syncs": "synchronisations_per_step",
    "scalar_reads": "scalar_reads_per_step",
    "pageable_bytes": "pageable_bytes",
    "blocked": "blocked_share",
    "hidden": "hidden_share",
    "idle": "idle_share",
    "saving": "saving_share",
}
"""The limit of each argument; ``idle`` is a share, or shares by cause or rule."""


@dataclass(frozen=True)
class Settings:
    """The places of the files of a test's runs, and the options of pytest."""

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
        return self.analysis.trace

    @cached_property
    def analysis(self) -> Analysis:
        """The analysis of the trace, which all assertions share."""
        return analyse(self.path)

    @cached_property
    def audit(self) -> Audit:
        """The audit of the trace."""
        return audit(self.analysis)

    def assert_no(self, *rules: str, within: str | None = None) -> None:
        """Assert that these rules, by code or name, have no finding."""
        self._assert_named({"no": list(rules)}, within)

    def assert_syncs(self, at_most: int = 0, *, within: str | None = None) -> None:
        """Assert that no step has more synchronisations."""
        self._assert_named({"syncs": at_most}, within)

    def assert_scalar_reads(self, at_most: int = 0, *, within: str | None = None) -> None:
        """Assert that the host reads no more values from the GPU in any step."""
        self._assert_named({"scalar_reads": at_most}, within)

    def assert_pageable(self, at_most: int = 0, *, within: str | None = None) -> None:
        """Assert that no more bytes are copied from or to pageable memory."""
        self._assert_named({"pageable_bytes": at_most}, within)

    def assert_blocked(self, at_most: float, *, within: str | None = None) -> None:
        """Assert that calls block a thread for no more than this share of the host time."""
        self._assert_named({"blocked": at_most}, within)

    def assert_hidden(self, at_least: float, *, within: str | None = None) -> None:
        """Assert that at least this share of the hideable copy time is hidden."""
        self._assert_named({"hidden": at_least}, within)

    def assert_idle(self, at_most: float | None = None, *, within: str | None = None, **shares: float) -> None:
        """Assert that no GPU is idle for more than this share of the time; by cause or rule, such as ``copy_call``."""
        every = {} if at_most is None else {ALL_CAUSES: at_most}
        self._assert_named({"idle": {**every, **shares}}, within)

    def assert_saving(self, at_most: float, *, within: str | None = None) -> None:
        """Assert that the simulated fixes together save no more than this share of the time."""
        self._assert_named({"saving": at_most}, within)

    def _assert_named(self, values: Mapping[str, Any], within: str | None) -> None:
        """Assert limits by their short names."""
        self.assert_limits(plainly(limits_named, values), within)

    def assert_limits(self, limits: Limits, within: str | None = None) -> None:
        """Assert that these limits are kept."""
        if not list(limits):
            raise BudgetNotUnderstood("an assertion without a limit asserts nothing")
        self._assert(plainly(check, self.analysis, _budget(limits, within)))

    def broken(self, limits: Limits, within: str | None = None) -> str:
        """The message of an assertion of these limits that fails; an empty one where it holds."""
        return self._failure(check(self.analysis, _budget(limits, within)))

    def assert_budget(self, path: str | Path | None = None) -> None:
        """Assert that the limits in a file are kept; without one, those in the root folder of the tests."""
        read, where = (budget_of_folder, self._settings.root) if path is None else (read_budget, path)
        budget = plainly(read, where)
        if budget is None:
            raise BudgetNotUnderstood(f"{self._settings.root}: no limits in overlapscope.toml or pyproject.toml")
        self._assert(plainly(check, self.analysis, budget))

    def assert_baseline(self, within: str | None = None, tolerances: Tolerances = Tolerances()) -> None:
        """Assert that nothing is worse than the stored baseline; ``--overlap-update-baseline`` stores it."""
        path, budget = self._settings.baseline, _budget(Limits(), within, tolerances)
        if self._settings.update_baseline:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_baseline(plainly(baseline_of, self.analysis, budget), path)
            return
        if not path.exists():
            raise AssertionError(f"there is no baseline {path}: pytest --overlap-update-baseline writes it")
        self._assert(plainly(check, self.analysis, budget, plainly(read_baseline, path)))

    def _assert(self, result: CheckResult) -> None:
        if text := self._failure(result):
            raise AssertionError(text)

    def _failure(self, result: CheckResult) -> str:
        return "" if result.passed else _explained(result, self._settings.figure, self.path)


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


def limits_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str | None, Limits]:
    """The range and the limits in the arguments of a marker.

    >>> limits_of((), {"within": "step", "syncs": 1})[1].synchronisations_per_step
    1

    Raises:
        BudgetNotUnderstood: an argument is unknown or malformed; the text names it.
    """
    if args:
        raise BudgetNotUnderstood(_NO_LIMITS)
    check_names(kwargs, (*NAMES, _WITHIN), ("overlap",))
    within = kwargs.get(_WITHIN)
    if not isinstance(within, str | None):
        raise BudgetNotUnderstood(f"overlap.{_WITHIN}: has to be the name of a range")
    limits = limits_named({name: value for name, value in kwargs.items() if name != _WITHIN})
    if not list(limits):
        raise BudgetNotUnderstood(_NO_LIMITS)
    return within, limits


def limits_named(values: Mapping[str, Any]) -> Limits:
    """Limits by their short names.

    Raises:
        BudgetNotUnderstood: one is malformed; the text names it.
    """
    idle = values.get("idle")
    shares = {} if idle is None or isinstance(idle, Mapping) else {"idle": {ALL_CAUSES: idle}}
    return limits_from({NAMES[name]: value for name, value in {**values, **shares}.items()}, ("overlap",))


def plainly(call: Callable[..., _T], *args: Any) -> _T:
    """Call something; of a documented error, pytest shows the test's own line and the sentence."""
    try:
        return call(*args)
    except OverlapscopeError as error:
        raise error.with_traceback(None) from None


def _explained(result: CheckResult, figure: Path, trace: Path) -> str:
    """The broken limits with their findings, places and fixes; the timeline is drawn into ``figure``."""
    broken = plain_text([part for outcome in result.violations for part in outcome_parts(outcome)]).rstrip("\n")
    return "\n".join([f"overlap {result.summary}", broken, f"  figure: {_drawn(result, figure)}", f"  trace: {trace}"])


def _drawn(result: CheckResult, figure: Path) -> str:
    """The path of the figure, or the reason why it cannot be drawn."""
    try:
        figure.parent.mkdir(parents=True, exist_ok=True)
        save_timeline(result.analysis, figure, within=result.violations[0].range)
    except (OverlapscopeError, OSError) as error:
        return f"none ({error})"
    return str(figure)
