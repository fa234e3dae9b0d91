"""What was predicted for some changes of the program before, against what the one after takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from overlapscope.comparison.side import Run, Side
from overlapscope.diagnosis.config import DiagnosisConfig
from overlapscope.diagnosis.run import diagnose
from overlapscope.errors import ChangeNotUnderstood
from overlapscope.formatting import interval, share, time
from overlapscope.model.frames import Row
from overlapscope.whatif.catalogue import understood
from overlapscope.whatif.change import Change

PLAN = "plan"
"""Stands for all changes of the plan of the side before."""


@dataclass(frozen=True)
class Reached(Row):
    """The predicted time with its interval, and the one that was reached, in ns, both on the comparison's baseline.

    ``unprofiled`` says that this is the time without the profiler.
    """

    changes: tuple[str, ...]
    predicted_ns: float
    low_ns: float
    high_ns: float
    reached_ns: float
    unprofiled: bool

    @property
    def inside(self) -> bool:
        """Whether the interval has the time that was reached."""
        return self.low_ns <= self.reached_ns <= self.high_ns

    @property
    def sentence(self) -> str:
        """Both in one sentence."""
        predicted = interval(self.low_ns, self.high_ns, self.predicted_ns)
        off = abs(self.reached_ns - self.predicted_ns)
        more = "more" if self.reached_ns > self.predicted_ns else "less"
        than = f"{share(off, self.predicted_ns)} {more} than predicted"
        than += "" if self.inside else ", outside the interval: the program after may have other changes than these"
        changes = " + ".join(self.changes)
        return f"Predicted for {changes}: {predicted}; reached: {time(self.reached_ns)}, {than}."

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready data: ``predicted`` of a comparison."""
        times = ("predicted_ns", "low_ns", "high_ns", "reached_ns")
        rounded = {name: round(getattr(self, name)) for name in times}
        return {"changes": list(self.changes), **rounded, "inside": self.inside, "unprofiled": self.unprofiled}


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
    times, divisor = found.stated if before.unprofiled else found, before.divisor(run)
    predicted_ns, low, high = (value / divisor for value in (times.predicted_ns, times.low_ns, times.high_ns))
    return Reached(tuple(map(str, changes)), predicted_ns, low, high, reached_ns, before.unprofiled)


def _planned(run: Run, config: DiagnosisConfig) -> tuple[str, ...]:
    plan = diagnose(run.trace, run.window, config).plan
    if plan is None or not plan.steps:
        raise ChangeNotUnderstood("the trace before has no plan: name the changes, such as pin,non-blocking")
    return plan.steps[-1].changes
