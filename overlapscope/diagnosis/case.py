"""Everything that rules ask about one device within the window, computed once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from overlapscope.diagnosis.config import DiagnosisConfig
from overlapscope.measure.copies import CopyFacts
from overlapscope.measure.devices import Activity
from overlapscope.measure.host import held_from_ns
from overlapscope.measure.issue import first_copy_of, synchronised_copy
from overlapscope.measure.losses import Cause, Losses
from overlapscope.measure.queues import LINK
from overlapscope.measure.spans import covered, union
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Bool, Int8, Int32, Int64
from overlapscope.model.enums import SYNC_CALLS, ApiKind, Direction, MemoryKind
from overlapscope.model.trace import Trace

LATE = (Cause.ABSENT, Cause.WORKING, Cause.CALLING, Cause.IN_COPY, Cause.IN_SYNC, Cause.ALLOCATING)
"""Causes in which the launching thread was late."""
BEHIND = (Cause.BEHIND_STREAM, Cause.BEHIND_EVENT, Cause.BEHIND_DEFAULT_STREAM, Cause.BEHIND_ENGINE)
"""Causes in which issued work waited for a copy."""


@dataclass(frozen=True, eq=False)
class Case:
    """One device of a trace within a window, its lost stretches, and what rules want to know of them.

    Arrays called after a property of losses have one entry per lost stretch.
    """

    trace: Trace
    window: Window
    activity: Activity
    losses: Losses
    facts: CopyFacts
    config: DiagnosisConfig

    @property
    def span_ns(self) -> int:
        """Time that counts: the range, or from the device's first work to its last."""
        return self.activity.span_ns

    @cached_property
    def nothing(self) -> Bool:
        """No stretch at all."""
        return np.zeros(len(self.losses), np.bool_)

    @cached_property
    def cause(self) -> Int8:
        """`Cause` of each stretch."""
        return self.losses.cause

    def of_cause(self, *causes: Cause) -> Bool:
        """Which stretches have one of these causes."""
        return np.isin(self.cause, causes)

    @cached_property
    def root_kind(self) -> Int8:
        """`ApiKind` of the call that took the host's lead; OTHER where there is none."""
        return np.append(self.trace.api_calls.kind, ApiKind.OTHER)[self.losses.root]

    @cached_property
    def synchronising(self) -> Bool:
        """Which stretches are laid to a synchronisation."""
        return np.isin(self.root_kind, SYNC_CALLS)

    @cached_property
    def copy(self) -> Int64:
        """Row of the copy concerned: waited for, of the root call, or the one that a root synchronisation follows."""
        synchronised = np.append(synchronised_copy(self.trace), NO_ID)[self.losses.root]
        return np.where(self.losses.copy == NO_ID, synchronised, self.losses.copy).astype(np.int64)

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
        """Which stretches are laid to a call that brought a value to the host and mostly waited for it."""
        root = self.losses.root
        copies, calls = self.trace.copies, self.trace.api_calls
        held = np.append(calls.end_ns - held_from_ns(self.trace, self.config.losses.host), 0)[root]
        held = np.where(self.synchronising, np.append(calls.duration_ns, 0)[root], held)
        transfer = np.append(copies.duration_ns, 0)[self.copy]
        waited: Bool = (transfer < self.config.read_share * held) & (root != NO_ID)
        waited &= self.direction == Direction.DTOH
        return waited

    @cached_property
    def of_unknown_memory(self) -> Bool:
        """Which stretches are laid to a copy call that held the host, with memory of an unknown kind."""
        held: Bool = (self.root_kind == ApiKind.COPY) & (self.memory == MemoryKind.UNKNOWN)
        held &= np.isin(self.direction, LINK) & ~self.read
        return held

    @cached_property
    def burst(self) -> Bool:
        """Which stretches lie within a run of many small copies."""
        begin, end = bursts(self)
        spans = union(begin, end)
        return covered(self.losses.start_ns, self.losses.end_ns, spans) * 2 > self.losses.duration_ns

    @cached_property
    def copying_ns(self) -> Int64:
        """For how much of each stretch a copy over a link was running."""
        copies = self.trace.copies
        link = self.activity.key.rows(copies) & np.isin(copies.direction, LINK)
        spans = union(copies.start_ns[link], copies.end_ns[link])
        return covered(self.losses.start_ns, self.losses.end_ns, spans)

    @cached_property
    def uncovered_kernel_ns(self) -> int:
        """Kernel time beside which no copy ran: what copies could still hide behind."""
        return self.activity.kernels.total_ns - self.activity.overlap.total_ns

    @cached_property
    def beginning(self) -> Bool:
        """Stretches before the first kernel in which the host gets to it, up to what that usually takes."""
        kernels = self.activity.kernels
        early = self.of_cause(*LATE, Cause.LAUNCHING) & (self.losses.root == NO_ID)
        early &= self.losses.end_ns <= (kernels.start_ns[0] if len(kernels) else 0)
        spent = np.cumsum(np.where(early, self.losses.duration_ns, 0))
        usual: Bool = early & (spent <= self.config.start_ns)
        return usual

    def lost_ns(self, rows: Int64) -> int:
        """Device time lost in some stretches."""
        return int(self.losses.duration_ns[rows].sum())

    def copies_of(self, rows: Int64) -> Int64:
        """Copies concerned in some stretches, each once."""
        return unique(self.copy[rows])

    def roots_of(self, rows: Int64) -> Int64:
        """Calls that some stretches are laid to, each once."""
        return unique(self.losses.root[rows])

    def held_ns(self, calls: Int64) -> int:
        """How long some calls held their threads within the window."""
        table = self.trace.api_calls
        begin = held_from_ns(self.trace, self.config.losses.host)[calls]
        return int(self.window.covers(table.process[calls], begin, table.end_ns[calls]).sum())

    def size_bytes(self, copies: Int64) -> int:
        """What some copies moved, as far as sizes are known."""
        sizes = self.trace.copies.size_bytes[copies]
        return int(sizes[sizes != NO_ID].sum())


def bursts(case: Case) -> tuple[Int64, Int64]:
    """Begin and end of runs of many small copies: from the first call to the end of the last copy.

    A run is a row of copy calls of one thread with no launch between. Its copies are small when the device
    carries them out in less than a share of the time, and in no more than a call can take.
    """
    calls, copies = case.trace.api_calls, case.trace.copies
    kinds = (ApiKind.COPY, ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH)
    mine = np.isin(calls.kind, kinds) & (calls.parent == NO_ID) & (calls.process == case.activity.key.process)
    rows = np.flatnonzero(mine)
    rows = rows[np.lexsort((calls.start_ns[rows], calls.thread[rows]))]
    copy = first_copy_of(case.trace)[rows]
    down = np.append(copies.direction, Direction.UNKNOWN)[copy] == Direction.DTOH
    held = held_from_ns(case.trace, case.config.losses.host)[rows] < calls.end_ns[rows]
    counts = (copy != NO_ID) & (calls.kind[rows] == ApiKind.COPY) & ~(down & held)
    counts &= np.append(case.activity.key.rows(copies), False)[copy]
    changes = np.ones(len(rows), np.bool_)
    changes[1:] = (counts[1:] != counts[:-1]) | (calls.thread[rows][1:] != calls.thread[rows][:-1])
    first = np.flatnonzero(changes)
    if not len(first):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    number = np.diff(np.append(first, len(rows)))
    carried = np.add.reduceat(np.where(counts, np.append(copies.duration_ns, 0)[copy], 0), first)
    begin = calls.start_ns[rows][first]
    end = np.maximum.reduceat(np.maximum(np.append(copies.end_ns, 0)[copy], calls.end_ns[rows]), first)
    many = counts[first] & (number >= case.config.burst_least)
    short = carried <= number * case.config.losses.host.most_enqueue_ns
    small = (carried < case.config.burst_share * (end - begin)) & short
    return begin[many & small], end[many & small]


def unique(rows: Int64 | Int32) -> Int64:
    """Row numbers, each once, without the unknown."""
    found = np.unique(rows).astype(np.int64)
    result: Int64 = found[found != NO_ID]
    return result
