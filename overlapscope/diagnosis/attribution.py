"""Attribute a GPU's idle time to causes, by walking the dependencies back from the work that ended each idle stretch.

What bound that work's start says where to go: to a copy that it waited for, and on to what that copy waited for; to
another GPU; or to its launch. From the launch on, back to the beginning of the stretch, the launching thread was late,
and what it did then is the cause; where it had been idle until another thread handed work to it, what that one did.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.diagnosis.causes import (
    HOST_CAUSES,
    Cause,
    CauseGroup,
    IdleByCause,
    IdleTime,
    Pieces,
    late_by_itself,
    waits_briefly,
)
from overlapscope.diagnosis.host_activity import HostActivity, Segments, one_after_the_other
from overlapscope.diagnosis.run_ahead import idle_without_waits, lost_run_ahead
from overlapscope.measure.devices import Activity, DeviceKey
from overlapscope.measure.launches import launch_slack_ns
from overlapscope.measure.spans import Spans, subtract, union
from overlapscope.measure.waits import first_copy_of
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Bool, Columnar, Int64
from overlapscope.model.enums import Direction
from overlapscope.model.trace import Trace
from overlapscope.whatif.read_loops import ReadLoops

_CAUSE_OF = np.array([Cause.behind(kind) for kind in DependencyKind], np.int8)
_NO_CAUSE = -1


@dataclass(frozen=True, eq=False)
class _Items(Columnar):
    """Work to walk back from: the part of its stretch that is still to be attributed, and how it is waited for.

    ``cause`` and ``inferred`` say how the work that ended the stretch came to wait for this one; that is ``first``.
    ``awaited`` is the copy that it waited for, a row of copies; others may be queued before that.
    """

    gap: Int64
    work: Int64
    begin_ns: Int64
    until_ns: Int64
    cause: Int64
    inferred: Bool
    first: Int64
    awaited: Int64


class Attribution:
    """Walks of one graph; what threads did is worked out once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._host = HostActivity(graph)
        self._waits_unknown = graph.trace.health.has("syncs-not-recorded")
        self._latency_ns = launch_slack_ns(graph.trace)

    def findings(self, activity: Activity, window: Window) -> IdleTime:
        """The idle time of a device that matters: without work of its own, and not just between two queued kernels.

        A device's own work is kernels, memsets and copies within it. Time after the last work counts only while copies
        over a link run or are yet to come.
        """
        graph, key = self.graph, activity.key
        link = _of_device(graph, key) & (graph.work.engine > 0)
        on_device = _of_device(graph, key) & _within_device(graph)
        idle = subtract(activity.extent, union(graph.work.start_ns[on_device], graph.work.end_ns[on_device]))
        pieces = self.walk(on_device, idle)
        tail = pieces.take(pieces.cause == Cause.NO_WORK_LEFT).spans
        copies = _running(graph, link)
        which, last = copies.within(tail.start_ns, tail.end_ns)
        awaited = self.walk(link, subtract(tail, copies.spans))
        copying = Pieces.of(which, last.start_ns, last.end_ns, Cause.COPY_ONLY, copy=last.call)
        pieces = Pieces.by_start(pieces.take(pieces.cause != Cause.NO_WORK_LEFT), copying, awaited)
        pieces = pieces.take(~np.isin(pieces.cause, Cause.in_groups(CauseGroup.NONE)))
        pieces = self._with_read_loops(self._with_blocking_calls(window, pieces))
        return _table(graph.trace, _synchronising_with_copies(graph, pieces, link))

    def by_cause(self, key: DeviceKey, idle: Spans, *, kernels_only: bool = False) -> IdleByCause:
        """Idle time of a device by cause; the causes add up to all of ``idle``.

        With ``kernels_only`` only kernels end a stretch.
        """
        ends_idle = _of_device(self.graph, key) & ((self.graph.work.table == 0) | (not kernels_only))
        pieces = self.walk(ends_idle, idle)
        lengths = pieces.end_ns - pieces.start_ns
        return IdleByCause({cause: int(lengths[pieces.cause == cause].sum()) for cause in Cause})

    def walk(self, ends_idle: Bool, idle: Spans) -> Pieces:
        """Attribute idle stretches, which the next work of the mask ends; the pieces cover all of ``idle``."""
        work = self.graph.work
        rows = np.flatnonzero(ends_idle & (work.end_ns > work.start_ns))
        place = np.searchsorted(work.start_ns[rows], idle.end_ns)
        followed = np.flatnonzero(place < len(rows))
        rest = np.flatnonzero(place >= len(rows))
        pieces = [Pieces.of(rest, idle.start_ns[rest], idle.end_ns[rest], Cause.NO_WORK_LEFT)]
        first, begin, end = rows[place[followed]], idle.start_ns[followed], idle.end_ns[followed]
        launch, call = self._rows(first), self.graph.work.call[first]
        unknown = launch == NO_ID
        pieces.append(Pieces.of(followed[unknown], begin[unknown], end[unknown], Cause.UNKNOWN))
        issued = np.where(unknown, end, np.clip(np.append(self.graph.calls.end_ns, 0)[call], begin, end))
        late = np.flatnonzero(~unknown)
        pieces += self._on_threads(followed[late], call[late], begin[late], issued[late], launch[late])
        nothing = np.full(len(first), _NO_CAUSE)
        none = np.full(len(first), NO_ID)
        items = _Items(followed, first, issued, end, nothing, np.zeros(len(first), np.bool_), first, none)
        items = items.take(issued < end)
        while len(items.gap):
            items, parts = self._step(items, idle.start_ns)
            pieces += parts
        return Pieces.by_start(*pieces)

    def _step(self, items: _Items, begins: Int64) -> tuple[_Items, list[Pieces]]:
        """One step back from each piece of work: to what bound its start."""
        graph, edges = self.graph, self.graph.dependencies
        edge = graph.binding[graph.work_start(items.work)]
        kind = np.append(edges.kind, _NO_CAUSE)[edge]
        source = np.append(edges.source, NO_ID)[edge]
        other = np.maximum(graph.work_of(source), NO_ID)  # of calls, none
        launched = kind == DependencyKind.LAUNCH
        copy = (edge != NO_ID) & ~launched & (np.append(graph.work.engine, 0)[other] > 0)
        copy &= self._same_device(other, items.work) & (np.append(graph.work.end_ns, 0)[other] > items.begin_ns)
        rest = ~launched & ~copy
        parts = [self._waiting(items.take(rest), begins, edge[rest], other[rest])]
        further, waited = self._behind_copies(items.take(copy), edge[copy], other[copy])
        return further, [*parts, *waited, *self._late(items.take(launched), begins)]

    def _same_device(self, one: Int64, other: Int64) -> Bool:
        work = self.graph.work
        same: Bool = np.append(work.device, NO_ID)[one] == work.device[other]
        same &= np.append(work.process, NO_ID)[one] == work.process[other]
        return same

    def _waiting(self, items: _Items, begins: Int64, edge: Int64, other: Int64) -> Pieces:
        """The pieces of work that waited for nothing that ran in the stretch: for another GPU, or nothing recorded."""
        graph, begin = self.graph, items.begin_ns
        call = np.append(graph.work.call, NO_ID)[items.work]
        elsewhere = np.append(graph.dependencies.kind, _NO_CAUSE)[edge] == DependencyKind.OTHER_DEVICE
        elsewhere &= items.until_ns - np.append(graph.work.end_ns, 0)[other] <= self._latency_ns
        short = items.until_ns - begin <= self._latency_ns
        ahead = np.append(graph.calls.end_ns, 0)[call] < begins[items.gap]
        cause = np.select(
            [call == NO_ID, short & ahead, short, elsewhere],
            [Cause.UNKNOWN, Cause.BACK_TO_BACK, Cause.LAUNCH_LATENCY, Cause.OTHER_DEVICE],
            Cause.WAIT_NOT_RECORDED,
        )
        return Pieces.of(items.gap, begin, items.until_ns, cause, launch_call=self._rows(items.first))

    def _behind_copies(self, items: _Items, edge: Int64, other: Int64) -> tuple[_Items, list[Pieces]]:
        """Work that waited for a copy: the time in which that ran, and where to go on from its start."""
        graph, begin = self.graph, items.begin_ns
        # Both lie after the end of a stretch that a window cuts off before its work began.
        start, end = (
            np.minimum(edge_ns[other], items.until_ns) for edge_ns in (graph.work.start_ns, graph.work.end_ns)
        )
        inferred = items.inferred | graph.dependencies.inferred[edge]
        behind = _CAUSE_OF[graph.dependencies.likely[edge]]
        guessed = inferred & (behind == Cause.COPY_EVENT) & self._waits_unknown
        behind = np.where(guessed, Cause.WAIT_NOT_RECORDED, behind)
        cause = np.where((items.cause == _NO_CAUSE) | (behind == Cause.COPY_ENGINE), behind, items.cause)
        launch = self._rows(items.first)
        short = items.until_ns - end <= self._latency_ns
        rest = np.where(short, Cause.LAUNCH_LATENCY, Cause.WAIT_NOT_RECORDED)
        after = Pieces.of(items.gap, end, items.until_ns, rest, launch_call=launch)
        copy = graph.work.copy[other]
        awaited = np.where(items.awaited == NO_ID, copy, items.awaited)
        columns: dict[str, Any] = {"copy": copy, "awaited_copy": awaited, "launch_call": launch, "inferred": inferred}
        running = Pieces.of(items.gap, np.maximum(start, begin), end, cause, **columns)
        further = _Items(items.gap, other, begin, start, cause.astype(np.int64), inferred, items.first, awaited)
        return further.take(start > begin), [after, running]

    def _late(self, items: _Items, begins: Int64) -> list[Pieces]:
        """Work that waited for its launch: the launch itself, and before that what the launching thread did."""
        graph, begin = self.graph, items.begin_ns
        call = graph.work.call[items.work]
        returned = graph.calls.end_ns[call]
        issued = np.clip(returned, begin, items.until_ns)
        launch = self._rows(items.work)
        short, ahead = items.until_ns - issued <= self._latency_ns, returned < begins[items.gap]
        cause = np.select([short & ahead, short], [Cause.BACK_TO_BACK, Cause.LAUNCH_LATENCY], Cause.WAIT_NOT_RECORDED)
        latency = Pieces.of(items.gap, issued, items.until_ns, cause, launch_call=launch)
        return [latency, *self._on_threads(items.gap, call, begin, issued, launch)]

    def _on_threads(self, gap: Int64, call: Int64, begin: Int64, until: Int64, launch: Int64) -> list[Pieces]:
        """The pieces of what threads did until they had launched, each back to where another one handed work to it."""
        graph, parts = self.graph, []
        late = begin < until
        gap, call, begin, until, launch = (values[late] for values in (gap, call, begin, until, launch))
        while len(gap):
            source = self._handed_by(call, begin)
            handed = np.append(graph.calls.end_ns, 0)[source]
            since = np.where((source == NO_ID) | (handed >= until), begin, np.maximum(begin, handed))
            parts.append(self._doing(gap, call, since, until, launch))
            more = since > begin
            gap, begin, until, launch = gap[more], begin[more], since[more], launch[more]
            call = source[more]
        return parts

    def _handed_by(self, call: Int64, begin: Int64) -> Int64:
        """The call of another thread that handed work to each call's thread last, up to it and since a time."""
        graph, edges = self.graph, self.graph.dependencies
        edge = graph.binding[graph.call_start(np.arange(len(graph.calls)))]
        handed = np.flatnonzero(np.append(edges.kind, _NO_CAUSE)[edge] == DependencyKind.THREAD_HANDOFF)
        last = np.append(NO_ID, handed)[np.searchsorted(handed, call, "right")]
        since_begin = (last != NO_ID) & (np.append(graph.calls.owner, NO_ID)[last] == graph.calls.owner[call])
        since_begin &= np.append(graph.calls.start_ns, 0)[last] > begin
        return np.where(since_begin, np.append(edges.source, 0)[np.append(edge, NO_ID)[last]] // 2, NO_ID)

    def _doing(self, gap: Int64, call: Int64, begin: Int64, until: Int64, launch: Int64) -> Pieces:
        """The pieces of what the thread of each call did from a begin to an end."""
        owner, parts = self.graph.calls.owner[call], []
        for number in np.unique(owner).tolist():
            of_thread = np.flatnonzero(owner == number)
            which, segments = self._host.of(number).within(begin[of_thread], until[of_thread])
            rows = of_thread[which]
            columns = {"call": segments.call, "launch_call": launch[rows]}
            parts.append(Pieces.of(gap[rows], segments.start_ns, segments.end_ns, segments.cause, **columns))
        return Pieces.by_start(*parts)

    def _with_blocking_calls(self, window: Window, pieces: Pieces) -> Pieces:
        """The pieces; late ones with the call that cost the launching thread its run-ahead, and that call's copy.

        First uses are not attributed to a call before them.
        """
        graph, trace = self.graph, self.graph.trace
        late = np.isin(pieces.cause, (*HOST_CAUSES, Cause.PROFILER)) & (pieces.cause != Cause.FIRST_USE)
        row, start, end, blocking = lost_run_ahead(
            graph, window, pieces.take(late), self._host.first_calls, lambda: self._idle_anyway
        )
        delayed = pieces.take(np.flatnonzero(late)[row])
        copy = np.append(first_copy_of(trace), NO_ID)[blocking]
        delayed = replace(delayed, start_ns=start, end_ns=end, blocking_call=blocking, copy=copy)
        thread = np.append(trace.api_calls.thread, NO_ID)
        elsewhere = (blocking != NO_ID) & (blocking != delayed.call) & (thread[blocking] != thread[delayed.launch_call])
        # That a thread waited for a call of another one is not recorded.
        delayed = replace(delayed, inferred=delayed.inferred | elsewhere)
        return Pieces.by_start(pieces.take(~late), delayed)

    def _with_read_loops(self, pieces: Pieces) -> Pieces:
        """The pieces; where work between two reads of a loop was launched late by itself, with the read before it."""
        loops, calls = self.read_loops, self.graph.trace.api_calls
        slowly = late_by_itself(pieces) & waits_briefly(calls, pieces)
        late = np.flatnonzero(slowly & ~np.isin(pieces.cause, (Cause.DATA_LOADING, Cause.FIRST_USE)))
        launch = pieces.launch_call[late]
        stretch = loops.around(calls.process[launch], calls.thread[launch], calls.start_ns[launch])
        late, stretch = late[stretch != NO_ID], stretch[stretch != NO_ID]
        blocking, copy = pieces.blocking_call.copy(), pieces.copy.copy()
        blocking[late], copy[late] = loops.call[stretch], loops.copy[stretch]
        return replace(pieces, blocking_call=blocking, copy=copy)

    @cached_property
    def read_loops(self) -> ReadLoops:
        """The loops of reads of the trace."""
        return ReadLoops.of(self.graph.trace)

    @cached_property
    def _idle_anyway(self) -> Int64:
        return idle_without_waits(self.graph)

    def _rows(self, work: Int64) -> Int64:
        """The row in api_calls of the call that launched some work."""
        rows: Int64 = np.append(self.graph.calls.row, NO_ID)[np.append(self.graph.work.call, NO_ID)[work]]
        return rows


def _running(graph: Graph, mask: Bool) -> Segments:
    """When copies ran, each moment with the row of the copy that was first there, as ``call``; sorted, disjoint."""
    work = graph.work
    rows = np.flatnonzero(mask & (work.end_ns > work.start_ns))
    start, end = one_after_the_other(work.start_ns[rows], work.end_ns[rows])
    return Segments.of(start, end, Cause.COPY_ONLY, work.copy[rows])


def _of_device(graph: Graph, key: DeviceKey) -> Bool:
    of_device: Bool = (graph.work.process == key.process) & (graph.work.device == key.device)
    return of_device


def _within_device(graph: Graph) -> Bool:
    """Mask of work within a device: kernels, memsets, and copies from a device to itself."""
    direction = np.append(graph.trace.copies.direction, Direction.DTOD)[graph.work.copy]
    within: Bool = np.isin(direction, (Direction.DTOD, Direction.UVM_DTOD))
    return within


def _synchronising_with_copies(graph: Graph, pieces: Pieces, link: Bool) -> Pieces:
    """The pieces; where a thread synchronises while copies run, it waits for these: copies of its stream first.

    The copy that ended the synchronisation may have been queued behind them.
    """
    waits = pieces.take(pieces.cause == Cause.SYNCHRONISATION)
    waits = replace(waits, awaited_copy=_ended_by(graph, waits.call))
    stream_of = np.full(len(graph.trace.api_calls) + 1, NO_ID, np.int64)
    stream_of[graph.trace.syncs.call] = graph.trace.syncs.stream
    stream, parts = stream_of[waits.call], [pieces.take(pieces.cause != Cause.SYNCHRONISATION)]
    for number in np.unique(stream).tolist():
        rest = waits.take(stream == number)
        for awaited in (link & (graph.work.stream == number), link):
            copies = _running(graph, awaited)
            which, last = copies.within(rest.start_ns, rest.end_ns)
            parts.append(replace(rest.take(which), start_ns=last.start_ns, end_ns=last.end_ns, copy=last.call))
            free = subtract(rest.spans, copies.spans)
            position = np.searchsorted(rest.start_ns, free.start_ns, "right") - 1
            rest = replace(rest.take(position), start_ns=free.start_ns, end_ns=free.end_ns)
        parts.append(rest)
    return Pieces.by_start(*parts)


def _ended_by(graph: Graph, call: Int64) -> Int64:
    """The copy that some calls returned with, `NO_ID` where it was other work."""
    source = np.append(graph.dependencies.source, NO_ID)[graph.binding[graph.call_end(graph.call_of[call])]]
    copy: Int64 = np.append(graph.work.copy, NO_ID)[np.maximum(graph.work_of(source), NO_ID)]
    return copy


def _table(trace: Trace, pieces: Pieces) -> IdleTime:
    columns = {entry.name: getattr(pieces, entry.name) for entry in fields(pieces) if entry.name != "gap"}
    return IdleTime.build(trace.names, len(pieces.start_ns), columns)
