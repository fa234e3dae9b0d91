"""Ranges: their figures by name, and whether a program repeats one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.measure.devices import Activity, activity, device_keys
from overlapscope.measure.grouping import each_value, rows_by_thread
from overlapscope.measure.host import blocked_from_ns
from overlapscope.measure.places import enclosing, is_step
from overlapscope.measure.spans import covered, intersect, union
from overlapscope.measure.windows import Window, ends_with_work, whole
from overlapscope.model.columns import NO_ID, Int32, Int64
from overlapscope.model.frames import Row
from overlapscope.model.tables import HostWork, Ranges
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
    """The time for which calls blocked the thread of each range while it was open, in ns."""
    calls, result = trace.api_calls, np.zeros(len(ranges), np.int64)
    begin, calls_of = blocked_from_ns(calls), rows_by_thread(calls.process, calls.thread)
    for thread, rows in rows_by_thread(ranges.process, ranges.thread).items():
        made = calls_of.get(thread, rows[:0])
        blocked = union(begin[made], calls.end_ns[made])
        result[rows] = covered(ranges.start_ns[rows], ranges.end_ns[rows], blocked)
    return result


def _figures(
    name: str, ranges: Ranges, ends: Int64, rows: Int64, active: list[Activity], blocked: Int64
) -> RangeFigures:
    wall, kernels, copies, overlap = 0, 0, 0, 0
    for process, places in each_value(ranges.process[rows]):
        spans = union(ranges.start_ns[rows[places]], ends[rows[places]])
        wall += spans.total_ns
        for device in active:
            if device.key.process == process:
                kernels += intersect(device.kernels, spans).total_ns
                copies += intersect(device.copies, spans).total_ns
                overlap += intersect(device.overlap, spans).total_ns
    host, after = np.median(ranges.duration_ns[rows]), np.median(ends[rows] - ranges.end_ns[rows])
    waits = int(blocked[rows].sum())
    return RangeFigures(name, len(rows), round(host), round(after), waits, wall, kernels, copies, overlap)


NEXT_BATCH = "enumerate(DataLoader)#"
"""How torch's own range around the next batch of a DataLoader begins; the class of its iterator follows."""
_LEAST_STEP_SHARE = 0.5
"""A range that repeats is the program's step where it takes at least this share of the trace."""
LEAST = 3
"""Repetitions from which something is a pattern: two alike can be chance."""
_LEAST_SHARE = 0.5  # of a sequence that repeats, for it to be the program's loop
_MOST_PERIODS = 500  # that are tried, the shortest first: each costs a pass over the sequence


@dataclass(frozen=True)
class Repetition:
    """Something that a thread does ``count`` times in a row, between two times.

    ``range`` is the name of the range that repeats; None for a sequence of ``length`` launches or operators.
    """

    count: int
    length: int
    what: str
    start_ns: int
    end_ns: int
    range: str | None = None


def filling_range(trace: Trace) -> tuple[str, int]:
    """The range that takes most time of those that repeat and fill the trace, and how often; ``""`` and 0 without one.

    The profiler's steps are none.
    """
    known = ~np.isin(trace.ranges.name_id, [NO_ID, *trace.names.find("")])
    named = trace.ranges.take(~is_step(trace) & known)
    names, member, count = np.unique(named.name_id, return_inverse=True, return_counts=True)
    total = np.where(count >= LEAST, np.bincount(member, named.duration_ns, len(names)), 0)
    if total.max(initial=0) < max(_LEAST_STEP_SHARE * (trace.end_ns - trace.start_ns), 1):
        return "", 0
    most = int(np.argmax(total))
    return trace.names[int(names[most])], int(count[most])


def waited_for_batches_ns(trace: Trace) -> int:
    """For how long loops waited for the next batches of their DataLoaders, in ns; 0 where torch recorded none."""
    numbers = [number for number, name in enumerate(trace.names.values) if name.startswith(NEXT_BATCH)]
    rows = np.isin(trace.ranges.name_id, numbers)
    return union(trace.ranges.start_ns[rows], trace.ranges.end_ns[rows]).total_ns


def repetition(trace: Trace) -> Repetition | None:
    """The busiest thread's repetition: its most frequent outermost range, else a sequence of launches or operators."""
    launches = _launches(trace)
    table, what = (launches, "launches") if len(launches) else (_outermost(trace.cpu_ops), "operators")
    if not len(table):
        return None
    busiest = table.take(_on_busiest_thread(table))
    return _repeating_range(trace, busiest) or _repeating_sequence(busiest, what, trace.end_ns)


def _launches(trace: Trace) -> HostWork:
    """The calls that launch kernels, under the names of these."""
    rows = np.flatnonzero(trace.kernels.call != NO_ID)
    calls, names = trace.kernels.call[rows], trace.kernels.name_id[rows]
    order = np.argsort(trace.api_calls.start_ns[calls], kind="stable")
    launching = trace.api_calls.take(calls[order].astype(np.int64))
    columns = {name: getattr(launching, name) for name in ("start_ns", "end_ns", "process", "thread")}
    return type(trace.modules).build(trace.names, len(order), columns | {"name_id": names[order]})


def _outermost(table: HostWork) -> HostWork:
    return table.take(enclosing(table) == NO_ID)


def _on_busiest_thread(table: HostWork) -> Int64:
    return max(rows_by_thread(table.process, table.thread).values(), key=len)


def _repeating_range(trace: Trace, busiest: HostWork) -> Repetition | None:
    ranges = _outermost(trace.ranges.take(~is_step(trace)))
    ranges = ranges.take((ranges.process == busiest.process[0]) & (ranges.thread == busiest.thread[0]))
    if not len(ranges):
        return None
    names, count = np.unique(ranges.name_id, return_counts=True)
    most = int(np.argmax(count))
    if count[most] < LEAST:
        return None
    loop, name = ranges.take(ranges.name_id == names[most]), trace.names[int(names[most])]
    return Repetition(len(loop), 1, "ranges", int(loop.start_ns[0]), int(loop.end_ns.max()), name)


def _repeating_sequence(table: HostWork, what: str, end_ns: int) -> Repetition | None:
    repeats = period(table.name_id)
    if repeats is None:
        return None
    first, length, count = repeats
    after = first + count * length
    end = int(table.start_ns[after]) if after < len(table) else end_ns
    return Repetition(count, length, what, int(table.start_ns[first]), end)


def period(sequence: Int32 | Int64) -> tuple[int, int, int] | None:
    """The first entry, the period and the count of a sequence's repetition; None where less than half of it repeats.

    Periods are distances of entries to the one in the middle, which a program's loop is likely to contain.

    >>> period(np.array([7, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 9]))
    (1, 3, 3)
    """
    middle = len(sequence) // 2
    distances = np.abs(np.flatnonzero(sequence == sequence[middle]) - middle) if len(sequence) else np.empty(0, int)
    best = (0, 0, 0)
    for length in np.unique(distances[distances > 0])[:_MOST_PERIODS].tolist():
        first, run = _longest_run(sequence[length:] == sequence[:-length])
        if run + length > best[2] and (run + length) // length >= LEAST:
            best = first, length, run + length
    first, length, covered = best
    return (first, length, covered // length) if covered > _LEAST_SHARE * len(sequence) else None


def _longest_run(same: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[int, int]:
    """The first index and the length of the longest run of True."""
    edges = np.concatenate([[-1], np.flatnonzero(~same), [len(same)]])
    lengths = np.diff(edges) - 1
    longest = int(np.argmax(lengths))
    return int(edges[longest]) + 1, int(lengths[longest])
