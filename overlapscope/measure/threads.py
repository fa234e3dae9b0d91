"""What a host thread was doing at each moment, as segments that do not meet each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.measure.spans import EMPTY, Spans, meeting, merge, subtract, union
from overlapscope.model.columns import NO_ID, Bool, Int8, Int64
from overlapscope.model.enums import SYNC_CALLS, ApiKind, Labelled
from overlapscope.model.trace import Trace

ALLOCATIONS = (ApiKind.DEVICE_ALLOC, ApiKind.DEVICE_FREE, ApiKind.HOST_ALLOC, ApiKind.HOST_FREE)
"""Calls that get or give back memory; most of them wait for the device."""


class Doing(Labelled):
    """What a thread is at."""

    ABSENT = 0, "nothing recorded"
    WORKING = 1, "at host work"
    CALLING = 2, "in a call"
    IN_COPY = 3, "held in a copy call"
    IN_SYNC = 4, "synchronising"
    ALLOCATING = 5, "allocating or freeing"
    PROFILING = 6, "in the profiler"


@dataclass(frozen=True, eq=False)
class Segments:
    """Stretches of a thread, sorted and disjoint; ``call`` is the row of the call it was in or held by."""

    start_ns: Int64
    end_ns: Int64
    doing: Int8
    call: Int64

    @property
    def spans(self) -> Spans:
        """The time that they cover."""
        return union(self.start_ns, self.end_ns)

    def within(self, begin_ns: Int64, until_ns: Int64) -> tuple[Int64, Segments]:
        """The parts of the segments inside each of some intervals, with the index of that interval."""
        which, mine = meeting(begin_ns, until_ns, self.start_ns, self.end_ns)
        return which, Segments(
            np.maximum(self.start_ns[mine], begin_ns[which]),
            np.minimum(self.end_ns[mine], until_ns[which]),
            self.doing[mine],
            self.call[mine],
        )


def thread_segments(trace: Trace, process: int, thread: int, holding_ns: Int64) -> Segments:
    """What a thread was doing, wherever something of it was recorded.

    ``holding_ns`` says of each call from when on it holds its thread (`blocked_from_ns`).
    """
    calls = _calls(trace, process, thread, holding_ns)
    calls = over(_held_elsewhere(trace, calls, process, thread, holding_ns), calls)
    profiling = _plain(_spans_of(trace.overheads, process, thread), Doing.PROFILING)
    working = merge(*(_spans_of(table, process, thread) for table in (trace.cpu_ops, trace.frames, trace.ranges)))
    return over(over(calls, profiling), _plain(working, Doing.WORKING))


def over(top: Segments, bottom: Segments) -> Segments:
    """One layer of segments on another: where both are, the top one counts."""
    if not len(top.start_ns) or not len(bottom.start_ns):
        return bottom if not len(top.start_ns) else top
    free = subtract(bottom.spans, top.spans)
    _, rest = bottom.within(free.start_ns, free.end_ns)
    pairs = [(getattr(top, name), getattr(rest, name)) for name in ("start_ns", "end_ns", "doing", "call")]
    start, end, doing, call = (np.concatenate(pair) for pair in pairs)
    order = np.argsort(start, kind="stable")
    return Segments(start[order], end[order], doing[order], call[order])


def _calls(trace: Trace, process: int, thread: int, holding_ns: Int64) -> Segments:
    """The thread's calls; those that copy in two parts, before and after the moment from which they hold it."""
    calls = trace.api_calls
    rows = np.flatnonzero((calls.process == process) & (calls.thread == thread) & (calls.parent == NO_ID))
    start, end = _one_after_the_other(calls.start_ns[rows], calls.end_ns[rows])
    kind = calls.kind[rows]
    doing = np.select(
        [np.isin(kind, SYNC_CALLS), np.isin(kind, ALLOCATIONS)], [Doing.IN_SYNC, Doing.ALLOCATING], Doing.CALLING
    )
    held = np.where(kind == ApiKind.COPY, np.clip(holding_ns[rows], start, end), end)
    return _solid(
        np.stack([start, held], axis=1).ravel(),
        np.stack([held, end], axis=1).ravel(),
        np.stack([doing, np.full(len(rows), Doing.IN_COPY)], axis=1).ravel(),
        np.repeat(rows, 2),
    )


def _held_elsewhere(trace: Trace, calls: Segments, process: int, thread: int, holding_ns: Int64) -> Segments:
    """Held time of calls under a copy or an allocation that another thread had begun before.

    The driver lets one of them in at a time.
    """
    table = trace.api_calls
    inside = (
        (table.process == process) & np.isin(table.kind, (ApiKind.COPY, *ALLOCATIONS)) & (holding_ns < table.end_ns)
    )
    others = np.flatnonzero(inside & (table.thread != thread))
    start, end = _one_after_the_other(holding_ns[others], table.end_ns[others])
    doing = np.where(table.kind[others] == ApiKind.COPY, Doing.IN_COPY, Doing.ALLOCATING)
    holders = _solid(start, end, doing, others)
    waiting = np.flatnonzero(np.isin(calls.doing, (Doing.CALLING, Doing.IN_COPY)))
    begin = np.maximum(calls.start_ns, holding_ns[calls.call])[waiting]
    which, parts = holders.within(begin, np.maximum(calls.end_ns[waiting], begin))
    own = calls.call[waiting][which]
    first = (calls.doing[waiting][which] == Doing.CALLING) | (holding_ns[parts.call] < holding_ns[own])
    return _solid(parts.start_ns[first], parts.end_ns[first], parts.doing[first], parts.call[first])


def _plain(spans: Spans, doing: Doing) -> Segments:
    count = len(spans)
    return Segments(spans.start_ns, spans.end_ns, np.full(count, doing, np.int8), np.full(count, NO_ID, np.int64))


def _spans_of(table: object, process: int, thread: int) -> Spans:
    here: Bool = (table.process == process) & (table.thread == thread)  # type: ignore[attr-defined]
    return union(table.start_ns[here], table.end_ns[here]) if here.any() else EMPTY  # type: ignore[attr-defined]


def _one_after_the_other(start_ns: Int64, end_ns: Int64) -> tuple[Int64, Int64]:
    """Sorted intervals made disjoint: each begins when those before it are over. Sound traces have no overlap."""
    if not len(start_ns):
        return start_ns, end_ns
    reached = np.maximum.accumulate(end_ns)
    start = np.maximum(start_ns, np.concatenate([start_ns[:1], reached[:-1]]))
    return start, np.maximum(start, end_ns)


def _solid(start_ns: Int64, end_ns: Int64, doing: Int64 | Int8, call: Int64) -> Segments:
    some = end_ns > start_ns
    return Segments(start_ns[some], end_ns[some], doing[some].astype(np.int8), call[some].astype(np.int64))
