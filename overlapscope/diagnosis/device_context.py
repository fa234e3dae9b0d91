"""Everything that rules ask about one device within the window, computed once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.diagnosis.causes import LATE_HOST, Cause, IdleTime
from overlapscope.diagnosis.config import DiagnosisConfig
from overlapscope.measure.copies import CopyFacts
from overlapscope.measure.devices import Activity
from overlapscope.measure.host import blocked_from_ns
from overlapscope.measure.issue import first_copy_of, of_unknown_copy, synchronised_copy
from overlapscope.measure.spans import covered, intersect, union
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Bool, Int8, Int32, Int64
from overlapscope.model.enums import LINK, SYNC_CALLS, ApiKind, Direction, MemoryKind
from overlapscope.model.trace import Trace


@dataclass(frozen=True, eq=False)
class DeviceContext:
    """One device of a trace within a window, its lost stretches, and what rules want to know of them.

    Arrays called after a property of losses have one entry per lost stretch.
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

    @property
    def span_ns(self) -> int:
        """Time that counts: the range, or from the device's first work to its last."""
        return self.activity.span_ns

    @cached_property
    def nothing(self) -> Bool:
        """No stretch at all."""
        return np.zeros(len(self.idle), np.bool_)

    @cached_property
    def cause(self) -> Int8:
        """`Cause` of each stretch."""
        return self.idle.cause

    def of_cause(self, *causes: Cause) -> Bool:
        """Which stretches have one of these causes."""
        return np.isin(self.cause, causes)

    @cached_property
    def blocking_kind(self) -> Int8:
        """`ApiKind` of the call that took the host's lead; OTHER where there is none."""
        return np.append(self.trace.api_calls.kind, ApiKind.OTHER)[self.idle.blocking_call]

    @cached_property
    def synchronising(self) -> Bool:
        """Which stretches are laid to a synchronisation."""
        return np.isin(self.blocking_kind, SYNC_CALLS)

    @cached_property
    def copy(self) -> Int64:
        """Row of the copy concerned: waited for, of the root call, or the one that a root synchronisation follows."""
        synchronised = np.append(synchronised_copy(self.trace), NO_ID)[self.idle.blocking_call]
        return np.where(self.idle.copy == NO_ID, synchronised, self.idle.copy).astype(np.int64)

    @cached_property
    def direction(self) -> Int8:
        """`Direction` of that copy."""
        return np.append(self.trace.copies.direction, Direction.UNKNOWN)[self.copy]

    @cached_property
    def memory(self) -> Int8:
        """`MemoryKind` of its memory on the host."""
        return np.append(self.facts.host_kind, MemoryKind.UNKNOWN)[self.copy]

    @cached_property
    def read(self) -> Bool:
        """Which stretches are laid to a call that brought a small value to the host and mostly waited for it."""
        root = self.idle.blocking_call
        copies, calls = self.trace.copies, self.trace.api_calls
        held = np.append(calls.end_ns - blocked_from_ns(self.trace, self.config.dependencies.host), 0)[root]
        held = np.where(self.synchronising, np.append(calls.duration_ns, 0)[root], held)
        transfer = np.append(copies.duration_ns, 0)[self.copy]
        waited: Bool = (transfer < self.config.read_share * held) & (root != NO_ID)
        waited &= np.append(copies.size_bytes, NO_ID)[self.copy] <= self.config.read_most_bytes
        waited &= self.direction == Direction.DTOH
        return waited

    @cached_property
    def doubtful(self) -> Bool:
        """Which stretches hang on a copy of which the trace does not say enough.

        Its memory is of an unknown kind and its call held the host; or its call is in the trace and it is not, or the
        other way round; or where it went is not known.
        """
        held: Bool = (self.blocking_kind == ApiKind.COPY) & (self.memory == MemoryKind.UNKNOWN)
        held &= np.isin(self.direction, LINK) & ~self.read
        unknown = np.append(of_unknown_copy(self.trace), False)[self.idle.blocking_call]
        copies = self.trace.copies
        told = np.isin(copies.direction, (*LINK, Direction.DTOD)) & (copies.call != NO_ID)
        beside = self.activity.key.rows(copies) & ~told
        spans = union(copies.start_ns[beside], copies.end_ns[beside])
        mostly = 2 * covered(self.idle.start_ns, self.idle.end_ns, spans) > self.idle.duration_ns
        result: Bool = held | unknown | mostly
        return result

    @cached_property
    def burst(self) -> Bool:
        """Which stretches lie within a run of many small copies, issued by the thread that launches next."""
        found = self.bursts
        spans = union(found.begin_ns, found.end_ns)
        inside = covered(self.idle.start_ns, self.idle.end_ns, spans) * 2 > self.idle.duration_ns
        launching = np.append(self.trace.api_calls.thread, NO_ID)[self.idle.launch_call]
        return inside & np.isin(launching, [*np.unique(found.thread).tolist(), NO_ID])

    @cached_property
    def bursts(self) -> Bursts:
        """Runs of many small copies."""
        return bursts(self)

    @cached_property
    def copying_ns(self) -> Int64:
        """For how much of each stretch a copy over a link was running."""
        copies = self.trace.copies
        link = self.activity.key.rows(copies) & np.isin(copies.direction, LINK)
        spans = union(copies.start_ns[link], copies.end_ns[link])
        return covered(self.idle.start_ns, self.idle.end_ns, spans)

    @cached_property
    def uncovered_kernel_ns(self) -> int:
        """Kernel time beside which no copy ran: what copies could still hide behind."""
        return self.activity.kernels.total_ns - self.activity.overlap.total_ns

    @cached_property
    def beginning(self) -> Bool:
        """Stretches before the first kernel in which the host gets to it, up to what that usually takes."""
        kernels = self.activity.kernels
        early = self.of_cause(*LATE_HOST, Cause.LAUNCH_LATENCY) & (self.idle.blocking_call == NO_ID)
        early &= self.idle.end_ns <= (kernels.start_ns[0] if len(kernels) else 0)
        spent = np.cumsum(np.where(early, self.idle.duration_ns, 0))
        usual: Bool = early & (spent <= self.config.start_ns)
        return usual

    def idle_ns(self, rows: Int64) -> int:
        """Device time lost in some stretches."""
        return int(self.idle.duration_ns[rows].sum())

    def copies_of(self, rows: Int64) -> Int64:
        """Copies concerned in some stretches, each once."""
        return unique(self.copy[rows])

    def blocking_calls_of(self, rows: Int64) -> Int64:
        """Calls that some stretches are laid to, each once."""
        return unique(self.idle.blocking_call[rows])

    def blocked_ns(self, calls: Int64) -> int:
        """For how long at least one of some calls held its thread within the window."""
        begin = blocked_from_ns(self.trace, self.config.dependencies.host)[calls]
        held = union(begin, self.trace.api_calls.end_ns[calls])
        return intersect(held, self.window.of(self.activity.key.process)).total_ns

    def size_bytes(self, copies: Int64) -> int:
        """What some copies moved, as far as sizes are known."""
        sizes = self.trace.copies.size_bytes[copies]
        return int(sizes[sizes != NO_ID].sum())


@dataclass(frozen=True, eq=False)
class Bursts:
    """Runs of small copies: from the first call to the end of the last copy, by which thread, and all their copies."""

    begin_ns: Int64
    end_ns: Int64
    thread: Int64
    copies: Int64


def bursts(context: DeviceContext) -> Bursts:
    """Find runs of many small copies.

    A run is a row of copy calls of one thread, one soon after the other, with no launch between. Its copies are small
    when the device carries them out in less than a share of the time, and in no more than a call can take.
    """
    calls, copies, config = context.trace.api_calls, context.trace.copies, context.config
    kinds = (ApiKind.COPY, ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH)
    mine = np.isin(calls.kind, kinds) & (calls.parent == NO_ID) & (calls.process == context.activity.key.process)
    rows = np.flatnonzero(mine)
    rows = rows[np.lexsort((calls.start_ns[rows], calls.thread[rows]))]
    copy = first_copy_of(context.trace)[rows]
    counts = (calls.kind[rows] == ApiKind.COPY) & _sent(context, rows, copy)
    first = np.flatnonzero(_begins(context, rows, counts))
    if not len(first):
        nothing = np.empty(0, np.int64)
        return Bursts(nothing, nothing, nothing, nothing)
    number = np.diff(np.append(first, len(rows)))
    carried = np.add.reduceat(np.where(counts, np.append(copies.duration_ns, 0)[copy], 0), first)
    begin = calls.start_ns[rows][first]
    end = np.maximum.reduceat(np.maximum(np.append(copies.end_ns, 0)[copy], calls.end_ns[rows]), first)
    small = (carried < config.burst_share * (end - begin)) & (
        carried <= number * config.dependencies.host.most_enqueue_ns
    )
    found = counts[first] & (number >= config.burst_least) & small
    members = copy[np.repeat(found, number)]
    return Bursts(begin[found], end[found], calls.thread[rows][first][found], members)


def _sent(context: DeviceContext, rows: Int64, copy: Int64) -> Bool:
    """Which calls issued a copy of this device that is no read of a value."""
    calls, copies = context.trace.api_calls, context.trace.copies
    down = np.append(copies.direction, Direction.UNKNOWN)[copy] == Direction.DTOH
    held = blocked_from_ns(context.trace, context.config.dependencies.host)[rows] < calls.end_ns[rows]
    waited = np.isin(copy, synchronised_copy(context.trace))
    sent: Bool = (copy != NO_ID) & ~(down & (held | waited)) & np.append(context.activity.key.rows(copies), False)[copy]
    return sent


def _begins(context: DeviceContext, rows: Int64, counts: Bool) -> Bool:
    """Where a new run may begin: at another thread or another kind of call, or after a pause."""
    calls = context.trace.api_calls
    changes = np.ones(len(rows), np.bool_)
    changes[1:] = (counts[1:] != counts[:-1]) | (calls.thread[rows][1:] != calls.thread[rows][:-1])
    changes[1:] |= calls.start_ns[rows][1:] - calls.end_ns[rows][:-1] > context.config.went_on_ns
    return changes


def unique(rows: Int64 | Int32) -> Int64:
    """Row numbers, each once, without the unknown."""
    found = np.unique(rows).astype(np.int64)
    result: Int64 = found[found != NO_ID]
    return result
