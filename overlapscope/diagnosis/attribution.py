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

from overlapscope.dependencies.config import DEFAULT, DependencyConfig
from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.diagnosis.causes import HOST_CAUSES, Cause, CauseGroup, IdleByCause, IdleTime
from overlapscope.diagnosis.host_activity import HostActivity, Segments, one_after_the_other
from overlapscope.diagnosis.run_ahead import lost_run_ahead
from overlapscope.diagnosis.without_waits import idle_without_waits
from overlapscope.measure.devices import Activity, DeviceKey
from overlapscope.measure.issue import first_copy_of
from overlapscope.measure.launches import launch_latency_ns
from overlapscope.measure.spans import Spans, subtract, union
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Bool, Int8, Int64
from overlapscope.model.enums import Direction
from overlapscope.model.trace import Trace
from overlapscope.whatif.config import SimulationConfig

_CAUSE_OF = np.array([Cause.behind(kind) for kind in DependencyKind], np.int8)
_NO_CAUSE = -1


@dataclass(frozen=True, eq=False)
class Pieces:
    """Rows of `IdleTime` to be, with the stretch that each lies in; rows of tables are `NO_ID` where unknown."""

    gap: Int64
    start_ns: Int64
    end_ns: Int64
    cause: Int64 | Int8
    call: Int64
    blocking_call: Int64
    copy: Int64
    awaited_copy: Int64
    launch_call: Int64
    inferred: Bool

    @classmethod
    def of(
        cls, gap: Int64, start_ns: Int64, end_ns: Int64, cause: Int64 | Int8 | int, **columns: Int64 | Bool
    ) -> Pieces:
        """Those of some length; columns that are left out are not known."""
        some = end_ns > start_ns
        named: dict[str, Any] = {entry.name: columns.get(entry.name, NO_ID) for entry in fields(cls)[4:-1]}
        named |= {"cause": cause, "inferred": columns.get("inferred", False)}
        filled = {name: np.broadcast_to(values, len(gap))[some] for name, values in named.items()}
        return cls(gap=gap[some], start_ns=start_ns[some], end_ns=end_ns[some], **filled)

    def take(self, rows: Int64 | Bool) -> Pieces:
        """Some rows."""
        return Pieces(*(getattr(self, entry.name)[rows] for entry in fields(self)))

    @classmethod
    def together(cls, *parts: Pieces) -> Pieces:
        """All rows of several, by their start."""
        columns = [np.concatenate([getattr(part, entry.name) for part in parts]) for entry in fields(cls)]
        order = np.argsort(columns[1], kind="stable")
        return cls(*(column[order] for column in columns))


@dataclass(frozen=True, eq=False)
class _Items:
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

    def take(self, rows: Int64 | Bool) -> _Items:
        return _Items(*(getattr(self, entry.name)[rows] for entry in fields(self)))


class Attribution:
    """Walks of one graph; what threads did is worked out once."""

    def __init__(self, graph: Graph, config: DependencyConfig = DEFAULT) -> None:
        self.graph = graph
        self.config = config
        self._host = HostActivity(graph, config)
        self._waits_unknown = graph.trace.health.has("syncs-not-recorded")
        self._latency_ns = round(config.launch.tolerance * launch_latency_ns(graph.trace, config.launch))

    def findings(self, activity: Activity, window: Window) -> IdleTime:
        """The idle time of a device that matters: without work of its own, and not just between two queued kernels.

        A device's own work is kernels, memsets and copies within it. Time after the last work counts only while copies
        over a link run or are yet to come.
        """
        graph, key = self.graph, activity.key
        link = _of_device(graph, key) & (graph.work.engine > 0)
        own = _of_device(graph, key) & _within_device(graph)
        idle = subtract(activity.extent, union(graph.work.start_ns[own], graph.work.end_ns[own]))
        pieces = self.walk(own, idle)
        tail = _spans(pieces.take(pieces.cause == Cause.NO_WORK_LEFT))
        copies = _running(graph, link)
        which, last = copies.within(tail.start_ns, tail.end_ns)
        awaited = self.walk(link, subtract(tail, copies.spans))
        copying = Pieces.of(which, last.start_ns, last.end_ns, Cause.COPY_ONLY, copy=last.call)
        pieces = Pieces.together(pieces.take(pieces.cause != Cause.NO_WORK_LEFT), copying, awaited)
        pieces = pieces.take(~np.isin(pieces.cause, Cause.in_groups(CauseGroup.NONE)))
        pieces = self._with_blocking_calls(window, pieces)
        return _table(graph.trace, _synchronising_with_copies(graph, pieces, link))

    def by_cause(self, key: DeviceKey, idle: Spans, *, kernels_only: bool = False) -> IdleByCause:
        """Idle time of a device by cause; the causes add up to all of ``idle``.

        With ``kernels_only`` only kernels end a stretch.
        """
        mine = _of_device(self.graph, key) & ((self.graph.work.table == 0) | (not kernels_only))
        pieces = self.walk(mine, idle)
        lengths = pieces.end_ns - pieces.start_ns
        return IdleByCause({cause: int(lengths[pieces.cause == cause].sum()) for cause in Cause})

    def walk(self, own: Bool, idle: Spans) -> Pieces:
        """Attribute stretches that the next work among ``own`` ends; the pieces cover all of ``idle``."""
        work = self.graph.work
        mine = np.flatnonzero(own & (work.end_ns > work.start_ns))
        place = np.searchsorted(work.start_ns[mine], idle.end_ns)
        followed = np.flatnonzero(place < len(mine))
        rest = np.flatnonzero(place >= len(mine))
        found = [Pieces.of(rest, idle.start_ns[rest], idle.end_ns[rest], Cause.NO_WORK_LEFT)]
        first, begin, end = mine[place[followed]], idle.start_ns[followed], idle.end_ns[followed]
        launch, call = self._rows(first), self.graph.work.call[first]
        unknown = launch == NO_ID
        found.append(Pieces.of(followed[unknown], begin[unknown], end[unknown], Cause.UNKNOWN))
        issued = np.where(unknown, end, np.clip(np.append(self.graph.calls.end_ns, 0)[call], begin, end))
        late = np.flatnonzero(~unknown)
        found += self._on_threads(followed[late], call[late], begin[late], issued[late], launch[late])
        nothing = np.full(len(first), _NO_CAUSE)
        none = np.full(len(first), NO_ID)
        items = _Items(followed, first, issued, end, nothing, np.zeros(len(first), np.bool_), first, none)
        items = items.take(issued < end)
        while len(items.gap):
            items, parts = self._step(items, idle.start_ns)
            found += parts
        return Pieces.together(*found)

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
        """Work that waited for nothing that ran in the stretch: for another GPU, or for what is not recorded."""
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
        start, end = graph.work.start_ns[other], np.minimum(graph.work.end_ns[other], items.until_ns)
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
        """What threads did until they had launched, each back to where another one handed work to it."""
        graph, found = self.graph, []
        late = begin < until
        gap, call, begin, until, launch = (values[late] for values in (gap, call, begin, until, launch))
        while len(gap):
            source = self._handed_by(call, begin)
            handed = np.append(graph.calls.end_ns, 0)[source]
            since = np.where((source == NO_ID) | (handed >= until), begin, np.maximum(begin, handed))
            found.append(self._doing(gap, call, since, until, launch))
            more = since > begin
            gap, begin, until, launch = gap[more], begin[more], since[more], launch[more]
            call = source[more]
        return found

    def _handed_by(self, call: Int64, begin: Int64) -> Int64:
        """The call of another thread that handed work to each call's thread last, up to it and since a time."""
        graph, edges = self.graph, self.graph.dependencies
        edge = graph.binding[graph.call_start(np.arange(len(graph.calls)))]
        handed = np.flatnonzero(np.append(edges.kind, _NO_CAUSE)[edge] == DependencyKind.THREAD_HANDOFF)
        last = np.append(NO_ID, handed)[np.searchsorted(handed, call, "right")]
        own = (last != NO_ID) & (np.append(graph.calls.owner, NO_ID)[last] == graph.calls.owner[call])
        own &= np.append(graph.calls.start_ns, 0)[last] > begin
        return np.where(own, np.append(edges.source, 0)[np.append(edge, NO_ID)[last]] // 2, NO_ID)

    def _doing(self, gap: Int64, call: Int64, begin: Int64, until: Int64, launch: Int64) -> Pieces:
        """What the thread of each call did in a time, as pieces."""
        owner, parts = self.graph.calls.owner[call], []
        for number in np.unique(owner).tolist():
            mine = np.flatnonzero(owner == number)
            which, found = self._host.of(number).within(begin[mine], until[mine])
            rows = mine[which]
            columns = {"call": found.call, "launch_call": launch[rows]}
            parts.append(Pieces.of(gap[rows], found.start_ns, found.end_ns, found.cause, **columns))
        return Pieces.together(*parts)

    def _with_blocking_calls(self, window: Window, pieces: Pieces) -> Pieces:
        """Late stretches with the call that cost the launching thread its run-ahead, and that call's copy.

        What happens once is nobody else's.
        """
        graph, trace = self.graph, self.graph.trace
        late = np.isin(pieces.cause, (*HOST_CAUSES, Cause.PROFILER)) & (pieces.cause != Cause.FIRST_USE)
        row, start, end, blocking = lost_run_ahead(
            graph, window, pieces.take(late), self._host.first_calls, lambda: self._idle_anyway, self.config
        )
        found = pieces.take(np.flatnonzero(late)[row])
        copy = np.append(first_copy_of(trace), NO_ID)[blocking]
        found = replace(found, start_ns=start, end_ns=end, blocking_call=blocking, copy=copy)
        thread = np.append(trace.api_calls.thread, NO_ID)
        elsewhere = (blocking != NO_ID) & (blocking != found.call) & (thread[blocking] != thread[found.launch_call])
        found = replace(found, inferred=found.inferred | elsewhere)  # that one waited for the other is not recorded
        return Pieces.together(pieces.take(~late), found)

    @cached_property
    def _idle_anyway(self) -> Int64:
        return idle_without_waits(self.graph, SimulationConfig(dependencies=self.config))

    def _rows(self, work: Int64) -> Int64:
        """The row in api_calls of the call that launched some work."""
        rows: Int64 = np.append(self.graph.calls.row, NO_ID)[np.append(self.graph.work.call, NO_ID)[work]]
        return rows


def _running(graph: Graph, some: Bool) -> Segments:
    """When copies ran, each moment with the row of the copy that was first there, as ``call``; sorted, disjoint."""
    work = graph.work
    rows = np.flatnonzero(some & (work.end_ns > work.start_ns))
    start, end = one_after_the_other(work.start_ns[rows], work.end_ns[rows])
    return Segments.of(start, end, Cause.COPY_ONLY, work.copy[rows])


def _of_device(graph: Graph, key: DeviceKey) -> Bool:
    mine: Bool = (graph.work.process == key.process) & (graph.work.device == key.device)
    return mine


def _within_device(graph: Graph) -> Bool:
    """Kernels, memsets, and copies from a device to itself."""
    direction = np.append(graph.trace.copies.direction, Direction.DTOD)[graph.work.copy]
    within: Bool = np.isin(direction, (Direction.DTOD, Direction.UVM_DTOD))
    return within


def _spans(pieces: Pieces) -> Spans:
    return union(pieces.start_ns, pieces.end_ns)


def _synchronising_with_copies(graph: Graph, pieces: Pieces, link: Bool) -> Pieces:
    """Where a thread synchronises while copies run, these are what it waits for: those of its stream first.

    The copy that ended the synchronisation may have been queued behind them.
    """
    waits = pieces.take(pieces.cause == Cause.SYNCHRONISATION)
    waits = replace(waits, awaited_copy=_ended_by(graph, waits.call))
    stream_of = np.full(len(graph.trace.api_calls) + 1, NO_ID, np.int64)
    stream_of[graph.trace.syncs.call] = graph.trace.syncs.stream
    stream, found = stream_of[waits.call], [pieces.take(pieces.cause != Cause.SYNCHRONISATION)]
    for number in np.unique(stream).tolist():
        rest = waits.take(stream == number)
        for some in (link & (graph.work.stream == number), link):
            copies = _running(graph, some)
            which, last = copies.within(rest.start_ns, rest.end_ns)
            found.append(replace(rest.take(which), start_ns=last.start_ns, end_ns=last.end_ns, copy=last.call))
            free = subtract(_spans(rest), copies.spans)
            position = np.searchsorted(rest.start_ns, free.start_ns, "right") - 1
            rest = replace(rest.take(position), start_ns=free.start_ns, end_ns=free.end_ns)
        found.append(rest)
    return Pieces.together(*found)


def _ended_by(graph: Graph, call: Int64) -> Int64:
    """The copy that some calls returned with, `NO_ID` where it was other work."""
    source = np.append(graph.dependencies.source, NO_ID)[graph.binding[graph.call_end(graph.call_of[call])]]
    copy: Int64 = np.append(graph.work.copy, NO_ID)[np.maximum(graph.work_of(source), NO_ID)]
    return copy


def _table(trace: Trace, pieces: Pieces) -> IdleTime:
    columns = {entry.name: getattr(pieces, entry.name) for entry in fields(pieces) if entry.name != "gap"}
    return IdleTime.build(trace.names, len(pieces.start_ns), columns)
