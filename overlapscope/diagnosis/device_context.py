"""The facts of one device that rules ask for: idle intervals and their causes, computed once per device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.diagnosis.causes import HOST_CAUSES, Cause, IdleTime
from overlapscope.diagnosis.config import DiagnosisConfig
from overlapscope.diagnosis.lateness import lateness
from overlapscope.measure.copies import CopyFacts
from overlapscope.measure.devices import Activity
from overlapscope.measure.host import blocked_from_ns
from overlapscope.measure.issue import first_copy_of, of_unknown_copy, synchronised_copy
from overlapscope.measure.pytorch import uses_pytorch
from overlapscope.measure.spans import covered, intersect, union
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Bool, Int8, Int32, Int64
from overlapscope.model.enums import LINK, SYNC_CALLS, ApiKind, Direction, MemoryKind
from overlapscope.model.trace import Trace
from overlapscope.ordering.order import Order


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
    config: DiagnosisConfig

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
        """What is complete before what."""
        return Order(self.graph)

    @property
    def span_ns(self) -> int:
        """Length of the analysed time: the range, or from the device's first work to its last."""
        return self.activity.span_ns

    @cached_property
    def none(self) -> Bool:
        """A mask that selects no idle interval."""
        return np.zeros(len(self.idle), np.bool_)

    @cached_property
    def cause(self) -> Int8:
        """`Cause` of each idle interval."""
        return self.idle.cause

    def has_cause(self, *causes: Cause) -> Bool:
        """Which idle intervals have one of these causes."""
        return np.isin(self.cause, causes)

    @cached_property
    def blocking_kind(self) -> Int8:
        """`ApiKind` of the call that blocked the launching thread; OTHER where there is none."""
        return np.append(self.trace.api_calls.kind, ApiKind.OTHER)[self.idle.blocking_call]

    def allocating(self, *kinds: ApiKind) -> Bool:
        """Which idle intervals lie in, or are attributed to, calls of these kinds that allocate or free memory."""
        kind = np.append(self.trace.api_calls.kind, ApiKind.OTHER)
        return self.has_cause(Cause.ALLOCATION) & np.isin(kind[self.idle.call], kinds) | np.isin(
            self.blocking_kind, kinds
        )

    @cached_property
    def from_sync(self) -> Bool:
        """Which idle intervals are attributed to a synchronisation."""
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
        """Which idle intervals are attributed to a small D2H copy whose call mostly waited for queued work."""
        call = self.idle.blocking_call
        copies, calls = self.trace.copies, self.trace.api_calls
        blocked = np.append(calls.end_ns - blocked_from_ns(self.trace, self.config.dependencies.host), 0)[call]
        blocked = np.where(self.from_sync, np.append(calls.duration_ns, 0)[call], blocked)
        transfer = np.append(copies.duration_ns, 0)[self.copy]
        waited: Bool = (transfer < self.config.read_transfer_share * blocked) & (call != NO_ID)
        waited &= np.append(copies.size_bytes, NO_ID)[self.copy] <= self.config.read_max_bytes
        waited &= self.direction == Direction.DTOH
        return waited

    @cached_property
    def insufficient_data(self) -> Bool:
        """Which idle intervals depend on a copy that the trace does not describe well enough.

        Its memory kind is unknown and its call blocked the host; or only one of the copy and its call is in the trace;
        or its direction is unknown.
        """
        unknown_memory: Bool = (self.blocking_kind == ApiKind.COPY) & (self.memory == MemoryKind.UNKNOWN)
        unknown_memory &= np.isin(self.direction, LINK) & ~self.scalar_read
        missing_copy = np.append(of_unknown_copy(self.trace), False)[self.idle.blocking_call]
        copies = self.trace.copies
        described = np.isin(copies.direction, (*LINK, Direction.DTOD)) & (copies.call != NO_ID)
        others = self.activity.key.rows(copies) & ~described
        spans = union(copies.start_ns[others], copies.end_ns[others])
        mostly = 2 * covered(self.idle.start_ns, self.idle.end_ns, spans) > self.idle.duration_ns
        result: Bool = unknown_memory | missing_copy | mostly
        return result

    @cached_property
    def in_burst(self) -> Bool:
        """Which idle intervals lie within a burst of small copies issued by the thread that launches next."""
        return self.within(self.bursts, self.bursts.end_ns)

    def within(self, bursts: Bursts, until_ns: Int64) -> Bool:
        """Which idle intervals lie mostly between the begin of bursts, of the thread that launches next, and a time."""
        spans = union(bursts.begin_ns, until_ns)
        inside = covered(self.idle.start_ns, self.idle.end_ns, spans) * 2 > self.idle.duration_ns
        launching = np.append(self.trace.api_calls.thread, NO_ID)[self.idle.launch_call]
        return inside & np.isin(launching, [*np.unique(bursts.thread).tolist(), NO_ID])

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
        link = self.activity.key.rows(copies) & np.isin(copies.direction, LINK)
        spans = union(copies.start_ns[link], copies.end_ns[link])
        return covered(self.idle.start_ns, self.idle.end_ns, spans)

    @cached_property
    def kernel_only_ns(self) -> int:
        """Kernel time with no concurrent copy: the time that copies could still overlap."""
        return self.activity.kernels.total_ns - self.activity.overlap.total_ns

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
        usual: Bool = early & (spent <= self.config.startup_ns)
        return usual

    def idle_ns(self, rows: Int64) -> int:
        """Total length of some idle intervals."""
        return int(self.idle.duration_ns[rows].sum())

    def copies_of(self, rows: Int64) -> Int64:
        """Copies concerned in some idle intervals, each once."""
        return unique(self.copy[rows])

    def blocking_calls_of(self, rows: Int64) -> Int64:
        """Calls that some idle intervals are attributed to, each once."""
        return unique(self.idle.blocking_call[rows])

    def blocked_ns(self, calls: Int64) -> int:
        """Time within the window in which at least one of some calls blocked its thread."""
        begin = blocked_from_ns(self.trace, self.config.dependencies.host)[calls]
        blocked = union(begin, self.trace.api_calls.end_ns[calls])
        return intersect(blocked, self.window.of(self.activity.key.process)).total_ns

    def size_bytes(self, copies: Int64) -> int:
        """Total size of some copies, as far as sizes are known."""
        sizes = self.trace.copies.size_bytes[copies]
        return int(sizes[sizes != NO_ID].sum())


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

    def take(self, some: Bool) -> Bursts:
        """Some of the sequences, with their copies."""
        number = np.cumsum(some) - 1
        inside = some[self.sequence]
        return Bursts(
            begin_ns=self.begin_ns[some],
            issued_ns=self.issued_ns[some],
            end_ns=self.end_ns[some],
            thread=self.thread[some],
            small=self.small[some],
            copies=self.copies[inside],
            sequence=number[self.sequence[inside]],
        )


def copy_sequences(context: DeviceContext) -> Bursts:
    """Find sequences of copy calls of one thread, one soon after the other, with no launch between.

    Their copies are small when their device time is less than a share of the sequence, and not more than the calls
    alone can take.
    """
    calls, copies, config = context.trace.api_calls, context.trace.copies, context.config
    kinds = (ApiKind.COPY, ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH)
    mine = np.isin(calls.kind, kinds) & (calls.parent == NO_ID) & (calls.process == context.activity.key.process)
    rows = np.flatnonzero(mine)
    rows = rows[np.lexsort((calls.start_ns[rows], calls.thread[rows]))]
    copy = first_copy_of(context.trace)[rows]
    counts = (calls.kind[rows] == ApiKind.COPY) & _asynchronous(context, rows, copy)
    first = np.flatnonzero(_starts_sequence(context, rows, counts))
    if not len(first):
        nothing = np.empty(0, np.int64)
        return Bursts(nothing, nothing, nothing, nothing, np.empty(0, np.bool_), nothing, nothing)
    number = np.diff(np.append(first, len(rows)))
    device_ns = np.add.reduceat(np.where(counts, np.append(copies.duration_ns, 0)[copy], 0), first)
    begin, issued = calls.start_ns[rows][first], np.maximum.reduceat(calls.end_ns[rows], first)
    end = np.maximum(np.maximum.reduceat(np.append(copies.end_ns, 0)[copy], first), issued)
    small = device_ns < config.burst_copy_share * (end - begin)
    small &= device_ns <= number * config.dependencies.host.most_enqueue_ns
    enough = counts[first] & (number >= config.burst_min_copies)
    every = Bursts(begin, issued, end, calls.thread[rows][first], small, copy, np.repeat(np.arange(len(first)), number))
    return every.take(enough)


def _asynchronous(context: DeviceContext, rows: Int64, copy: Int64) -> Bool:
    """Which calls issued a copy of this device that the host did not wait for."""
    calls, copies = context.trace.api_calls, context.trace.copies
    down = np.append(copies.direction, Direction.UNKNOWN)[copy] == Direction.DTOH
    blocked = blocked_from_ns(context.trace, context.config.dependencies.host)[rows] < calls.end_ns[rows]
    synchronised = np.isin(copy, synchronised_copy(context.trace))
    here = np.append(context.activity.key.rows(copies), False)[copy]
    result: Bool = (copy != NO_ID) & ~(down & (blocked | synchronised)) & here
    return result


def _starts_sequence(context: DeviceContext, rows: Int64, counts: Bool) -> Bool:
    """Which calls start a new sequence: another thread, another kind of call, or a pause before it."""
    calls = context.trace.api_calls
    result = np.ones(len(rows), np.bool_)
    result[1:] = (counts[1:] != counts[:-1]) | (calls.thread[rows][1:] != calls.thread[rows][:-1])
    result[1:] |= calls.start_ns[rows][1:] - calls.end_ns[rows][:-1] > context.config.host_active_ns
    return result


def unique(rows: Int64 | Int32) -> Int64:
    """Row numbers, each once, without `NO_ID`."""
    found = np.unique(rows).astype(np.int64)
    result: Int64 = found[found != NO_ID]
    return result
