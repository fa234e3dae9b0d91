"""Which stretch of a trace a figure shows: by time, range, step or finding."""

from __future__ import annotations

from math import isnan

import numpy as np

from overlapscope.diagnosis.finding import Diagnosis, Finding
from overlapscope.diagnosis.intervals import finding_intervals, longest
from overlapscope.errors import RangeNotFound, WindowEmpty
from overlapscope.measure.windows import Window, of_range, whole, window_of
from overlapscope.model.columns import NO_ID
from overlapscope.model.trace import Trace

_MS = 1_000_000
_ENDLESS_MS = 1e12  # thirty years
_AROUND = 0.75  # of the length of what a finding is about, shown on both sides of it


def work_window(trace: Trace) -> tuple[int, int]:
    """From the first call that issued device work, or that work, to the last work; everything without any."""
    tables = [table for table in trace.device_work if len(table)]
    if not tables:
        return trace.start_ns, trace.end_ns
    first = min(int(table.start_ns.min()) for table in tables)
    for table in tables:
        calls = table.call[table.call != NO_ID]
        first = min(first, int(trace.api_calls.start_ns[calls].min())) if len(calls) else first
    return first, max(int(table.end_ns.max()) for table in tables)


def shown_window(
    trace: Trace, window: tuple[int, int] | Window | None, within: str | Window | None = None
) -> Window | None:
    """The window that a figure's arguments mean; None for all device work.

    Raises:
        WindowEmpty: ``window`` has no length, or nothing of the trace is in it; or both are given.
        RangeNotFound: the trace has no range of that name.
    """
    if within is not None:
        if window is not None:
            raise WindowEmpty("choose the window by window= or within=, not by both")
        return window_of(trace, within)
    if window is None or isinstance(window, Window):
        return window
    first, last = map(int, window)
    if last <= first:
        raise WindowEmpty(f"no window from {first} to {last} ns: it ends before it begins")
    if last <= trace.start_ns or first >= max(trace.end_ns, trace.start_ns + 1):
        raise WindowEmpty(
            f"nothing of the trace is in the window from {first} to {last} ns: on its clock, it has {trace.start_ns} "
            f"to {trace.end_ns}. Add trace.start_ns to times since its begin, or name a range by within="
        )
    return Window.between(first, last)


def edges_of(trace: Trace, window: Window | None) -> tuple[int, int]:
    """The stretch that a figure of a window shows: from its begin to its end, `work_window` without one."""
    return work_window(trace) if window is None else (window.first_ns, window.last_ns)


def measured_window(trace: Trace, window: Window | None) -> Window:
    """The window that an audit of the same measures."""
    return whole(trace) if window is None else window


def of_name(trace: Trace, name: str | None) -> tuple[int, int]:
    """All occurrences of a host range, with the device work that they issued; all device work without a name.

    Raises:
        RangeNotFound: no such range.
    """
    return edges_of(trace, None if name is None else of_range(trace, name))


def of_time(trace: Trace, from_ms: float | None, to_ms: float | None) -> tuple[int, int]:
    """The stretch between two times, in ms since the begin of the trace, as figures show it; `work_window` without.

    Raises:
        WindowEmpty: nothing of the trace is there.
    """
    zero, (begin, end) = trace.start_ns, work_window(trace)
    edges = ((from_ms, begin), (to_ms, end))
    asked = " to ".join(f"{(usual - zero) / _MS if at is None else at:g}" for at, usual in edges) + " ms"
    if any(at is not None and isnan(at) for at, _ in edges):
        raise WindowEmpty(f"no window from {asked}")
    first, last = (
        usual if at is None else zero + round(min(max(at, -_ENDLESS_MS), _ENDLESS_MS) * _MS) for at, usual in edges
    )
    first, last = max(first, trace.start_ns), min(last, trace.end_ns)
    if last <= first:
        raise WindowEmpty(f"nothing of the trace is in the window from {asked}")
    return first, last


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


def of_step(trace: Trace, number: int) -> Window:
    """A step of torch's profiler, by its number.

    Raises:
        RangeNotFound: no such step.
    """
    return of_occurrence(trace, f"ProfilerStep#{number}")


def of_finding(found: Diagnosis, finding: Finding) -> tuple[int, int]:
    """The longest stretch that a finding is about, and some time around it."""
    ((first, last),) = longest(*finding_intervals(found, finding))
    around = round(_AROUND * (last - first))
    return max(first - around, found.trace.start_ns), min(last + around, found.trace.end_ns)
