"""The time intervals of a finding, for figures and exports."""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import IdleTime
from overlapscope.diagnosis.finding import Diagnosis, Finding
from overlapscope.measure.devices import activity
from overlapscope.measure.spans import EMPTY, Spans
from overlapscope.model.columns import Int64


def finding_intervals(diagnosis: Diagnosis, finding: Finding) -> tuple[Int64, Int64]:
    """Begin and end of each time interval that a finding is about, in ns.

    These are its calls, and its copies from their calls on; else the GPU idle intervals attributed to it; for
    collectives, the time in which they were exposed; and for what concerns a device as a whole, the window.
    """
    if finding.calls or finding.copies:
        return _of_calls(diagnosis, finding)
    spans = _of_device(diagnosis, finding)
    if len(spans):
        return spans.start_ns, spans.end_ns
    return np.array([diagnosis.window.first_ns]), np.array([diagnosis.window.last_ns])


def longest(start: Int64, end: Int64, most: int = 1) -> list[tuple[int, int]]:
    """The longest of some intervals, the longest first."""
    order = np.argsort(start - end, kind="stable")[:most]
    return list(zip(start[order].tolist(), end[order].tolist(), strict=True))


def _of_calls(diagnosis: Diagnosis, finding: Finding) -> tuple[Int64, Int64]:
    trace = diagnosis.trace
    copies, calls = np.array(finding.copies, np.int64), np.array(finding.calls, np.int64)
    issued = trace.copies.call[copies]
    calls = np.setdiff1d(calls, issued)
    called = np.append(trace.api_calls.start_ns, np.iinfo(np.int64).max)[issued]
    begun = np.minimum(trace.copies.start_ns[copies], called)
    start = np.concatenate([begun, trace.api_calls.start_ns[calls]])
    return start, np.concatenate([trace.copies.end_ns[copies], trace.api_calls.end_ns[calls]])


def _of_device(diagnosis: Diagnosis, finding: Finding) -> Spans | IdleTime:
    """The idle intervals of a finding; for collectives, the time in which they were exposed."""
    device, rows = diagnosis.device_of(finding), np.array(finding.idle_rows, np.int64)
    if device is None:
        return EMPTY
    if finding.code == "OVL016":
        return activity(diagnosis.trace, device.key, diagnosis.window).exposed_collectives
    return device.idle.take(rows)
