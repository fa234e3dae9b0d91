"""What the devices did during each named range."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.measure.devices import activity, device_keys
from overlapscope.measure.host import sums_by
from overlapscope.measure.spans import covered
from overlapscope.measure.windows import ends_with_work, whole
from overlapscope.model.columns import Int64
from overlapscope.model.tables import Ranges
from overlapscope.model.trace import Trace


@dataclass(frozen=True, eq=False)
class RangeTimes:
    """One entry per range: its end on the device too, and the busy times in it, summed over devices, in ns."""

    end_ns: Int64
    kernel_busy_ns: Int64
    copy_busy_ns: Int64
    overlap_ns: Int64
    idle_ns: Int64


@dataclass(frozen=True)
class RangeFigures:
    """All ranges of one name; sums over its occurrences."""

    name: str
    occurrences: int
    wall_ns: int
    kernel_busy_ns: int
    copy_busy_ns: int
    overlap_ns: int
    idle_ns: int


def range_times(trace: Trace, ranges: Ranges) -> RangeTimes:
    """Busy times of the devices of each range's process, from its begin to the end of its device work."""
    ends = ends_with_work(trace, ranges)
    kernels, copies, both, idle = (np.zeros(len(ranges), np.int64) for _ in range(4))
    window = whole(trace)
    for key in device_keys(trace):
        mine = np.flatnonzero(ranges.process == key.process)
        begin, end = ranges.start_ns[mine], ends[mine]
        active = activity(trace, key, window)
        kernels[mine] += covered(begin, end, active.kernels)
        copies[mine] += covered(begin, end, active.copies)
        both[mine] += covered(begin, end, active.overlap)
        idle[mine] += end - begin - covered(begin, end, active.busy)
    return RangeTimes(ends, kernels, copies, both, idle)


def figures_by_range(trace: Trace, ranges: Ranges | None = None) -> tuple[RangeFigures, ...]:
    """Figures of every range name (of ``ranges`` only, when given), the longest first.

    Ranges nest, so the figures of different names do not add up.
    """
    ranges = trace.ranges if ranges is None else ranges
    times = range_times(trace, ranges)
    names, member = np.unique(ranges.name_id, return_inverse=True)
    columns = (
        np.ones(len(ranges), np.int64),
        times.end_ns - ranges.start_ns,
        times.kernel_busy_ns,
        times.copy_busy_ns,
        times.overlap_ns,
        times.idle_ns,
    )
    sums = [sums_by(member, values, len(names)).tolist() for values in columns]
    figures = [RangeFigures(trace.names[name], *row) for name, *row in zip(names.tolist(), *sums, strict=True)]
    return tuple(sorted(figures, key=lambda entry: (-entry.wall_ns, entry.name)))
