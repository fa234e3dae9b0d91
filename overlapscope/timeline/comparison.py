"""Two windows on one scale of time: before and after a change, as measured or as predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from overlapscope.diagnosis.finding import DeviceDiagnosis, Diagnosis
from overlapscope.diagnosis.idle_by_rule import idle_by_rule
from overlapscope.diagnosis.plan import planned_changes
from overlapscope.formatting import time
from overlapscope.model.trace import Trace
from overlapscope.timeline.bars import Lane
from overlapscope.timeline.lanes import lanes
from overlapscope.timeline.shown import Shown
from overlapscope.timeline.view import of_name
from overlapscope.whatif.prediction import Prediction
from overlapscope.whatif.what_if import trace_with


@dataclass(frozen=True, eq=False)
class View:
    """A stretch of a trace under a label; times are shown from ``zero_ns`` on.

    ``within`` is the range whose idle time is attributed; None for the whole trace.
    """

    label: str
    trace: Trace
    zero_ns: int
    first_ns: int
    last_ns: int
    within: str | None = None

    @property
    def window(self) -> tuple[int, int]:
        """Its stretch, as `overlapscope.timeline.lanes.lanes` takes it."""
        return self.first_ns, self.last_ns

    def lanes(self, shown: Shown, idle: Sequence[DeviceDiagnosis] | None = None) -> list[Lane]:
        """Its lanes; ``idle`` says why devices were idle, attributed here without it."""
        if idle is None:
            idle = idle_by_rule(self.trace, self.within) if shown.why_idle else ()
        return lanes(self.trace, self.window, shown, idle)


def of_prediction(found: Prediction) -> list[View]:
    """The window of a prediction as it was measured, and as it would be, each labelled with its time."""
    measured = f"measured: {time(found.measured_ns)}"
    predicted = f"{' + '.join(map(str, found.changes))}: {time(found.predicted_ns)} predicted"
    return _on_one_scale([(measured, found.trace), (predicted, found.after)], found.window.name)


def of_traces(before: tuple[str, Trace], after: tuple[str, Trace], name: str | None) -> list[View]:
    """The range of this name in two traces, all device work without a name, each under its label."""
    return _on_one_scale((before, after), name)


def of_plan(found: Diagnosis) -> list[View]:
    """The window of a diagnosis as it was measured, and as it would be with all that its plan fixes."""
    labelled = [("measured", found.trace)]
    if changes := planned_changes(found):
        labelled.append((f"with {' + '.join(map(str, changes))}", trace_with(found.trace, changes)))
    return _on_one_scale(labelled, found.window.name)


def _on_one_scale(labelled: Sequence[tuple[str, Trace]], name: str | None) -> list[View]:
    """The window of this name in each trace, each as long as the longest; zero is where the tables have theirs."""
    stretches = [of_name(trace, name) for _, trace in labelled]
    longest = max(last - first for first, last in stretches)
    return [
        View(label, trace, trace.start_ns if name is None else first, first, first + longest, name)
        for (label, trace), (first, _) in zip(labelled, stretches, strict=True)
    ]
