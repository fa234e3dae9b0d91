"""Which call cost a thread its run-ahead over the device.

A host that runs ahead of the device hides its own work: the device has something queued. A call that blocks the thread
takes that run-ahead away, and the launches after it come late, although the host, at that moment, is only doing its
usual work. Without the call all that follows would have come earlier by the time it blocked. So late time after it is
attributed to it, newest call first, until that time is used up; what remains late is the host's own.

A call that waited for the device leaves no run-ahead, whatever was before it: the time that a pageable copy or an
allocation blocked before it counts no more then. Waits before it still count: they are gone only if all of them are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from overlapscope.dependencies.config import DependencyConfig
from overlapscope.dependencies.graph import Graph
from overlapscope.diagnosis.causes import Cause, CauseGroup
from overlapscope.measure.host import blocked_from_ns
from overlapscope.measure.issue import first_copy_of
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Bool, Int8, Int64
from overlapscope.model.enums import ALLOCATIONS, SYNC_CALLS, ApiKind, Direction

_INSIDE = Cause.in_groups(CauseGroup.BLOCKED)
_Part = tuple[int, int, int, int]  # index of the stretch, start, end, row of the call


class Late(Protocol):
    """Late stretches: what the launching thread did, in which call, and for which launch; rows of api_calls."""

    @property
    def start_ns(self) -> Int64:
        """Begin of each."""

    @property
    def end_ns(self) -> Int64:
        """End of each."""

    @property
    def cause(self) -> Int64 | Int8:
        """What the thread did."""

    @property
    def call(self) -> Int64:
        """The call that it was in."""

    @property
    def launch_call(self) -> Int64:
        """The launch that came late."""


def lost_run_ahead(
    graph: Graph, window: Window, late: Late, once: Bool, config: DependencyConfig
) -> tuple[Int64, Int64, Int64, Int64]:
    """Find for each late stretch the call that cost its thread the run-ahead.

    Only calls that reach into the window count, and that end when the GPUs have begun to work: before, there is no
    run-ahead to lose. Calls that set something up, ``once``, do not count either.

    Returns:
        Indices into ``late``, start and end of parts of those stretches (a stretch is cut where the time that a call
        blocked is used up), and for each part the row of the call in api_calls, `NO_ID` where there is none.
    """
    calls, trace, parts = graph.calls, graph.trace, list[_Part]()
    blocked_from = blocked_from_ns(trace, config.host)[calls.row]
    blocks = (blocked_from < calls.end_ns) & np.isin(calls.kind, (ApiKind.COPY, *SYNC_CALLS, *ALLOCATIONS))
    blocks &= window.touches(calls.process, calls.start_ns, calls.end_ns) & ~once
    blocks &= calls.end_ns > graph.work.start_ns.min(initial=np.iinfo(np.int64).max)
    left = calls.end_ns - blocked_from - _spent_inside(graph, late)
    waits = _waits_for_device(graph)
    owner = np.append(calls.owner, NO_ID)[graph.call_of[late.launch_call]]
    for number in np.unique(owner[owner != NO_ID]).tolist():
        mine = np.flatnonzero(owner == number)
        theirs = np.isin(calls.row, late.call[mine][late.cause[mine] == Cause.COPY_CALL])
        rows = np.flatnonzero(((calls.owner == number) & blocks) | (blocks & _while_silent(graph, number)) | theirs)
        parts.extend(_matched(graph, late, mine, (rows, left[rows], waits[rows])))
    parts.extend(
        (row, int(late.start_ns[row]), int(late.end_ns[row]), NO_ID) for row in np.flatnonzero(owner == NO_ID).tolist()
    )
    which, start, end, call = np.array(parts, np.int64).reshape(-1, 4).T
    return which, start, end, call


def _while_silent(graph: Graph, owner: int) -> Bool:
    """Calls of other threads of the process during which a thread made none, between two of its own.

    It may have waited for them.
    """
    calls = graph.calls
    own = np.flatnonzero(calls.owner == owner)
    begun = np.searchsorted(calls.start_ns[own], calls.end_ns)
    ended = np.searchsorted(np.maximum.accumulate(calls.end_ns[own]), calls.start_ns, "right")
    silent: Bool = (begun == ended) & (begun < len(own)) & (calls.owner != owner)
    silent &= calls.process == calls.process[own[0]]
    return silent


def _matched(graph: Graph, late: Late, mine: Int64, blocking: tuple[Int64, Int64, Int64 | Bool]) -> Iterator[_Part]:
    """Go through a thread's blocking calls and late stretches in time: calls give credit, stretches use it up."""
    rows, ends = graph.calls.row[blocking[0]].tolist(), graph.calls.end_ns[blocking[0]]
    left, waits = blocking[1].tolist(), blocking[2].tolist()
    inside = np.isin(late.cause[mine], _INSIDE)
    columns = (mine, late.start_ns[mine], late.end_ns[mine], late.call[mine], inside)
    indices, starts, stops, calls, direct = (column.tolist() for column in columns)
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


def _spent_inside(graph: Graph, late: Late) -> Int64:
    """For each call, how long the device was idle while the thread was inside it, in ns."""
    inside = np.isin(late.cause, _INSIDE)
    spent = np.zeros(len(graph.calls) + 1, np.int64)
    np.add.at(spent, graph.call_of[late.call[inside]], (late.end_ns - late.start_ns)[inside])
    return spent[:-1]


def _paid(piece: int, start: int, end: int, credit: list[list[int]]) -> Iterator[_Part]:
    """Attribute a stretch to the newest calls with credit, and what is left of it to none."""
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


def _waits_for_device(graph: Graph) -> Bool:
    """Whether a call waits for work before it: a synchronisation, or a copy towards the host."""
    copy = first_copy_of(graph.trace)[graph.calls.row]
    down: Bool = np.append(graph.trace.copies.direction, Direction.UNKNOWN)[copy] == Direction.DTOH
    return down | np.isin(graph.calls.kind, SYNC_CALLS)
