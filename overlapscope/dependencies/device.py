"""The dependencies of device work: launch, stream, events, copy engine, legacy default stream, other work.

Sources: `DependencyKind`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import numpy as np

from overlapscope.dependencies.graph import FOLLOW_NS, Dependencies, Graph, Work, bound
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.formatting import counted
from overlapscope.measure.grouping import (
    any_between,
    at,
    distinct_columns,
    each_value,
    first_from,
    last_before,
    neighbours,
)
from overlapscope.measure.launches import launch_slack_ns
from overlapscope.measure.waits import open_waits
from overlapscope.model.columns import NO_ID, NO_TIME, Bool, Int64
from overlapscope.model.enums import ApiKind, StreamKind
from overlapscope.model.tables import EventWaits
from overlapscope.model.trace import Trace

LEGACY_DEFAULT = (0, 7)
"""Ids that CUPTI and ROCm give to the legacy default stream, for traces that do not list the kinds of streams."""
_ENOUGH_GAPS = 20
"""Kernels that waited only for the one before them, from which the time between two is learnt."""
_NEAR_NS = 20_000
"""Work that ended this shortly before other work started may have held it back, in ns.

No launch on an idle GPU takes longer.
"""
_MAY_OVERLAP = (DependencyKind.STREAM_ORDER, DependencyKind.COPY_ENGINE)


def device_dependencies(graph: Graph) -> Dependencies:
    """Dependencies into the starts of all device work.

    What came last bound the start, and has the weight that was seen. Where that is more than is usual and other work
    of the device ended just before, that is what bound it.
    """
    work, latency = graph.work, launch_slack_ns(graph.trace)
    index = np.arange(len(work))
    issued, previous = _issued(graph), before(work, work.stream, index)
    follow = _follow_ns(graph, previous, issued, latency)
    known = Dependencies.concat(
        Dependencies.of(issued, graph.work_start(index), latency, DependencyKind.LAUNCH),
        graph.after_work(previous, index, DependencyKind.STREAM_ORDER, follow),
        graph.after_work(before(work, work.engine, np.flatnonzero(work.engine)), index, DependencyKind.COPY_ENGINE),
        event_dependencies(graph, graph.trace.event_waits),
        _legacy(graph),
    )
    edges = _from_start_where_they_overlap(graph, known)
    return bound(graph.time_ns, Dependencies.concat(edges, _unexplained(graph, edges, previous)))


def _issued(graph: Graph) -> Int64:
    """The node from which each op could start: its call's end, or the call's start where it started before that end.

    A blocked launch (a lock, a full queue) has issued nothing until it returns.
    """
    work = graph.work
    returned = work.start_ns >= at(graph.calls.end_ns, work.call, 0)
    return np.where(returned, graph.call_end(work.call), graph.call_start(work.call))


def _follow_ns(graph: Graph, previous: Int64, issued: Int64, latency_ns: int) -> Int64:
    """The time between each op and the work before it on its stream when nothing else holds it back, in ns.

    Between two kernels: the median where the second one had been launched long enough before the first ended.
    """
    work = graph.work
    kernels = (work.table == 0) & (at(work.table, previous) == 0) & (issued != NO_ID)
    ended = at(work.end_ns, previous, 0)
    queued = kernels & (at(graph.time_ns, issued, 0) + latency_ns <= ended)
    seen = work.start_ns[queued] - ended[queued]
    between_ns = int(np.median(seen)) if len(seen) >= _ENOUGH_GAPS else FOLLOW_NS
    return np.where(kernels, min(max(between_ns, 0), FOLLOW_NS), FOLLOW_NS)


def _from_start_where_they_overlap(graph: Graph, edges: Dependencies) -> Dependencies:
    """Work may start before the end of what it follows (programmatic dependent launch): then it follows its start."""
    early = (graph.time_ns[edges.source] > graph.time_ns[edges.target]) & edges.of_kind(*_MAY_OVERLAP)
    source = np.where(early, edges.source - 1, edges.source)
    weight = np.where(early, graph.time_ns[edges.target] - graph.time_ns[source], edges.weight_ns)
    edges = replace(edges, source=source, weight_ns=weight)
    return edges.take(graph.time_ns[edges.source] <= graph.time_ns[edges.target])


def before(work: Work, key: Int64, rows: Int64, place: Int64 | None = None) -> Int64:
    """For each op the one before it, by place or row, among rows with the same key on its device; `NO_ID` for none."""
    places = rows if place is None else place[rows]
    order = rows[np.lexsort((places, key[rows], work.device[rows], work.process[rows]))]
    one, other = neighbours(order, key, work.device, work.process)
    result = np.full(len(work), NO_ID, np.int64)
    result[other] = one
    return result


def event_dependencies(graph: Graph, waits: EventWaits) -> Dependencies:
    """The dependencies by events: of the first op after a wait on the last op before the recorded event.

    Of kernels and of copies in each direction, since one may be moved to another stream where the others stay.
    """
    work = graph.work
    if not len(waits):
        return Dependencies.none()
    issued, engines = work.issued_ns(graph.calls), np.unique(work.engine)
    source, target = np.full((2, len(engines), len(waits)), NO_ID, np.int64)
    for process, device, stream in graph.streams:
        here = waits.process == process
        out = here & (waits.source_stream == stream) & np.isin(waits.source_device, (device, NO_ID))
        into = here & (waits.stream == stream) & np.isin(waits.device, (device, NO_ID))
        every = by_issue(work, issued, process, device, stream)
        for number, engine in enumerate(engines):
            rows = every[work.engine[every] == engine]
            source[number, out] = last_before(rows, issued[rows], waits.recorded_ns[out])
            target[number, into] = first_from(rows, issued[rows], waits.time_ns[into])
    parts = [Dependencies.none()]
    for one, other in product(source, target):
        elsewhere = (at(work.device, one) != at(work.device, other)) & (one != NO_ID)
        for kind, rows in ((DependencyKind.EVENT, ~elsewhere), (DependencyKind.OTHER_DEVICE, elsewhere)):
            parts.append(graph.after_work(one[rows], other[rows], kind, inferred=waits.inferred[rows]))
    return Dependencies.concat(*parts)


def _legacy(graph: Graph) -> Dependencies:
    """Between the legacy default stream and blocking ones: each waits for what was issued to the other before.

    Only where the trace lists the kinds of its streams; elsewhere it shows as work that ended just before.
    """
    work, issued, kind_of = graph.work, graph.work.issued_ns(graph.calls), _stream_kinds(graph)
    rows = {place: by_issue(work, issued, *place) for place in graph.streams if place in kind_of}
    parts = [Dependencies.none()]
    for one, other in permutations(rows, 2):
        if one[:2] == other[:2] and {kind_of[one], kind_of[other]} == {StreamKind.LEGACY_DEFAULT, StreamKind.BLOCKING}:
            last = last_before(rows[one], issued[rows[one]], issued[rows[other]])
            parts.append(graph.after_work(last, rows[other], DependencyKind.LEGACY_DEFAULT_STREAM))
    return Dependencies.concat(*parts)


def _stream_kinds(graph: Graph) -> dict[tuple[int, int, int], int]:
    streams = graph.trace.streams
    places = zip(streams.process.tolist(), streams.device.tolist(), streams.stream.tolist(), strict=True)
    return dict(zip(places, streams.kind.tolist(), strict=True))


def by_issue(work: Work, issued: Int64, process: int, device: int, stream: int) -> Int64:
    """A stream's work in the order in which it was issued; work without a known call is left out."""
    here = (work.process == process) & (work.device == device) & (work.stream == stream)
    rows = np.flatnonzero(here & (work.call != NO_ID))
    return np.take(rows, np.argsort(issued[rows], kind="stable"))


def _unexplained(graph: Graph, edges: Dependencies, previous: Int64) -> Dependencies:
    """For starts that nothing known explains, the work of the device that ended just before."""
    work, time_ns = graph.work, graph.time_ns
    ready = np.full(len(time_ns), NO_TIME)
    np.maximum.at(ready, edges.target, np.minimum(time_ns[edges.source] + edges.weight_ns, time_ns[edges.target]))
    ready = ready[graph.work_start(np.arange(len(work)))]
    source = np.full(len(work), NO_ID, np.int64)
    for _, member in each_value(distinct_columns(np.stack([work.process, work.device]))[1]):
        by_end = member[np.argsort(work.end_ns[member], kind="stable")]
        last = last_before(by_end, work.end_ns[by_end], work.start_ns[member], "right")
        end = work.end_ns[last]
        near = (last != NO_ID) & (work.start_ns[member] - end <= _NEAR_NS) & (end > ready[member])
        near &= (last != member) & (work.start_ns[last] < work.start_ns[member])
        source[member[near]] = last[near]
    held = np.flatnonzero(source != NO_ID)
    inferred = graph.after_work(source[held], held, DependencyKind.NOT_RECORDED, _NEAR_NS, inferred=True)
    return replace(inferred, likely=_likely_kind(graph, source[held], held, previous[held]).astype(np.int8))


def _likely_kind(graph: Graph, one: Int64, other: Int64, previous: Int64) -> Int64:
    """Why work may have waited for other work that ended just before.

    One CUDA graph launched both; or its stream was made to wait for an event; or one of the streams may be the legacy
    default stream and the other a blocking one, if the trace would show another wait.
    """
    trace, work = graph.trace, graph.work
    issued = work.issued_ns(graph.calls)
    call = work.call[other]
    from_graph = at(graph.calls.kind, call, ApiKind.OTHER) == ApiKind.GRAPH_LAUNCH
    since, until, stream = at(issued, previous, 0), issued[other], work.stream[other]
    waits = any_between(trace.event_waits.time_ns, trace.event_waits.stream, stream, since, until)
    kinds = np.full(len(other), ApiKind.WAIT_EVENT)
    made_to_wait = any_between(graph.calls.start_ns, graph.calls.kind, kinds, since, until)
    unclear = from_graph & made_to_wait | trace.health.has("syncs-not-recorded") | (not len(trace.syncs))
    return np.select(
        [from_graph & (work.call[one] == call), waits, ~unclear & _may_synchronise(graph, one, other)],
        [DependencyKind.STREAM_ORDER, DependencyKind.EVENT, DependencyKind.LEGACY_DEFAULT_STREAM],
        DependencyKind.NOT_RECORDED,
    )


def _may_synchronise(graph: Graph, one: Int64, other: Int64) -> Bool:
    """Whether the streams of two ops may be the legacy default stream and a blocking one."""
    work, kinds = graph.work, np.full(len(graph.work), StreamKind.UNKNOWN)
    for (process, device, stream), kind in _stream_kinds(graph).items():
        kinds[(work.process == process) & (work.device == device) & (work.stream == stream)] = kind
    (first, then), (left, right) = (kinds[one], kinds[other]), (work.stream[one], work.stream[other])
    listed = (first != StreamKind.UNKNOWN) & (then != StreamKind.UNKNOWN)
    default = np.isin(left, LEGACY_DEFAULT) | np.isin(right, LEGACY_DEFAULT)
    free = (first == StreamKind.NON_BLOCKING) | (then == StreamKind.NON_BLOCKING)
    alike = (first == then) & (first != StreamKind.UNKNOWN)
    known = (left != NO_ID) & (right != NO_ID) & (left != right)
    result: Bool = ~free & ~alike & (listed | default) & known
    return result


def open_waits_note(trace: Trace) -> tuple[str, ...]:
    """The assumption of a prediction on waits without a recorded event, as a phrase; empty without such waits."""
    count = int(open_waits(trace).sum())
    if not count:
        return ()
    have, them = ("has", "it") if count == 1 else ("have", "them")
    waits = f"{counted(count, 'stream wait')} {have} no recorded event"
    return (f"{waits}: the upper bound lets {them} wait for every other stream",)


def possible_waits(graph: Graph) -> Dependencies:
    """Dependencies that may be there, all inferred, with no more weight than the trace leaves room for."""
    unknown = graph.trace.event_waits.take(open_waits(graph.trace))
    parts = [Dependencies.none()]
    for process, device, stream in graph.streams:
        waits = unknown.take((unknown.process == process) & (unknown.stream != stream))
        of_stream = replace(
            waits,
            source_stream=np.full(len(waits), stream, np.int64),
            source_device=np.full(len(waits), device, np.int32),
            inferred=np.ones(len(waits), np.bool_),
        )
        parts.append(event_dependencies(graph, of_stream))
    edges = Dependencies.concat(*parts)
    seen = graph.time_ns[edges.target] - graph.time_ns[edges.source]
    return replace(edges, weight_ns=np.minimum(edges.weight_ns, seen)).take(seen >= 0)
