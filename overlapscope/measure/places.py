"""Find the named range, the profiler step or the call at a point in time on a host thread."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from overlapscope.measure.grouping import Thread, at, last_before, once_for_each, rows_by_thread
from overlapscope.model.columns import NO_ID, Bool, Int32, Int64, stacked
from overlapscope.model.tables import CpuOps, HostWork, Kernels, Ranges
from overlapscope.model.trace import Trace

STEPS = "ProfilerStep#*"
"""The name of all ranges that torch's profiler makes around steps, as a pattern."""
STEP = re.compile(r"^ProfilerStep#(\d{1,18})$")
"""The name of a profiler step; its number fits an integer of a column."""
_ROUNDING_NS = 2_000
"""How much later than the range around it a range may end: older releases of torch cut begin and length to
microseconds, each by itself."""


def innermost(ranges: HostWork, process: Int64, thread: Int64, moment_ns: Int64) -> Int32:
    """For each moment on a thread, the row of the innermost range around it; `NO_ID` where there is none."""
    result, nesting = np.full(len(moment_ns), NO_ID, np.int32), _nesting(ranges)
    for place, asked in rows_by_thread(process, thread).items():
        if place in nesting.rows:
            rows = nesting.rows[place]
            begun = last_before(rows, ranges.start_ns[rows], moment_ns[asked], "right")
            result[asked] = _still_open(ranges, nesting.around, begun, moment_ns[asked])
    return result


def in_one_table(*parts: HostWork) -> tuple[HostWork, Int64]:
    """The rows of several tables in one by begin, enclosing rows first, and for each row the number of its part."""
    part = np.repeat(np.arange(len(parts)), [len(rows) for rows in parts])
    names = ("start_ns", "end_ns", "process", "thread", "name_id")
    columns = dict(zip(names, stacked(parts, *names), strict=True))
    order = np.lexsort((part, -columns["end_ns"], columns["start_ns"]))
    ordered = {name: values[order] for name, values in columns.items()}
    return CpuOps.build(parts[0].names, len(order), ordered), part[order]


def named_work(trace: Trace) -> tuple[HostWork, Bool]:
    """Named ranges and calls of modules in one table by begin, and which rows are modules."""
    if not len(trace.modules):
        return trace.ranges, np.zeros(len(trace.ranges), np.bool_)
    table, part = in_one_table(trace.ranges, trace.modules)
    return table, part == 1


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
    result, pending = row.copy(), np.flatnonzero(row != NO_ID)
    while len(pending := pending[ranges.end_ns[result[pending]] <= moment_ns[pending]]):
        result[pending] = around[result[pending]]
        pending = pending[result[pending] != NO_ID]
    return result


def _around(start_ns: Int64, end_ns: Int64) -> Int64:
    """For each range, by start, the innermost one that was open when it began; `NO_ID` where there was none.

    That is the last one before it that ends later. Each one looks first at the one just before it, and passes on to
    where that one has got, at twice the distance each time.
    """
    around = np.arange(len(start_ns)) - 1
    pending = np.flatnonzero(around != NO_ID)
    while len(pending := pending[end_ns[around[pending]] <= start_ns[pending]]):
        around[pending] = around[around[pending]]
        pending = pending[around[pending] != NO_ID]
    return around


def _around_all(start_ns: Int64, end_ns: Int64) -> Int64:
    """For each range, the innermost range that was open from its begin to its end; `NO_ID` where there was none."""
    around = _around(start_ns, end_ns)
    for row in np.flatnonzero((around != NO_ID) & (end_ns[around] + _ROUNDING_NS < end_ns)).tolist():
        while around[row] != NO_ID and end_ns[around[row]] + _ROUNDING_NS < end_ns[row]:
            around[row] = around[around[row]]
    return around


def steps(trace: Trace) -> Ranges:
    """The profiler's step ranges (``ProfilerStep#N``)."""
    return trace.ranges.take(is_step(trace))


def named(table: HostWork | Kernels, pattern: re.Pattern[str]) -> Bool:
    """Which rows of a table have a name in which a pattern is found."""
    numbers = [number for number in np.unique(table.name_id).tolist() if pattern.search(table.names[number])]
    return np.isin(table.name_id, numbers)


def is_step(trace: Trace) -> Bool:
    """Which ranges are profiler steps."""
    return named(trace.ranges, STEP)


def step_of(trace: Trace, process: Int64, moment_ns: Int64) -> Int32:
    """For each moment of a process, the row of the profiler step around it, on any thread."""
    rows = np.flatnonzero(is_step(trace))
    table = replace(trace.ranges.take(rows), thread=np.zeros(len(rows), np.int64))
    return at(rows, innermost(table, process, np.zeros(len(moment_ns), np.int64), moment_ns)).astype(np.int32)


_SIGNS = ("at::native", "aten::", "c10::")


def uses_pytorch(trace: Trace) -> bool:
    """Whether its own profiler made the trace, a recording did, or kernels or ranges have names of PyTorch."""
    if trace.metadata.format == "kineto" or trace.metadata.recording is not None:
        return True
    used = np.unique(np.concatenate([trace.kernels.name_id, trace.ranges.name_id])).tolist()
    return any(sign in trace.names[number] for number in used for sign in _SIGNS)
