"""Named ranges and steps of two traces, aligned by name and order."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from overlapscope.comparison.side import Run
from overlapscope.measure.windows import ends_with_work
from overlapscope.model.frames import Row

_STEP = re.compile(r"^ProfilerStep#\d+$")
STEPS = "ProfilerStep#*"
"""What the profiler's numbered steps are called together."""


@dataclass(frozen=True)
class RangeTimes(Row):
    """The occurrences of a range, each up to the end of the GPU work issued in it: how many, and how long."""

    occurrences: int
    median_ns: float
    total_ns: int


@dataclass(frozen=True)
class RangeChange:
    """A range of one trace or both; None where a trace has not got it.

    ``steps`` are the times of the first, second and further occurrences, before and after, None where one is missing.
    """

    name: str
    before: RangeTimes | None
    after: RangeTimes | None
    steps: tuple[tuple[int | None, int | None], ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready data: an entry of ``ranges``."""
        return {
            "name": self.name,
            "before": None if self.before is None else self.before.to_dict(),
            "after": None if self.after is None else self.after.to_dict(),
            "steps": [list(step) for step in self.steps],
        }


def range_changes(before: Run, after: Run, listed: int) -> tuple[RangeChange, ...]:
    """The ranges within the windows of two traces, at most so many, the longest first; only the common steps are."""
    sides = _times(before), _times(after)
    found = [_change(name, *(side.get(name, []) for side in sides)) for name in dict.fromkeys((*sides[0], *sides[1]))]

    def total_ns(entry: RangeChange) -> int:
        return max(side.total_ns for side in (entry.before, entry.after) if side is not None)

    return tuple(sorted(found, key=lambda entry: (-total_ns(entry), entry.name))[:listed])


def _times(run: Run) -> dict[str, list[int]]:
    """How long each occurrence of each range takes, in their order."""
    trace = run.trace
    ranges = trace.ranges
    inside = run.window.covers(ranges.process, ranges.start_ns, ranges.end_ns) == ranges.duration_ns
    ranges = ranges.take(inside)
    took = ends_with_work(trace, ranges) - ranges.start_ns
    found: dict[str, list[int]] = {}
    for row in np.argsort(ranges.start_ns, kind="stable").tolist():
        name = trace.names[int(ranges.name_id[row])]
        found.setdefault(STEPS if _STEP.match(name) else name, []).append(int(took[row]))
    return found


def _change(name: str, before: list[int], after: list[int]) -> RangeChange:
    return RangeChange(name, _summed(before), _summed(after), tuple(zip_longest(before, after)))


def _summed(times: list[int]) -> RangeTimes | None:
    return RangeTimes(len(times), statistics.median(times), sum(times)) if times else None
