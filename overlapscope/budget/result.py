"""`CheckResult`: the outcome of every limit, with its JSON form (schema ``overlapscope.check/1``)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from overlapscope.analysis.analysis import Analysis
from overlapscope.budget.figures import Cost
from overlapscope.budget.limits import Unit
from overlapscope.diagnosis.catalogue import rule
from overlapscope.measure.windows import window_title
from overlapscope.model.frames import Row, frame
from overlapscope.model.trace import Trace

if TYPE_CHECKING:
    import pandas

SCHEMA = "overlapscope.check/1"


class Status(StrEnum):
    """The status of a limit: kept, broken, or neither is known."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_MEASURED = "not measured"


class Against(StrEnum):
    """The yardstick of a figure: a limit of the configuration, or a stored baseline."""

    LIMIT = "limit"
    BASELINE = "baseline"


@dataclass(frozen=True)
class Outcome(Row):
    """The outcome of one limit, on the checked part of the trace (``range`` is None) or on a range.

    Attributes:
        range: the range as it is configured.
        limit: the limit, such as ``pageable_bytes`` or ``idle_share.copy_call``.
        against: whether it is configured, or follows from the baseline.
        status: kept, broken or not measured.
        value: the figure; None where the trace does not have it.
        allowed: the limit itself: the most that is allowed, of ``hidden_share`` the least.
        unit: unit of both.
        message: what is the matter, as one sentence.
        rule: code of the rule under which most of the figure falls; None without one.
        finding: the finding of that rule there, as a sentence; None without one.
        places: where it comes from, the largest part first.
        fix: what to change, as PyTorch code: that of the finding, else of the rule at the first place; None without.
    """

    range: str | None
    limit: str
    against: Against
    status: Status
    value: float | None
    allowed: float
    unit: Unit
    message: str
    rule: str | None = None
    finding: str | None = None
    places: tuple[Cost, ...] = ()
    fix: str | None = None

    @property
    def label(self) -> str:
        """The limit, and whether it follows from the baseline, as text."""
        return self.limit if self.against is Against.LIMIT else f"{self.limit} (baseline)"

    @property
    def title(self) -> str:
        """The label after the range."""
        return self.label if self.range is None else f"{self.range}: {self.label}"

    @property
    def sentence(self) -> str:
        """The message, after the status where nothing was measured."""
        return f"{self.status}: {self.message}" if self.status is Status.NOT_MEASURED else self.message

    @property
    def reason(self) -> str | None:
        """The rule by its code and name."""
        return None if self.rule is None else f"{self.rule} {rule(self.rule).name}"

    def to_dict(self) -> dict[str, Any]:
        """The outcome as JSON-ready data: an entry of ``outcomes``."""
        return super().to_dict() | {"status": self.status.replace(" ", "_")}


@dataclass(frozen=True, eq=False)
class CheckResult:
    """The outcomes of all limits that a trace was checked against.

    Attributes:
        analysis: the trace with the window that limits without a range are about.
        outcomes: one for each limit.
        pass_unmeasured: whether limits pass that the trace cannot show to be kept.
    """

    analysis: Analysis
    outcomes: tuple[Outcome, ...]
    pass_unmeasured: bool = False

    @property
    def trace(self) -> Trace:
        """The trace."""
        return self.analysis.trace

    def place_of(self, outcome: Outcome) -> str:
        """The range that an outcome is about, or else the checked part of the trace."""
        return outcome.range or window_title(self.analysis.window)

    @property
    def violations(self) -> tuple[Outcome, ...]:
        """The outcomes that make the check fail."""
        return tuple(outcome for outcome in self.outcomes if self.violates(outcome))

    @property
    def passed(self) -> bool:
        """Whether there are no violations."""
        return not self.violations

    def violates(self, outcome: Outcome) -> bool:
        """Whether an outcome makes the check fail."""
        unknown = outcome.status is Status.NOT_MEASURED and not self.pass_unmeasured
        return unknown or outcome.status is Status.FAILED

    def count(self, status: Status) -> int:
        """The number of outcomes with a status."""
        return sum(outcome.status is status for outcome in self.outcomes)

    @property
    def summary(self) -> str:
        """The verdict and the number of limits by status, in a few words."""
        counts = [f"{self.count(status)} {status}" for status in Status if self.count(status)]
        return f"{'passed' if self.passed else 'failed'}: {', '.join(counts) or 'no limits'}"

    def __repr__(self) -> str:
        return f"<CheckResult: {self.summary}>"

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON-ready data."""
        return {
            "schema": SCHEMA,
            "path": self.trace.metadata.path,
            "passed": self.passed,
            "not_measured": "pass" if self.pass_unmeasured else "fail",
            "counts": {status.replace(" ", "_"): self.count(status) for status in Status},
            **self.trace.health.to_dict(),
            "outcomes": [outcome.to_dict() for outcome in self.outcomes],
        }

    def to_pandas(self) -> pandas.DataFrame:
        """The outcomes, one per row."""
        rows = (outcome.to_dict() for outcome in self.outcomes)
        return frame({key: value for key, value in row.items() if key != "places"} for row in rows)
