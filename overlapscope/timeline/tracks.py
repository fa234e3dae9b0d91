"""Tracks of slices, counters and arrows between slices: a whole trace as a trace viewer shows it.

A lane is for a picture: bars of a window, by style. A track is for a viewer: all slices there are, each with its name
and its arguments. Beside what was recorded there are tracks and counters of what was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.finding import DeviceDiagnosis, Diagnosis, Finding
from overlapscope.diagnosis.intervals import finding_intervals
from overlapscope.formatting import counted, size, time
from overlapscope.measure.devices import Activity, activity
from overlapscope.measure.host import blocked_from_ns
from overlapscope.measure.launches import queue_depth
from overlapscope.measure.spans import Spans, profile, union
from overlapscope.model.columns import NO_ID, Int64, stacked
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.tables import DeviceWork, HostWork
from overlapscope.model.trace import Trace
from overlapscope.timeline.bars import Curve, LaneKind, Style, edges_ns
from overlapscope.timeline.lanes import copy_bars, idle_styles
from overlapscope.timeline.names import (
    Place,
    device_titles,
    process_titles,
    rows_of_thread,
    stream_keys,
    thread_titles,
)

GROUP = "overlapscope"
"""The group of the tracks that were measured."""
_ARGUMENTS: dict[str, tuple[str, type[Direction | MemoryKind] | None]] = {
    "correlation": ("correlation", None),
    "blocks": ("blocks", None),
    "threads per block": ("threads_per_block", None),
    "bytes": ("size_bytes", None),
    "direction": ("direction", Direction),
    "from": ("source_kind", MemoryKind),
    "to": ("target_kind", MemoryKind),
}
"""Arguments of device work: the column of each, in the tables that have it, and its labels."""
_HOST = ("ranges", "modules", "cpu_ops", "frames", "host_events", "overheads", "api_calls")
"""Tables of what host threads do, in the order of their slices; calls are the last."""


@dataclass(frozen=True, eq=False)
class Track:
    """Slices of one thread, stream or kind. The viewer folds the tracks of a ``group``.

    ``arguments`` has for each name as many values as there are slices; None is left out.
    """

    group: str
    title: str
    start_ns: Int64
    end_ns: Int64
    names: Sequence[str]
    arguments: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, eq=False)
class Counter:
    """A curve with a title."""

    group: str
    title: str
    curve: Curve


@dataclass(frozen=True, eq=False)
class Links:
    """Arrows from slices of one track to slices of another, by their index in each."""

    source: Track
    source_row: Int64
    target: Track
    target_row: Int64


def measured_tracks(diagnosis: Diagnosis) -> tuple[list[Track], list[Counter]]:
    """Findings, blocked threads, hidden and exposed copies, why devices ran no kernel; queues and copies in flight."""
    titles = device_titles(diagnosis.trace, "of process")
    tracks = [*(_finding_track(diagnosis, finding) for finding in diagnosis.findings), *_blocked(diagnosis.trace)]
    for device in diagnosis.devices:
        title = titles[device.key]
        tracks += [_copying(title, activity(diagnosis.trace, device.key, diagnosis.window)), _idle(title, device)]
    return [track for track in tracks if len(track)], list(_counters(diagnosis.trace))


def _blocked(trace: Trace) -> Iterator[Track]:
    """The time that the calls of each thread took beyond a plain enqueue."""
    blocked_ns, rows = blocked_from_ns(trace.api_calls), np.arange(len(trace.api_calls))
    rows = rows[blocked_ns < trace.api_calls.end_ns]
    calls = trace.api_calls.take(rows)
    titles, owners = thread_titles(trace), process_titles(trace)
    for process, thread in calls.threads:
        on_thread = rows_of_thread(calls, (process, thread))
        names = [f"blocked by {name}" for name in trace.names.decode(calls.name_id[on_thread])]
        title = f"{owners[process]} {titles[process, thread]}: blocked".lstrip()
        yield Track(GROUP, title, blocked_ns[rows[on_thread]], calls.end_ns[on_thread], names)


def _copying(device: str, active: Activity) -> Track:
    bars = copy_bars(active)
    names = [name for part in bars for name in part.names()]
    return Track(GROUP, f"{device}: copies", *edges_ns(bars), names)


def _idle(title: str, device: DeviceDiagnosis) -> Track:
    """Each stretch in which a device ran no kernel, named by its finding: a viewer colours slices by their names."""
    idle, names = device.idle, [style.value for style in idle_styles(device)]
    causes = [Cause(cause).label for cause in idle.cause.tolist()]
    return Track(GROUP, f"{title}: {LaneKind.WHY_IDLE}", idle.start_ns, idle.end_ns, names, {"because": causes})


def _counters(trace: Trace) -> Iterator[Counter]:
    for key, title in device_titles(trace, "of process").items():
        yield Counter(GROUP, f"{title}: {Style.QUEUED}", Curve(*queue_depth(trace, key)))
        on_device = key.rows(trace.copies)
        for way in np.unique(trace.copies.direction[on_device]).tolist():
            rows = on_device & (trace.copies.direction == way)
            steps = profile(trace.copies.start_ns[rows], trace.copies.end_ns[rows])
            yield Counter(GROUP, f"{title}: {Direction(way).label} copies in flight", Curve(*steps))


def _finding_track(diagnosis: Diagnosis, finding: Finding) -> Track:
    """The intervals of a finding as slices, each with what happened in it; intervals that overlap are one slice."""
    spans = union(*finding_intervals(diagnosis, finding))
    copies, size_bytes = _copies(diagnosis, finding, spans)
    idle_ns = _idle_ns(diagnosis, finding, spans)
    calls = _calls(diagnosis, finding, spans)
    texts = [
        ", ".join(_said(*row)) or finding.name
        for row in zip(copies.tolist(), size_bytes.tolist(), idle_ns.tolist(), calls, strict=True)
    ]
    arguments: dict[str, Sequence[Any]] = {
        "says": [finding.message] * len(spans),
        "fix": [finding.fix] * len(spans),
        "severity": [str(finding.severity)] * len(spans),
        "where": [finding.where.words] * len(spans),
        "copies": copies.tolist(),
        "bytes copied": size_bytes.tolist(),
        "GPU idle": [time(ns) for ns in idle_ns],
        "GPU idle in total": [time(finding.idle_ns)] * len(spans),
    }
    return Track(GROUP, f"{finding.rank} {finding.title}", spans.start_ns, spans.end_ns, texts, arguments)


def _said(copies: int, size_bytes: int, idle_ns: int, calls: str) -> list[str]:
    """The copies or calls of one slice, and the idle time."""
    parts = [f"{counted(copies, 'copy', 'copies')}, {size(size_bytes)}"] if copies else [calls] if calls else []
    return parts + ([f"GPU idle {time(idle_ns)}"] if idle_ns else [])


def _copies(diagnosis: Diagnosis, finding: Finding, spans: Spans) -> tuple[Int64, Int64]:
    """Number and bytes of the copies in each slice."""
    rows = np.array(finding.copies, np.int64)
    table = diagnosis.trace.copies.take(rows)
    which = _span_of(table.end_ns - 1, spans)
    sizes = np.where(table.size_bytes == NO_ID, 0, table.size_bytes)[which != NO_ID]
    inside = which[which != NO_ID]
    number = np.bincount(inside, minlength=len(spans)).astype(np.int64)
    return number, np.bincount(inside, sizes, len(spans)).astype(np.int64)


def _calls(diagnosis: Diagnosis, finding: Finding, spans: Spans) -> list[str]:
    """The names of the calls in each slice."""
    table = diagnosis.trace.api_calls.take(np.array(finding.calls, np.int64))
    names: list[dict[str, None]] = [{} for _ in range(len(spans))]
    which = _span_of(table.start_ns, spans).tolist()
    for span, name in zip(which, diagnosis.trace.names.decode(table.name_id), strict=True):
        if span != NO_ID:
            names[span][name] = None
    return [", ".join(each) for each in names]


def _span_of(moment_ns: Int64, spans: Spans) -> Int64:
    """The slice that contains each moment; `NO_ID` where none does."""
    which = np.searchsorted(spans.start_ns, moment_ns, "right") - 1
    return np.where((which >= 0) & (moment_ns < np.append(spans.end_ns, 0)[which]), which, NO_ID)


def _idle_ns(diagnosis: Diagnosis, finding: Finding, spans: Spans) -> Int64:
    """The GPU idle time attributed to the copies and calls of each slice, or to the slice itself."""
    trace, device = diagnosis.trace, diagnosis.device_of(finding)
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


def recorded_tracks(trace: Trace) -> tuple[list[Track], list[Links]]:
    """A track for each thread and stream, and arrows from calls to the work that they issued."""
    threads, row_of_call = _threads(trace)
    tracks, links = list(threads.values()), []
    for track, calls in _streams(trace):
        tracks.append(track)
        issued = np.append(trace.api_calls.start_ns, np.iinfo(np.int64).max)[calls]
        known = np.flatnonzero(issued <= track.start_ns)  # clocks that disagree would have arrows point back
        table = trace.api_calls.take(calls[known])
        for process, thread in table.threads:
            slices = known[rows_of_thread(table, (process, thread))]
            links.append(Links(threads[process, thread], row_of_call[calls[slices]], track, slices))
    return [*tracks, *_samples(trace)], links


def _samples(trace: Trace) -> Iterator[Track]:
    """A track for the samples of each thread: they do not nest with what it called."""
    for process, thread in trace.samples.threads:
        table = trace.samples.take(rows_of_thread(trace.samples, (process, thread)))
        names, stacks = (trace.names.decode(column) for column in (table.name_id, table.stack_id))
        title = f"samples of thread {thread}"
        yield Track(f"host process {process}", title, table.start_ns, table.end_ns, names, {"stack": stacks})


def _threads(trace: Trace) -> tuple[dict[Place, Track], Int64]:
    """A track for each thread, and for each row of api_calls its row there."""
    row_of_call = np.full(len(trace.api_calls), NO_ID, np.int64)
    tracks = {}
    for place in sorted({place for name in _HOST for place in getattr(trace, name).threads}):
        tracks[place], calls = _thread(trace, *place)
        row_of_call[calls] = np.arange(len(calls)) + len(tracks[place]) - len(calls)
    return tracks, row_of_call


def _thread(trace: Trace, process: int, thread: int) -> tuple[Track, Int64]:
    """The track of a thread, its calls last; and the rows of these calls in api_calls."""
    whole: list[HostWork] = [getattr(trace, name) for name in _HOST]
    tables = [table.take(rows_of_thread(table, (process, thread))) for table in whole]
    start, end = stacked(tables, "start_ns", "end_ns")
    names = [name for table in tables for name in trace.names.decode(table.name_id)]
    kinds = [kind for kind, table in zip(_HOST, tables, strict=True) for _ in range(len(table))]
    calls = np.flatnonzero(rows_of_thread(trace.api_calls, (process, thread)))
    correlations = np.full(len(names), NO_ID, np.int64)
    correlations[len(names) - len(calls) :] = trace.api_calls.correlation[calls]
    arguments: dict[str, Sequence[Any]] = {"kind": kinds, "correlation": _known(correlations)}
    number = f"thread {'?' if thread == NO_ID else thread}"
    given = trace.metadata.thread_names.get((process, thread), "")
    title = given if given.startswith(number) else f"{number} {given}".rstrip()
    group = f"host process {'?' if process == NO_ID else process}"
    return Track(group, title, start, end, names, arguments), calls


def _streams(trace: Trace) -> Iterator[tuple[Track, Int64]]:
    """A track for each stream, with the call of each of its slices."""
    titles = device_titles(trace, "of process")
    for key in stream_keys(trace):
        tables = [table.take(key.rows(table)) for table in trace.device_work]
        start, end, call = stacked(tables, "start_ns", "end_ns", "call")
        names = [name for table in tables for name in _names(trace, table)]
        yield Track(titles[key.device], key.title, start, end, names, _arguments(tables)), call.astype(np.int64)


def _known(values: npt.NDArray[Any]) -> list[int | None]:
    return [None if value == NO_ID else value for value in values.tolist()]


def _names(trace: Trace, table: DeviceWork) -> list[str]:
    return [name or type(table).__name__.lower() for name in trace.names.decode(table.name_id)]


def _arguments(tables: Sequence[DeviceWork]) -> Mapping[str, Sequence[Any]]:
    """The arguments of the rows of several tables."""
    return {name: [value for table in tables for value in _values(table, *how)] for name, how in _ARGUMENTS.items()}


def _values(table: DeviceWork, column: str, labels: type[Direction | MemoryKind] | None) -> Sequence[Any]:
    values = getattr(table, column, None)
    if values is None:
        return [None] * len(table)
    return _known(values) if labels is None else [labels(value).label for value in values.tolist()]
