"""What was predicted for some changes of the program before, against what the one after takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from overlapscope.comparison.side import Run, Side
from overlapscope.diagnosis.config import DiagnosisConfig
from overlapscope.diagnosis.plan import planned_changes
from overlapscope.diagnosis.run import diagnose
from overlapscope.errors import ChangeNotUnderstood
from overlapscope.formatting import interval, share, time
from overlapscope.model.frames import Row
from overlapscope.whatif.catalogue import understood
from overlapscope.whatif.change import Change
from overlapscope.whatif.uncertainty import Estimate

PLAN = "plan"
"""Stands for all changes of the plan of the side before."""


@dataclass(frozen=True)
class Times(Row):
    """A predicted time with its interval, in ns."""

    predicted_ns: float
    low_ns: float
    high_ns: float

    @classmethod
    def of(cls, found: Estimate, divisor: int) -> Times:
        """Of one of so many occurrences."""
        return cls(found.predicted_ns / divisor, found.low_ns / divisor, found.high_ns / divisor)

    @property
    def interval(self) -> str:
        """As text."""
        return interval(self.low_ns, self.high_ns, self.predicted_ns)

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready data."""
        return {name: round(getattr(self, name)) for name in ("predicted_ns", "low_ns", "high_ns")}


@dataclass(frozen=True)
class Reached(Times):
    """The predicted times with their interval, and the one that was reached, in ns, both on the comparison's baseline.

    ``unprofiled`` says that these are times without the profiler. ``on_other_basis`` is what was predicted with it
    then, and else without it; ``narrowed_by`` the recording that would make a wide interval narrower.
    """

    changes: tuple[str, ...]
    reached_ns: float
    unprofiled: bool
    on_other_basis: Times
    narrowed_by: str | None

    @property
    def inside(self) -> bool:
        """Whether the interval has the time that was reached."""
        return self.low_ns <= self.reached_ns <= self.high_ns

    @property
    def sentence(self) -> str:
        """Both in one sentence, and in another one what was predicted on the other basis."""
        off = abs(self.reached_ns - self.predicted_ns)
        more = "more" if self.reached_ns > self.predicted_ns else "less"
        than = f"{share(off, self.predicted_ns)} {more} than predicted"
        than += "" if self.inside else ", outside the interval: the program after may have other changes than these"
        changes = " + ".join(self.changes)
        found = f"Predicted for {changes}: {self.interval}; reached: {time(self.reached_ns)}, {than}."
        found += f" Predicted with{'' if self.unprofiled else 'out'} the profiler: {self.on_other_basis.interval}."
        return found if self.narrowed_by is None else f"{found} Narrower by {self.narrowed_by}."

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready data: ``predicted`` of a comparison."""
        found = {"changes": list(self.changes), **super().to_dict(), "reached_ns": round(self.reached_ns)}
        found |= {"inside": self.inside, "unprofiled": self.unprofiled}
        return found | {"on_other_basis": self.on_other_basis.to_dict(), "narrowed_by": self.narrowed_by}


def reached(before: Side, predicted: Sequence[Change | str], reached_ns: float, config: DiagnosisConfig) -> Reached:
    """Predict the time of the side before with some changes.

    Raises:
        ChangeNotUnderstood: a change is none that we know, contradicts another, or there is no plan.
    """
    run = before.typical
    changes = understood(_planned(run, config) if list(predicted) == [PLAN] else predicted)
    if run.base is None:
        raise ChangeNotUnderstood(
            "the trace before was compared without a simulation: overlapscope what-if predicts for it"
        )
    found = run.base.predict(changes)
    bases = (found.unprofiled, found) if before.unprofiled else (found, found.unprofiled)
    stated, other = (Times.of(each.estimate, before.divisor(run)) for each in bases)
    return Reached(
        changes=tuple(map(str, changes)),
        reached_ns=reached_ns,
        unprofiled=before.unprofiled,
        on_other_basis=other,
        narrowed_by=found.narrowed_by,
        predicted_ns=stated.predicted_ns,
        low_ns=stated.low_ns,
        high_ns=stated.high_ns,
    )


def _planned(run: Run, config: DiagnosisConfig) -> tuple[Change, ...]:
    changes = planned_changes(diagnose(run.trace, run.window, config))
    if not changes:
        raise ChangeNotUnderstood("the trace before has no plan: name the changes, such as pin,non-blocking")
    return changes
