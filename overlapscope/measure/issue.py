"""Match calls and copies: which call issued a copy, and which synchronisation follows it."""

from __future__ import annotations

import numpy as np

from overlapscope.model.columns import NO_ID, Bool, Int64
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
    other = (stream[:-1] != NO_ID) & (stream[:-1] != np.append(trace.copies.stream, NO_ID)[result[:-1]])
    other &= calls.kind == ApiKind.STREAM_SYNC
    result[:-1][other] = NO_ID
    return result[:-1]


def copies_synchronised(trace: Trace) -> tuple[Int64, Int64]:
    """Pairs of a copy call and the synchronising call right after it on its thread, as rows of api_calls."""
    calls = trace.api_calls
    between = (ApiKind.OTHER, ApiKind.QUERY, ApiKind.EVENT_RECORD, ApiKind.WAIT_EVENT)
    rows = np.flatnonzero((calls.parent == NO_ID) & ~np.isin(calls.kind, between))
    rows = rows[np.lexsort((calls.start_ns[rows], calls.thread[rows], calls.process[rows]))]
    before, after = rows[:-1], rows[1:]
    paired = (calls.thread[before] == calls.thread[after]) & (calls.process[before] == calls.process[after])
    paired &= np.isin(calls.kind[after], SYNC_CALLS) & (calls.kind[before] == ApiKind.COPY)
    return before[paired], after[paired]


def of_unknown_copy(trace: Trace) -> Bool:
    """Which copy calls have no copy in the trace, and which synchronisations follow such a call."""
    calls = trace.api_calls
    unknown = (calls.kind == ApiKind.COPY) & (first_copy_of(trace) == NO_ID)
    result: Bool = unknown.copy()
    before, after = copies_synchronised(trace)
    result[after] = unknown[before]
    return result
