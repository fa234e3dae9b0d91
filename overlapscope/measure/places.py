"""Find the named range, the profiler step or the call at a point in time on a host thread."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from overlapscope.measure.once import once_for_each
from overlapscope.measure.threads import Thread, rows_by_thread
from overlapscope.model.columns import NO_ID, Bool, Int32, Int64
from overlapscope.model.tables import HostWork, Modules, Ranges
from overlapscope.model.trace import Trace

_STEP = re.compile(r"^ProfilerStep#\d{1,18}$")  # what an integer of a column holds
_ROUNDING_NS = 2_000
"""How much later than the range around it a range may end: older releases of torch cut begin and length to
microseconds, each by itself."""


def innermost(ranges: HostWork, process: Int64, thread: Int64, moment_ns: Int64) -> Int32:
    """For each moment on a thread, the row of the innermost range around it; `NO_ID` where there is none."""
    result, nesting = np.full(len(moment_ns), NO_ID, np.int32), _nesting(ranges)
    for place, mine in rows_by_thread(process, thread).items():
        if place in nesting.rows:
            rows = nesting.rows[place]
            before = np.searchsorted(ranges.start_ns[rows], moment_ns[mine], "right") - 1
            found = np.append(rows, NO_ID)[before]
            result[mine] = _still_open(ranges, nesting.around, found, moment_ns[mine])
    return result


def named_work(trace: Trace) -> tuple[HostWork, Bool]:
    """Named ranges and calls of modules in one table by begin, and which rows are modules."""
    parts: tuple[HostWork, ...] = (trace.ranges, trace.modules)
    module = np.repeat([False, True], [len(part) for part in parts])
    if not module.any():
        return trace.ranges, module
    names = ("start_ns", "end_ns", "process", "thread", "name_id")
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    order = np.lexsort((-columns["end_ns"], columns["start_ns"]))
    ordered = {name: values[order] for name, values in columns.items()}
    return Modules.build(trace.names, len(order), ordered), module[order]


class OnThreads(Protocol):
    """A table of host events, sorted by start."""

    @property
    def process(self) -> Int64:
        """Process of each event."""

    @property
    def thread(self) -> Int64:
        """Thread of each event."""

    @property
    def start_ns(self) -> Int64:
        """Start of each event."""


def following(table: OnThreads, process: Int64, thread: Int64, moment_ns: Int64) -> Int64:
    """For each moment on a thread, the first row that starts at or after it; `NO_ID` where there is none."""
    result = np.full(len(moment_ns), NO_ID, np.int64)
    for owner, mine in rows_by_thread(process, thread).items():
        rows = np.flatnonzero((table.process == owner[0]) & (table.thread == owner[1]))
        result[mine] = np.append(rows, NO_ID)[np.searchsorted(table.start_ns[rows], moment_ns[mine])]
    return result


@once_for_each
def enclosing(ranges: HostWork) -> Int32:
    """For each range, the row of the innermost range around all of it on its thread; `NO_ID` for outermost ranges."""
    result = np.full(len(ranges), NO_ID, np.int32)
    for rows in rows_by_thread(ranges.process, ranges.thread).values():
        order = rows[np.lexsort((-ranges.end_ns[rows], ranges.start_ns[rows]))]
        around = _around_all(ranges.start_ns[order], ranges.end_ns[order])
        result[order] = np.where(around == NO_ID, NO_ID, order[np.maximum(around, 0)])
    return result


@dataclass(frozen=True, eq=False)
class _Nesting:
    """The rows of each thread, and for each row the innermost one that was open when it began, or `NO_ID`."""

    rows: dict[Thread, Int64]
    around: Int64


@once_for_each
def _nesting(ranges: HostWork) -> _Nesting:
    by_thread, around = rows_by_thread(ranges.process, ranges.thread), np.empty(len(ranges), np.int64)
    for rows in by_thread.values():
        around[rows] = np.append(rows, NO_ID)[_around(ranges.start_ns[rows], ranges.end_ns[rows])]
    return _Nesting(by_thread, around)


def _still_open(ranges: HostWork, around: Int64, row: Int64, moment_ns: Int64) -> Int64:
    """For each of some rows that began before a moment, the innermost one around that which has not ended by then."""
    found, some = row.copy(), np.flatnonzero(row != NO_ID)
    while len(some := some[ranges.end_ns[found[some]] <= moment_ns[some]]):
        found[some] = around[found[some]]
        some = some[found[some] != NO_ID]
    return found


def _around(start_ns: Int64, end_ns: Int64) -> Int64:
    """For each range, by start, the innermost one that was open when it began; `NO_ID` where there was none.

    That is the last one before it that ends later. Each one looks first at the one just before it, and passes on to
    where that one has got, at twice the distance each time.
    """
    around = np.arange(len(start_ns)) - 1
    some = np.flatnonzero(around != NO_ID)
    while len(some := some[end_ns[around[some]] <= start_ns[some]]):
        around[some] = around[around[some]]
        some = some[around[some] != NO_ID]
    return around


def _around_all(start_ns: Int64, end_ns: Int64) -> Int64:
    """For each range, the innermost range that was open from its begin to its end; `NO_ID` where there was none."""
    around = _around(start_ns, end_ns)
    crossed = (around != NO_ID) & (end_ns[around] + _ROUNDING_NS < end_ns)
    for row in np.flatnonzero(crossed).tolist():
        while around[row] != NO_ID and end_ns[around[row]] + _ROUNDING_NS < end_ns[row]:
            around[row] = around[around[row]]
    return around


def steps(trace: Trace) -> Ranges:
    """The profiler's step ranges (``ProfilerStep#N``)."""
    return trace.ranges.take(is_step(trace))


def is_step(trace: Trace) -> Bool:
    """Which ranges are profiler steps."""
    numbers = np.unique(trace.ranges.name_id)
    matching = [number for number in numbers.tolist() if _STEP.match(trace.names[number])]
    return np.isin(trace.ranges.name_id, matching)


def step_of(trace: Trace, process: Int64, moment_ns: Int64) -> Int32:
    """For each moment of a process, the row of the profiler step around it, on any thread."""
    rows = np.flatnonzero(is_step(trace))
    table = trace.ranges.take(rows)
    anywhere = np.zeros(len(moment_ns), np.int64)
    flat = Ranges.build(
        trace.names,
        len(rows),
        {
            "start_ns": table.start_ns,
            "end_ns": table.end_ns,
            "process": table.process,
            "thread": np.zeros(len(rows), np.int64),
            "name_id": table.name_id,
        },
    )
    found = innermost(flat, process, anywhere, moment_ns)
    return np.where(found == NO_ID, NO_ID, rows[np.maximum(found, 0)] if len(rows) else NO_ID).astype(np.int32)
