"""Vector clocks of the streams and the host of a process: what each knows to be complete, and since when.

An entry of a clock is a time: all work that was issued to that stream before it is complete. A stream learns from the
events that it waits for, the host from its synchronisations; whatever is issued later knows what the host knew. The
host counts as one, since threads hand over work in ways that no trace shows. Clocks change at waits and
synchronisations only, so their number counts, and not that of the work.

Where a trace does not say what was waited for, the wait may have been for all work that was complete when it was over.
So what a clock does not know was certainly not waited for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from overlapscope.dependencies.device import LEGACY_DEFAULT, by_issue
from overlapscope.dependencies.graph import Graph
from overlapscope.measure.grouping import at, distinct_columns, each_value
from overlapscope.measure.spans import intersect, union
from overlapscope.model.columns import NO_ID, Bool, Int32, Int64
from overlapscope.model.enums import ALLOCATIONS, SYNC_CALLS, ApiKind, StreamKind, SyncKind

CLEAR_NS = 10_000
"""Work that ends so long after other work has begun ran beside it, in ns.

Profilers place the ends and starts of work that was waited for within a few microseconds of each other.
"""

_NEVER = np.iinfo(np.int64).max // 2  # something can be added to it
BEFORE = np.iinfo(np.int64).min
"""Earlier than everything in a trace."""
_UNCLEAR = (*ALLOCATIONS, ApiKind.QUERY)
"""Calls that may wait for the device, or tell the host that something is complete."""


@dataclass(frozen=True, eq=False)
class Clock:
    """A vector clock at the times at which it changed."""

    time_ns: Int64
    issued_ns: Int64

    def at(self, moment_ns: Int64) -> Int64:
        """The clock at some moments, one row for each."""
        return np.take(self.issued_ns, np.searchsorted(self.time_ns, moment_ns, "right") - 1, axis=0)


@dataclass(frozen=True, eq=False)
class Streams:
    """The streams of a process with their work in the order of issue; ``number`` of each piece of work, or `NO_ID`."""

    work: tuple[Int64, ...]
    number: Int64
    keys: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, graph: Graph, process: int) -> Streams:
        """The streams of a process."""
        issued = graph.work.issued_ns(graph.calls)
        keys = tuple((device, stream) for owner, device, stream in graph.streams if owner == process)
        work = tuple(by_issue(graph.work, issued, process, *key) for key in keys)
        number = np.full(len(graph.work), NO_ID, np.int64)
        for index, rows in enumerate(work):
            number[rows] = index
        return cls(work, number, keys)

    def numbers(self, device: Int64 | Int32, stream: Int64) -> Int64:
        """Numbers of streams by device and stream; of a device that is not known where only one has the stream."""
        result = np.full(len(stream), NO_ID, np.int64)
        for index, (owner, name) in enumerate(self.keys):
            alone = sum(name == other for _, other in self.keys) == 1
            result[(stream == name) & ((device == owner) | (alone & (device == NO_ID)))] = index
        return result


@dataclass(frozen=True, eq=False)
class Steps:
    """The changes of clocks: when, which clock (the host's has the highest number), and what it learns.

    It learns what a stream knew when an event was recorded or, where there is no such ``source``, a row of ``known``.
    """

    time_ns: Int64
    target: Int64
    source: Int64
    recorded_ns: Int64
    known: Int64

    @classmethod
    def from_source(cls, time_ns: Int64, target: Int64 | int, source: Int64, recorded_ns: Int64) -> Steps:
        """Steps that learn from a stream."""
        targets = np.broadcast_to(target, len(time_ns))
        return cls(time_ns, targets, source, recorded_ns, np.empty((len(time_ns), 0), np.int64))

    @classmethod
    def of_known(cls, time_ns: Int64, target: Int64 | int, known: Int64) -> Steps:
        """Steps that learn what is given."""
        nothing = np.full(len(time_ns), NO_ID, np.int64)
        return cls(time_ns, np.broadcast_to(target, len(time_ns)), nothing, nothing, known)


@dataclass(frozen=True, eq=False)
class Clocks:
    """The clocks of a process: one for each stream, and the host's."""

    process: int
    streams: Streams
    clocks: tuple[Clock, ...]

    def known(self, number: Int64, moment_ns: Int64) -> Int64:
        """The clocks of streams at moments, the host's knowledge included; a row for each. `NO_ID` is the host."""
        result = self.clocks[-1].at(moment_ns)
        for index, rows in each_value(number):
            result[rows] = np.maximum(result[rows], self.clocks[index].at(moment_ns[rows]))  # `NO_ID` is the last one
        return result


def clocks_of(graph: Graph, process: int) -> Clocks:
    """The clocks of a process, in which work that ends up to `CLEAR_NS` after a wait may have been waited for."""
    streams = Streams.of(graph, process)
    parts = [*_of_waits(graph, process, streams), *_of_host(graph, process, streams)]
    return Clocks(process, streams, _run(parts, len(streams.keys)))


def _run(parts: list[Steps], count: int) -> tuple[Clock, ...]:
    """Take all steps in their order; the loop is over waits and synchronisations."""
    times = [[BEFORE] for _ in range(count + 1)]
    values = [[np.full(count, BEFORE)] for _ in range(count + 1)]

    def at(number: int, moment_ns: int) -> Int64:
        return values[number][bisect_right(times[number], moment_ns) - 1]

    every = [(time, part, row) for part in parts for row, time in enumerate(part.time_ns.tolist())]
    for time, part, row in sorted(every, key=lambda step: step[0]):
        target, source, recorded = int(part.target[row]), int(part.source[row]), int(part.recorded_ns[row])
        if source == NO_ID:
            learnt = part.known[row]
        else:
            learnt = np.maximum(at(source, recorded), at(count, recorded))
            learnt[source] = max(learnt[source], recorded)
        times[target].append(time)
        values[target].append(np.maximum(values[target][-1], learnt))
    return tuple(Clock(np.array(time), np.stack(value)) for time, value in zip(times, values, strict=True))


def _of_waits(graph: Graph, process: int, streams: Streams) -> list[Steps]:
    """Streams that were made to wait for events."""
    waits = graph.trace.event_waits
    target = streams.numbers(waits.device, waits.stream)
    source = streams.numbers(waits.source_device, waits.source_stream)
    here = (waits.process == process) & (target != NO_ID)
    sure = here & (source != NO_ID) & ~waits.inferred
    unsure = np.flatnonzero(here & ~sure)
    over = _next_starts(graph, streams, target[unsure], waits.time_ns[unsure])
    known = _finished(graph, streams, over + CLEAR_NS, waits.time_ns[unsure])
    recorded_ns = np.minimum(waits.recorded_ns, waits.time_ns)  # a later record is not what was waited for
    return [
        Steps.from_source(waits.time_ns[sure], target[sure], source[sure], recorded_ns[sure]),
        Steps.of_known(waits.time_ns[unsure], target[unsure], known),
    ]


def _of_host(graph: Graph, process: int, streams: Streams) -> list[Steps]:
    """Synchronisations of the host, by calls that are for that and by others that waited for their work."""
    calls, work, host = graph.calls, graph.work, len(streams.keys)
    of_process = calls.process == process
    sure, source, since = _synchronised(graph, streams)
    sure &= of_process
    whole = np.flatnonzero(of_process & (calls.kind == ApiKind.DEVICE_SYNC))
    unsure = np.flatnonzero(of_process & np.isin(calls.kind, (*SYNC_CALLS, *_UNCLEAR)) & ~sure)
    syncs = graph.trace.syncs  # those without a call may be of queries, whose calls some profilers leave out
    alone = (syncs.process == process) & (syncs.call == NO_ID) & (syncs.kind != SyncKind.STREAM_WAIT_EVENT)
    unclear_ns = ((each.start_ns[rows], each.end_ns[rows]) for each, rows in ((calls, unsure), (syncs, alone)))
    ends = at(calls.end_ns, work.call, BEFORE)
    done = np.flatnonzero((streams.number != NO_ID) & (work.end_ns <= ends))
    return [
        Steps.from_source(calls.end_ns[sure], host, source[sure], since[sure]),
        Steps.of_known(calls.end_ns[whole], host, _of_devices(graph, streams, whole)),
        *(Steps.of_known(end, host, _finished(graph, streams, end + CLEAR_NS, start)) for start, end in unclear_ns),
        Steps.from_source(ends[done], host, streams.number[done], calls.start_ns[work.call[done]] + 1),
    ]


def _of_devices(graph: Graph, streams: Streams, whole: Int64) -> Int64:
    """The host's knowledge after synchronisations with a device: nothing, where several could be meant."""
    syncs, devices = graph.trace.syncs, np.array([device for device, _ in streams.keys], np.int64)
    device = np.full(len(graph.calls) + 1, NO_ID, np.int64)
    whole_device = syncs.kind == SyncKind.DEVICE
    device[graph.call_of[syncs.call[whole_device]]] = syncs.device[whole_device]
    meant = (device[whole][:, None] == devices) | (len(np.unique(devices)) == 1)
    return np.where(meant, graph.calls.start_ns[whole][:, None], np.int64(BEFORE))


def _synchronised(graph: Graph, streams: Streams) -> tuple[Int64, Int64, Int64]:
    """For each call whether it is known what it synchronised with, the stream, and until which time of issue."""
    syncs, calls = graph.trace.syncs, graph.calls
    source, since = np.full((2, len(calls) + 1), NO_ID, np.int64)
    call = graph.call_of[syncs.call]
    whole = (syncs.kind == SyncKind.STREAM) & (call != NO_ID)
    source[call[whole]] = streams.numbers(syncs.device, syncs.stream)[whole]
    since[call[whole]] = calls.start_ns[call[whole]]
    event = (syncs.kind == SyncKind.EVENT) & (call != NO_ID) & (syncs.record_call != NO_ID) & ~syncs.inferred
    source[call[event]] = streams.numbers(syncs.device, syncs.source_stream)[event]
    recorded_ns = graph.trace.api_calls.start_ns[syncs.record_call[event]]
    since[call[event]] = np.minimum(recorded_ns, calls.start_ns[call[event]])
    sure = (source[:-1] != NO_ID) & np.isin(calls.kind, (ApiKind.STREAM_SYNC, ApiKind.EVENT_SYNC))
    return sure, source[:-1], since[:-1]


def _finished(graph: Graph, streams: Streams, moment_ns: Int64, issued_before_ns: Int64) -> Int64:
    """The work that may be known to be complete at moments: all complete work issued before certain times."""
    work, issued = graph.work, graph.work.issued_ns(graph.calls)
    result = np.repeat(issued_before_ns[:, None], len(streams.keys), axis=1)
    for index, rows in enumerate(streams.work):
        ends = np.maximum.accumulate(work.end_ns[rows])
        running = at(issued[rows], np.searchsorted(ends, moment_ns, "right"), _NEVER)
        result[:, index] = np.minimum(result[:, index], running)
    return result


def _next_starts(graph: Graph, streams: Streams, target: Int64, moment_ns: Int64) -> Int64:
    """When each of some streams starts the work that was issued to it next after a moment."""
    work, issued = graph.work, graph.work.issued_ns(graph.calls)
    result = np.full(len(target), _NEVER, np.int64)
    for index, waits in each_value(target):
        rows = streams.work[index]
        result[waits] = at(work.start_ns[rows], np.searchsorted(issued[rows], moment_ns[waits]), _NEVER)
    return result


@dataclass(frozen=True, eq=False)
class DefaultStreams:
    """The legacy default streams of a process."""

    graph: Graph
    clocks: Clocks

    def may_order(self, first: Int64, then: Int64, known_ns: Int64) -> Bool:
        """Whether it may order work, or the host (`NO_ID`) at some moments, behind other work of its process.

        What waits for the default stream waits for blocking streams too, and blocking streams for what it waited for.
        """
        result, number = np.zeros(len(first), np.bool_), self.clocks.streams.number
        pairs, pair = distinct_columns(np.stack([number[first], at(number, then)]))
        for index, (one, other) in enumerate(pairs.T.tolist()):
            rows = np.flatnonzero(pair == index)
            for legacy in self._legacy(self.clocks.streams.keys[one][0]):
                if self._may_block(legacy, one):
                    result[rows] |= self._waited_for(legacy, other, first[rows], known_ns[rows])
                if other != NO_ID and self._may_block(legacy, other):
                    result[rows] |= self._knows(legacy, one, first[rows], known_ns[rows])
        return result

    def _waited_for(self, legacy: int, other: int, first: Int64, known_ns: Int64) -> Bool:
        """Whether a stream or the host waits for the default one, and so for blocking work that was there before."""
        since = self.graph.work.issued_ns(self.graph.calls)[first]
        if other == legacy:
            return np.ones(len(first), np.bool_)
        waited: Bool = self.clocks.known(np.full(len(first), other), known_ns)[:, legacy] > since
        if other != NO_ID and self._may_block(legacy, other):
            waited |= self._last_ns(legacy, known_ns) > since
        return waited

    def _knows(self, legacy: int, one: int, first: Int64, known_ns: Int64) -> Bool:
        """Whether the last work of the default stream before some moments knows work to be complete, or follows it."""
        last_ns, since = self._last_ns(legacy, known_ns), self.graph.work.issued_ns(self.graph.calls)[first]
        if one == legacy:
            return last_ns >= since
        return np.greater(self.clocks.known(np.full(len(first), legacy), last_ns)[:, one], since)

    def _last_ns(self, legacy: int, known_ns: Int64) -> Int64:
        """When the default stream got its last work before some moments."""
        issued = self.graph.work.issued_ns(self.graph.calls)[self.clocks.streams.work[legacy]]
        return at(issued, np.searchsorted(issued, known_ns) - 1, BEFORE)

    def _legacy(self, device: int) -> Iterator[int]:
        for number, (owner, stream) in enumerate(self.clocks.streams.keys):
            unlisted = StreamKind.UNKNOWN if stream in LEGACY_DEFAULT else StreamKind.LEGACY_DEFAULT
            if owner == device and self._kind(number) in (StreamKind.LEGACY_DEFAULT, unlisted):
                yield number

    def _may_block(self, legacy: int, other: int) -> bool:
        """Whether a stream and the default one may wait for each other: no, where they ever worked together."""
        streams, work = self.clocks.streams, self.graph.work
        if streams.keys[legacy][0] != streams.keys[other][0] or self._kind(other) == StreamKind.NON_BLOCKING:
            return False
        spans = (union(work.start_ns[rows], work.end_ns[rows]) for rows in (streams.work[legacy], streams.work[other]))
        together_ns = intersect(*spans).total_ns
        return together_ns <= CLEAR_NS

    def _kind(self, number: int) -> int:
        (device, stream), table = self.clocks.streams.keys[number], self.graph.trace.streams
        rows = (table.process == self.clocks.process) & (table.device == device) & (table.stream == stream)
        return int(np.append(table.kind[rows], StreamKind.UNKNOWN)[0])
