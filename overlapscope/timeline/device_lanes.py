"""Lanes of devices: streams, and strips of each device: where copies and kernels ran together, how much was queued."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from overlapscope.measure.copies import host_kind
from overlapscope.measure.devices import Activity, DeviceKey, activity, is_collective
from overlapscope.measure.launches import queue_depth
from overlapscope.measure.spans import intersect, subtract
from overlapscope.measure.windows import between
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.trace import Trace
from overlapscope.timeline.bars import Bars, Curve, Lane, LaneKind, Style, bars_of_spans, bars_within
from overlapscope.timeline.places import device_titles, stream_keys
from overlapscope.timeline.shown import Shown


def stream_lanes(trace: Trace, window: tuple[int, int], shown: Shown) -> Iterator[Lane]:
    """A lane for each stream, with its kernels, fills and copies by style."""
    titles = device_titles(trace)
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
            yield Lane(LaneKind.STREAM, key.title, titles[key.device], tuple(bars), place=place)


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
        active = activity(trace, key, between(*window))
        bars = [*bars_of_spans(subtract(active.kernels, active.copies), Style.KERNELS_ONLY), *copy_bars(active)]
        if bars:
            yield Lane(LaneKind.OVERLAP, "overlap", title, tuple(bars), place=_place(key))


def copy_bars(active: Activity) -> list[Bars]:
    """When a device copied: under kernels, and without any."""
    return [
        *bars_of_spans(intersect(active.copies, active.kernels), Style.HIDDEN),
        *bars_of_spans(subtract(active.copies, active.kernels), Style.EXPOSED),
    ]


def queue_lanes(trace: Trace, window: tuple[int, int]) -> Iterator[Lane]:
    """A curve for each device: how much work was issued and had not begun."""
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
