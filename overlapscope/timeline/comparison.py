"""Two windows on one scale of time: before and after a change, as measured or as predicted."""

from __future__ import annotations

from dataclasses import dataclass

from overlapscope.analysis.analysis import Analysis, analyse
from overlapscope.diagnosis.finding import Diagnosis
from overlapscope.diagnosis.plan import planned_changes
from overlapscope.formatting import time
from overlapscope.model.trace import Trace
from overlapscope.timeline.bars import Lane
from overlapscope.timeline.lanes import lanes
from overlapscope.timeline.view import Shown, drawn, edges_of
from overlapscope.whatif.prediction import Prediction


@dataclass(frozen=True, eq=False)
class View:
    """A stretch of a trace under a label, with the analysis whose causes of idle time it shows.

    Times are shown from ``zero_ns`` on. After the stretch there is room for ``free_ns``, in which nothing is shown.
    """

    label: str
    analysis: Analysis
    zero_ns: int
    first_ns: int
    last_ns: int
    free_ns: int = 0

    @property
    def trace(self) -> Trace:
        """The trace."""
        return self.analysis.trace

    @property
    def window(self) -> tuple[int, int]:
        """The stretch, as `overlapscope.timeline.lanes.lanes` takes it."""
        return self.first_ns, self.last_ns

    @property
    def axis(self) -> tuple[int, int]:
        """The stretch with the room after it."""
        return self.first_ns, self.last_ns + self.free_ns

    def lanes(self, shown: Shown) -> list[Lane]:
        """The lanes of the stretch."""
        return lanes(self.analysis, self.window, shown)


def of_prediction(prediction: Prediction) -> list[View]:
    """The window of a prediction as it was measured, and as it would be, each labelled with its time."""
    measured = f"measured: {time(prediction.measured_ns)}"
    predicted = f"{' + '.join(map(str, prediction.changes))}: {time(prediction.predicted_ns)} predicted"
    before = Analysis.of_graph(prediction.before.graph, prediction.window)
    return on_one_scale((measured, before), (predicted, analyse(prediction.after, window=prediction.window_after)))


def of_plan(analysis: Analysis, diagnosis: Diagnosis) -> list[View]:
    """The window of an analysis as it was measured, and as it would be with all that its plan fixes."""
    changes = planned_changes(diagnosis)
    if not changes:
        return on_one_scale(("measured", analysis))
    return on_one_scale(("measured", analysis), (f"with {' + '.join(map(str, changes))}", analysis.after(changes)))


def on_one_scale(*labelled: tuple[str, Analysis]) -> list[View]:
    """The windows of several analyses, with room after each for the longest; zero is where their tables have theirs.

    Of a whole trace all device work is shown. What follows a window is not: its end is to be seen.
    """
    stretches = [edges_of(analysis.trace, drawn(analysis)[1]) for _, analysis in labelled]
    longest = max(last - first for first, last in stretches)
    return [
        View(label, analysis, analysis.trace.start_ns, first, last, longest - (last - first))
        for (label, analysis), (first, last) in zip(labelled, stretches, strict=True)
    ]
