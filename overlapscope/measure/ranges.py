"""Measure each named range: its time on the host, what it waited for there, and the device activity issued in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.measure.devices import Activity, activity, device_keys
from overlapscope.measure.host import blocked_from_ns
from overlapscope.measure.spans import Spans, covered, intersect, union
from overlapscope.measure.windows import Window, ends_with_work, whole
from overlapscope.model.columns import Int64
from overlapscope.model.frames import Row
from overlapscope.model.tables import Ranges
from overlapscope.model.trace import Trace


@dataclass(frozen=True)
class RangeFigures(Row):
    """Figures of all ranges of one name, each up to the end of its device work.

    ``host_ns`` is the median time from a range's begin to its end on the host, ``after_ns`` the median time for which
    its device work goes on after that. ``blocked_ns`` is the time for which calls in them blocked their thread, in all
    occurrences. ``wall_ns`` is the union of the occurrences; busy times are sums over the devices of their process.
    """

    name: str
    occurrences: int
    host_ns: int
    after_ns: int
    blocked_ns: int
    wall_ns: int
    kernel_busy_ns: int
    copy_busy_ns: int
    overlap_ns: int


def figures_by_range(
    trace: Trace, ranges: Ranges | None = None, most: int | None = None, window: Window | None = None
) -> tuple[RangeFigures, ...]:
    """Figures of every range name, the longest first.

    Ranges nest, so the figures of different names do not add up.

    Args:
        trace: the trace.
        ranges: only these ranges of the trace.
        most: at most so many names, those with the longest total time.
        window: only the work on the devices that it is about.
    """
    ranges = trace.ranges if ranges is None else ranges
    ends = ends_with_work(trace, ranges)
    names, member = np.unique(ranges.name_id, return_inverse=True)
    summed = np.bincount(member, weights=ends - ranges.start_ns, minlength=len(names))
    active = [activity(trace, key, whole(trace)) for key in device_keys(trace, window)]
    blocked = _blocked_ns(trace, ranges)
    figures = [
        _figures(trace.names[int(names[index])], ranges, ends, np.flatnonzero(member == index), active, blocked)
        for index in np.argsort(-summed, kind="stable")[:most].tolist()
    ]
    return tuple(sorted(figures, key=lambda entry: (-entry.wall_ns, entry.name)))


def _blocked_ns(trace: Trace, ranges: Ranges) -> Int64:
    """How long calls blocked the thread of each range while it was open."""
    calls, found = trace.api_calls, np.zeros(len(ranges), np.int64)
    begin = blocked_from_ns(trace)
    for process, thread in set(zip(ranges.process.tolist(), ranges.thread.tolist(), strict=True)):
        mine = np.flatnonzero((ranges.process == process) & (ranges.thread == thread))
        here = (calls.process == process) & (calls.thread == thread) & (begin < calls.end_ns)
        found[mine] = covered(ranges.start_ns[mine], ranges.end_ns[mine], union(begin[here], calls.end_ns[here]))
    return found


def _figures(
    name: str, ranges: Ranges, ends: Int64, rows: Int64, active: list[Activity], blocked: Int64
) -> RangeFigures:
    wall, kernels, copies, overlap = 0, 0, 0, 0
    for process in np.unique(ranges.process[rows]).tolist():
        mine = rows[ranges.process[rows] == process]
        spans = union(ranges.start_ns[mine], ends[mine])
        wall += spans.total_ns
        for device in active:
            if device.key.process == process:
                kernels += _length(device.kernels, spans)
                copies += _length(device.copies, spans)
                overlap += _length(device.overlap, spans)
    host, after = np.median(ranges.duration_ns[rows]), np.median(ends[rows] - ranges.end_ns[rows])
    waits = int(blocked[rows].sum())
    return RangeFigures(name, len(rows), round(host), round(after), waits, wall, kernels, copies, overlap)


def _length(busy: Spans, within: Spans) -> int:
    return intersect(busy, within).total_ns
