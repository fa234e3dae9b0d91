"""Waits: which copy a call issued or waited for, and stream waits of which the trace names no event."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.measure.grouping import at, distinct_columns, neighbours
from overlapscope.model.columns import NO_ID, Bool, Int64, stacked
from overlapscope.model.enums import SYNC_CALLS, ApiKind
from overlapscope.model.trace import Trace


def first_copy_of(trace: Trace) -> Int64:
    """For each call, the row of its first copy; `NO_ID` for calls that issued none."""
    result = np.full(len(trace.api_calls) + 1, NO_ID, np.int64)
    rows = np.arange(len(trace.copies))[::-1]
    result[trace.copies.call[rows]] = rows
    result[-1] = NO_ID  # where copies without a call were written to
    return result[:-1]


def synchronised_copy(trace: Trace) -> Int64:
    """For each synchronising call, the copy that its thread issued right before; `NO_ID` where there is none.

    Calls that record or query an event, make a stream wait, or query something else may lie between. A
    synchronisation of another stream than the copy's does not count.
    """
    calls = trace.api_calls
    result = np.full(len(calls) + 1, NO_ID, np.int64)
    copy = first_copy_of(trace)
    before, after = copies_synchronised(trace)
    result[after] = copy[before]
    stream = np.full(len(calls) + 1, NO_ID, np.int64)
    stream[trace.syncs.call] = trace.syncs.stream
    other = (stream[:-1] != NO_ID) & (stream[:-1] != at(trace.copies.stream, result[:-1]))
    other &= calls.kind == ApiKind.STREAM_SYNC
    result[:-1][other] = NO_ID
    return result[:-1]


def copies_synchronised(trace: Trace) -> tuple[Int64, Int64]:
    """Pairs of a copy call and the synchronising call right after it on its thread, as rows of api_calls."""
    calls = trace.api_calls
    between = (ApiKind.OTHER, ApiKind.QUERY, ApiKind.EVENT_RECORD, ApiKind.WAIT_EVENT)
    rows = np.flatnonzero((calls.parent == NO_ID) & ~np.isin(calls.kind, between))
    rows = rows[np.lexsort((calls.start_ns[rows], calls.thread[rows], calls.process[rows]))]
    before, after = neighbours(rows, calls.process, calls.thread)
    paired = np.isin(calls.kind[after], SYNC_CALLS) & (calls.kind[before] == ApiKind.COPY)
    return before[paired], after[paired]


def of_unknown_copy(trace: Trace) -> Bool:
    """Which copy calls have no copy in the trace, and which synchronisations follow such a call."""
    calls = trace.api_calls
    unknown = (calls.kind == ApiKind.COPY) & (first_copy_of(trace) == NO_ID)
    result: Bool = unknown.copy()
    before, after = copies_synchronised(trace)
    result[after] = unknown[before]
    return result


@dataclass(frozen=True)
class StreamWaits:
    """The number of calls that make a stream wait for an event, by what is known of the stream that recorded it.

    ``recorded``: the trace has it. ``inferred``: it follows from the order and the times of calls and work. ``open``:
    it may have been any. ``before``: the event is from before the trace. ``unseen``: there is no record of the wait,
    and no sign that it was for another stream.
    """

    calls: int
    recorded: int
    inferred: int
    open: int
    before: int
    unseen: int


def stream_waits(trace: Trace) -> StreamWaits:
    """Count the calls that make a stream wait, by what is known of the stream that recorded the event."""
    waits, unknown = trace.event_waits, open_waits(trace)
    known = waits.source_stream != NO_ID
    called = (trace.api_calls.kind == ApiKind.WAIT_EVENT) & (trace.api_calls.parent == NO_ID)
    seen = np.zeros(len(called) + 1, np.bool_)
    seen[waits.call] = True
    return StreamWaits(
        calls=int(called.sum()) + int((waits.call == NO_ID).sum()),
        recorded=int((known & ~waits.inferred).sum()),
        inferred=int((known & waits.inferred).sum()),
        open=int(unknown.sum()),
        before=int((~known & ~unknown).sum()),
        unseen=int((called & ~seen[:-1]).sum()),
    )


def open_waits(trace: Trace) -> Bool:
    """Which rows of ``event_waits`` may be for any stream.

    A wait for an event that is known to have been recorded before the trace began is none of them.
    """
    waits = trace.event_waits
    recorded_before = (waits.record_call == NO_ID) & (waits.inferred | (len(trace.event_records) > 0))
    result: Bool = (waits.source_stream == NO_ID) & ~recorded_before
    return result


def streams_used(trace: Trace) -> int:
    """The number of streams with work, of all processes and devices."""
    return int(distinct_columns(np.stack(stacked(trace.device_work, "process", "device", "stream")))[0].shape[1])
