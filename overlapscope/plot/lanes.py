"""A trace as lanes of bars: what a timeline shows, before anything is drawn.

Top to bottom: named ranges, host threads with their calls, streams grouped by device, and one strip per
device that says where copies and kernels ran together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from overlapscope.measure.copies import host_kind
from overlapscope.measure.devices import DeviceKey, activity, device_keys, is_collective
from overlapscope.measure.host import held_from_ns
from overlapscope.measure.spans import Spans, covered, intersect, subtract, union
from overlapscope.measure.windows import between
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import SYNC_CALLS, ApiKind, Direction, MemoryKind
from overlapscope.model.tables import HostWork, Timed
from overlapscope.model.trace import Trace


class Style(StrEnum):
    """What a bar stands for; the drawing gives each its look."""

    RANGE = "range"
    CALL = "call"
    HELD_COPY = "held by a copy call"
    HELD_SYNC = "held by a synchronisation"
    HELD_OTHER = "held by another call"
    KERNEL = "kernel"
    COLLECTIVE = "collective"
    MEMSET = "memset"
    HTOD_PAGEABLE = "HtoD pageable"
    HTOD_PINNED = "HtoD pinned"
    DTOH_PAGEABLE = "DtoH pageable"
    DTOH_PINNED = "DtoH pinned"
    COPY_ON_DEVICE = "DtoD, PtoP"
    COPY_OTHER = "copy, memory unknown"
    HIDDEN = "copy hidden by kernels"
    EXPOSED = "copy exposed"
    KERNELS_ONLY = "kernels only"


_COPIES = frozenset(
    (
        Style.HTOD_PAGEABLE,
        Style.HTOD_PINNED,
        Style.DTOH_PAGEABLE,
        Style.DTOH_PINNED,
        Style.COPY_ON_DEVICE,
        Style.COPY_OTHER,
    )
)
_HELD = frozenset((Style.HELD_COPY,))


class LaneKind(StrEnum):
    """What a lane is of."""

    RANGES = "ranges"
    THREAD = "thread"
    STREAM = "stream"
    OVERLAP = "overlap"
    NOTE = "note"


@dataclass(frozen=True, eq=False)
class Bars:
    """Bars of one style in one lane, with a text each where they have one."""

    style: Style
    start_ns: Int64
    end_ns: Int64
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Lane:
    """One horizontal lane."""

    kind: LaneKind
    title: str
    group: str
    bars: tuple[Bars, ...]

    def busy_ns(self, styles: frozenset[Style] | None = None) -> int:
        """Time covered by its bars, or by those of some styles."""
        wanted = [bars for bars in self.bars if styles is None or bars.style in styles]
        return sum(int((bars.end_ns - bars.start_ns).sum()) for bars in wanted)


@dataclass(frozen=True)
class LaneConfig:
    """How many lanes a figure may have; one with more cannot be read.

    ``range_depth``: rows of nested ranges per thread, outermost first. ``most_range_threads``: threads
    whose ranges are shown. ``most_streams``: lanes of streams, those with copies first. ``most_threads``:
    lanes of host threads, those that were held longest first.
    """

    range_depth: int = 3
    most_range_threads: int = 2
    most_streams: int = 16
    most_threads: int = 6


def lanes(trace: Trace, window: tuple[int, int] | None = None, config: LaneConfig = LaneConfig()) -> list[Lane]:
    """The lanes of ``trace`` in [start, end) of ``window``, in ns; in `work_window` without one."""
    first, last = window if window is not None else work_window(trace)
    threads = [lane for lane in _thread_lanes(trace, first, last) if lane.bars]
    streams = [lane for lane in _stream_lanes(trace, first, last) if lane.bars]
    return [
        *_range_lanes(trace, first, last, config),
        *_first_lanes(threads, config.most_threads, _HELD, "threads"),
        *_first_lanes(streams, config.most_streams, _COPIES, "streams"),
        *_overlap_lanes(trace, first, last),
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
        shown.append(Lane(LaneKind.NOTE, f"{left_out} {what} not shown", shown[-1].group, ()))
    return shown


def _bars(table: Timed, rows: Bool, style: Style, first: int, last: int, labels: list[str] | None = None) -> list[Bars]:
    """The rows that touch [first, last), cut to it; nothing when there are none."""
    index = np.flatnonzero(rows & (table.end_ns > first) & (table.start_ns < last))
    if not len(index):
        return []
    start, end = np.maximum(table.start_ns[index], first), np.minimum(table.end_ns[index], last)
    texts = tuple(labels[row] for row in index) if labels is not None else ()
    return [Bars(style, start, end, texts)]


def _span_bars(spans: Spans, style: Style) -> list[Bars]:
    return [Bars(style, spans.start_ns, spans.end_ns)] if len(spans) else []


def _range_lanes(trace: Trace, first: int, last: int, config: LaneConfig) -> Iterator[Lane]:
    shown = (trace.ranges.end_ns > first) & (trace.ranges.start_ns < last)
    table = trace.ranges.take(shown)
    names = trace.names.decode(table.name_id)
    places = _places(table)
    counts = {place: int(((table.process == place[0]) & (table.thread == place[1])).sum()) for place in places}
    for process, thread in sorted(sorted(places, key=lambda place: -counts[place])[: config.most_range_threads]):
        mine = (table.process == process) & (table.thread == thread)
        levels = _levels(table.start_ns[mine], table.end_ns[mine])
        for level in range(min(config.range_depth, int(levels.max(initial=-1)) + 1)):
            rows = np.zeros(len(table), np.bool_)
            rows[np.flatnonzero(mine)[levels == level]] = True
            bars = _bars(table, rows, Style.RANGE, first, last, names)
            if bars:
                title = "" if level else _title("ranges", process, thread, places)
                yield Lane(LaneKind.RANGES, title, f"ranges {process} {thread}", tuple(bars))


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


def _places(table: HostWork) -> list[tuple[int, int]]:
    return sorted(set(zip(table.process.tolist(), table.thread.tolist(), strict=True)))


def _title(word: str, process: int, thread: int, places: list[tuple[int, int]]) -> str:
    """The word alone for a lone thread; else with the thread, and with the process where there are several."""
    if len(places) == 1:
        return word
    owner = f"{process}/" if len({place[0] for place in places}) > 1 else ""
    return f"{word} {owner}{'?' if thread == NO_ID else thread}"


def _thread_lanes(trace: Trace, first: int, last: int) -> Iterator[Lane]:
    calls = trace.api_calls
    holding = held_from_ns(trace)
    holds = holding < calls.end_ns
    copying, syncing = calls.kind == ApiKind.COPY, np.isin(calls.kind, SYNC_CALLS)
    places = _places(calls)
    for process, thread in places:
        mine = (calls.process == process) & (calls.thread == thread) & (calls.parent == NO_ID)
        bars = [
            *_bars(calls, mine & ~holds, Style.CALL, first, last),
            *_bars(calls, mine & holds & copying, Style.HELD_COPY, first, last),
            *_bars(calls, mine & holds & syncing, Style.HELD_SYNC, first, last),
            *_bars(calls, mine & holds & ~copying & ~syncing, Style.HELD_OTHER, first, last),
        ]
        yield Lane(LaneKind.THREAD, _title("calls", process, thread, places), "host", tuple(bars))


def _stream_lanes(trace: Trace, first: int, last: int) -> Iterator[Lane]:
    keys = device_keys(trace)
    several = len({key.process for key in keys}) > 1
    collective = is_collective(trace, trace.kernels.name_id)
    styles = _copy_styles(trace)
    for key in keys:
        rows = {name: key.rows(getattr(trace, name)) for name in ("kernels", "copies", "memsets")}
        used = np.unique(np.concatenate([getattr(trace, name).stream[mine] for name, mine in rows.items()]))
        for stream in used.tolist():
            kernels = rows["kernels"] & (trace.kernels.stream == stream)
            copies = rows["copies"] & (trace.copies.stream == stream)
            memsets = rows["memsets"] & (trace.memsets.stream == stream)
            bars = [
                *_bars(trace.kernels, kernels & ~collective, Style.KERNEL, first, last),
                *_bars(trace.kernels, kernels & collective, Style.COLLECTIVE, first, last),
                *_bars(trace.memsets, memsets, Style.MEMSET, first, last),
            ]
            for style in sorted(set(styles[copies].tolist())):
                bars += _bars(trace.copies, copies & (styles == style), Style(style), first, last)
            yield Lane(
                LaneKind.STREAM, f"{_device(key, several)} {_stream(stream)}", _device(key, several), tuple(bars)
            )


def _stream(stream: int) -> str:
    return "no stream" if stream == NO_ID else f"stream {stream}"


def _device(key: DeviceKey, several: bool) -> str:
    device = "GPU ?" if key.device == NO_ID else f"GPU {key.device}"
    return f"{device} of {key.process}" if several else device


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
            *_span_bars(intersect(active.copies, active.kernels), Style.HIDDEN),
            *_span_bars(subtract(active.copies, active.kernels), Style.EXPOSED),
            *_span_bars(subtract(active.kernels, active.copies), Style.KERNELS_ONLY),
        ]
        if bars:
            group = _device(key, len({other.process for other in keys}) > 1)
            yield Lane(LaneKind.OVERLAP, f"{group} overlap", "overlap", tuple(bars))


def for_pixels(bars: Bars, first: int, last: int, pixels: int) -> tuple[Bars, Bars]:
    """The same bars for a picture ``pixels`` wide: those to draw in full, and slight ones to draw low.

    A bar of a pixel or more stays as it is. Thinner ones are gathered by pixel: where they fill at least
    half of it, it is drawn in full; where they fill less it is marked, low, so that thousands of short
    copies neither vanish nor look like one long one.
    """
    edges = np.linspace(first, last, pixels + 1).astype(np.int64)
    wide = (bars.end_ns - bars.start_ns) * pixels >= last - first
    if wide.all():
        return bars, Bars(bars.style, bars.start_ns[:0], bars.end_ns[:0])
    start, end = bars.start_ns[~wide], bars.end_ns[~wide]
    filled = covered(edges[:-1], edges[1:], union(start, end)) * 2 >= np.diff(edges)
    touched = np.zeros(pixels, np.bool_)
    touched[np.clip(np.searchsorted(edges, start, "right") - 1, 0, pixels - 1)] = True
    full, slight = (union(edges[:-1][rows], edges[1:][rows]) for rows in (filled, touched & ~filled))
    labels = tuple(label for label, keep in zip(bars.labels, wide.tolist(), strict=False) if keep)
    return (
        Bars(
            bars.style,
            np.concatenate([bars.start_ns[wide], full.start_ns]),
            np.concatenate([bars.end_ns[wide], full.end_ns]),
            labels,
        ),
        Bars(bars.style, slight.start_ns, slight.end_ns),
    )


def binned(lane: Lane, first: int, last: int, bins: int) -> tuple[Lane, Lane]:
    """A lane whose bars exclude each other, for a picture: what fills most of each bin, and what else is in it.

    Without this, thousands of slivers drawn a pixel wide would cover each other and show a false share.
    """
    edges = np.linspace(first, last, bins + 1).astype(np.int64)
    filled = np.stack([covered(edges[:-1], edges[1:], union(bars.start_ns, bars.end_ns)) for bars in lane.bars])
    empty = (edges[1:] - edges[:-1]) - filled.sum(axis=0)
    most = np.argmax(np.vstack([empty, filled]), axis=0) - 1
    main, minor = [], []
    for number, bars in enumerate(lane.bars):
        main += _span_bars(union(edges[:-1][most == number], edges[1:][most == number]), bars.style)
        less = (most != number) & (filled[number] > 0)
        minor += _span_bars(union(edges[:-1][less], edges[1:][less]), bars.style)
    return Lane(lane.kind, lane.title, lane.group, tuple(main)), Lane(lane.kind, lane.title, lane.group, tuple(minor))
