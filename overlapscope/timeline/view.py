"""Which stretch of a trace a figure shows: by time, range, step or finding."""

from __future__ import annotations

from fnmatch import fnmatchcase
from math import isnan

import numpy as np

from overlapscope.diagnosis.finding import Diagnosis, Finding
from overlapscope.diagnosis.stretches import longest, stretches
from overlapscope.errors import RangeNotFound, WindowEmpty
from overlapscope.measure.windows import of_range
from overlapscope.model.trace import Trace
from overlapscope.timeline.lanes import Shown, work_window
from overlapscope.words import safe

_MS = 1_000_000
_ENDLESS_MS = 1e12  # thirty years
_AROUND = 0.75  # of the length of what a finding is about, shown on both sides of it


def of_time(trace: Trace, from_ms: float | None, to_ms: float | None) -> tuple[int, int]:
    """The stretch between two times, in ms on the time axis of a figure of the whole trace.

    Raises:
        WindowEmpty: nothing of the trace is there.
    """
    zero, end = work_window(trace)
    asked = f"{0 if from_ms is None else from_ms:g} to {(end - zero) / _MS if to_ms is None else to_ms:g} ms"
    edges = ((from_ms, zero), (to_ms, end))
    if any(at is not None and isnan(at) for at, _ in edges):
        raise WindowEmpty(f"no window from {asked}")
    first, last = (
        usual if at is None else zero + round(min(max(at, -_ENDLESS_MS), _ENDLESS_MS) * _MS) for at, usual in edges
    )
    first, last = max(first, trace.start_ns), min(last, trace.end_ns)
    if last <= first:
        raise WindowEmpty(f"nothing of the trace is in the window from {asked}")
    return first, last


def of_occurrence(trace: Trace, name: str, occurrence: int | None = None) -> tuple[int, int]:
    """A host range with the device work it issued: one occurrence, 1 for the first, or all of them.

    Raises:
        RangeNotFound: no such range, or not that many.
    """
    window = of_range(trace, name)
    if occurrence is None:
        return window.first_ns, window.last_ns
    order = np.argsort(window.start_ns, kind="stable")
    if not 1 <= occurrence <= len(order):
        raise RangeNotFound(f"the range {name!r} occurs {len(order)} times: there is no occurrence {occurrence}")
    row = order[occurrence - 1]
    return int(window.start_ns[row]), int(window.end_ns[row])


def of_step(trace: Trace, number: int) -> tuple[int, int]:
    """A step of torch's profiler, by its number.

    Raises:
        RangeNotFound: no such step.
    """
    return of_occurrence(trace, f"ProfilerStep#{number}")


def of_finding(found: Diagnosis, finding: Finding) -> tuple[int, int]:
    """The longest stretch that a finding is about, and some time around it."""
    ((first, last),) = longest(*stretches(found, finding))
    around = round(_AROUND * (last - first))
    return max(first - around, found.trace.start_ns), min(last + around, found.trace.end_ns)


def check_shown(trace: Trace, shown: Shown) -> None:
    """Raise `WindowEmpty` where a stream, thread or range that was asked for is not in the trace."""
    streams = {int(stream) for table in trace.device_work for stream in np.unique(table.stream)}
    threads = {int(thread) for table in (trace.api_calls, trace.ranges) for thread in np.unique(table.thread)}
    for what, wanted, there in (("stream", shown.streams, streams), ("thread", shown.threads, threads)):
        missing = sorted(set(wanted or ()) - there)
        if missing:
            known = ", ".join(map(str, sorted(there))) or "none"
            raise WindowEmpty(f"no {what} {missing[0]} in the trace: there is {known}")
    names = [trace.names[number] for number in np.unique(trace.ranges.name_id).tolist()]
    for pattern in shown.ranges or ():
        if not any(fnmatchcase(name, pattern) for name in names):
            raise WindowEmpty(f"no range {safe(pattern)!r} in the trace")
