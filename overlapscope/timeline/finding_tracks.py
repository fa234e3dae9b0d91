"""Findings as tracks: one for each, with the stretches that it is about, and what happened in each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from overlapscope.diagnosis.finding import Diagnosis, Finding
from overlapscope.diagnosis.intervals import finding_intervals
from overlapscope.formatting import counted, size, time
from overlapscope.measure.spans import Spans, union
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.timeline.tracks import Track


def finding_tracks(found: Diagnosis, group: str) -> list[Track]:
    """A track for each finding; stretches that overlap are one slice."""
    return [_track(found, finding, group) for finding in found.findings]


def _track(found: Diagnosis, finding: Finding, group: str) -> Track:
    spans = union(*finding_intervals(found, finding))
    copies, size_bytes = _copies(found, finding, spans)
    idle_ns = _idle_ns(found, finding, spans)
    calls = _calls(found, finding, spans)
    texts = [
        ", ".join(_said(*row)) or finding.name
        for row in zip(copies.tolist(), size_bytes.tolist(), idle_ns.tolist(), calls, strict=True)
    ]
    alike = {
        "says": finding.message,
        "fix": finding.fix,
        "severity": str(finding.severity),
        "where": finding.where.words,
    }
    arguments: dict[str, Sequence[Any]] = {name: [value] * len(spans) for name, value in alike.items()}
    arguments |= {
        "copies": copies.tolist(),
        "bytes copied": size_bytes.tolist(),
        "GPU idle": [time(ns) for ns in idle_ns],
    }
    arguments["GPU idle in total"] = [time(finding.idle_ns)] * len(spans)
    title = f"{finding.rank} {finding.title}"
    return Track(group, title, spans.start_ns, spans.end_ns, texts, arguments)


def _said(copies: int, size_bytes: int, idle_ns: int, calls: str) -> list[str]:
    """What happened in one stretch."""
    parts = [f"{counted(copies, 'copy', 'copies')}, {size(size_bytes)}"] if copies else [calls] if calls else []
    return parts + ([f"GPU idle {time(idle_ns)}"] if idle_ns else [])


def _copies(found: Diagnosis, finding: Finding, spans: Spans) -> tuple[Int64, Int64]:
    """Number and bytes of the copies in each stretch."""
    rows = np.array(finding.copies, np.int64)
    table = found.trace.copies.take(rows)
    which = _span_of(table.end_ns - 1, spans)
    sizes = np.where(table.size_bytes == NO_ID, 0, table.size_bytes)[which != NO_ID]
    inside = which[which != NO_ID]
    number = np.bincount(inside, minlength=len(spans)).astype(np.int64)
    return number, np.bincount(inside, sizes, len(spans)).astype(np.int64)


def _calls(found: Diagnosis, finding: Finding, spans: Spans) -> list[str]:
    """The names of the calls in each stretch."""
    table = found.trace.api_calls.take(np.array(finding.calls, np.int64))
    names: list[dict[str, None]] = [{} for _ in range(len(spans))]
    which = _span_of(table.start_ns, spans).tolist()
    for span, name in zip(which, found.trace.names.decode(table.name_id), strict=True):
        if span != NO_ID:
            names[span][name] = None
    return [", ".join(each) for each in names]


def _span_of(moment_ns: Int64, spans: Spans) -> Int64:
    """The stretch that each moment lies in; `NO_ID` for none."""
    which = np.searchsorted(spans.start_ns, moment_ns, "right") - 1
    return np.where((which >= 0) & (moment_ns < np.append(spans.end_ns, 0)[which]), which, NO_ID)


def _idle_ns(found: Diagnosis, finding: Finding, spans: Spans) -> Int64:
    """The GPU idle time attributed to what is in each stretch: its copies, its calls, or the stretch itself."""
    trace, device = found.trace, found.device_of(finding)
    totals = np.zeros(len(spans), np.int64)
    if device is None:
        return totals
    idle = device.idle.take(np.array(finding.idle_rows, np.int64))
    copied = np.append(trace.copies.end_ns, 0)[idle.copy] - 1
    called = np.append(trace.api_calls.start_ns, 0)[idle.blocking_call]
    moment = np.select([idle.copy != NO_ID, idle.blocking_call != NO_ID], [copied, called], idle.start_ns)
    which = _span_of(moment, spans)
    np.add.at(totals, which[which != NO_ID], idle.duration_ns[which != NO_ID])
    return totals
