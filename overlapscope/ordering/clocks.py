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
from dataclasses import dataclass

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import ALLOCATIONS, SYNC_CALLS, ApiKind, SyncKind

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
        rows: Int64 = self.issued_ns[np.searchsorted(self.time_ns, moment_ns, "right") - 1]
        return rows


@dataclass(frozen=True, eq=False)
class Streams:
    """The streams of a process with their work in the order of issue; ``number`` of each piece of work, or `NO_ID`."""

    work: tuple[Int64, ...]
    number: Int64
    keys: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, graph: Graph, process: int) -> Streams:
        """Those of a process."""
        work, issued = graph.work, graph.work.issued_ns(graph.calls)
        keys = tuple((device, stream) for owner, device, stream in graph.streams if owner == process)
        number = np.full(len(work), NO_ID, np.int64)
        rows = []
        for index, (device, stream) in enumerate(keys):
            mine = (work.process == process) & (work.device == device) & (work.stream == stream) & (work.call != NO_ID)
            found = np.flatnonzero(mine)
            number[found] = index
            rows.append(found[np.argsort(issued[found], kind="stable")])
        return cls(tuple(rows), number, keys)

    def numbers(self, device: Int64, stream: Int64) -> Int64:
        """Numbers of streams by device and stream; of a device that is not known where only one has the stream."""
        result = np.full(len(stream), NO_ID, np.int64)
        for index, (owner, name) in enumerate(self.keys):
            alone = sum(name == other for _, other in self.keys) == 1
            result[(stream == name) & ((device == owner) | (alone & (device == NO_ID)))] = index
        return result


@dataclass(frozen=True, eq=False)
class Steps:
    """What changes clocks: when, whose (the host's has the highest number), and what it learns.

    From a stream at the time when an event was recorded, or, where there is no such ``source``, a row of ``known``.
    """

    time_ns: Int64
    target: Int64
    source: Int64
    recorded_ns: Int64
    known: Int64

    @classmethod
    def from_source(cls, time_ns: Int64, target: Int64 | int, source: Int64, recorded_ns: Int64) -> Steps:
        """Steps that learn from a stream."""
        whose = np.broadcast_to(np.asarray(target, np.int64), len(time_ns))
        return cls(time_ns, whose, source, recorded_ns, np.empty((len(time_ns), 0), np.int64))

    @classmethod
    def of_known(cls, time_ns: Int64, target: Int64 | int, known: Int64) -> Steps:
        """Steps that learn what is given."""
        whose = np.broadcast_to(np.asarray(target, np.int64), len(time_ns))
        nothing = np.full(len(time_ns), NO_ID, np.int64)
        return cls(time_ns, whose, nothing, nothing, known)


@dataclass(frozen=True, eq=False)
class Clocks:
    """The clocks of a process: one for each stream, and the host's."""

    process: int
    streams: Streams
    clocks: tuple[Clock, ...]

    def known(self, number: Int64, moment_ns: Int64) -> Int64:
        """What streams knew at some moments, the host's knowledge with it; a row for each. `NO_ID` is the host."""
        result = self.clocks[-1].at(moment_ns)
        for index in np.unique(number[number != NO_ID]).tolist():
            mine = number == index
            result[mine] = np.maximum(result[mine], self.clocks[index].at(moment_ns[mine]))
        return result


def clocks_of(graph: Graph, process: int, clear_ns: int) -> Clocks:
    """The clocks of a process; work that ends up to ``clear_ns`` after a wait may have been waited for."""
    streams = Streams.of(graph, process)
    parts = [*_of_waits(graph, process, streams, clear_ns), *_of_host(graph, process, streams, clear_ns)]
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


def _of_waits(graph: Graph, process: int, streams: Streams, clear_ns: int) -> list[Steps]:
    """Streams that were made to wait for events."""
    waits = graph.trace.event_waits
    mine = waits.process == process
    target = streams.numbers(waits.device.astype(np.int64), waits.stream)
    source = streams.numbers(waits.source_device.astype(np.int64), waits.source_stream)
    sure = mine & (target != NO_ID) & (source != NO_ID) & ~waits.inferred
    unsure = np.flatnonzero(mine & (target != NO_ID) & ~sure)
    over = _next_starts(graph, streams, target[unsure], waits.time_ns[unsure])
    known = _finished(graph, streams, over + clear_ns, waits.time_ns[unsure])
    recorded_ns = np.minimum(waits.recorded_ns, waits.time_ns)  # a later record is not what was waited for
    return [
        Steps.from_source(waits.time_ns[sure], target[sure], source[sure], recorded_ns[sure]),
        Steps.of_known(waits.time_ns[unsure], target[unsure], known),
    ]


def _of_host(graph: Graph, process: int, streams: Streams, clear_ns: int) -> list[Steps]:
    """Synchronisations of the host, by calls that are for that and by others that waited for their work."""
    calls, work, host = graph.calls, graph.work, len(streams.keys)
    mine = calls.process == process
    sure, source, since = _synchronised(graph, streams)
    sure &= mine
    whole = np.flatnonzero(mine & (calls.kind == ApiKind.DEVICE_SYNC))
    unsure = np.flatnonzero(mine & np.isin(calls.kind, (*SYNC_CALLS, *_UNCLEAR)) & ~sure)
    syncs = graph.trace.syncs  # those without a call may be of queries, whose calls some profilers leave out
    alone = (syncs.process == process) & (syncs.call == NO_ID) & (syncs.kind != SyncKind.STREAM_WAIT_EVENT)
    ends = np.append(calls.end_ns, BEFORE)[work.call]
    done = np.flatnonzero((streams.number != NO_ID) & (work.end_ns <= ends))
    return [
        Steps.from_source(calls.end_ns[sure], host, source[sure], since[sure]),
        Steps.of_known(calls.end_ns[whole], host, _of_devices(graph, streams, whole)),
        Steps.of_known(
            calls.end_ns[unsure],
            host,
            _finished(graph, streams, calls.end_ns[unsure] + clear_ns, calls.start_ns[unsure]),
        ),
        Steps.of_known(
            syncs.end_ns[alone],
            host,
            _finished(graph, streams, syncs.end_ns[alone] + clear_ns, syncs.start_ns[alone]),
        ),
        Steps.from_source(ends[done], host, streams.number[done], calls.start_ns[work.call[done]] + 1),
    ]


def _of_devices(graph: Graph, streams: Streams, whole: Int64) -> Int64:
    """What the host knows after synchronisations with a device: nothing, where several could be meant."""
    syncs, devices = graph.trace.syncs, np.array([device for device, _ in streams.keys], np.int64)
    device = np.full(len(graph.calls) + 1, NO_ID, np.int64)
    some = syncs.kind == SyncKind.DEVICE
    device[graph.call_of[syncs.call[some]]] = syncs.device[some]
    named = device[whole][:, None] == devices
    started: Int64 = np.where(named | (len(set(devices.tolist())) == 1), graph.calls.start_ns[whole][:, None], BEFORE)
    return started


def _synchronised(graph: Graph, streams: Streams) -> tuple[Int64, Int64, Int64]:
    """For each call whether it is known what it synchronised with, the stream, and until which time of issue."""
    syncs, calls = graph.trace.syncs, graph.calls
    source = np.full(len(calls) + 1, NO_ID, np.int64)
    since = np.full(len(calls) + 1, NO_ID, np.int64)
    call = graph.call_of[syncs.call]
    device = syncs.device.astype(np.int64)
    whole = (syncs.kind == SyncKind.STREAM) & (call != NO_ID)
    source[call[whole]] = streams.numbers(device, syncs.stream)[whole]
    since[call[whole]] = calls.start_ns[call[whole]]
    event = (syncs.kind == SyncKind.EVENT) & (call != NO_ID) & (syncs.record_call != NO_ID) & ~syncs.inferred
    source[call[event]] = streams.numbers(device, syncs.source_stream)[event]
    recorded_ns = graph.trace.api_calls.start_ns[syncs.record_call[event]]
    since[call[event]] = np.minimum(recorded_ns, calls.start_ns[call[event]])
    sure = (source[:-1] != NO_ID) & np.isin(calls.kind, (ApiKind.STREAM_SYNC, ApiKind.EVENT_SYNC))
    return sure, source[:-1], since[:-1]


def _finished(graph: Graph, streams: Streams, moment_ns: Int64, issued_before_ns: Int64) -> Int64:
    """What may be known to be complete at some moments: what is, of what was issued before certain times."""
    work, issued = graph.work, graph.work.issued_ns(graph.calls)
    result = np.repeat(issued_before_ns[:, None], len(streams.keys), axis=1)
    for index, rows in enumerate(streams.work):
        ends = np.maximum.accumulate(work.end_ns[rows])
        running = np.append(issued[rows], _NEVER)[np.searchsorted(ends, moment_ns, "right")]
        result[:, index] = np.minimum(result[:, index], running)
    return result


def _next_starts(graph: Graph, streams: Streams, target: Int64, moment_ns: Int64) -> Int64:
    """When each of some streams starts the work that was issued to it next after a moment."""
    work, issued = graph.work, graph.work.issued_ns(graph.calls)
    result = np.full(len(target), _NEVER, np.int64)
    for index in np.unique(target).tolist():
        rows, mine = streams.work[index], target == index
        following = np.searchsorted(issued[rows], moment_ns[mine])
        result[mine] = np.append(work.start_ns[rows], _NEVER)[following]
    return result
