"""What a timeline shows, in words: a caption to start from."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from overlapscope.diagnosis.idle_by_rule import idle_by_rule
from overlapscope.formatting import safe, share, time
from overlapscope.measure.copies import host_kind
from overlapscope.measure.devices import activity, device_keys
from overlapscope.measure.host import blocked_from_ns
from overlapscope.measure.spans import intersect, union
from overlapscope.measure.windows import between
from overlapscope.model.columns import NO_ID, Bool
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.tables import Timed
from overlapscope.model.trace import Trace
from overlapscope.timeline.bars import Lane, Style
from overlapscope.timeline.idle_lanes import idle_lanes
from overlapscope.timeline.places import StreamKey, device_titles, stream_keys
from overlapscope.timeline.shown import Shown
from overlapscope.timeline.view import work_window

_LEAST_SHARE = 0.001  # of the window; less is not worth a word
_MOST_STREAMS = 3  # of a device, with a sentence each
_MOST_REASONS = 3  # why a device was idle


def caption(trace: Trace, window: tuple[int, int] | None = None, shown: Shown = Shown()) -> str:
    """Sentences for a figure of ``trace`` in [start, end) of ``window``, in ns.

    Times are of the part within the window; several ops at once count once. A copy is hidden while a kernel runs on its
    device, and its call blocks the host for what it takes beyond a plain enqueue.
    """
    first, last = window or work_window(trace)
    return " ".join([f"{time(last - first)} of {_what(trace)}.", *_devices(trace, first, last, shown)])


def _what(trace: Trace) -> str:
    if trace.health.no_device_work:
        return "a program on the host, without GPU work"
    used = sorted({key.device for key in device_keys(trace)})
    names = sorted({name for name in map(trace.metadata.device_name, used) if name})
    return f"a program on {' and '.join(safe(name) for name in names)}" if names else "a program"


def _devices(trace: Trace, first: int, last: int, shown: Shown) -> Iterator[str]:
    idle = {lane.place: lane for lane in idle_lanes(trace, (first, last), shown, idle_by_rule(trace))}
    for key, title in device_titles(trace).items():
        active = activity(trace, key, between(first, last))
        copying, hidden = active.copies.total_ns, intersect(active.copies, active.kernels).total_ns
        if not copying and not active.kernels.total_ns:
            continue
        kernels = f"kernels run for {time(active.kernels.total_ns)}" if active.kernels.total_ns else "no kernel runs"
        part = f", {share(hidden, copying)} of that hidden" if active.kernels.total_ns else ""
        yield f"{title}: {kernels}{f', copies for {time(copying)}{part}' if copying else ''}."
        if (key.process, key.device) in idle:
            yield from _why_idle(idle[key.process, key.device], last - first)
        yield from _streams(trace, first, last, [entry for entry in stream_keys(trace) if entry.device == key], shown)


def _why_idle(lane: Lane, window_ns: int) -> Iterator[str]:
    """The findings with most of a device's idle time."""
    took = {bars.style: lane.busy_ns(frozenset((bars.style,))) for bars in lane.bars if bars.style is not Style.IDLE}
    longest = sorted(took, key=lambda style: -took[style])[:_MOST_REASONS]
    parts = [f"{style.value} {time(took[style])}" for style in longest if took[style] > _LEAST_SHARE * window_ns]
    if parts:
        yield f"Idle for {time(lane.busy_ns())}: {', '.join(parts)}."


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
