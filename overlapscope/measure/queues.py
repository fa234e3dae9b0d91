"""What work waited for that had been issued and did not start.

A stream runs its work in order; a stream that waits for an event starts nothing before that event; a stream that
synchronises with the legacy default stream starts nothing while that one works, and the other way round; a copy
starts when the engine of its direction is free. Which of these it was follows from what ended just before the
work began.

Sources: CUDA C++ Programming Guide, sections on streams, implicit synchronisation and overlapping behaviour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from overlapscope.measure.devices import DeviceKey
from overlapscope.measure.gaps import Gaps
from overlapscope.model.columns import NO_ID, NO_TIME, Bool, Int8, Int64
from overlapscope.model.enums import ApiKind, Direction, Labelled, StreamKind, SyncKind
from overlapscope.model.trace import Trace

LINK = (Direction.HTOD, Direction.DTOH, Direction.PTOP)
"""Copies that cross a link; copies within a device are work like a kernel's."""


_LEGACY_DEFAULT = (0, 7)
"""Ids that CUPTI and ROCm give to the legacy default stream, for traces that do not list the kinds of streams."""


class Behind(Labelled):
    """Why queued work waits for a copy."""

    NOTHING = 0, "no copy"
    STREAM = 1, "the same stream"
    EVENT = 2, "an event of the copy's stream"
    DEFAULT_STREAM = 3, "the legacy default stream"
    UNKNOWN = 4, "a wait that the trace does not describe"


@dataclass(frozen=True)
class QueueConfig:
    """What counts as the launch itself.

    ``latency_quantile``: which of a trace's delays between call and start are mere latency; work that waits in a
    queue is the slow part. ``most_latency_ns``: no launch on an idle device takes longer than that by itself;
    4 to 10 us were measured on an H200 under the profiler. ``tolerance``: a start within this many latencies after
    what it waited for is taken to be caused by it.
    """

    latency_quantile: float = 0.1
    most_latency_ns: int = 20_000
    tolerance: float = 3.0


DEFAULT = QueueConfig()


@dataclass(frozen=True, eq=False)
class Blockers:
    """For each gap, the copy that the queued work waited for (a row of copies, or `NO_ID`), and how it came to.

    ``sure`` is false where that rests on the copy having ended just before the work began. ``elsewhere`` says whether
    the work was made to wait for another device, ``fetched`` whether the copy was, or the first in a row of copies that
    it is the last of, which began at ``begun_ns``.
    """

    copy: Int64
    how: Int8
    sure: Bool
    elsewhere: Bool
    fetched: Bool
    begun_ns: Int64

    def take(self, rows: Int64 | Bool) -> Blockers:
        """Some of them."""
        return Blockers(*(getattr(self, entry.name)[rows] for entry in fields(self)))


@dataclass(frozen=True, eq=False)
class _Ops:
    """A device's work, or that of others, by stream and start."""

    stream: Int64
    start_ns: Int64
    end_ns: Int64
    issued_ns: Int64
    call: Int64
    copy: Int64  # row of a copy over a link, or NO_ID

    @classmethod
    def of(cls, trace: Trace, key: DeviceKey) -> _Ops:
        """All of a device."""
        return cls._some(trace, [key.rows(table) for table in trace.device_work])

    @classmethod
    def elsewhere(cls, trace: Trace, key: DeviceKey) -> _Ops:
        """What other devices of its process did on streams whose numbers this one does not use, as far as known."""
        tables, known = trace.device_work, key.device != NO_ID
        own = np.append(np.concatenate([table.stream[key.rows(table)] for table in tables]), NO_ID)
        others = [(table.process == key.process) & ~np.isin(table.device, (key.device, NO_ID)) for table in tables]
        return cls._some(
            trace, [mine & ~np.isin(table.stream, own) & known for table, mine in zip(tables, others, strict=True)]
        )

    @classmethod
    def _some(cls, trace: Trace, those: Sequence[Bool]) -> _Ops:
        calls = np.append(trace.api_calls.start_ns, NO_TIME)
        parts = []
        for table, mine in zip(trace.device_work, those, strict=True):
            rows = np.flatnonzero(mine)
            link = np.isin(trace.copies.direction[rows], LINK) if table is trace.copies else np.zeros(len(rows), bool)
            call = table.call[rows].astype(np.int64)
            parts.append(
                (
                    table.stream[rows],
                    table.start_ns[rows],
                    table.end_ns[rows],
                    calls[call],
                    call,
                    np.where(link, rows, NO_ID),
                )
            )
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.lexsort((columns[1], columns[0]))
        return cls(*(column[order] for column in columns))

    def before(self, stream: Int64, moment_ns: Int64, by: Int64) -> Int64:
        """Index of the last op of each stream whose ``by``, a column of this table, lies before a moment."""
        result = np.full(len(stream), NO_ID, np.int64)
        for number in np.unique(stream).tolist():
            mine = stream == number
            rows = np.flatnonzero(self.stream == number)
            rows = rows[np.argsort(by[rows], kind="stable")]
            position = np.searchsorted(by[rows], moment_ns[mine]) - 1
            result[mine] = np.where(position >= 0, rows[np.maximum(position, 0)], NO_ID) if len(rows) else NO_ID
        return result


def launch_latency_ns(trace: Trace, config: QueueConfig = DEFAULT) -> int:
    """What passes between a launch and the start of its kernel in this trace when nothing is in the way."""
    joined = trace.kernels.call != NO_ID
    delays = trace.kernels.start_ns[joined] - trace.api_calls.end_ns[trace.kernels.call[joined]]
    delays = delays[delays > 0]
    if not len(delays):
        return config.most_latency_ns
    return min(int(np.quantile(delays, config.latency_quantile)), config.most_latency_ns)


def blockers(trace: Trace, key: DeviceKey, gaps: Gaps, config: QueueConfig = DEFAULT) -> Blockers:
    """What the work after each gap waited for once it had been issued."""
    ops = _Ops.of(trace, key)
    if not len(gaps.start_ns) or not len(ops.stream):
        count = len(gaps.start_ns)
        no, nothing = np.zeros(count, np.bool_), np.full(count, NO_ID, np.int64)
        return Blockers(nothing, np.zeros(count, np.int8), no, no, no, nothing)
    issue = np.append(trace.api_calls.start_ns, NO_TIME)[gaps.call]
    previous = ops.before(gaps.stream, gaps.next_ns, ops.start_ns)
    after = np.append(ops.issued_ns, NO_TIME)[previous]
    waits, source = _event_sources(trace, key, ops, gaps.stream, after, issue)
    hidden = ~waits & _unrecorded_waits(trace, key, after, issue)
    ends = np.append(ops.end_ns, NO_TIME)
    copies = np.append(ops.copy, NO_ID)
    by_event = (copies[source] != NO_ID) & (ends[source] > ends[previous]) & (ends[source] > gaps.issued_ns)
    by_stream = ~by_event & (copies[previous] != NO_ID) & (ends[previous] > gaps.issued_ns)
    latency = round(config.tolerance * launch_latency_ns(trace, config))
    other = _ended_just_before(trace, key, gaps, latency)
    others = _Elsewhere.of(trace, key, ops, latency)
    elsewhere = others.released(gaps.stream, gaps.next_ns, gaps.call)
    implied = ~by_event & ~by_stream & ~elsewhere & (other != NO_ID)
    same_graph = implied & _same_graph(trace, gaps.call, other)
    implied &= ~same_graph
    hidden |= ~waits & (len(trace.syncs) == 0)  # nothing is known of what waits for what
    hidden |= _from_graph(trace, gaps.call) & _made_to_wait(trace, key, after, issue)
    implicit = implied & ~waits & ~hidden & _synchronises(trace, key, gaps.stream, other)
    untold = implied & ~waits & (hidden | ~implicit)
    how = np.select(
        [by_event | (implied & waits), by_stream | same_graph, implicit, untold],
        [Behind.EVENT, Behind.STREAM, Behind.DEFAULT_STREAM, Behind.UNKNOWN],
        Behind.NOTHING,
    ).astype(np.int8)
    copy = np.select([by_event, by_stream, how != Behind.NOTHING], [copies[source], copies[previous], other], NO_ID)
    first = _first_in_row(ops, copy, gaps.start_ns)
    begun = np.append(ops.start_ns, NO_TIME)[first]
    stream, call = (np.append(values, NO_ID)[first] for values in (ops.stream, ops.call))
    fetched = others.released(stream, begun, call) & (first != NO_ID)
    return Blockers(copy, how, by_event | by_stream | same_graph, elsewhere, fetched, begun)


def _first_in_row(ops: _Ops, copy: Int64, since_ns: Int64) -> Int64:
    """The op that is the first of the copies before each copy on its stream, with no other work between, since then."""
    index = np.append(np.full(max(ops.copy.max(initial=NO_ID), copy.max(initial=NO_ID)) + 1, NO_ID, np.int64), NO_ID)
    index[ops.copy] = np.where(ops.copy == NO_ID, NO_ID, np.arange(len(ops.copy)))
    own = index[copy]
    begins = np.append(True, (ops.copy[:-1] == NO_ID) | (ops.stream[1:] != ops.stream[:-1]))
    run = np.append(np.maximum.accumulate(np.where(begins, np.arange(len(begins)), 0)), NO_ID)[own]
    earlier = ops.before(np.append(ops.stream, NO_ID)[own], since_ns, ops.start_ns)
    return np.where(own == NO_ID, NO_ID, np.maximum(run, earlier + 1))


def kept_back(trace: Trace, key: DeviceKey, copies: Int64, config: QueueConfig = DEFAULT) -> Bool:
    """Which copies had been issued, were not told to wait, and began only when a kernel of another stream ended.

    Only where one of the two streams may be the legacy default stream and the other a blocking one.
    """
    table, kernels, calls = trace.copies, trace.kernels, np.append(trace.api_calls.start_ns, NO_TIME)
    ops = _Ops.of(trace, key)
    rows = np.flatnonzero(key.rows(kernels))
    rows = rows[np.argsort(kernels.end_ns[rows], kind="stable")]
    if not len(rows) or not len(trace.syncs):
        return np.zeros(len(copies), np.bool_)
    start, issue = table.start_ns[copies], calls[table.call[copies]]
    last = rows[np.maximum(np.searchsorted(kernels.end_ns[rows], start, "right") - 1, 0)]
    end = kernels.end_ns[last]
    latency = config.tolerance * launch_latency_ns(trace, config)
    previous = ops.before(table.stream[copies], start, ops.start_ns)
    after = np.append(ops.issued_ns, NO_TIME)[previous]
    told, _ = _event_sources(trace, key, ops, table.stream[copies], after, issue)
    told |= _unrecorded_waits(trace, key, after, issue)
    begun: Bool = (end <= start) & (start - end <= latency) & (end > issue + latency)
    begun &= np.append(ops.end_ns, NO_TIME)[previous] < end
    return begun & ~told & _synchronises(trace, key, kernels.stream[last], copies)


def _event_sources(
    trace: Trace, key: DeviceKey, ops: _Ops, stream: Int64, after_ns: Int64, before_ns: Int64
) -> tuple[Bool, Int64]:
    """Whether each stream was made to wait between two moments of issue, and the op that released it last."""
    syncs = trace.syncs.take((trace.syncs.kind == SyncKind.STREAM_WAIT_EVENT) & (trace.syncs.process == key.process))
    found = np.full(len(stream), NO_ID, np.int64)
    waits = np.zeros(len(stream), np.bool_)
    if not len(syncs):
        return waits, found
    calls = np.append(trace.api_calls.start_ns, NO_TIME)
    issued = np.where(syncs.call == NO_ID, syncs.start_ns, calls[syncs.call])
    recorded = np.where(syncs.record_call == NO_ID, issued, calls[syncs.record_call])
    source = ops.before(syncs.source_stream, recorded, ops.issued_ns)
    ends = np.append(ops.end_ns, NO_TIME)
    for number in np.unique(stream).tolist():
        mine = np.flatnonzero(stream == number)
        rows = np.flatnonzero(syncs.stream == number)
        rows = rows[np.argsort(issued[rows], kind="stable")]
        first = np.searchsorted(issued[rows], after_ns[mine])
        last = np.searchsorted(issued[rows], before_ns[mine])
        waits[mine] = last > first
        for step in range(int((last - first).max(initial=0))):
            here = first + step < last
            candidate = source[rows[(first + step)[here]]]
            better = ends[candidate] > ends[found[mine[here]]]
            found[mine[here][better]] = candidate[better]
    return waits, found


@dataclass(frozen=True, eq=False)
class _Elsewhere:
    """What a device may wait for on others: their work, and a trace with the device's own waits of a known stream."""

    trace: Trace
    key: DeviceKey
    own: _Ops
    others: _Ops
    latency: int

    @classmethod
    def of(cls, trace: Trace, key: DeviceKey, own: _Ops, latency: int) -> _Elsewhere:
        """All that is known of."""
        told = np.isin(trace.syncs.device, (key.device, NO_ID)) & (trace.syncs.source_stream != NO_ID)
        return cls(replace(trace, syncs=trace.syncs.take(told)), key, own, _Ops.elsewhere(trace, key), latency)

    def released(self, stream: Int64, start_ns: Int64, call: Int64) -> Bool:
        """Whether work of the device had to wait for that of another one, which ended just before it began."""
        if not len(self.others.stream):
            return np.zeros(len(stream), np.bool_)
        issued = np.append(self.trace.api_calls.start_ns, NO_TIME)[call]
        after = np.append(self.own.issued_ns, NO_TIME)[self.own.before(stream, start_ns, self.own.start_ns)]
        _, source = _event_sources(self.trace, self.key, self.others, stream, after, issued)
        end = np.append(self.others.end_ns, NO_TIME)[source]
        released: Bool = (source != NO_ID) & (end <= start_ns) & (start_ns - end <= self.latency)
        return released


def _unrecorded_waits(trace: Trace, key: DeviceKey, after_ns: Int64, before_ns: Int64) -> Bool:
    """Whether calls between two moments made some stream wait, without a record of which and for what."""
    calls = trace.api_calls
    known = np.zeros(len(calls) + 1, np.bool_)
    known[trace.syncs.call] = True
    rows = (calls.kind == ApiKind.WAIT_EVENT) & (calls.process == key.process) & ~known[:-1]
    moments = calls.start_ns[rows]
    found: Bool = np.searchsorted(moments, before_ns) > np.searchsorted(moments, after_ns)
    return found


def _ended_just_before(trace: Trace, key: DeviceKey, gaps: Gaps, latency: int) -> Int64:
    """The copy over a link, on another stream, that ended last before the work began, if that was just before."""
    copies = trace.copies
    rows = np.flatnonzero(key.rows(copies) & np.isin(copies.direction, LINK))
    rows = rows[np.argsort(copies.end_ns[rows], kind="stable")]
    if not len(rows):
        return np.full(len(gaps.start_ns), NO_ID, np.int64)
    position = np.searchsorted(copies.end_ns[rows], gaps.next_ns, "right") - 1
    last = rows[np.maximum(position, 0)]
    end = copies.end_ns[last]
    near = (position >= 0) & (end > gaps.issued_ns) & (gaps.next_ns - end <= latency)
    return np.where(near & (copies.stream[last] != gaps.stream), last, NO_ID)


def _same_graph(trace: Trace, call: Int64, copy: Int64) -> Bool:
    """Whether one graph launch issued both: then the copy is before the work in the graph."""
    kinds = np.append(trace.api_calls.kind, ApiKind.OTHER)
    same: Bool = (np.append(trace.copies.call, NO_ID)[copy] == call) & (copy != NO_ID)
    same &= kinds[call] == ApiKind.GRAPH_LAUNCH
    return same


def _from_graph(trace: Trace, call: Int64) -> Bool:
    """Whether a graph launch issued the work: its nodes run on other streams than the one that it was launched on."""
    found: Bool = np.append(trace.api_calls.kind, ApiKind.OTHER)[call] == ApiKind.GRAPH_LAUNCH
    return found


def _made_to_wait(trace: Trace, key: DeviceKey, after_ns: Int64, before_ns: Int64) -> Bool:
    """Whether calls between two moments made any stream wait."""
    calls = trace.api_calls
    moments = calls.start_ns[(calls.kind == ApiKind.WAIT_EVENT) & (calls.process == key.process)]
    found: Bool = np.searchsorted(moments, before_ns) > np.searchsorted(moments, after_ns)
    return found


def _synchronises(trace: Trace, key: DeviceKey, stream: Int64, copy: Int64) -> Bool:
    """Whether the stream and the copy's may be the legacy default stream and a blocking one."""
    table = trace.streams
    mine = (table.process == key.process) & (table.device == key.device)
    kind_of = dict(zip(table.stream[mine].tolist(), table.kind[mine].tolist(), strict=True))

    def kinds(streams: Int64) -> Int64:
        return np.array([kind_of.get(number, StreamKind.UNKNOWN) for number in streams.tolist()], np.int64)

    other_stream = np.append(trace.copies.stream, NO_ID)[copy]
    one, other = kinds(stream), kinds(other_stream)
    told = (one != StreamKind.UNKNOWN) & (other != StreamKind.UNKNOWN)
    default = np.isin(stream, _LEGACY_DEFAULT) | np.isin(other_stream, _LEGACY_DEFAULT)
    free = (one == StreamKind.NON_BLOCKING) | (other == StreamKind.NON_BLOCKING)
    alike: Bool = (one == other) & (one != StreamKind.UNKNOWN)
    result: Bool = ~free & ~alike & (told | default) & (stream != NO_ID) & (other_stream != NO_ID)
    return result
