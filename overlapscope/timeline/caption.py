"""What a timeline shows, in words: a caption to start from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from overlapscope.diagnosis.finding import DeviceDiagnosis
from overlapscope.diagnosis.gpu_time import COPIES, MEMSETS, OUTSIDE, GpuTime, gpu_time
from overlapscope.diagnosis.idle_by_rule import idle_by_rule
from overlapscope.formatting import safe, share, time
from overlapscope.measure.copies import host_kind
from overlapscope.measure.devices import Activity, activity, device_keys
from overlapscope.measure.host import blocked_from_ns
from overlapscope.measure.spans import Spans, covered, union
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Bool
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.tables import Timed
from overlapscope.model.trace import Trace
from overlapscope.timeline.bars import Style
from overlapscope.timeline.idle_lanes import idle_styles
from overlapscope.timeline.places import StreamKey, device_titles, stream_keys
from overlapscope.timeline.shown import Shown
from overlapscope.timeline.view import edges_of, measured_window, shown_window

_LEAST_SHARE = 0.001  # of the window; less is not worth a word
_MOST_STREAMS = 3  # of a device, with a sentence each
_MOST_REASONS = 3  # why a device was idle


def caption(
    trace: Trace,
    window: tuple[int, int] | Window | None = None,
    shown: Shown = Shown(),
    *,
    within: str | Window | None = None,
    idle: Sequence[DeviceDiagnosis] | None = None,
) -> str:
    """Sentences for a figure of ``trace``, with the figures that an audit of the same window has.

    For each GPU, the time with kernels, with copies only, and without either add up to the window. A copy is hidden
    while a kernel runs on its device, and its call blocks the host for what it takes beyond a plain enqueue.

    Args:
        trace: an opened trace.
        window: [start, end) in ns on the trace's clock; without one, all device work.
        shown: streams that the figure shows.
        within: the window by the name of a range (``*`` and ``?`` match), such as ``"ProfilerStep#3"``.
        idle: why devices were idle, as in `Diagnosis.devices`; attributed here without it.

    Raises:
        WindowEmpty: nothing of the trace is in the window.
        RangeNotFound: the trace has no such range.
    """
    part = shown_window(trace, window, within)
    parts = Window.between(*edges_of(trace, None)) if part is None else part
    if idle is None:
        idle = idle_by_rule(trace, measured_window(trace, part))
    return " ".join([f"{time(parts.wall_ns)} of {_what(trace)}.", *_devices(trace, parts, shown, idle)])


def _what(trace: Trace) -> str:
    if trace.health.no_device_work:
        return "a program on the host, without GPU work"
    used = sorted({key.device for key in device_keys(trace)})
    names = sorted({name for name in map(trace.metadata.device_name, used) if name})
    return f"a program on {' and '.join(safe(name) for name in names)}" if names else "a program"


def _devices(trace: Trace, window: Window, shown: Shown, idle: Sequence[DeviceDiagnosis]) -> Iterator[str]:
    found, edges = {device.key: device for device in idle}, (window.first_ns, window.last_ns)
    for key, title in device_titles(trace).items():
        active = activity(trace, key, window)
        if not active.copies.total_ns and not active.kernels.total_ns:
            continue
        yield f"{title}: {', '.join(_time(active, gpu_time(active, found.get(key), window)))}."
        if key in found:
            yield from _why_idle(found[key], window.of(key.process))
        yield from _streams(trace, *edges, [entry for entry in stream_keys(trace) if entry.device == key], shown)


def _time(active: Activity, spent: GpuTime) -> Iterator[str]:
    """What a GPU's time went to, in parts that add up to the window; and how much of the copies is hidden."""
    kernels, copies = active.kernels.total_ns, active.copies.total_ns
    exposed = active.exposed_collectives.total_ns
    of_them = f" ({time(exposed)} of it exposed collectives)" if exposed > _LEAST_SHARE * spent.total_ns else ""
    yield f"kernels {time(kernels)}{of_them}" if kernels else "no kernels"
    if (memsets := spent.of(MEMSETS)) > _LEAST_SHARE * spent.total_ns:
        yield f"only memsets {time(memsets)}"
    if copies:
        hidden = f" ({share(active.overlap.total_ns, copies)} of {time(copies)} of copies hidden)" if kernels else ""
        yield f"only copies {time(spent.of(COPIES))}{hidden}"
    if active.idle.total_ns:
        yield f"idle {time(active.idle.total_ns)}"
    if (outside := spent.of(OUTSIDE)) > _LEAST_SHARE * spent.total_ns:
        yield f"before and after its work {time(outside)}"


def _why_idle(device: DeviceDiagnosis, within: Spans) -> Iterator[str]:
    """The findings with most of a device's time without a kernel, as its findings and its lane have it."""
    lengths, styles = covered(device.idle.start_ns, device.idle.end_ns, within), idle_styles(device)
    took = dict.fromkeys((style for style in styles if style is not Style.IDLE), 0)
    for style, length in zip(styles, lengths.tolist(), strict=True):
        if style in took:
            took[style] += length
    longest = sorted(took, key=lambda style: -took[style])[:_MOST_REASONS]
    parts = [f"{style.value} {time(took[style])}" for style in longest if took[style] > _LEAST_SHARE * within.total_ns]
    if parts:
        yield f"Idle or only copying because of {', '.join(parts)}."


def _streams(trace: Trace, first: int, last: int, keys: list[StreamKey], shown: Shown) -> Iterator[str]:
    """The streams with copies that took longest, then the busiest; the rest are counted."""

    def rank(key: StreamKey) -> tuple[int, int]:
        copies, kernels = (_took(table, key.rows(table), first, last) for table in (trace.copies, trace.kernels))
        return -copies, -kernels

    said = {key: next(_stream(trace, first, last, key), "") for key in keys if shown.has_stream(key.stream)}
    ranked = sorted((key for key, words in said.items() if words), key=rank)
    kept = set(ranked[:_MOST_STREAMS])
    yield from (words for key, words in said.items() if key in kept)
    if len(ranked) > len(kept):
        yield f"{_many(len(ranked) - len(kept), 'more stream')}."


def _stream(trace: Trace, first: int, last: int, key: StreamKey) -> Iterator[str]:
    kernels, copies = (
        key.rows(table) & (table.end_ns > first) & (table.start_ns < last) for table in (trace.kernels, trace.copies)
    )
    parts = []
    if (took := _took(trace.kernels, kernels, first, last)) > _LEAST_SHARE * (last - first):
        parts.append(f"{_many(int(kernels.sum()), 'kernel')}, {time(took)}")
    for name, mine in _kinds(trace, copies):
        took = _took(trace.copies, mine, first, last)
        if took > _LEAST_SHARE * (last - first):
            blocked = _blocked(trace, mine, first, last)
            block = f", block the host {time(blocked)}" if blocked > _LEAST_SHARE * (last - first) else ""
            parts.append(f"{_many(int(mine.sum()), f'{name} copy', f'{name} copies')}, {time(took)}{block}")
    if parts:
        yield f"S{key.stream}: {'; '.join(parts)}."


def _kinds(trace: Trace, some: Bool) -> Iterator[tuple[str, Bool]]:
    """Some copies by direction, and by memory where they come from or go to the host."""
    memory = host_kind(trace.copies)
    for way in np.unique(trace.copies.direction[some]).tolist():
        mine = some & (trace.copies.direction == way)
        for kind in np.unique(memory[mine]).tolist():
            known = kind in {MemoryKind.PAGEABLE, MemoryKind.PINNED}
            label = f"{MemoryKind(kind).label} {Direction(way).label}" if known else Direction(way).label
            yield label, mine & (memory == kind)


def _took(table: Timed, rows: Bool, first: int, last: int) -> int:
    spans = union(np.clip(table.start_ns[rows], first, last), np.clip(table.end_ns[rows], first, last))
    return spans.total_ns


def _blocked(trace: Trace, rows: Bool, first: int, last: int) -> int:
    calls = np.unique(trace.copies.call[rows])
    calls = calls[calls != NO_ID]
    begin, end = blocked_from_ns(trace)[calls], trace.api_calls.end_ns[calls]
    return union(np.clip(begin, first, last), np.clip(end, first, last)).total_ns


def _many(count: int, one: str, several: str | None = None) -> str:
    return f"{count} {one if count == 1 else several or one + 's'}"
