"""A trace as lanes of bars: what a timeline shows, before anything is drawn.

Process by process: host threads with their named ranges and calls, then each device with its streams and strips: where
copies and kernels ran together, why it ran no kernel, how much work was queued.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import chain
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from overlapscope.analysis.analysis import Source
from overlapscope.diagnosis.causes import Cause, Lateness
from overlapscope.diagnosis.finding import DeviceDiagnosis, Diagnosis
from overlapscope.diagnosis.intervals import finding_intervals
from overlapscope.measure.copies import host_kind
from overlapscope.measure.devices import Activity, DeviceKey, activity, is_collective
from overlapscope.measure.host import blocked_from_ns
from overlapscope.measure.launches import queue_depth
from overlapscope.measure.spans import Spans, intersect, subtract, union
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Bool, Columnar, Int64
from overlapscope.model.enums import SYNC_CALLS, ApiKind, Direction, MemoryKind
from overlapscope.model.tables import DeviceWork
from overlapscope.model.trace import Trace
from overlapscope.timeline.bars import (
    COPIES,
    Bars,
    Curve,
    Lane,
    LaneKind,
    Style,
    bars_of_spans,
    bars_within,
    depths,
)
from overlapscope.timeline.names import (
    device_titles,
    process_titles,
    rows_of_thread,
    stream_keys,
    stream_roles,
    thread_titles,
)
from overlapscope.timeline.view import Shown, drawn, edges_of

_BLOCKED_BY_COPY = frozenset((Style.BLOCKED_BY_COPY,))


def lanes(source: Source, window: tuple[int, int] | Window | None = None, shown: Shown = Shown()) -> list[Lane]:
    """The lanes of a trace in [start, end) of ``window``, in ns; of all device work without one.

    Causes of idle time are those of an audit of the window; an analysis keeps its own window's.
    """
    analysis, part = drawn(source, window)
    trace, edges = analysis.trace, edges_of(analysis.trace, part)
    threads = thread_lanes(trace, edges, shown) if shown.calls else ()
    host = [*range_lanes(trace, edges, shown), *_first_lanes(threads, shown.most_threads, _BLOCKED_BY_COPY, "threads")]
    devices = [
        *_first_lanes(stream_lanes(trace, edges, shown), shown.most_streams, COPIES, "streams"),
        *(overlap_lanes(trace, edges) if shown.overlap else ()),
        *(idle_lanes(trace, edges, shown, analysis.devices) if shown.why_idle else ()),
        *(mark_lanes(analysis.recorded, edges) if shown.why_idle else ()),
        *(queue_lanes(trace, edges) if shown.queue else ()),
    ]
    return _by_process(trace, host, devices)


def _by_process(trace: Trace, host: Iterable[Lane], devices: Iterable[Lane]) -> list[Lane]:
    """For each process its threads one after the other, then its devices."""
    rank = {place: number for number, place in enumerate(thread_titles(trace))}
    placed = [((lane.place[0], 0, rank[lane.place[0], lane.place[1]]), lane) for lane in host]
    placed += [((lane.place[0], 1, lane.place[1]), lane) for lane in devices]
    return [lane for _, lane in sorted(placed, key=itemgetter(0))]


def _first_lanes(lanes_of: Iterable[Lane], most: int, wanted: frozenset[Style], what: str) -> list[Lane]:
    """The lanes with most of the wanted styles, then the busiest; and for each group a note of the others."""
    every = list(lanes_of)

    def rank(index: int) -> tuple[int, int]:
        return -every[index].busy_ns(wanted), -every[index].busy_ns()

    keep = set(sorted(range(len(every)), key=rank)[:most])
    shown = [lane for index, lane in enumerate(every) if index in keep]
    left_out: dict[str, list[Lane]] = {}
    for index, lane in enumerate(every):
        if index not in keep:
            left_out.setdefault(lane.group, []).append(lane)
    for group, members in left_out.items():
        title = f"{len(members)} more {what if len(members) > 1 else what.removesuffix('s')}"
        shown.append(Lane(LaneKind.NOTE, title, group, place=members[-1].place[:2]))
    return shown


def range_lanes(trace: Trace, window: tuple[int, int], shown: Shown) -> Iterator[Lane]:
    """A lane for each depth of nested ranges, of the threads with most ranges."""
    inside = (trace.ranges.end_ns > window[0]) & (trace.ranges.start_ns < window[1])
    table, names = trace.ranges, trace.names.decode(trace.ranges.name_id)
    wanted = inside & _named(trace, shown.ranges)
    places = [place for place in table.take(wanted).threads if shown.has_thread(place[1])]
    rows = {place: np.flatnonzero(wanted & rows_of_thread(table, place)) for place in places}
    titles, groups = thread_titles(trace), process_titles(trace)
    for process, thread in sorted(sorted(places, key=lambda place: -len(rows[place]))[: shown.most_range_threads]):
        on_thread = rows[process, thread]
        depth = np.full(len(table), NO_ID, np.int64)
        depth[on_thread] = depths(table.start_ns[on_thread], table.end_ns[on_thread])
        for level in range(min(shown.range_depth, int(depth.max(initial=-1)) + 1)):
            bars = bars_within(table, depth == level, Style.RANGE, window, names)
            if bars:
                title = f"{titles[process, thread]} ranges" if len(places) > 1 else "ranges"
                title = "" if level else title
                yield Lane(LaneKind.RANGES, title, groups[process], tuple(bars), place=(process, thread))


def _named(trace: Trace, patterns: tuple[str, ...] | None) -> Bool:
    """A mask of the ranges with one of these names."""
    if patterns is None:
        return np.ones(len(trace.ranges), np.bool_)
    used = np.unique(trace.ranges.name_id).tolist()
    wanted = [number for number in used if any(fnmatchcase(trace.names[number], pattern) for pattern in patterns)]
    return np.isin(trace.ranges.name_id, wanted)


def thread_lanes(trace: Trace, window: tuple[int, int], shown: Shown) -> Iterator[Lane]:
    """A lane for each thread, with its calls by the reason for which they blocked it."""
    calls = trace.api_calls
    blocks = blocked_from_ns(trace.api_calls) < calls.end_ns
    copying, syncing = calls.kind == ApiKind.COPY, np.isin(calls.kind, SYNC_CALLS)
    styles = {
        Style.CALL: ~blocks,
        Style.BLOCKED_BY_COPY: blocks & copying,
        Style.BLOCKED_BY_SYNC: blocks & syncing,
        Style.BLOCKED_BY_OTHER: blocks & ~copying & ~syncing,
    }
    titles, groups = thread_titles(trace), process_titles(trace)
    for process, thread in calls.threads:
        outermost = rows_of_thread(calls, (process, thread)) & (calls.parent == NO_ID)
        parts = [bars_within(calls, outermost & rows, style, window) for style, rows in styles.items()]
        bars = tuple(chain.from_iterable(parts))
        if bars and shown.has_thread(thread):
            place = (process, thread)
            yield Lane(LaneKind.THREAD, titles[place], groups[process], bars, place=place)


def stream_lanes(trace: Trace, window: tuple[int, int], shown: Shown) -> Iterator[Lane]:
    """A lane for each stream, with its kernels, fills and copies by style."""
    titles, roles = device_titles(trace), stream_roles(trace)
    collective, copies = is_collective(trace, trace.kernels.name_id), _copy_styles(trace)
    names = trace.names.decode(trace.kernels.name_id)
    for key in stream_keys(trace):
        if not shown.has_stream(key.stream):
            continue
        kernels, copying = key.rows(trace.kernels), key.rows(trace.copies)
        bars = [
            *bars_within(trace.kernels, kernels & ~collective, Style.KERNEL, window, names),
            *bars_within(trace.kernels, kernels & collective, Style.COLLECTIVE, window, names),
            *bars_within(trace.memsets, key.rows(trace.memsets), Style.MEMSET, window),
        ]
        for style in sorted(set(copies[copying].tolist())):
            bars += bars_within(trace.copies, copying & (copies == style), Style(style), window)
        if bars:
            place = (key.device.process, key.device.device, key.stream)
            yield Lane(LaneKind.STREAM, key.title, titles[key.device], tuple(bars), place=place, role=roles[key])


def _copy_styles(trace: Trace) -> npt.NDArray[np.str_]:
    """The style of each copy, by direction and memory kind."""
    direction, memory = trace.copies.direction, host_kind(trace.copies)
    result = np.full(len(direction), Style.COPY_OTHER.value, dtype="U32")
    for way, kind, style in (
        (Direction.HTOD, MemoryKind.PAGEABLE, Style.HTOD_PAGEABLE),
        (Direction.HTOD, MemoryKind.PINNED, Style.HTOD_PINNED),
        (Direction.DTOH, MemoryKind.PAGEABLE, Style.DTOH_PAGEABLE),
        (Direction.DTOH, MemoryKind.PINNED, Style.DTOH_PINNED),
    ):
        result[(direction == way) & (memory == kind)] = style.value
    result[np.isin(direction, (Direction.DTOD, Direction.PTOP))] = Style.COPY_ON_DEVICE.value
    return result


def overlap_lanes(trace: Trace, window: tuple[int, int]) -> Iterator[Lane]:
    """A strip for each device that says where its copies and kernels ran together."""
    for key, title in device_titles(trace).items():
        active = activity(trace, key, Window.between(*window))
        bars = [*bars_of_spans(subtract(active.kernels, active.copies), Style.KERNELS_ONLY), *copy_bars(active)]
        if bars:
            yield Lane(LaneKind.OVERLAP, "overlap", title, tuple(bars), place=_place(key))


def copy_bars(active: Activity) -> list[Bars]:
    """The time in which a device copied: under kernels, and without any."""
    return [
        *bars_of_spans(intersect(active.copies, active.kernels), Style.HIDDEN),
        *bars_of_spans(subtract(active.copies, active.kernels), Style.EXPOSED),
    ]


def queue_lanes(trace: Trace, window: tuple[int, int]) -> Iterator[Lane]:
    """A curve for each device: the amount of work that was issued and had not begun."""
    first, last = window
    for key, title in device_titles(trace).items():
        times, depth = queue_depth(trace, key)
        inside = (times >= first) & (times < last)
        before = np.append(0, depth)[np.searchsorted(times, first)]
        if inside.any() or before:
            curve = Curve(np.append(first, times[inside]), np.append(before, depth[inside]))
            yield Lane(LaneKind.QUEUE, "queued", title, curve=curve, place=_place(key))


def _place(key: DeviceKey) -> tuple[int, int]:
    return key.process, key.device


def idle_lanes(trace: Trace, window: tuple[int, int], shown: Shown, idle: Sequence[DeviceDiagnosis]) -> Iterator[Lane]:
    """A lane for each device, with its time without a kernel by rule; with labels, each bar is named by its cause.

    Time in which the device did more than copy, or followed its queue without delay, is empty.
    """
    titles = device_titles(trace)
    for device in idle:
        bars = tuple(_idle_bars(device, window, labels=shown.labels))
        if bars:
            yield Lane(LaneKind.WHY_IDLE, LaneKind.WHY_IDLE.value, titles[device.key], bars, place=_place(device.key))


def idle_styles(device: DeviceDiagnosis) -> list[Style]:
    """The style of each idle interval of a device, by the rule that it is attributed to, and its kind."""
    codes = (*device.codes, "")  # the last one is for time without a rule, whose index is -1
    reasons, which = np.unique(np.stack([device.reason, device.lateness]), axis=1, return_inverse=True)
    styles = [Style.of_rule(codes[reason], Lateness(kind)) for reason, kind in reasons.T.tolist()]
    return [styles[number] for number in which.reshape(-1).tolist()]


def _idle_bars(device: DeviceDiagnosis, window: tuple[int, int], *, labels: bool) -> Iterator[Bars]:
    """Idle time within a window by style; neighbours of one style are one bar, unless each names its cause."""
    start, end = (np.clip(edge, *window) for edge in (device.idle.start_ns, device.idle.end_ns))
    order, label_of = list(Style), {cause.value: cause.label for cause in Cause}
    styles = np.array(list(map(order.index, idle_styles(device))), np.int64)
    for number, style in enumerate(order):
        rows: Int64 = np.flatnonzero((styles == number) & (end > start))
        if labels and len(rows):
            causes = tuple(label_of[cause] for cause in device.idle.cause[rows].tolist())
            yield Bars(style, start[rows], end[rows], causes)
        else:
            yield from bars_of_spans(union(start[rows], end[rows]), style)


def mark_lanes(diagnosis: Diagnosis, window: tuple[int, int]) -> Iterator[Lane]:
    """A lane for each finding that costs no GPU idle time, such as a race, with its places.

    Findings about a device as a whole have no place.
    """
    titles, within = device_titles(diagnosis.trace), Spans(*np.array([window]).T)
    for finding in sorted(diagnosis.findings, key=lambda finding: finding.code):
        device = diagnosis.device_of(finding)
        if device is None or finding.idle_ns or not (finding.copies or finding.calls):
            continue
        for bars in bars_of_spans(intersect(union(*finding_intervals(diagnosis, finding)), within), Style.MARK):
            named = replace(bars, labels=(finding.title,) * len(bars.start_ns))
            title = finding.name.replace("-", " ")
            yield Lane(LaneKind.MARK, title, titles[device.key], (named,), place=_place(device.key))


@dataclass(frozen=True, eq=False)
class Arrows(Columnar):
    """Arrows from the start of calls to the start of their device work: where and when, in ns."""

    process: Int64
    thread: Int64
    issued_ns: Int64
    device: Int64
    stream: Int64
    begun_ns: Int64


def arrows(trace: Trace, first: int, last: int, most: int = 40) -> Arrows:
    """The arrows within a stretch: to copies and kernels, to copies alone where that is too many, else none."""
    copies, kernels = (_arrows_to(trace, table, first, last) for table in (trace.copies, trace.kernels))
    every = Arrows.concat(copies, kernels)
    return next((each for each in (every, copies) if len(each) <= most), Arrows.none())


def _arrows_to(trace: Trace, table: DeviceWork, first: int, last: int) -> Arrows:
    calls = trace.api_calls
    work = table.take(table.call != NO_ID)
    work = work.take((calls.start_ns[work.call] >= first) & (work.start_ns < last))
    call, device = work.call, work.device.astype(np.int64)
    return Arrows(calls.process[call], calls.thread[call], calls.start_ns[call], device, work.stream, work.start_ns)
