"""What was measured of a trace, as tracks and counters of our own beside the recorded ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.finding import DeviceDiagnosis, Diagnosis
from overlapscope.measure.devices import Activity, activity
from overlapscope.measure.host import blocked_from_ns
from overlapscope.measure.launches import queue_depth
from overlapscope.measure.spans import profile
from overlapscope.model.enums import Direction
from overlapscope.model.trace import Trace
from overlapscope.timeline.bars import Curve, Style, edges_ns
from overlapscope.timeline.device_lanes import copy_bars
from overlapscope.timeline.finding_tracks import finding_tracks
from overlapscope.timeline.idle_lanes import idle_styles
from overlapscope.timeline.places import device_titles
from overlapscope.timeline.roles import process_titles, thread_titles
from overlapscope.timeline.tracks import Counter, Track

GROUP = "overlapscope"


def measured_tracks(found: Diagnosis) -> tuple[list[Track], list[Counter]]:
    """Findings, blocked threads, hidden and exposed copies, why devices were idle; queues and copies in flight."""
    titles = device_titles(found.trace, "of process")
    tracks = [*finding_tracks(found, GROUP), *_blocked(found.trace)]
    for device in found.devices:
        title = titles[device.key]
        tracks += [_copying(title, activity(found.trace, device.key, found.window)), _idle(title, device)]
    return [track for track in tracks if len(track)], list(_counters(found.trace))


def _blocked(trace: Trace) -> Iterator[Track]:
    """For each thread, what its calls took beyond a plain enqueue."""
    blocked_ns, rows = blocked_from_ns(trace), np.arange(len(trace.api_calls))
    rows = rows[blocked_ns < trace.api_calls.end_ns]
    calls = trace.api_calls.take(rows)
    titles, owners = thread_titles(trace), process_titles(trace)
    for process, thread in calls.threads:
        mine = (calls.process == process) & (calls.thread == thread)
        names = [f"blocked by {name}" for name in trace.names.decode(calls.name_id[mine])]
        title = f"{owners[process]} {titles[process, thread]}: blocked".lstrip()
        yield Track(GROUP, title, blocked_ns[rows[mine]], calls.end_ns[mine], names)


def _copying(device: str, active: Activity) -> Track:
    bars = copy_bars(active)
    names = [name for part in bars for name in part.names()]
    return Track(GROUP, f"{device}: copies", *edges_ns(bars), names)


def _idle(title: str, device: DeviceDiagnosis) -> Track:
    """Each stretch in which a device was idle, named by its finding: a viewer colours slices by their names."""
    idle, names = device.idle, [style.value for style in idle_styles(device)]
    causes = [Cause(cause).label for cause in idle.cause.tolist()]
    return Track(GROUP, f"{title}: why idle", idle.start_ns, idle.end_ns, names, {"because": causes})


def _counters(trace: Trace) -> Iterator[Counter]:
    for key, title in device_titles(trace, "of process").items():
        yield Counter(GROUP, f"{title}: {Style.QUEUED}", Curve(*queue_depth(trace, key)))
        mine = key.rows(trace.copies)
        for way in np.unique(trace.copies.direction[mine]).tolist():
            rows = mine & (trace.copies.direction == way)
            steps = profile(trace.copies.start_ns[rows], trace.copies.end_ns[rows])
            yield Counter(GROUP, f"{title}: {Direction(way).label} copies in flight", Curve(*steps))
