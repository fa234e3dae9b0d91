"""The facts of one device that rules ask for: idle intervals and their causes, computed once per device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.diagnosis.causes import HOST_CAUSES, Cause, IdleTime, lateness
from overlapscope.diagnosis.finding import NOISE_SHARE, Number
from overlapscope.fitness.unknown import of_amd
from overlapscope.formatting import counted, size, time
from overlapscope.hardware import PinnedBandwidth, pinned_bandwidth
from overlapscope.measure.ceiling import Ceiling, ceiling
from overlapscope.measure.copies import CopyFacts
from overlapscope.measure.devices import Activity, DeviceKey
from overlapscope.measure.host import MOST_ENQUEUE_NS, blocked_from_ns
from overlapscope.measure.places import uses_pytorch
from overlapscope.measure.spans import Spans, covered, intersect, union
from overlapscope.measure.waits import first_copy_of, of_unknown_copy, synchronised_copy
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Bool, Int8, Int32, Int64
from overlapscope.model.enums import LINK, SYNC_CALLS, ApiKind, Direction, MemoryKind
from overlapscope.model.tables import DeviceWork
from overlapscope.model.trace import Trace
from overlapscope.ordering.order import Order
from overlapscope.whatif.calls import scalar_reads
from overlapscope.whatif.read_loops import ReadLoops

if TYPE_CHECKING:
    from overlapscope.analysis.config import Config

_STARTUP_NS = 500_000
"""Host time before the first launch of a window that counts as its start-up, in ns.

Python under a profiler that records stacks took up to 0.5 ms to reach its first launch.
"""
HIDEABLE_SHARE = 0.1
"""Where kernels could overlap less than this share of the exposed copies, there is nothing to hide them behind.

The gain is then below a tenth of the idle time.
"""
_READ_TRANSFER_SHARE = 0.5
"""A D2H copy whose transfer takes less than this share of the time it blocked the host waited for queued work.

A faster transfer cannot gain most of that.
"""
_READ_MAX_BYTES = 2**20
"""Larger D2H copies are results, whose transfer counts, and not scalars that decide something."""
_BURST_MIN_COPIES = 16
"""Fewest copies of a burst.

Below it, batching saves little more than 100 us: issuing a copy takes 5 to 10 us.
"""
_BURST_COPY_SHARE = 0.5
"""The copies of a burst are small when their device time is less than this share of its time."""
SLOW_MIN_BYTES = 2**20
"""Smaller copies do not reach the bandwidth of their link; pinned copies of 1 MiB reach 48 of 55 GB/s on an H200."""
HOST_ACTIVE_NS = 200_000
"""Host time without a call, after an asynchronous D2H copy, from which on the host did some work, in ns.

Python between two calls takes 10 to 60 us under a profiler.
"""


@dataclass(frozen=True, eq=False)
class DeviceContext:
    """One device of a trace within a window: its activity, its idle intervals, and what is known of their causes.

    Properties that are arrays have one entry per idle interval.
    """

    graph: Graph
    window: Window
    activity: Activity
    idle: IdleTime
    facts: CopyFacts
    config: Config
    read_loops: ReadLoops

    @property
    def trace(self) -> Trace:
        """The trace."""
        return self.graph.trace

    @cached_property
    def pytorch(self) -> bool:
        """Whether the program uses PyTorch, so that its fixes are PyTorch code."""
        return uses_pytorch(self.trace)

    @cached_property
    def order(self) -> Order:
        """The order of work and calls: what is complete before what."""
        return Order(self.graph)

    @cached_property
    def amd(self) -> bool:
        """Whether ROCm ran the program: no profiler of it records memory kinds, stream kinds or what a wait is for."""
        return of_amd(self.trace)

    def confirmed_by(self, recording: str, program: str) -> str:
        """What confirms what another recording would tell: the program where ROCm records no such thing."""
        return program if self.amd else recording

    @property
    def key(self) -> DeviceKey:
        """The device."""
        return self.activity.key

    @cached_property
    def none(self) -> Bool:
        """A mask that selects no idle interval."""
        return np.zeros(len(self.idle), np.bool_)

    def has_cause(self, *causes: Cause) -> Bool:
        """Mask of idle intervals that have one of these causes."""
        return np.isin(self.idle.cause, causes)

    @cached_property
    def blocking_kind(self) -> Int8:
        """`ApiKind` of the call that blocked the launching thread; OTHER where there is none."""
        return np.append(self.trace.api_calls.kind, ApiKind.OTHER)[self.idle.blocking_call]

    def allocating(self, *kinds: ApiKind) -> Bool:
        """Mask of idle intervals in, or attributed to, calls of these kinds that allocate or free memory."""
        inside = np.isin(np.append(self.trace.api_calls.kind, ApiKind.OTHER)[self.idle.call], kinds)
        return self.has_cause(Cause.ALLOCATION) & inside | np.isin(self.blocking_kind, kinds)

    def allocations(self, rows: Int64, kinds: Sequence[ApiKind]) -> tuple[Int64, str]:
        """The calls of these kinds that some idle intervals are attributed to, and their names as text."""
        calls, table = self.blocking_calls_of(rows), self.trace.api_calls
        calls = calls[np.isin(table.kind[calls], kinds)]
        return calls, ", ".join(sorted(set(self.trace.names.decode(table.name_id[calls]))))

    @cached_property
    def from_sync(self) -> Bool:
        """Mask of idle intervals that are attributed to a synchronisation."""
        return np.isin(self.blocking_kind, SYNC_CALLS)

    @cached_property
    def copy(self) -> Int64:
        """Row of the copy concerned: the one waited for, of the blocking call, or that a blocking sync follows."""
        synchronised = np.append(synchronised_copy(self.trace), NO_ID)[self.idle.blocking_call]
        return np.where(self.idle.copy == NO_ID, synchronised, self.idle.copy).astype(np.int64)

    @cached_property
    def direction(self) -> Int8:
        """`Direction` of that copy."""
        return np.append(self.trace.copies.direction, Direction.UNKNOWN)[self.copy]

    @cached_property
    def memory(self) -> Int8:
        """`MemoryKind` of that copy's host memory."""
        return np.append(self.facts.host_kind, MemoryKind.UNKNOWN)[self.copy]

    @cached_property
    def scalar_read(self) -> Bool:
        """Mask of idle intervals attributed to a D2H copy of a single value, or to a small one that mostly waited."""
        call = self.idle.blocking_call
        copies, calls = self.trace.copies, self.trace.api_calls
        blocked = np.append(calls.end_ns - blocked_from_ns(self.trace.api_calls), 0)[call]
        blocked = np.where(self.from_sync, np.append(calls.duration_ns, 0)[call], blocked)
        transfer = np.append(copies.duration_ns, 0)[self.copy]
        waited: Bool = (transfer < _READ_TRANSFER_SHARE * blocked) | np.append(scalar_reads(self.trace), False)[
            self.copy
        ]
        waited &= call != NO_ID
        waited &= np.append(copies.size_bytes, NO_ID)[self.copy] <= _READ_MAX_BYTES
        waited &= self.direction == Direction.DTOH
        return waited

    @cached_property
    def insufficient_data(self) -> Bool:
        """Mask of idle intervals that depend on a copy that the trace does not describe well enough.

        Its memory kind is unknown and its call blocked the host; or only one of the copy and its call is in the trace;
        or its direction is unknown.
        """
        unknown_memory: Bool = (self.blocking_kind == ApiKind.COPY) & (self.memory == MemoryKind.UNKNOWN)
        unknown_memory &= np.isin(self.direction, LINK) & ~self.scalar_read
        missing_copy = np.append(of_unknown_copy(self.trace), False)[self.idle.blocking_call]
        copies = self.trace.copies
        described = np.isin(copies.direction, (*LINK, Direction.DTOD)) & (copies.call != NO_ID)
        others = self.key.rows(copies) & ~described
        mostly = self.mostly_in(union(copies.start_ns[others], copies.end_ns[others]))
        result: Bool = unknown_memory | missing_copy | mostly
        return result

    def mostly_in(self, spans: Spans) -> Bool:
        """Mask of idle intervals that lie mostly within some spans."""
        mostly: Bool = 2 * covered(self.idle.start_ns, self.idle.end_ns, spans) > self.idle.duration_ns
        return mostly

    def within(self, bursts: Bursts, until_ns: Int64) -> Bool:
        """Mask of idle intervals mostly between the begin of bursts, of the thread that launches next, and a time."""
        launching = np.append(self.trace.api_calls.thread, NO_ID)[self.idle.launch_call]
        of_thread = np.isin(launching, [*np.unique(bursts.thread).tolist(), NO_ID])
        return self.mostly_in(union(bursts.begin_ns, until_ns)) & of_thread

    @cached_property
    def copy_sequences(self) -> Bursts:
        """Sequences of enough copy calls for this device, whatever their size."""
        return copy_sequences(self)

    @cached_property
    def bursts(self) -> Bursts:
        """Bursts of small copies on this device."""
        return self.copy_sequences.take(self.copy_sequences.small)

    @cached_property
    def link_copy_ns(self) -> Int64:
        """Time within each idle interval in which a copy over a link ran."""
        copies = self.trace.copies
        link = self.key.rows(copies) & np.isin(copies.direction, LINK)
        spans = union(copies.start_ns[link], copies.end_ns[link])
        return covered(self.idle.start_ns, self.idle.end_ns, spans)

    @cached_property
    def opposite_ns(self) -> Int64:
        """For each copy, the time in which copies of the device in the other direction ran."""
        copies, result = self.trace.copies, np.zeros(len(self.trace.copies), np.int64)
        for direction, opposite in ((Direction.HTOD, Direction.DTOH), (Direction.DTOH, Direction.HTOD)):
            rows, others = copies.direction == direction, self.key.rows(copies) & (copies.direction == opposite)
            spans = union(copies.start_ns[others], copies.end_ns[others])
            result[rows] = covered(copies.start_ns[rows], copies.end_ns[rows], spans)
        return result

    @cached_property
    def kernel_only_ns(self) -> int:
        """Kernel time with no concurrent copy: the time that copies could still overlap."""
        return self.activity.kernels.total_ns - self.activity.overlap.total_ns

    @cached_property
    def ceiling(self) -> Ceiling:
        """What perfect overlap would give within the window."""
        return ceiling(self.trace, self.activity)

    @cached_property
    def lateness(self) -> Int8:
        """`Lateness` of each idle interval, as far as its launching thread was late by itself."""
        return lateness(self.trace, self.idle)

    @cached_property
    def startup(self) -> Bool:
        """Idle intervals before the first kernel, up to the host time that a first launch usually takes."""
        kernels = self.activity.kernels
        early = self.has_cause(*HOST_CAUSES, Cause.LAUNCH_LATENCY) & (self.idle.blocking_call == NO_ID)
        early &= self.idle.end_ns <= (kernels.start_ns[0] if len(kernels) else 0)
        spent = np.cumsum(np.where(early, self.idle.duration_ns, 0))
        startup: Bool = early & (spent <= _STARTUP_NS)
        return startup

    def rows_in_window(self, table: DeviceWork, mask: Bool | Literal[True] = True) -> Int64:
        """The rows of a table, of those that the mask selects, on this device and with a part in the window."""
        within = self.window.touches(table.process, table.start_ns, table.end_ns)
        return np.flatnonzero(self.key.rows(table) & within & mask)

    def idle_ns(self, rows: Int64) -> int:
        """Total length of some idle intervals."""
        return int(self.idle.duration_ns[rows].sum())

    def without_kernel(self, rows: Int64, *, capital: bool = False) -> str:
        """For how long the GPU ran no kernel in some idle intervals, in words; idle is a GPU that does not copy either.

        ``capital`` is for the begin of a sentence.
        """
        lost_ns = self.idle_ns(rows)
        copying = self.link_copy_ns[rows].sum() > NOISE_SHARE * lost_ns
        text = f"{'no kernel ran' if copying else 'the GPU was idle'} for {time(lost_ns)}"
        return text[:1].upper() + text[1:] if capital else text

    def copies_of(self, rows: Int64) -> Int64:
        """Copies concerned in some idle intervals, each once."""
        return unique(self.copy[rows])

    def blocking_calls_of(self, rows: Int64) -> Int64:
        """Calls that some idle intervals are attributed to, each once."""
        return unique(self.idle.blocking_call[rows])

    def blocked_ns(self, calls: Int64) -> int:
        """Time within the window in which at least one of some calls blocked its thread."""
        begin = blocked_from_ns(self.trace.api_calls)[calls]
        blocked = union(begin, self.trace.api_calls.end_ns[calls])
        return intersect(blocked, self.window.of(self.key.process)).total_ns

    def copies_ns(self, times_ns: Int64) -> int:
        """The sum of some time of each copy over the copies of the device."""
        return int(times_ns[self.key.rows(self.trace.copies)].sum())

    def size_bytes(self, copies: Int64) -> int:
        """Total size of some copies, as far as sizes are known."""
        return int(np.maximum(self.trace.copies.size_bytes[copies], 0).sum())

    def copies_in_words(self, copies: Int64, kind: str = "") -> str:
        """The number and the size of some copies, whose kind is an adjective with a space behind it."""
        return f"{counted(len(copies), f'{kind}copy', f'{kind}copies')} ({size(self.size_bytes(copies))})"

    def copies_as_evidence(self, copies: Int64) -> dict[str, Number]:
        """The number and the size of some copies, as evidence of a finding."""
        return {"copies": len(copies), "size_bytes": self.size_bytes(copies)}

    @cached_property
    def large_pinned_copies(self) -> Bool:
        """Copies between the device and pinned memory that are large enough to reach the bandwidth of the link."""
        copies = self.trace.copies
        large: Bool = self.key.rows(copies) & (self.facts.host_kind == MemoryKind.PINNED)
        large &= copies.size_bytes >= SLOW_MIN_BYTES
        return large

    def calibrated_gb_s(self, direction: Direction | None = None) -> list[float]:
        """The bandwidth that pinned copies reached before the recording, by the copies that the calibration notes."""
        return [
            entry.size_bytes / entry.copy_ns
            for entry in self.trace.calibration.copies
            if entry.host_memory == "pinned" and entry.copy_ns
            if direction is None or entry.direction == direction.label
        ]

    @property
    def links(self) -> list[PinnedBandwidth]:
        """The links of the device, as far as the trace tells them."""
        devices = (device for device in self.trace.metadata.devices if device.number == self.key.device)
        return [link for link in map(pinned_bandwidth, devices) if link is not None]


@dataclass(frozen=True, eq=False)
class Bursts:
    """Sequences of copies: each from its first call to the end of its last copy, with its thread; all copies.

    ``issued_ns`` is when the last call of each returned, ``small`` whether its copies are small, ``sequence`` the
    sequence of each of the copies.
    """

    begin_ns: Int64
    issued_ns: Int64
    end_ns: Int64
    thread: Int64
    small: Bool
    copies: Int64
    sequence: Int64

    def take(self, mask: Bool) -> Bursts:
        """Some of the sequences, with their copies."""
        number = np.cumsum(mask) - 1
        inside = mask[self.sequence]
        columns = {name: getattr(self, name)[mask] for name in ("begin_ns", "issued_ns", "end_ns", "thread", "small")}
        return replace(self, **columns, copies=self.copies[inside], sequence=number[self.sequence[inside]])


def copy_sequences(context: DeviceContext) -> Bursts:
    """Find sequences of copy calls of one thread, one soon after the other, with no launch between.

    Their copies are small when their device time is less than a share of the sequence, and not more than the calls
    alone can take.
    """
    calls, copies = context.trace.api_calls, context.trace.copies
    kinds = (ApiKind.COPY, ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH)
    outermost = np.isin(calls.kind, kinds) & (calls.parent == NO_ID) & (calls.process == context.key.process)
    rows = np.flatnonzero(outermost)
    rows = rows[np.lexsort((calls.start_ns[rows], calls.thread[rows]))]
    copy = first_copy_of(context.trace)[rows]
    counts = (calls.kind[rows] == ApiKind.COPY) & _asynchronous(context, rows, copy)
    first = np.flatnonzero(_starts_sequence(context, rows, counts))
    number = np.diff(np.append(first, len(rows)))
    device_ns = np.add.reduceat(np.where(counts, np.append(copies.duration_ns, 0)[copy], 0), first)
    begin, issued = calls.start_ns[rows][first], np.maximum.reduceat(calls.end_ns[rows], first)
    end = np.maximum(np.maximum.reduceat(np.append(copies.end_ns, 0)[copy], first), issued)
    small = device_ns < _BURST_COPY_SHARE * (end - begin)
    small &= device_ns <= number * MOST_ENQUEUE_NS
    enough = counts[first] & (number >= _BURST_MIN_COPIES)
    every = Bursts(begin, issued, end, calls.thread[rows][first], small, copy, np.repeat(np.arange(len(first)), number))
    return every.take(enough)


def _asynchronous(context: DeviceContext, rows: Int64, copy: Int64) -> Bool:
    """Mask of calls that issued a copy of this device that the host did not wait for."""
    calls, copies = context.trace.api_calls, context.trace.copies
    down = np.append(copies.direction, Direction.UNKNOWN)[copy] == Direction.DTOH
    blocked = blocked_from_ns(context.trace.api_calls)[rows] < calls.end_ns[rows]
    synchronised = np.isin(copy, synchronised_copy(context.trace))
    here = np.append(context.key.rows(copies), False)[copy]
    result: Bool = (copy != NO_ID) & ~(down & (blocked | synchronised)) & here
    return result


def _starts_sequence(context: DeviceContext, rows: Int64, counts: Bool) -> Bool:
    """Mask of calls that start a new sequence: another thread, another kind of call, or a pause before it."""
    calls = context.trace.api_calls
    result = np.ones(len(rows), np.bool_)
    result[1:] = (counts[1:] != counts[:-1]) | (calls.thread[rows][1:] != calls.thread[rows][:-1])
    result[1:] |= calls.start_ns[rows][1:] - calls.end_ns[rows][:-1] > HOST_ACTIVE_NS
    return result


def unique(rows: Int64 | Int32) -> Int64:
    """Row numbers, each once, without `NO_ID`."""
    distinct = np.unique(rows).astype(np.int64)
    result: Int64 = distinct[distinct != NO_ID]
    return result
