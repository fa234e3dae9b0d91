"""The time intervals of a finding, for figures and exports."""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.finding import Diagnosis, Finding
from overlapscope.diagnosis.rules.ovl016_exposed_collective import RULE as EXPOSED_COLLECTIVE
from overlapscope.measure.devices import DeviceKey, activity
from overlapscope.model.columns import Int64


def finding_intervals(found: Diagnosis, finding: Finding) -> tuple[Int64, Int64]:
    """Begin and end of each time interval that a finding is about, in ns.

    These are its calls, and its copies from their calls on; else the GPU idle intervals attributed to it; for
    collectives, the time in which they were exposed; and for what concerns a device as a whole, the window.
    """
    for start, end in (_of_calls(found, finding), _idle(found, finding), _collectives(found, finding)):
        if len(start):
            return start, end
    return np.array([found.window.first_ns]), np.array([found.window.last_ns])


def longest(start: Int64, end: Int64, most: int = 1) -> list[tuple[int, int]]:
    """The longest of some intervals, the longest first."""
    order = np.argsort(start - end, kind="stable")[:most]
    return list(zip(start[order].tolist(), end[order].tolist(), strict=True))


def _of_calls(found: Diagnosis, finding: Finding) -> tuple[Int64, Int64]:
    trace = found.trace
    copies, calls = np.array(finding.copies, np.int64), np.array(finding.calls, np.int64)
    issued = trace.copies.call[copies]
    calls = np.setdiff1d(calls, issued)
    called = np.append(trace.api_calls.start_ns, np.iinfo(np.int64).max)[issued]
    begun = np.minimum(trace.copies.start_ns[copies], called)
    start = np.concatenate([begun, trace.api_calls.start_ns[calls]])
    return start, np.concatenate([trace.copies.end_ns[copies], trace.api_calls.end_ns[calls]])


def _idle(found: Diagnosis, finding: Finding) -> tuple[Int64, Int64]:
    device, rows = found.device_of(finding), np.array(finding.idle_rows, np.int64)
    if device is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return device.idle.start_ns[rows], device.idle.end_ns[rows]


def _collectives(found: Diagnosis, finding: Finding) -> tuple[Int64, Int64]:
    process, device = finding.where.process, finding.where.device
    if finding.code != EXPOSED_COLLECTIVE.code or process is None or device is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    spans = activity(found.trace, DeviceKey(process, device), found.window).exposed_collectives
    return spans.start_ns, spans.end_ns
