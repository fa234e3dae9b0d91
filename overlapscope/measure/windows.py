"""The part of a trace that is analysed: the whole trace, a time interval, or every occurrence of a named range."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np

from overlapscope.errors import RangeNotFound
from overlapscope.measure.spans import EMPTY, Spans, contains, covered, union
from overlapscope.model.columns import NO_ID, Bool, Int64, Names
from overlapscope.model.tables import DeviceWork, Ranges, Timed
from overlapscope.model.trace import Trace


@dataclass(frozen=True, eq=False)
class Window:
    """The analysed part of a trace: one interval, or all occurrences of a range, each for its process.

    ``start_ns``, ``end_ns`` and ``process`` have one entry per occurrence. Occurrences may overlap where the device
    work of one runs into the next. ``name`` is None for a time interval without a range; it covers every process.
    ``device`` restricts what is analysed to the GPUs of this number; None for all.
    """

    name: str | None
    start_ns: Int64
    end_ns: Int64
    process: Int64
    device: int | None = None

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
        mine = self.counts_for(process)
        return union(self.start_ns[mine], self.end_ns[mine]) if mine.any() else EMPTY

    def counts_for(self, process: int) -> Bool:
        """Which occurrences count for ``process``: its own, or all where the window or it names no process."""
        if self.name is None or process == NO_ID:
            return np.ones(len(self.process), np.bool_)
        own: Bool = self.process == process
        return own

    def touches(self, process: Int64, start_ns: Int64, end_ns: Int64) -> Bool:
        """Which intervals, each of a process, overlap the time that counts for that process."""
        result = np.zeros(len(process), np.bool_)
        for owner in np.unique(process).tolist():
            mine = process == owner
            result[mine] = contains(self.of(owner), start_ns[mine], end_ns[mine])
        return result

    def covers(self, process: Int64, start_ns: Int64, end_ns: Int64) -> Int64:
        """For each interval of a process, the ns of it within the time that counts for that process."""
        result = np.zeros(len(process), np.int64)
        for owner in np.unique(process).tolist():
            mine = process == owner
            result[mine] = covered(start_ns[mine], end_ns[mine], self.of(owner))
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


def window_of(trace: Trace, within: str | Window | None) -> Window:
    """The window that a public function's ``within`` means: a range by its name, a window, or None for all.

    Raises:
        TypeError: it is no opened trace.
        RangeNotFound: the trace has no range of that name.
    """
    if not isinstance(trace, Trace):
        raise TypeError(f"expected an opened trace, as open_trace returns it, not {type(trace).__name__}")
    if within is None:
        return whole(trace)
    return within if isinstance(within, Window) else of_range(trace, within)


def whole(trace: Trace) -> Window:
    """The window of the whole trace: from the first begin to the last end of anything recorded."""
    return Window.between(trace.start_ns, trace.end_ns)


def between(start_ns: int, end_ns: int) -> Window:
    """The window of a time interval; see `Window.between`."""
    return Window.between(start_ns, end_ns)


def is_whole(trace: Trace, window: Window) -> bool:
    """Whether a window is all of the trace, and not a range or a part of it."""
    return window.name is None and window.first_ns <= trace.start_ns and window.last_ns >= trace.end_ns


def inside(trace: Trace, table: Timed, window: Window) -> Bool:
    """Which rows of a table a window touches, of device work only those of its device."""
    there = np.ones(len(table), np.bool_)
    if not is_whole(trace, window):
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


def ends_with_work(trace: Trace, ranges: Ranges) -> Int64:
    """The end of each range on the device: its host end, or the end of the last work issued inside it."""
    ends = ranges.end_ns.copy()
    issued, done, process = _issued_work(trace)
    for owner in np.unique(ranges.process).tolist():
        mine = process == owner
        rows = np.flatnonzero(ranges.process == owner)
        first, last = (np.searchsorted(issued[mine], edge[rows]) for edge in (ranges.start_ns, ranges.end_ns))
        some = last > first
        if some.any():
            # reduceat takes the maximum between each index and the next; every second one is a range's.
            edges = np.stack([first[some], last[some]], axis=1).ravel()
            latest = np.maximum.reduceat(np.append(done[mine], done[mine][-1]), edges)[::2]
            ends[rows[some]] = np.maximum(ends[rows[some]], latest)
    return ends


def with_range(trace: Trace, name: str, start_ns: int, end_ns: int) -> Trace:
    """The trace with one more range in every process that calls the GPU, for what is measured by range only.

    It lies on a thread of its own, so that it encloses nothing that the others do.
    """
    names = Names((*trace.names.values, name))
    processes = np.unique(trace.api_calls.process)
    old, columns = trace.ranges, {"start_ns": start_ns, "end_ns": end_ns, "name_id": len(names) - 1, "thread": NO_ID}
    new = Ranges.build(
        names,
        len(processes),
        {key: np.full(len(processes), value, np.int64) for key, value in columns.items()} | {"process": processes},
    )
    both = {spec.name: np.concatenate([getattr(old, spec.name), getattr(new, spec.name)]) for spec in Ranges.columns()}
    ranges = Ranges(names=names, **both)
    return replace(trace, names=names, ranges=ranges.take(np.argsort(ranges.start_ns, kind="stable")))


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
    known = {trace.names[number] for number in np.unique(trace.ranges.name_id).tolist()}
    if not known:
        raise RangeNotFound(
            f"no range {name!r}: the trace has no annotations or NVTX ranges; wrap the code in "
            "torch.profiler.record_function or overlapscope.annotate and record again"
        )
    near = difflib.get_close_matches(name, sorted(known), n=5, cutoff=0.3) or sorted(known)[:5]
    raise RangeNotFound(f"no range {name!r} in the trace; it has, for example: {', '.join(near)}")


def _issued_work(trace: Trace) -> tuple[Int64, Int64, Int64]:
    """Issue time, end and process of all device work with a known call, in the order of issue."""
    joined = [table.take(table.call != NO_ID) for table in trace.device_work]
    issued = np.concatenate([trace.api_calls.start_ns[table.call] for table in joined])
    done = np.concatenate([table.end_ns for table in joined])
    process = np.concatenate([table.process for table in joined])
    order = np.argsort(issued, kind="stable")
    return issued[order], done[order], process[order]
