"""Calls and streams that several changes are about: calls that block, runs of calls, and the work of each stream."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.measure.copies import host_kind
from overlapscope.measure.grouping import at, distinct_columns, first_from, rows_by_thread
from overlapscope.measure.host import BLOCKING_FACTOR, plain_enqueue_ns
from overlapscope.measure.places import named
from overlapscope.measure.waits import synchronised_copy
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind, Direction, MemoryKind
from overlapscope.model.trace import Trace

HOST_GAP_NS = 200_000
"""Host work between two launches that a CUDA graph would save, or between two copies that are sent as one, in ns.

Python between two calls takes 10 to 60 us under a profiler; what takes several times that is other work too.
"""

_VALUE_BYTES = 16  # of the largest number that .item() reads, a complex128


def scalar_reads(trace: Trace) -> Bool:
    """Copies to the host of a single value, as .item() and nonzero() make them; one per row of copies."""
    copies = trace.copies
    small = (copies.size_bytes > 0) & (copies.size_bytes <= _VALUE_BYTES)
    return small & np.isin(copies.direction, Direction.DTOH)


def synchronisations_after(graph: Graph, copies: Bool) -> Bool:
    """Which calls of a graph synchronise right after one of some copies."""
    return at(copies, synchronised_copy(graph.trace)[graph.calls.row], False)


def blocking_by_name(graph: Graph) -> Int64:
    """Copy calls that block by their name, from whatever memory they copy: ``cudaMemcpy`` and its like."""
    asynchronous = named(graph.trace.api_calls, re.compile("Async"))[graph.calls.row]
    return np.flatnonzero((graph.calls.kind == ApiKind.COPY) & ~asynchronous)


def enqueue_ns(graph: Graph) -> int:
    """The duration of an asynchronous pinned copy's call in this trace, in ns: the median, else a plain launch's.

    No longer than a call, or issuing one from Python, took when the recording was calibrated: under the profiler, if
    that is known, since it is in the trace's other calls too.
    """
    copies, calls = graph.trace.copies, graph.calls
    pinned = graph.call_of[copies.call[host_kind(copies) == MemoryKind.PINNED]]
    pinned = pinned[pinned != NO_ID]
    plain = plain_enqueue_ns(graph.trace.api_calls)
    if not len(pinned):
        return min(plain, _calibrated_call_ns(graph.trace) or plain)
    return min(int(np.median(calls.end_ns[pinned] - calls.start_ns[pinned])), round(plain * BLOCKING_FACTOR))


def _calibrated_call_ns(trace: Trace) -> int | None:
    issued = trace.calibration.issue_profiled, trace.calibration.issue_unprofiled
    known = [cost.call_ns for cost in issued if cost and cost.call_ns]
    known += [cost.copy_ns for cost in issued[::-1] if cost and cost.copy_ns]
    return next(iter(known), None)


def next_call(graph: Graph, process: Int64, thread: Int64, moment_ns: Int64) -> Int64:
    """For each moment on a thread the first call at or after it; `NO_ID` where there is none."""
    calls, result = graph.calls, np.full(len(moment_ns), NO_ID, np.int64)
    by_thread = rows_by_thread(calls.process, calls.thread)
    for place, asked in rows_by_thread(process, thread).items():
        rows = by_thread.get(place, asked[:0])
        result[asked] = first_from(rows, calls.start_ns[rows], moment_ns[asked])
    return result


def leaders(graph: Graph, members: Bool, beside: tuple[ApiKind, ...], place: Int64) -> Int64:
    """For each call of a run its first call; `NO_ID` for calls of none.

    A run is several ``members`` on one thread and of one ``place``, with only calls of the kinds ``beside`` between.
    """
    calls, index = graph.calls, np.arange(len(graph.calls))
    latest = np.maximum.accumulate(np.where(members, index, 0))
    free = members | np.isin(calls.kind, beside)
    begins = np.ones(len(calls), np.bool_)
    begins[1:] = ~free[1:] | ~free[:-1] | (calls.owner[1:] != calls.owner[:-1]) | (np.diff(place[latest]) != 0)
    run = np.cumsum(begins) - 1
    first, last = np.full(len(calls), len(calls), np.int64), np.full(len(calls), NO_ID, np.int64)
    np.minimum.at(first, run[members], index[members])
    np.maximum.at(last, run[members], index[members])
    inside = (first < last)[run] & free & (index >= first[run]) & (index <= last[run])
    return np.where(inside, first[run], NO_ID)


@dataclass(frozen=True, eq=False)
class Streams:
    """All work, stream by stream (``order``); the place of each op in that; and a number for each op's stream."""

    order: Int64
    place: Int64
    stream: Int64

    @classmethod
    def of(cls, graph: Graph) -> Streams:
        """The streams of a graph."""
        number = codes(np.stack([graph.work.process, graph.work.device, graph.work.stream]))
        order = np.argsort(number, kind="stable")
        return cls(order, np.argsort(order), number)

    @cached_property
    def first(self) -> Int64:
        """The first op of each stream."""
        return self.order[np.flatnonzero(np.diff(self.stream[self.order], prepend=-1))]


def codes(keys: Int64) -> Int64:
    """One number for each different column, in their order."""
    return distinct_columns(keys)[1]
