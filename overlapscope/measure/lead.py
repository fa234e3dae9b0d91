"""Which call cost a thread its lead over the device.

A host that runs ahead of the device hides its own work: the device has something queued. A call that holds the
thread takes that lead away, and the launches after it come late although the host, at the moment of lateness, is only
doing its usual work. Without the call all that follows would have come earlier by the time it held, so late time
after it is laid to it, newest call first, until that time is used up; what remains late is the host's own.

A call that waited for the device leaves no lead, whatever was before it: the time that a pageable copy or an allocation
held before it is out of account then. Waits before it stay in account: they are gone only if all of them are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from overlapscope.measure.host import DEFAULT, HostConfig, blocked_from_ns
from overlapscope.measure.issue import first_copy_of
from overlapscope.measure.threads import ALLOCATIONS, Doing, Segments
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import SYNC_CALLS, ApiKind, Direction
from overlapscope.model.trace import Trace

_DIRECT = (Doing.IN_COPY, Doing.IN_SYNC, Doing.ALLOCATING)
_Part = tuple[int, int, int, int]  # index of the segment, start, end, row of the call


def lost_lead(
    trace: Trace, window: Window, late: Segments, thread: Int64, config: HostConfig = DEFAULT
) -> tuple[Int64, Segments, Int64]:
    """Find for each late stretch the call that cost its thread the lead.

    Args:
        trace: the trace.
        window: only calls that reach into it are held to account.
        late: what the launching thread was doing while the device waited, in any order.
        thread: for each stretch, a call of the thread concerned.
        config: what counts as held.

    Returns:
        Indices into ``late``, parts of those stretches (a stretch is cut where the time that a call held is used
        up), and for each part the row of the call, `NO_ID` where there is none.
    """
    parts: list[_Part] = []
    calls = trace.api_calls
    held_from = blocked_from_ns(trace, config)
    counts = window.touches(calls.process, calls.start_ns, calls.end_ns)
    owner = np.stack([calls.process[thread], calls.thread[thread]])
    for process, number in sorted(set(zip(*owner.tolist(), strict=True))):
        mine = np.flatnonzero((owner[0] == process) & (owner[1] == number))
        on_thread = (calls.process == process) & (calls.thread == number) & (calls.parent == NO_ID)
        held = counts & _holds(trace, held_from)
        waited = held & (calls.process == process) & _while_silent(trace, on_thread)
        holds = np.flatnonzero((on_thread & held) | waited | _foreign(calls.end_ns, late, mine))
        parts.extend(_matched(trace, late, mine, holds, held_from))
    columns = np.array(parts, np.int64).reshape(-1, 4).T
    which, start, end, root = columns
    return which, Segments(start, end, late.doing[which], late.call[which]), root


def _holds(trace: Trace, held_from: Int64) -> Bool:
    """Calls that hold their thread and could be done without: copies, synchronisations, allocations."""
    calls = trace.api_calls
    return (held_from < calls.end_ns) & np.isin(calls.kind, (ApiKind.COPY, *SYNC_CALLS, *ALLOCATIONS))


def _while_silent(trace: Trace, on_thread: Bool) -> Bool:
    """Calls of others during which a thread made none, between two of its own: it may have waited for them."""
    calls = trace.api_calls
    rows = np.flatnonzero(on_thread)
    begun = np.searchsorted(calls.start_ns[rows], calls.end_ns)
    ended = np.searchsorted(np.maximum.accumulate(calls.end_ns[rows]), calls.start_ns, "right")
    silent: Bool = (begun == ended) & (begun < len(rows)) & ~on_thread & (calls.parent == NO_ID)
    return silent


def _foreign(like: Int64, late: Segments, mine: Int64) -> Bool:
    """Copy calls of other threads under which this thread's calls were held."""
    result = np.zeros(len(like), np.bool_)
    result[late.call[mine][late.doing[mine] == Doing.IN_COPY]] = True
    return result


def _matched(trace: Trace, late: Segments, mine: Int64, holds: Int64, held_from: Int64) -> Iterator[_Part]:
    """Go through a thread's holding calls and late stretches in time: calls give credit, stretches use it up."""
    ends = trace.api_calls.end_ns[holds]
    left = (ends - held_from[holds] - _spent_inside(trace, late, mine)[holds]).tolist()
    waits = _waits_for_device(trace, holds).tolist()
    columns = (late.start_ns[mine], late.end_ns[mine], late.call[mine], _direct(late, mine))
    starts, stops, calls, direct = (column.tolist() for column in columns)
    indices, rows = mine.tolist(), holds.tolist()
    credit: list[list[int]] = []  # [row of the call, ns left, whether it waited]
    # A call that ends where a stretch begins is before it.
    for event in np.argsort(np.concatenate([ends, late.start_ns[mine]]), kind="stable").tolist():
        if event < len(rows):
            if waits[event]:
                credit = [entry for entry in credit if entry[2]]
            credit.append([rows[event], left[event], waits[event]])
            continue
        piece = event - len(rows)
        if direct[piece]:
            yield indices[piece], starts[piece], stops[piece], calls[piece]
        else:
            yield from _paid(indices[piece], starts[piece], stops[piece], credit)


def _spent_inside(trace: Trace, late: Segments, mine: Int64) -> Int64:
    """For each call, how long the device waited while the thread was inside it."""
    direct = mine[_direct(late, mine)]
    spent = np.zeros(len(trace.api_calls), np.int64)
    np.add.at(spent, late.call[direct], late.end_ns[direct] - late.start_ns[direct])
    return spent


def _direct(late: Segments, mine: Int64) -> Bool:
    return np.isin(late.doing[mine], _DIRECT)


def _paid(piece: int, start: int, end: int, credit: list[list[int]]) -> Iterator[_Part]:
    """Lay a stretch to the newest calls with credit, and what is left of it to none."""
    while start < end and credit:
        row, left, _ = credit[-1]
        if left <= 0:
            credit.pop()
            continue
        part = min(left, end - start)
        yield piece, start, start + part, row
        credit[-1][1] -= part
        start += part
    if start < end:
        yield piece, start, end, NO_ID


def _waits_for_device(trace: Trace, holds: Int64) -> Bool:
    """Whether a holding call waited for work before it: a synchronisation, or a copy towards the host."""
    copy = first_copy_of(trace)[holds]
    down: Bool = np.append(trace.copies.direction, Direction.UNKNOWN)[copy] == Direction.DTOH
    return down | np.isin(trace.api_calls.kind[holds], SYNC_CALLS)
