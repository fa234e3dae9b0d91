"""Which stretch of a trace a figure shows: by time, range, step or finding."""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.finding import Finding
from overlapscope.errors import RangeNotFound
from overlapscope.measure.windows import of_range
from overlapscope.model.columns import NO_ID
from overlapscope.model.trace import Trace

_MS = 1_000_000
_AROUND = 0.75  # of the length of what a finding is about, shown on both sides of it


def of_time(trace: Trace, from_ms: float | None, to_ms: float | None) -> tuple[int, int]:
    """The stretch between two times, in ms after the first event of the trace.

    Raises:
        ValueError: it ends before it begins.
    """
    first = trace.start_ns if from_ms is None else trace.start_ns + round(from_ms * _MS)
    last = trace.end_ns if to_ms is None else trace.start_ns + round(to_ms * _MS)
    if last <= first:
        raise ValueError(f"a window from {from_ms or 0:g} ms to {(last - trace.start_ns) / _MS:g} ms is empty")
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


def of_finding(trace: Trace, finding: Finding) -> tuple[int, int] | None:
    """The longest of the copies and calls that a finding is about, and some time around it; None without any."""
    copies, calls = np.array(finding.copies, np.int64), np.array(finding.calls, np.int64)
    issued = trace.copies.call[copies]
    start = np.where(issued == NO_ID, trace.copies.start_ns[copies], np.append(trace.api_calls.start_ns, 0)[issued])
    start = np.concatenate([start, trace.api_calls.start_ns[calls]])
    end = np.concatenate([trace.copies.end_ns[copies], trace.api_calls.end_ns[calls]])
    if not len(start):
        return None
    longest = int(np.argmax(end - start))
    first, last = int(start[longest]), int(end[longest])
    around = round(_AROUND * (last - first))
    return max(first - around, trace.start_ns), min(last + around, trace.end_ns)
