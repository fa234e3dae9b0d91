"""Device time lost: every stretch in which a device did nothing of its own, cut up by cause.

A device's own work is kernels, fills and copies within the device. What is left of the window is lost to copies over a
link, to synchronisations, to a late host. Each lost nanosecond is in one stretch, with one cause.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from overlapscope.measure.devices import Activity
from overlapscope.measure.gaps import Gaps, find_gaps, late_host
from overlapscope.measure.host import DEFAULT as HOST
from overlapscope.measure.host import HostConfig
from overlapscope.measure.issue import first_copy_of
from overlapscope.measure.lead import lost_lead
from overlapscope.measure.queues import DEFAULT as QUEUE
from overlapscope.measure.queues import LINK, Behind, Blockers, QueueConfig, blockers, launch_latency_ns
from overlapscope.measure.spans import EMPTY, Spans, merge, subtract, union
from overlapscope.measure.threads import Doing, Segments
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Bool, Int8, Int32, Int64, Table, column
from overlapscope.model.enums import Direction, Labelled
from overlapscope.model.tables import Copies
from overlapscope.model.trace import Trace


class Cause(Labelled):
    """What a lost stretch was lost to. Up to ``PROFILER`` the launching thread was late, after that it was not."""

    UNKNOWN = 0, "the trace does not say what issued the next work"
    HOST_NOT_RECORDED = 1, "nothing of the launching thread was recorded"
    HOST_WORK = 2, "the launching thread was at host work"
    API_CALL = 3, "the launching thread was in a call"
    COPY_CALL = 4, "the launching thread was held in a copy call"
    SYNCHRONISATION = 5, "the launching thread was synchronising"
    ALLOCATION = 6, "the launching thread was allocating or freeing memory"
    PROFILER = 7, "the launching thread was in the profiler"
    LAUNCH_LATENCY = 8, "the launch itself"
    COPY_SAME_STREAM = 9, "queued behind a copy of its stream"
    COPY_EVENT = 10, "queued behind a copy by an event"
    COPY_DEFAULT_STREAM = 11, "queued behind a copy by the legacy default stream"
    COPY_ENGINE = 12, "queued behind a copy that waits for another's engine"
    WAIT_NOT_RECORDED = 13, "queued for a reason that the trace does not show"
    COPY_ONLY = 14, "a copy, and no other work that could have run"
    OTHER_DEVICE = 15, "queued behind work of another device"


_WITHIN_DEVICE = (Direction.DTOD, Direction.UVM_DTOD)
_OF_DOING = {
    Doing.ABSENT: Cause.HOST_NOT_RECORDED,
    Doing.WORKING: Cause.HOST_WORK,
    Doing.CALLING: Cause.API_CALL,
    Doing.IN_COPY: Cause.COPY_CALL,
    Doing.IN_SYNC: Cause.SYNCHRONISATION,
    Doing.ALLOCATING: Cause.ALLOCATION,
    Doing.PROFILING: Cause.PROFILER,
}
_OF_BEHIND = {
    Behind.STREAM: Cause.COPY_SAME_STREAM,
    Behind.EVENT: Cause.COPY_EVENT,
    Behind.DEFAULT_STREAM: Cause.COPY_DEFAULT_STREAM,
    Behind.UNKNOWN: Cause.WAIT_NOT_RECORDED,
}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class IdleTime(Table):
    """Lost stretches of one device, disjoint, sorted."""

    row_meaning: ClassVar[str] = "One stretch of device time lost, with one cause."

    start_ns: Int64 = column("i8", "begin, on the trace's clock", unit="ns")
    end_ns: Int64 = column("i8", "end, exclusive", unit="ns")
    cause: Int8 = column("i1", "what it was lost to", enum=Cause)
    call: Int32 = column("i4", "row in api_calls of the call that its thread was in", null=NO_ID)
    blocking_call: Int32 = column(
        "i4", "row in api_calls of the call that held the thread, then or earlier, so that it was late", null=NO_ID
    )
    copy: Int32 = column("i4", "row in copies of the copy concerned: of the blocking call, or waited for", null=NO_ID)
    launch_call: Int32 = column("i4", "row in api_calls of the call that issued the next work", null=NO_ID)
    inferred: Bool = column("?", "whether what was queued is known to wait for the copy only by the copy's end")

    @property
    def duration_ns(self) -> Int64:
        """``end_ns - start_ns``."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class AttributionConfig:
    """The thresholds of what a cause is."""

    host: HostConfig = HOST
    queue: QueueConfig = QUEUE


def attribute_idle(
    trace: Trace, activity: Activity, window: Window, config: AttributionConfig = AttributionConfig()
) -> IdleTime:
    """Cut up the lost time of a device within the window.

    Time after the last work is lost only while copies run or are yet to come: then these are what ends it.
    """
    key = activity.key
    link = key.rows(trace.copies) & np.isin(trace.copies.direction, LINK)
    own = trace.copies.take(key.rows(trace.copies) & np.isin(trace.copies.direction, _WITHIN_DEVICE))
    idle = subtract(activity.extent, merge(activity.kernels, activity.memsets, union(own.start_ns, own.end_ns)))
    gaps = find_gaps(trace, key, idle, (trace.kernels, trace.memsets, own))
    followed = gaps.take(gaps.followed)
    rest = gaps.take(~gaps.followed)
    tail = Spans(rest.start_ns, rest.end_ns)
    copies = _Carried.of(trace.copies, link)
    awaited = find_gaps(trace, key, subtract(tail, copies.spans), (trace.copies.take(link),))
    awaited = awaited.take(awaited.followed)
    parts = [*_of_gaps(trace, window, activity, followed, copies, config), _copying(copies, tail)]
    parts += _of_gaps(trace, window, activity, awaited, copies, config)
    return _table(trace, parts)


@dataclass(frozen=True, eq=False)
class _Carried:
    """When copies over a link ran, each moment laid to the copy that was first there; sorted, disjoint."""

    start_ns: Int64
    end_ns: Int64
    copy: Int64

    @classmethod
    def of(cls, copies: Copies, some: Bool) -> _Carried:
        rows = np.flatnonzero(some & (copies.end_ns > copies.start_ns))
        if not len(rows):
            return cls(EMPTY.start_ns, EMPTY.end_ns, rows)
        reached = np.maximum.accumulate(copies.end_ns[rows])
        start = np.maximum(copies.start_ns[rows], np.concatenate([copies.start_ns[rows[:1]], reached[:-1]]))
        solid = copies.end_ns[rows] > start
        return cls(start[solid], copies.end_ns[rows][solid], rows[solid])

    @property
    def spans(self) -> Spans:
        """The time in which they ran."""
        return union(self.start_ns, self.end_ns)

    def within(self, begin_ns: Int64, until_ns: Int64) -> tuple[Int64, Int64, Int64, Int64]:
        """Index of the interval, start, end and copy of each part that lies in one of some intervals."""
        segments = Segments(self.start_ns, self.end_ns, np.zeros(len(self.copy), np.int8), self.copy)
        which, parts = segments.within(begin_ns, until_ns)
        return which, parts.start_ns, parts.end_ns, parts.call


@dataclass(frozen=True, eq=False)
class _Part:
    """Rows of the table to be, column by column."""

    start_ns: Int64
    end_ns: Int64
    cause: Int64 | Int8
    call: Int64
    blocking_call: Int64
    copy: Int64
    launch_call: Int64
    inferred: Bool

    @classmethod
    def of(cls, start_ns: Int64, end_ns: Int64, cause: Int64 | Int8 | int, **columns: Int64 | Bool) -> _Part:
        """Columns that are left out are not known."""
        defaults: dict[str, int | bool] = {
            "call": NO_ID,
            "blocking_call": NO_ID,
            "copy": NO_ID,
            "launch_call": NO_ID,
            "inferred": False,
        }
        filled = {name: np.broadcast_to(columns.get(name, value), len(start_ns)) for name, value in defaults.items()}
        return cls(start_ns, end_ns, np.broadcast_to(cause, len(start_ns)), **filled)


def _of_gaps(
    trace: Trace, window: Window, activity: Activity, gaps: Gaps, copies: _Carried, config: AttributionConfig
) -> list[_Part]:
    """Everything about gaps that some work follows."""
    unknown = gaps.take(gaps.call == NO_ID)
    return [
        _Part.of(unknown.start_ns, unknown.end_ns, Cause.UNKNOWN),
        *_late(trace, window, gaps, copies, config),
        *_queued(trace, activity, gaps, config.queue),
    ]


def _late(trace: Trace, window: Window, gaps: Gaps, copies: _Carried, config: AttributionConfig) -> list[_Part]:
    """Up to the moment of issue: what the launching thread was at, and which call cost it its lead."""
    which, doing = late_host(trace, gaps, config.host)
    index, parts, blocking_call = lost_lead(trace, window, doing, gaps.call[which], config.host)
    launch_call = gaps.call[which][index]
    cause = np.array([_OF_DOING[Doing(value)] for value in range(len(_OF_DOING))])[parts.doing]
    copy = np.append(first_copy_of(trace), NO_ID)[blocking_call]
    late = _Part.of(
        parts.start_ns,
        parts.end_ns,
        cause,
        call=parts.call,
        blocking_call=blocking_call,
        copy=copy,
        launch_call=launch_call,
    )
    return _waiting_for_copies(late, copies)


def _waiting_for_copies(late: _Part, copies: _Carried) -> list[_Part]:
    """Where a thread synchronises while copies run, these are what it waits for."""
    waits = late.cause == Cause.SYNCHRONISATION
    which, start, end, copy = copies.within(late.start_ns[waits], late.end_ns[waits])
    waiting = replace(_take(_take(late, waits), which), start_ns=start, end_ns=end, copy=copy)
    return [_take(late, ~waits), waiting, _rest(late, waits, copies.spans)]


def _rest(late: _Part, some: Bool, spans: Spans) -> _Part:
    """What of some rows lies outside of ``spans``."""
    rows = np.flatnonzero(some)
    order = rows[np.argsort(late.start_ns[rows], kind="stable")]
    whole = Spans(late.start_ns[order], late.end_ns[order])
    free = subtract(whole, spans)
    position = np.searchsorted(whole.start_ns, free.start_ns, "right") - 1
    part = _take(late, order[position])
    return replace(part, start_ns=free.start_ns, end_ns=free.end_ns)


def _take(part: _Part, rows: Int64 | Bool) -> _Part:
    return _Part(*(getattr(part, name)[rows] for name in part.__dataclass_fields__))


def _queued(trace: Trace, activity: Activity, gaps: Gaps, config: QueueConfig) -> list[_Part]:
    """From the moment of issue on: which copy was waited for, and what that copy waited for.

    Work that had been issued before the gap began, and waited for no copy, only follows other work closely: that time
    is the device's own, and not lost.
    """
    gaps = gaps.take((gaps.call != NO_ID) & (gaps.issued_ns < gaps.end_ns))
    found = blockers(trace, activity.key, gaps, config)
    latency = round(config.tolerance * launch_latency_ns(trace, config))
    parts, done = [], np.zeros(len(gaps.call), np.bool_)
    keys = np.stack(
        [np.append(trace.copies.stream, NO_ID)[found.copy], np.append(trace.copies.direction, 0)[found.copy]]
    )
    for stream, direction in sorted(set(zip(*keys[:, found.copy != NO_ID].tolist(), strict=True))):
        mine = np.flatnonzero((keys[0] == stream) & (keys[1] == direction) & (found.copy != NO_ID))
        done[mine] = True
        parts += _behind_copies(trace, activity, gaps.take(mine), found.take(mine), (stream, direction), latency)
    short = gaps.end_ns - gaps.issued_ns <= latency
    ahead = np.append(trace.api_calls.end_ns, 0)[gaps.call] < gaps.start_ns
    rest = ~done & ~(short & ahead)
    return [*parts, _behind_no_copy(gaps.take(rest), found.take(rest), latency)]


def _behind_copies(
    trace: Trace, activity: Activity, gaps: Gaps, found: Blockers, place: tuple[int, int], latency: int
) -> list[_Part]:
    """Work that waits for copies of one stream and direction: under these, under others of their engine, the rest."""
    copies = trace.copies
    direction = activity.key.rows(copies) & (copies.direction == place[1])
    theirs = _Carried.of(copies, direction & (copies.stream == place[0]))
    others = _Carried.of(copies, direction & (copies.stream != place[0]))
    which, start, end, copy = theirs.within(gaps.issued_ns, gaps.end_ns)
    cause = np.array([_OF_BEHIND.get(Behind(value), Cause.WAIT_NOT_RECORDED) for value in range(len(Behind))])[
        found.how
    ]
    behind = _Part.of(start, end, cause[which], copy=copy, launch_call=gaps.call[which], inferred=~found.sure[which])
    rest = subtract(Spans(gaps.issued_ns, gaps.end_ns), theirs.spans)
    after, start, end, copy = others.within(rest.start_ns, rest.end_ns)
    call = gaps.call[np.searchsorted(gaps.issued_ns, rest.start_ns, "right") - 1]
    engine = _Part.of(start, end, Cause.COPY_ENGINE, copy=copy, launch_call=call[after])
    left = subtract(rest, others.spans)
    index = np.searchsorted(gaps.issued_ns, left.start_ns, "right") - 1
    sooner = left.start_ns < found.begun_ns[index]
    later = left.start_ns >= copies.end_ns[found.copy[index]]
    elsewhere = (sooner & found.fetched[index]) | (later & found.elsewhere[index])
    cause = _of_queued(left.end_ns - left.start_ns, elsewhere, latency)
    return [behind, engine, _Part.of(left.start_ns, left.end_ns, cause, launch_call=gaps.call[index])]


def _behind_no_copy(gaps: Gaps, found: Blockers, latency: int) -> _Part:
    """Queued, and no copy of the device to wait for."""
    cause = _of_queued(gaps.end_ns - gaps.issued_ns, found.elsewhere, latency)
    return _Part.of(gaps.issued_ns, gaps.end_ns, cause, launch_call=gaps.call)


def _of_queued(duration_ns: Int64, elsewhere: Bool, latency: int) -> Int64:
    """What work waits for while it is queued and no copy runs: the launch itself, where that is short."""
    return np.select(
        [duration_ns <= latency, elsewhere], [Cause.LAUNCH_LATENCY, Cause.OTHER_DEVICE], Cause.WAIT_NOT_RECORDED
    )


def _copying(copies: _Carried, tail: Spans) -> _Part:
    """Copies that run while no work is to come."""
    _, start, end, copy = copies.within(tail.start_ns, tail.end_ns)
    return _Part.of(start, end, Cause.COPY_ONLY, copy=copy)


def _table(trace: Trace, parts: list[_Part]) -> IdleTime:
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _Part.__dataclass_fields__}
    order = np.argsort(columns["start_ns"], kind="stable")
    some = order[(columns["end_ns"] > columns["start_ns"])[order]]
    return IdleTime.build(trace.names, len(some), {name: values[some] for name, values in columns.items()})
