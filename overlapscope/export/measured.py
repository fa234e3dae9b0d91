"""What was measured of a trace, as tracks and counters of our own beside the recorded ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from overlapscope.diagnosis.catalogue import rule
from overlapscope.diagnosis.finding import DeviceDiagnosis, Diagnosis
from overlapscope.diagnosis.intervals import finding_intervals
from overlapscope.export.recorded import device_name
from overlapscope.export.tracks import Counter, Track
from overlapscope.formatting import time
from overlapscope.measure.devices import Activity, activity, device_keys
from overlapscope.measure.host import blocked_from_ns
from overlapscope.measure.launches import queue_depth
from overlapscope.measure.spans import profile, subtract
from overlapscope.model.columns import NO_ID
from overlapscope.model.enums import Direction
from overlapscope.model.trace import Trace

GROUP = "overlapscope"


def measured(found: Diagnosis) -> tuple[list[Track], list[Counter]]:
    """Findings, hidden and exposed copies, what devices waited for, held threads; queues and copies in flight."""
    trace = found.trace
    tracks = [*_findings(found), *_held(trace)]
    for device in found.devices:
        name = device_name(trace, device.key)
        tracks += [
            _copying(name, activity(trace, device.key, found.window)),
            _lost(name, device),
        ]
    return [track for track in tracks if len(track)], list(_counters(trace))


def _findings(found: Diagnosis) -> Iterator[Track]:
    """A track for each finding, with the stretches that it is about."""
    for finding in found.findings:
        start, end = finding_intervals(found, finding)
        advice = {"says": [finding.message], "fix": [finding.fix], "lost": [time(finding.idle_ns)]}
        told = {name: values * len(start) for name, values in advice.items()}
        title = f"{finding.rank} {finding.code} {finding.name}"
        yield Track(GROUP, title, start, end, [finding.name] * len(start), told)


def _held(trace: Trace) -> Iterator[Track]:
    """For each thread, what its calls took beyond a plain enqueue."""
    calls, held = trace.api_calls, blocked_from_ns(trace)
    rows = np.flatnonzero((held < calls.end_ns) & (calls.parent == NO_ID))
    places = set(zip(calls.process[rows].tolist(), calls.thread[rows].tolist(), strict=True))
    for process, thread in sorted(places):
        mine = rows[(calls.process[rows] == process) & (calls.thread[rows] == thread)]
        names = [f"held by {name}" for name in trace.names.decode(calls.name_id[mine])]
        yield Track(GROUP, f"held: thread {thread} of {process}", held[mine], calls.end_ns[mine], names)


def _copying(name: str, active: Activity) -> Track:
    parts = ((active.overlap, "copy hidden by kernels"), (subtract(active.copies, active.kernels), "copy exposed"))
    start, end = (np.concatenate([getattr(spans, edge) for spans, _ in parts]) for edge in ("start_ns", "end_ns"))
    names = [text for spans, text in parts for _ in range(len(spans))]
    return Track(GROUP, f"{name}: copies", start, end, names)


def _lost(name: str, device: DeviceDiagnosis) -> Track:
    """Each stretch in which a device had no work of its own, with its reason."""
    idle = device.idle
    titles = [f"{code} {rule(code).name}" for code in device.codes]
    names = [titles[reason] if reason >= 0 else "no reason of its own" for reason in device.reason.tolist()]
    return Track(GROUP, f"{name}: waits", idle.start_ns, idle.end_ns, names)


def _counters(trace: Trace) -> Iterator[Counter]:
    for key in device_keys(trace):
        name = device_name(trace, key)
        yield Counter(GROUP, f"{name}: work issued and not begun", *queue_depth(trace, key))
        mine = key.rows(trace.copies)
        for way in np.unique(trace.copies.direction[mine]).tolist():
            rows = mine & (trace.copies.direction == way)
            steps = profile(trace.copies.start_ns[rows], trace.copies.end_ns[rows])
            yield Counter(GROUP, f"{name}: {Direction(way).label} copies in flight", *steps)
