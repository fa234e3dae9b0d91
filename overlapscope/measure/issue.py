"""Which call belongs to which copy."""

from __future__ import annotations

import numpy as np

from overlapscope.model.columns import NO_ID, Int64
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

    Calls that record or query an event, or ask for something, may lie between. A synchronisation of another
    stream than the copy's does not wait for it.
    """
    calls = trace.api_calls
    result = np.full(len(calls) + 1, NO_ID, np.int64)
    telling = np.isin(calls.kind, (ApiKind.OTHER, ApiKind.QUERY, ApiKind.EVENT_RECORD))
    rows = np.flatnonzero((calls.parent == NO_ID) & ~telling)
    rows = rows[np.lexsort((calls.start_ns[rows], calls.thread[rows], calls.process[rows]))]
    before, after = rows[:-1], rows[1:]
    same = (calls.thread[before] == calls.thread[after]) & (calls.process[before] == calls.process[after])
    copy = first_copy_of(trace)
    paired = same & np.isin(calls.kind[after], SYNC_CALLS) & (calls.kind[before] == ApiKind.COPY)
    result[after[paired]] = copy[before[paired]]
    stream = np.full(len(calls) + 1, NO_ID, np.int64)
    stream[trace.syncs.call] = trace.syncs.stream
    other = (stream[:-1] != NO_ID) & (stream[:-1] != np.append(trace.copies.stream, NO_ID)[result[:-1]])
    other &= calls.kind == ApiKind.STREAM_SYNC
    result[:-1][other] = NO_ID
    return result[:-1]
