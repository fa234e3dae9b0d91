"""`Reached`: the time predicted for changes of the program before, and the time that the program after takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from overlapscope.comparison.side import Run, Side
from overlapscope.diagnosis.plan import planned_changes
from overlapscope.errors import ChangeNotUnderstood
from overlapscope.formatting import interval, share, time
from overlapscope.model.frames import Row
from overlapscope.whatif.catalogue import understood
from overlapscope.whatif.change import Change
from overlapscope.whatif.sources import Estimate

PLAN = "plan"
"""The name for all changes of the plan of the side before."""


@dataclass(frozen=True)
class Times(Row):
    """A predicted time with its interval, in ns."""

    predicted_ns: float
    low_ns: float
    high_ns: float

    @classmethod
    def of(cls, estimate: Estimate, occurrences: int) -> Times:
        """The times of one occurrence, of an estimate for so many."""
        times = estimate.predicted_ns, estimate.low_ns, estimate.high_ns
        return cls(*(time_ns / occurrences for time_ns in times))

    @property
    def interval(self) -> str:
        """The predicted time with its interval as text."""
        return interval(self.low_ns, self.high_ns, self.predicted_ns)

    def to_dict(self) -> dict[str, Any]:
        """The times as JSON-ready data."""
        return {name: round(getattr(self, name)) for name in ("predicted_ns", "low_ns", "high_ns")}


@dataclass(frozen=True)
class Reached(Times):
    """The predicted time with its interval, and the time that was reached, in ns, both on the comparison's baseline.

    Attributes:
        changes: the changes for which the time was predicted.
        reached_ns: the time of the side after.
        unprofiled: whether these are times without the profiler.
        on_other_basis: the prediction with the profiler then, and else without it.
        narrowed_by: the recording that would make a wide interval narrower; None without one.
    """

    changes: tuple[str, ...]
    reached_ns: float
    unprofiled: bool
    on_other_basis: Times
    narrowed_by: str | None

    @property
    def inside(self) -> bool:
        """Whether the time that was reached is in the interval."""
        return self.low_ns <= self.reached_ns <= self.high_ns

    @property
    def sentence(self) -> str:
        """The predicted and the reached time in a sentence, and the prediction on the other basis in another one."""
        off = abs(self.reached_ns - self.predicted_ns)
        more = "more" if self.reached_ns > self.predicted_ns else "less"
        than = f"{share(off, self.predicted_ns)} {more} than predicted"
        than += "" if self.inside else ", outside the interval: the program after may have other changes than these"
        changes = " + ".join(self.changes)
        said = f"Predicted for {changes}: {self.interval}; reached: {time(self.reached_ns)}, {than}."
        said += f" Predicted with{'' if self.unprofiled else 'out'} the profiler: {self.on_other_basis.interval}."
        return said if self.narrowed_by is None else f"{said} Narrower by {self.narrowed_by}."

    def to_dict(self) -> dict[str, Any]:
        """The prediction as JSON-ready data: ``predicted`` of a comparison."""
        return {
            "changes": list(self.changes),
            **super().to_dict(),
            "reached_ns": round(self.reached_ns),
            "inside": self.inside,
            "unprofiled": self.unprofiled,
            "on_other_basis": self.on_other_basis.to_dict(),
            "narrowed_by": self.narrowed_by,
        }


def reached(before: Side, predicted: Sequence[Change | str], reached_ns: float) -> Reached:
    """Predict the time of the side before with changes, against the time that was reached.

    Raises:
        ChangeNotUnderstood: a change is none that we know, contradicts another, or there is no plan.
    """
    run = before.typical
    changes = understood(_planned(run) if list(predicted) == [PLAN] else predicted)
    prediction = run.analysis.what_if(changes)
    bases = (prediction.unprofiled, prediction) if before.unprofiled else (prediction, prediction.unprofiled)
    stated, other = (Times.of(basis.estimate, before.divisor(run)) for basis in bases)
    return Reached(
        changes=tuple(map(str, changes)),
        reached_ns=reached_ns,
        unprofiled=before.unprofiled,
        on_other_basis=other,
        narrowed_by=prediction.narrowed_by,
        predicted_ns=stated.predicted_ns,
        low_ns=stated.low_ns,
        high_ns=stated.high_ns,
    )


def _planned(run: Run) -> tuple[Change, ...]:
    changes = planned_changes(run.analysis.diagnosis)
    if not changes:
        raise ChangeNotUnderstood("the trace before has no plan: name the changes, such as pin,non-blocking")
    return changes
