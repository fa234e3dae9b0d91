"""The part of a trace that is analysed: the whole trace, a time interval, or every occurrence of a named range."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np

from overlapscope.errors import RangeNotFound
from overlapscope.measure.grouping import distinct_columns, each_value, once_for_each
from overlapscope.measure.spans import Spans, contains, covered, union
from overlapscope.model.columns import NO_ID, Bool, Columnar, Int64, stacked
from overlapscope.model.tables import DeviceWork, Ranges, Timed
from overlapscope.model.trace import Trace


@dataclass(frozen=True, eq=False)
class Window(Columnar):
    """The analysed part of a trace: intervals, or occurrences of a range, each for its process.

    ``start_ns``, ``end_ns`` and ``process`` have one entry per occurrence; the process -1 stands for every process.
    Occurrences may overlap where the device work of one runs into the next. ``name`` is None for a time interval
    without a range; it covers every process. ``device`` restricts what is analysed to the GPUs of this number; None for
    all. ``is_whole`` is the window of the whole trace: its time is that of the GPU's work, and every row counts, also
    what the host did before and after.
    """

    name: str | None
    start_ns: Int64
    end_ns: Int64
    process: Int64
    device: int | None = None
    is_whole: bool = False

    @classmethod
    def between(cls, start_ns: int, end_ns: int) -> Window:
        """The time interval [start_ns, end_ns) on the trace's clock, for every process."""
        start, end = np.array([start_ns], np.int64), np.array([end_ns], np.int64)
        return cls(None, start, end, np.array([NO_ID], np.int64))

    @property
    def spans(self) -> Spans:
        """The union of all occurrences."""
        return union(self.start_ns, self.end_ns)

    def of(self, process: int) -> Spans:
        """The time that counts for ``process``; empty where it has no such range."""
        rows = self.counts_for(process)
        return union(self.start_ns[rows], self.end_ns[rows])

    def counts_for(self, process: int) -> Bool:
        """Which occurrences count for ``process``: those of it and of no process, or all where it is none."""
        if self.name is None or process == NO_ID:
            return np.ones(len(self.process), np.bool_)
        return np.isin(self.process, (process, NO_ID))

    def touches(self, process: Int64, start_ns: Int64, end_ns: Int64) -> Bool:
        """Which intervals, each of a process, overlap the time that counts for that process."""
        result = np.full(len(process), self.is_whole)
        for owner, rows in () if self.is_whole else each_value(process):
            result[rows] = contains(self.of(owner), start_ns[rows], end_ns[rows])
        return result

    def covers(self, process: Int64, start_ns: Int64, end_ns: Int64) -> Int64:
        """For each interval of a process, the ns of it within the time that counts for that process."""
        if self.is_whole:
            return end_ns - start_ns
        result = np.zeros(len(process), np.int64)
        for owner, rows in each_value(process):
            result[rows] = covered(start_ns[rows], end_ns[rows], self.of(owner))
        return result

    @property
    def first_ns(self) -> int:
        """Begin of the first occurrence."""
        return int(self.start_ns.min()) if len(self.start_ns) else 0

    @property
    def last_ns(self) -> int:
        """End of the last occurrence."""
        return int(self.end_ns.max()) if len(self.end_ns) else 0

    @property
    def wall_ns(self) -> int:
        """Length of the union of all occurrences."""
        return self.spans.total_ns


def whole(trace: Trace) -> Window:
    """The window of the whole trace, whose time is its `work_window`."""
    return replace(Window.between(*work_window(trace)), is_whole=True)


def ranges_within(trace: Trace, window: Window) -> Ranges:
    """The ranges that lie wholly within a window."""
    ranges = trace.ranges
    return ranges.take(window.covers(ranges.process, ranges.start_ns, ranges.end_ns) == ranges.duration_ns)


@once_for_each
def work_window(trace: Trace) -> tuple[int, int]:
    """From the first to the last device work, in ns; all of a trace without any.

    What a program does before and after, such as imports and its first calls, is no time that a GPU lost.
    """
    tables = [table for table in trace.device_work if len(table)]
    if not tables:
        return trace.start_ns, trace.end_ns
    return min(int(table.start_ns.min()) for table in tables), max(int(table.end_ns.max()) for table in tables)


def window_title(window: Window) -> str:
    """The name of a window: the whole trace, a part of it, or the range with how often it occurs."""
    title = "whole trace" if window.is_whole else "a part of the trace"
    title = title if window.name is None else f"range {window.name!r}, {len(window.start_ns)} x"
    return title if window.device is None else f"{title}, device {window.device}"


def inside(table: Timed, window: Window) -> Bool:
    """Which rows of a table a window touches, of device work only those of its device."""
    there = window.touches(table.process, table.start_ns, table.end_ns)
    if isinstance(table, DeviceWork) and window.device is not None:
        there &= table.device == window.device
    return there


def of_range(trace: Trace, name: str) -> Window:
    """The window of every host range named ``name`` (or matching it, when it has ``*`` or ``?``).

    An occurrence lasts from its host start to its host end, or to the end of the last device work that its
    process issued in that time, whichever is later. Work issued by any thread of the process counts, since a
    backward pass launches from a thread of its own.

    Raises:
        RangeNotFound: no such range; the message names the nearest ones.
    """
    ranges = trace.ranges.take(_existing_rows(trace, name))
    return Window(name, ranges.start_ns, ends_with_work(trace, ranges), ranges.process)


@once_for_each
def range_rows(trace: Trace, window: Window) -> Int64 | None:
    """The range of each occurrence of a window, as a row of the trace's ranges; None where it is not made of ranges."""
    rows = np.empty(0, np.int64) if window.name is None else rows_called(trace, window.name)
    if not len(rows):
        return None
    ranges = trace.ranges.take(rows)
    columns = np.stack([ranges.process, ranges.start_ns, ends_with_work(trace, ranges)])
    given = np.stack([window.process, window.start_ns, window.end_ns])
    groups, member = distinct_columns(np.concatenate([columns, given], axis=1))
    row_of = np.full(groups.shape[1], NO_ID, np.int64)
    row_of[member[: len(rows)]] = rows
    result: Int64 = row_of[member[len(rows) :]]
    return None if (result == NO_ID).any() else result


def on_host(trace: Trace, window: Window) -> Window:
    """The occurrences of a range on the host alone, without the work that runs on; other windows as they are."""
    rows = range_rows(trace, window)
    if rows is None:
        return window
    return replace(window, start_ns=trace.ranges.start_ns[rows], end_ns=trace.ranges.end_ns[rows])


def of_occurrence(trace: Trace, name: str, occurrence: int | None = None) -> Window:
    """A host range with the device work it issued: one occurrence, 1 for the first, or all of them.

    Raises:
        RangeNotFound: no such range, or not that many.
    """
    window = of_range(trace, name)
    if occurrence is None:
        return window
    order = np.argsort(window.start_ns, kind="stable")
    if not 1 <= occurrence <= len(order):
        raise RangeNotFound(f"the range {name!r} occurs {len(order)} times: there is no occurrence {occurrence}")
    row = order[occurrence - 1 : occurrence]
    return Window(name, window.start_ns[row], window.end_ns[row], window.process[row])


def ends_with_work(trace: Trace, ranges: Ranges) -> Int64:
    """The end of each range on the device: its host end, or the end of the last work issued inside it."""
    ends = ranges.end_ns.copy()
    issued, done, process = _issued_work(trace)
    for owner, rows in each_value(ranges.process):
        work = np.flatnonzero(process == owner)
        first, last = (np.searchsorted(issued[work], edge[rows]) for edge in (ranges.start_ns, ranges.end_ns))
        issues = last > first
        if issues.any():
            # reduceat takes the maximum between each index and the next; every second one is a range's.
            edges = np.stack([first[issues], last[issues]], axis=1).ravel()
            latest = np.maximum.reduceat(np.append(done[work], done[work][-1]), edges)[::2]
            ends[rows[issues]] = np.maximum(ends[rows[issues]], latest)
    return ends


def rows_called(trace: Trace, name: str) -> Int64:
    """Rows of the ranges named ``name``; where there is none, of those that match it as a pattern (``*``, ``?``)."""
    numbers = trace.names.find(name)
    known = np.unique(trace.ranges.name_id)
    if not np.isin(known, numbers).any() and any(sign in name for sign in "*?"):
        numbers = [number for number in known.tolist() if fnmatchcase(trace.names[number], name)]
    return np.flatnonzero(np.isin(trace.ranges.name_id, numbers))


def _existing_rows(trace: Trace, name: str) -> Int64:
    rows = rows_called(trace, name)
    if len(rows):
        return rows
    known = sorted({trace.names[number] for number in np.unique(trace.ranges.name_id).tolist()})
    if not known:
        raise RangeNotFound(
            f"no range {name!r}: the trace has no annotations or NVTX ranges; wrap the code in "
            "torch.profiler.record_function or overlapscope.annotate and record again"
        )
    near = difflib.get_close_matches(name, known, n=5, cutoff=0.3) or known[:5]
    raise RangeNotFound(f"no range {name!r} in the trace; it has, for example: {', '.join(near)}")


def _issued_work(trace: Trace) -> tuple[Int64, Int64, Int64]:
    """Issue time, end and process of all device work with a known call, in the order of issue."""
    call, done, process = stacked(trace.device_work, "call", "end_ns", "process")
    rows = np.flatnonzero(call != NO_ID)
    issued = trace.api_calls.start_ns[call[rows]]
    order = np.argsort(issued, kind="stable")
    return issued[order], done[rows[order]], process[rows[order]]
