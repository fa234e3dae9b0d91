"""The two timelines of a comparison."""

from __future__ import annotations

from overlapscope.comparison.result import Comparison
from overlapscope.formatting import time
from overlapscope.timeline.comparison import View, of_traces


def views_of(found: Comparison) -> list[View]:
    """The windows of the typical traces, to be drawn on one scale of time."""
    before, after = (
        (f"{label}: {time(side.typical.window.wall_ns)}, as recorded", side.typical.trace)
        for label, side in {"before": found.before, "after": found.after}.items()
    )
    return of_traces(before, after, found.before.typical.window.name)
