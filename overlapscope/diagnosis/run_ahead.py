"""The call that cost a thread its run-ahead over the device.

A host that runs ahead of the device hides its own work: the device has something queued. A call that blocks the thread
takes that run-ahead away, and the launches after it come late, although the host, at that moment, is only doing its
normal work. Without the call all that follows would have come earlier by the time it blocked. So late time after it is
attributed to it, newest call first, until that time is used up; what remains late is the host's own.

A call that waited for the device leaves no run-ahead, whatever was before it: the time that a pageable copy or an
allocation blocked before it counts no more then. Waits before it still count: they are gone only if all of them are.

A synchronisation is not charged with more than would be gone without any (`without_waits`): where the GPU would be idle
all the same, that is what the thread did then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.simulate import simulate
from overlapscope.diagnosis.causes import Cause, CauseGroup, Pieces
from overlapscope.measure.grouping import distinct_columns
from overlapscope.measure.host import blocked_from_ns
from overlapscope.measure.waits import first_copy_of
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Bool, Columnar, Int64
from overlapscope.model.enums import ALLOCATIONS, SYNC_CALLS, ApiKind, Direction
from overlapscope.whatif.calls import scalar_reads
from overlapscope.whatif.change import Editor

_INSIDE = Cause.in_groups(CauseGroup.BLOCKED)
_Part = tuple[int, int, int, int, int]  # place in time, index of the stretch, start, end, row of the call


@dataclass(frozen=True, eq=False)
class Blocking(Columnar):
    """Calls that block a thread: their end, row, the time that they may have cost, and whether they wait."""

    end_ns: Int64
    row: Int64
    left_ns: Int64
    waits: Bool


def lost_run_ahead(
    graph: Graph, window: Window, late: Pieces, once: Bool, idle_anyway: Callable[[], Int64]
) -> tuple[Int64, Int64, Int64, Int64]:
    """Find for each late stretch the call that cost its thread the run-ahead.

    Only calls that reach into the window count, and that end when the GPUs have begun to work: before, there is no
    run-ahead to lose. Calls that set something up, ``once``, do not count either. ``idle_anyway`` gives the idle time
    before the work of each call without synchronisations.

    Returns:
        Indices into ``late``, start and end of parts of those stretches (a stretch is cut where the time that a call
        blocked is used up), and for each part the row of the call in api_calls, `NO_ID` where there is none.
    """
    calls, trace = graph.calls, graph.trace
    blocked_from = blocked_from_ns(trace.api_calls)[calls.row]
    blocks = (blocked_from < calls.end_ns) & np.isin(calls.kind, (ApiKind.COPY, *SYNC_CALLS, *ALLOCATIONS))
    blocks &= window.touches(calls.process, calls.start_ns, calls.end_ns) & ~once
    blocks &= calls.end_ns > graph.work.start_ns.min(initial=np.iinfo(np.int64).max)
    left = calls.end_ns - blocked_from - _spent_inside(graph, late)
    parts = _by_thread(graph, late, blocks, left)
    synchronised = np.append(np.isin(trace.api_calls.kind, SYNC_CALLS), False)
    charged = synchronised[parts[3]] & ~np.isin(late.cause, _INSIDE)[parts[0]]
    if charged.any():
        most = _confirmed(late, parts, charged, idle_anyway())[calls.row]
        parts = _by_thread(graph, late, blocks, np.where(synchronised[calls.row], np.minimum(left, most), left))
    which, start, end, call = parts
    return which, start, end, call


def _by_thread(graph: Graph, late: Pieces, blocks: Bool, left: Int64) -> Int64:
    """The parts of late stretches as columns, with the calls of each thread that ``left`` something to charge."""
    calls, blocking = graph.calls, Blocking(graph.calls.end_ns, graph.calls.row, left, _waits_for_device(graph))
    owner = np.append(calls.owner, NO_ID)[graph.call_of[late.launch_call]]
    unknown = np.flatnonzero(owner == NO_ID)
    parts = [np.stack([unknown, late.start_ns[unknown], late.end_ns[unknown], np.full(len(unknown), NO_ID)])]
    for number in np.unique(owner[owner != NO_ID]).tolist():
        of_thread = np.flatnonzero(owner == number)
        copy_calls = np.isin(calls.row, late.call[of_thread][late.cause[of_thread] == Cause.COPY_CALL])
        rows = np.flatnonzero(((calls.owner == number) & blocks) | (blocks & _while_silent(graph, number)) | copy_calls)
        parts.insert(-1, matched(late, of_thread, blocking.take(rows)))
    return np.concatenate(parts, axis=1)


def _confirmed(late: Pieces, parts: Int64, charged: Bool, idle_anyway: Int64) -> Int64:
    """For each row of api_calls, how much of the late time charged to it would be gone without synchronisations, in ns.

    Of what is charged before one launch, each call has its share.
    """
    which, start, end, call = parts
    total, ours = np.zeros((2, len(idle_anyway)), np.int64)
    np.add.at(total, late.launch_call, late.end_ns - late.start_ns)
    launch, length = late.launch_call[which[charged]], (end - start)[charged]
    np.add.at(ours, launch, length)
    gone = np.clip(total - idle_anyway, 0, ours) / np.maximum(ours, 1)
    result = np.zeros(len(idle_anyway), np.float64)
    np.add.at(result, call[charged], length * gone[launch])
    return np.rint(result).astype(np.int64)


def _while_silent(graph: Graph, owner: int) -> Bool:
    """Mask of calls of other threads of the process during which a thread made none, between two of its calls.

    It may have waited for them.
    """
    calls = graph.calls
    of_thread = np.flatnonzero(calls.owner == owner)
    begun = np.searchsorted(calls.start_ns[of_thread], calls.end_ns)
    ended = np.searchsorted(np.maximum.accumulate(calls.end_ns[of_thread]), calls.start_ns, "right")
    silent: Bool = (begun == ended) & (begun < len(of_thread)) & (calls.owner != owner)
    silent &= calls.process == calls.process[of_thread[0]]
    return silent


def matched(late: Pieces, of_thread: Int64, blocking: Blocking) -> Int64:
    """Go through a thread's blocking calls and late stretches in time: calls give credit, stretches use it up.

    Stretches in a call belong to it, and those before which no credit can be left to none: most need no loop.

    Returns:
        The parts of stretches as columns: index of the stretch, start, end, row of the call.
    """
    count, inside, call = len(blocking.row), np.isin(late.cause[of_thread], _INSIDE), late.call[of_thread]
    start, end = late.start_ns[of_thread], late.end_ns[of_thread]
    length = np.where(inside, 0, end - start)
    # A call that ends where a stretch begins is before it.
    order = np.argsort(np.concatenate([blocking.end_ns, start]), kind="stable")
    given = np.cumsum(np.concatenate([np.maximum(blocking.left_ns, 0), -length])[order])
    most_left = given - np.minimum(np.minimum.accumulate(given), 0)  # less where a wait takes some away
    is_call, piece = order < count, np.maximum(order - count, 0)
    credit_left = np.append(0, most_left)[:-1] > 0
    at = np.flatnonzero(~is_call & (inside[piece] | (~credit_left & (length[piece] > 0))))
    alone = piece[at]
    parts = np.stack([at, alone, start[alone], end[alone], np.where(inside[alone], call[alone], NO_ID)])
    rest = np.flatnonzero(is_call | (credit_left & ~inside[piece]))
    credited = list(_credited(zip(rest.tolist(), order[rest].tolist(), strict=True), blocking, start, end))
    parts = np.concatenate([parts, np.array(credited, np.int64).reshape(-1, 5).T], axis=1)
    at, which, start, end, row = parts[:, np.argsort(parts[0], kind="stable")]
    return np.stack([of_thread[which], start, end, row])


def _credited(events: Iterable[tuple[int, int]], blocking: Blocking, start: Int64, end: Int64) -> Iterator[_Part]:
    """Parts of stretches, for events with their places: a call gives credit, a stretch is paid with what is left."""
    rows, left, waits = blocking.row.tolist(), blocking.left_ns.tolist(), blocking.waits.tolist()
    starts, ends = start.tolist(), end.tolist()
    credit: list[list[int]] = []  # [row of the call, ns left, whether it waited]
    for place, event in events:
        if event >= len(rows):
            piece = event - len(rows)
            yield from _paid((place, piece), starts[piece], ends[piece], credit)
            continue
        while waits[event] and credit and not credit[-1][2]:
            credit.pop()
        credit.append([rows[event], left[event], waits[event]])


def _spent_inside(graph: Graph, late: Pieces) -> Int64:
    """For each call, how long the device was idle while the thread was inside it, in ns."""
    inside = np.isin(late.cause, _INSIDE)
    spent = np.zeros(len(graph.calls) + 1, np.int64)
    np.add.at(spent, graph.call_of[late.call[inside]], (late.end_ns - late.start_ns)[inside])
    return spent[:-1]


def _paid(piece: tuple[int, int], start: int, end: int, credit: list[list[int]]) -> Iterator[_Part]:
    """Attribute a stretch to the newest calls with credit, and what is left of it to none."""
    while start < end and credit:
        row, left, _ = credit[-1]
        if left <= 0:
            credit.pop()
            continue
        part = min(left, end - start)
        yield *piece, start, start + part, row
        credit[-1][1] -= part
        start += part
    if start < end:
        yield *piece, start, end, NO_ID


def _waits_for_device(graph: Graph) -> Bool:
    """Whether a call waits for work before it: a synchronisation, or a copy towards the host."""
    copy = first_copy_of(graph.trace)[graph.calls.row]
    down: Bool = np.append(graph.trace.copies.direction, Direction.UNKNOWN)[copy] == Direction.DTOH
    return down | np.isin(graph.calls.kind, SYNC_CALLS)


def idle_without_waits(graph: Graph) -> Int64:
    """For each row of api_calls, for how long its GPU would be idle before the work that it launched, in ns.

    The simulation has no synchronisation of the host, and no reads of single values. The time is 0 for calls that
    launched nothing; a 0 is appended.
    """
    editor = Editor(graph)
    editor.without_waits(np.flatnonzero(np.isin(graph.calls.kind, SYNC_CALLS)))
    editor.without_waits(editor.calls_of(scalar_reads(graph.trace)))
    times = simulate(editor.graph).time_ns[2 * len(graph.calls) :]
    idle = _idle_before(graph, times[0::2], times[1::2])
    result = np.zeros(len(graph.trace.api_calls) + 1, np.int64)
    launched = graph.work.call != NO_ID
    np.add.at(result, graph.calls.row[graph.work.call[launched]], idle[launched])
    return result


def _idle_before(graph: Graph, start_ns: Int64, end_ns: Int64) -> Int64:
    """For each piece of work, for how long its GPU did nothing before it."""
    result = np.zeros(len(start_ns), np.int64)
    _, device = distinct_columns(np.stack([graph.work.process, graph.work.device]))
    for number in range(int(device.max(initial=-1)) + 1):
        rows = np.flatnonzero(device == number)
        rows = rows[np.argsort(start_ns[rows], kind="stable")]
        busy_until = np.maximum.accumulate(end_ns[rows])
        result[rows[1:]] = np.maximum(start_ns[rows[1:]] - busy_until[:-1], 0)
    return result
