"""A trace as lanes of bars: what a timeline shows, before anything is drawn.

Top to bottom: named ranges, host threads with their calls, streams grouped by device, and strips of each
device: where copies and kernels ran together, how much work was queued.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from overlapscope.measure.copies import host_kind
from overlapscope.measure.devices import DeviceKey, activity, device_keys, is_collective
from overlapscope.measure.host import held_from_ns
from overlapscope.measure.launches import queue_depth
from overlapscope.measure.spans import intersect, subtract
from overlapscope.measure.windows import between
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import SYNC_CALLS, ApiKind, Direction, MemoryKind
from overlapscope.model.tables import Timed
from overlapscope.model.trace import Trace
from overlapscope.timeline.bars import COPIES, HELD, Bars, Curve, Lane, LaneKind, Style
from overlapscope.timeline.pixels import span_bars
from overlapscope.words import size


@dataclass(frozen=True)
class Shown:
    """What of a trace a figure shows. None shows all there is, as far as it can be read.

    ``ranges``: names of annotations (* and ? match); ``threads`` and ``streams``: their numbers. ``calls``: host
    threads with their calls. ``overlap``: a strip for each device that says where copies and kernels ran together;
    ``queue``: one with the work that was issued and had not begun. ``labels``: a text for every bar, not only for
    ranges: a page can show them. ``range_depth``: rows of nested ranges per thread,
    outermost first. ``most_range_threads``: threads whose ranges are shown. ``most_streams``: lanes of streams, those
    with copies first. ``most_threads``: lanes of host threads, those that were held longest first.
    """

    ranges: tuple[str, ...] | None = None
    threads: tuple[int, ...] | None = None
    streams: tuple[int, ...] | None = None
    calls: bool = True
    overlap: bool = True
    queue: bool = False
    labels: bool = False
    range_depth: int = 3
    most_range_threads: int = 2
    most_streams: int = 16
    most_threads: int = 6

    def has(self, thread: int) -> bool:
        """Whether a thread is to be shown."""
        return self.threads is None or thread in self.threads


def lanes(trace: Trace, window: tuple[int, int] | None = None, shown: Shown = Shown()) -> list[Lane]:
    """The lanes of ``trace`` in [start, end) of ``window``, in ns; in `work_window` without one."""
    first, last = window if window is not None else work_window(trace)
    threads = [lane for lane in _thread_lanes(trace, first, last, shown) if lane.bars and shown.has(lane.place[1])]
    wanted = shown.streams
    streams = [
        lane
        for lane in _stream_lanes(trace, first, last, shown)
        if lane.bars and (wanted is None or lane.place[2] in wanted)
    ]
    return [
        *_range_lanes(trace, first, last, shown),
        *(_first_lanes(threads, shown.most_threads, HELD, "threads") if shown.calls else ()),
        *_first_lanes(streams, shown.most_streams, COPIES, "streams"),
        *(_overlap_lanes(trace, first, last) if shown.overlap else ()),
        *(_queue_lanes(trace, first, last) if shown.queue else ()),
    ]


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


def _first_lanes(found: list[Lane], most: int, wanted: frozenset[Style], what: str) -> list[Lane]:
    """Those with most of the wanted styles, then the busiest, in their order; and a note of those left out."""

    def rank(index: int) -> tuple[int, int]:
        return -found[index].busy_ns(wanted), -found[index].busy_ns()

    keep = sorted(sorted(range(len(found)), key=rank)[:most])
    shown = [found[index] for index in keep]
    left_out = len(found) - len(shown)
    if left_out:
        shown.append(Lane(LaneKind.NOTE, f"{left_out} more {what}", shown[-1].group, ()))
    return shown


def _bars(table: Timed, rows: Bool, style: Style, first: int, last: int, labels: list[str] | None = None) -> list[Bars]:
    """The rows that touch [first, last), cut to it; nothing when there are none."""
    index = np.flatnonzero(rows & (table.end_ns > first) & (table.start_ns < last))
    if not len(index):
        return []
    start, end = np.maximum(table.start_ns[index], first), np.minimum(table.end_ns[index], last)
    texts = tuple(labels[row] for row in index) if labels is not None else ()
    return [Bars(style, start, end, texts)]


def _range_lanes(trace: Trace, first: int, last: int, shown: Shown) -> Iterator[Lane]:
    inside = (trace.ranges.end_ns > first) & (trace.ranges.start_ns < last)
    table = trace.ranges.take(inside & _named(trace, shown.ranges))
    names = trace.names.decode(table.name_id)
    places = [place for place in table.threads if shown.has(place[1])]
    counts = {place: int(((table.process == place[0]) & (table.thread == place[1])).sum()) for place in places}
    for process, thread in sorted(sorted(places, key=lambda place: -counts[place])[: shown.most_range_threads]):
        mine = (table.process == process) & (table.thread == thread)
        levels = _levels(table.start_ns[mine], table.end_ns[mine])
        for level in range(min(shown.range_depth, int(levels.max(initial=-1)) + 1)):
            rows = np.zeros(len(table), np.bool_)
            rows[np.flatnonzero(mine)[levels == level]] = True
            bars = _bars(table, rows, Style.RANGE, first, last, names)
            if bars:
                title = "" if level else _title("ranges", process, thread, places)
                group = f"ranges {process} {thread}"
                yield Lane(LaneKind.RANGES, title, group, tuple(bars), place=(process, thread))


def _named(trace: Trace, patterns: tuple[str, ...] | None) -> Bool:
    """Which ranges have one of these names."""
    if patterns is None:
        return np.ones(len(trace.ranges), np.bool_)
    used = np.unique(trace.ranges.name_id).tolist()
    wanted = [number for number in used if any(fnmatchcase(trace.names[number], pattern) for pattern in patterns)]
    return np.isin(trace.ranges.name_id, wanted)


def _levels(start_ns: Int64, end_ns: Int64) -> Int64:
    """Nesting depth of each range among those of its thread, 0 outermost."""
    levels = np.zeros(len(start_ns), np.int64)
    ends: list[int] = []
    for row, (start, end) in enumerate(zip(start_ns.tolist(), end_ns.tolist(), strict=True)):
        while ends and ends[-1] <= start:
            ends.pop()
        levels[row] = len(ends)
        ends.append(end)
    return levels


def _title(word: str, process: int, thread: int, places: list[tuple[int, int]]) -> str:
    """The word alone for a lone thread; else with the thread, and with the process where there are several."""
    if len(places) == 1:
        return word
    owner = f"{process}/" if len({place[0] for place in places}) > 1 else ""
    return f"{word} {owner}{'?' if thread == NO_ID else thread}"


def _thread_lanes(trace: Trace, first: int, last: int, shown: Shown) -> Iterator[Lane]:
    calls = trace.api_calls
    holding = held_from_ns(trace)
    holds = holding < calls.end_ns
    names = trace.names.decode(calls.name_id) if shown.labels else None
    copying, syncing = calls.kind == ApiKind.COPY, np.isin(calls.kind, SYNC_CALLS)
    places = calls.threads
    for process, thread in places:
        mine = (calls.process == process) & (calls.thread == thread) & (calls.parent == NO_ID)
        bars = [
            *_bars(calls, mine & ~holds, Style.CALL, first, last, names),
            *_bars(calls, mine & holds & copying, Style.HELD_COPY, first, last, names),
            *_bars(calls, mine & holds & syncing, Style.HELD_SYNC, first, last, names),
            *_bars(calls, mine & holds & ~copying & ~syncing, Style.HELD_OTHER, first, last, names),
        ]
        title = _title("calls", process, thread, places)
        yield Lane(LaneKind.THREAD, title, "host", tuple(bars), place=(process, thread))


def _stream_lanes(trace: Trace, first: int, last: int, shown: Shown) -> Iterator[Lane]:
    keys = device_keys(trace)
    several = len({key.process for key in keys}) > 1
    collective = is_collective(trace, trace.kernels.name_id)
    styles = _copy_styles(trace)
    kernel_names, fill_names, copy_names = _work_names(trace) if shown.labels else (None, None, None)
    for key in keys:
        rows = {name: key.rows(getattr(trace, name)) for name in ("kernels", "copies", "memsets")}
        used = np.unique(np.concatenate([getattr(trace, name).stream[mine] for name, mine in rows.items()]))
        for stream in used.tolist():
            kernels = rows["kernels"] & (trace.kernels.stream == stream)
            copies = rows["copies"] & (trace.copies.stream == stream)
            memsets = rows["memsets"] & (trace.memsets.stream == stream)
            bars = [
                *_bars(trace.kernels, kernels & ~collective, Style.KERNEL, first, last, kernel_names),
                *_bars(trace.kernels, kernels & collective, Style.COLLECTIVE, first, last, kernel_names),
                *_bars(trace.memsets, memsets, Style.MEMSET, first, last, fill_names),
            ]
            for style in sorted(set(styles[copies].tolist())):
                bars += _bars(trace.copies, copies & (styles == style), Style(style), first, last, copy_names)
            device = _device(key, several)
            place = (key.process, key.device, stream)
            yield Lane(LaneKind.STREAM, f"{device} {_stream(stream)}", device, tuple(bars), place=place)


def _work_names(trace: Trace) -> tuple[list[str], list[str], list[str]]:
    """What each kernel, fill and copy is called, copies with their bytes."""
    sizes = ["" if value == NO_ID else f", {size(value)}" for value in trace.copies.size_bytes.tolist()]
    ways = [Direction(value).label for value in trace.copies.direction.tolist()]
    copies = [f"{way} copy{text}" for way, text in zip(ways, sizes, strict=True)]
    return trace.names.decode(trace.kernels.name_id), ["fill"] * len(trace.memsets), copies


def _stream(stream: int) -> str:
    return "no stream" if stream == NO_ID else f"stream {stream}"


def _device(key: DeviceKey, several: bool) -> str:
    return f"{key.title} of {key.process}" if several else key.title


def _copy_styles(trace: Trace) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
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


def _overlap_lanes(trace: Trace, first: int, last: int) -> Iterator[Lane]:
    keys = device_keys(trace)
    for key in keys:
        active = activity(trace, key, between(first, last))
        bars = [
            *span_bars(intersect(active.copies, active.kernels), Style.HIDDEN),
            *span_bars(subtract(active.copies, active.kernels), Style.EXPOSED),
            *span_bars(subtract(active.kernels, active.copies), Style.KERNELS_ONLY),
        ]
        if bars:
            device = _device(key, len({other.process for other in keys}) > 1)
            place = (key.process, key.device)
            yield Lane(LaneKind.OVERLAP, f"{device} overlap", "overlap", tuple(bars), place=place)


def _queue_lanes(trace: Trace, first: int, last: int) -> Iterator[Lane]:
    keys = device_keys(trace)
    for key in keys:
        times, depth = queue_depth(trace, key)
        inside = (times >= first) & (times < last)
        before = np.append(0, depth)[np.searchsorted(times, first)]
        if inside.any() or before:
            curve = Curve(np.append(first, times[inside]), np.append(before, depth[inside]))
            device = _device(key, len({other.process for other in keys}) > 1)
            title, place = f"{device} queued", (key.process, key.device)
            yield Lane(LaneKind.QUEUE, title, "queue", curve=curve, place=place)
