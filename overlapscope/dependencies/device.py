"""What device work waits for: its launch, its stream, events, its copy engine, the legacy default stream, other work.

Sources: `FACTS` in `kinds`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import numpy as np

from overlapscope.dependencies.config import DependencyConfig
from overlapscope.dependencies.graph import Dependencies, Graph, Work, bound
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.measure.distinct import distinct_columns
from overlapscope.measure.launches import launch_latency_ns
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind, StreamKind
from overlapscope.model.tables import EventWaits

_LEGACY_DEFAULT = (0, 7)
"""Ids that CUPTI and ROCm give to the legacy default stream, for traces that do not list the kinds of streams."""
_MAY_OVERLAP = (DependencyKind.STREAM_ORDER, DependencyKind.COPY_ENGINE)


def device_dependencies(graph: Graph, config: DependencyConfig) -> Dependencies:
    """Dependencies into the starts of all device work.

    What came last bound the start, and has the weight that was seen. Where that is more than is usual and other work
    of the device ended just before, that is what bound it.
    """
    work = graph.work
    index = np.arange(len(work))
    engine = np.flatnonzero(work.engine > 0)
    starts = graph.work_start(index)
    latency = round(config.launch.tolerance * launch_latency_ns(graph.trace, config.launch))
    issued, previous = _issued(graph), before(work, work.stream, index)
    follow = _follow_ns(graph, previous, issued, latency, config)
    copied_before = graph.work_end(before(work, work.engine, engine))
    known = Dependencies.together(
        Dependencies.of(issued, starts, latency, DependencyKind.LAUNCH),
        Dependencies.of(graph.work_end(previous), starts, follow, DependencyKind.STREAM_ORDER),
        Dependencies.of(copied_before, starts, config.follow_ns, DependencyKind.COPY_ENGINE),
        event_dependencies(graph, graph.trace.event_waits, config),
        _legacy(graph, config),
    )
    edges = _from_start_where_they_overlap(graph, known)
    return bound(graph.time_ns, Dependencies.together(edges, _unexplained(graph, edges, previous, config)))


def _issued(graph: Graph) -> Int64:
    """The node from which each op could start: its call's end, or the call's start where it started before that end.

    A blocked launch (a lock, a full queue) has issued nothing until it returns.
    """
    work = graph.work
    returned = work.start_ns >= np.append(graph.calls.end_ns, 0)[work.call]
    return np.where(returned, graph.call_end(work.call), graph.call_start(work.call))


def _follow_ns(graph: Graph, previous: Int64, issued: Int64, latency_ns: int, config: DependencyConfig) -> Int64:
    """What passes between the work before each op on its stream and the op itself, when nothing else holds it back.

    Between two kernels: the median where the second one had been launched long enough before the first ended.
    """
    work = graph.work
    kernels = (work.table == 0) & (np.append(work.table, NO_ID)[previous] == 0) & (issued != NO_ID)
    ended = np.append(work.end_ns, 0)[previous]
    queued = kernels & (np.append(graph.time_ns, 0)[issued] + latency_ns <= ended)
    seen = work.start_ns[queued] - ended[queued]
    usual = int(np.median(seen)) if len(seen) >= config.enough_gaps else config.follow_ns
    return np.where(kernels, min(max(usual, 0), config.follow_ns), config.follow_ns)


def _from_start_where_they_overlap(graph: Graph, edges: Dependencies) -> Dependencies:
    """Work may start before the end of what it follows (programmatic dependent launch): then it follows its start."""
    early = (graph.time_ns[edges.source] > graph.time_ns[edges.target]) & edges.of_kind(*_MAY_OVERLAP)
    source = np.where(early, edges.source - 1, edges.source)
    weight = np.where(early, graph.time_ns[edges.target] - graph.time_ns[source], edges.weight_ns)
    edges = replace(edges, source=source, weight_ns=weight)
    return edges.take(graph.time_ns[edges.source] <= graph.time_ns[edges.target])


def before(work: Work, key: Int64, some: Int64) -> Int64:
    """For each op the one before it among ``some`` with the same key on its device; `NO_ID` where there is none."""
    order = some[np.lexsort((some, key[some], work.device[some], work.process[some]))]
    same = np.ones(max(len(order) - 1, 0), np.bool_)
    for values in (key, work.device, work.process):
        same &= values[order[1:]] == values[order[:-1]]
    result = np.full(len(work), NO_ID, np.int64)
    result[order[1:][same]] = order[:-1][same]
    return result


def event_dependencies(graph: Graph, waits: EventWaits, config: DependencyConfig) -> Dependencies:
    """From the last op before a recorded event to the first op after the wait for it.

    Of kernels and of copies in each direction, since one may be moved to another stream where the others stay.
    """
    work = graph.work
    if not len(waits):
        return Dependencies.none()
    issued, engines = work.issued_ns(graph.calls), np.unique(work.engine)
    source, target = np.full((2, len(engines), len(waits)), NO_ID, np.int64)
    for process, device, stream in graph.streams:
        mine = waits.process == process
        out = mine & (waits.source_stream == stream) & np.isin(waits.source_device, (device, NO_ID))
        into = mine & (waits.stream == stream) & np.isin(waits.device, (device, NO_ID))
        every = by_issue(work, issued, process, device, stream)
        for number, engine in enumerate(engines):
            rows = every[work.engine[every] == engine]
            source[number, out] = np.append(NO_ID, rows)[np.searchsorted(issued[rows], waits.recorded_ns[out])]
            target[number, into] = np.append(rows, NO_ID)[np.searchsorted(issued[rows], waits.time_ns[into])]
    parts = [Dependencies.none()]
    for one, other in product(source, target):
        apart = (np.append(work.device, NO_ID)[one] != np.append(work.device, NO_ID)[other]) & (one != NO_ID)
        for kind, some in ((DependencyKind.EVENT, ~apart), (DependencyKind.OTHER_DEVICE, apart)):
            ends, starts = graph.work_end(one[some]), graph.work_start(other[some])
            parts.append(Dependencies.of(ends, starts, config.follow_ns, kind, inferred=waits.inferred[some]))
    return Dependencies.together(*parts)


def _legacy(graph: Graph, config: DependencyConfig) -> Dependencies:
    """Between the legacy default stream and blocking ones: each waits for what was issued to the other before.

    Only where the trace lists the kinds of its streams; elsewhere it shows as work that ended just before.
    """
    work, issued, kind_of = graph.work, graph.work.issued_ns(graph.calls), _stream_kinds(graph)
    rows = {place: by_issue(work, issued, *place) for place in graph.streams if place in kind_of}
    parts = [Dependencies.none()]
    for one, other in permutations(rows, 2):
        if one[:2] == other[:2] and {kind_of[one], kind_of[other]} == {StreamKind.LEGACY_DEFAULT, StreamKind.BLOCKING}:
            last = np.append(NO_ID, rows[one])[np.searchsorted(issued[rows[one]], issued[rows[other]])]
            ends, starts = graph.work_end(last), graph.work_start(rows[other])
            parts.append(Dependencies.of(ends, starts, config.follow_ns, DependencyKind.LEGACY_DEFAULT_STREAM))
    return Dependencies.together(*parts)


def _stream_kinds(graph: Graph) -> dict[tuple[int, int, int], int]:
    streams = graph.trace.streams
    places = zip(streams.process.tolist(), streams.device.tolist(), streams.stream.tolist(), strict=True)
    return dict(zip(places, streams.kind.tolist(), strict=True))


def by_issue(work: Work, issued: Int64, process: int, device: int, stream: int) -> Int64:
    """A stream's work in the order in which it was issued; work without a known call is left out."""
    rows = np.flatnonzero((work.process == process) & (work.device == device) & (work.stream == stream))
    rows = rows[work.call[rows] != NO_ID]
    ordered: Int64 = rows[np.argsort(issued[rows], kind="stable")]
    return ordered


def _unexplained(graph: Graph, edges: Dependencies, previous: Int64, config: DependencyConfig) -> Dependencies:
    """For starts that nothing known explains, the work of the device that ended just before."""
    work, starts = graph.work, graph.work_start(np.arange(len(graph.work)))
    ready = np.full(len(graph.time_ns), np.iinfo(np.int64).min)
    usual = np.minimum(edges.weight_ns, graph.time_ns[edges.target] - graph.time_ns[edges.source])
    np.maximum.at(ready, edges.target, graph.time_ns[edges.source] + usual)
    source = np.full(len(work), NO_ID, np.int64)
    for process, device in distinct_columns(np.stack([work.process, work.device]))[0].T.tolist():
        mine = np.flatnonzero((work.process == process) & (work.device == device))
        by_end = mine[np.argsort(work.end_ns[mine], kind="stable")]
        position = np.searchsorted(work.end_ns[by_end], work.start_ns[mine], "right") - 1
        last = by_end[np.maximum(position, 0)]
        end = work.end_ns[last]
        near = (position >= 0) & (work.start_ns[mine] - end <= config.near_ns) & (end > ready[starts[mine]])
        near &= (last != mine) & (work.start_ns[last] < work.start_ns[mine])
        source[mine[near]] = last[near]
    found = np.flatnonzero(source != NO_ID)
    inferred = Dependencies.of(
        graph.work_end(source[found]), starts[found], config.near_ns, DependencyKind.NOT_RECORDED, inferred=True
    )
    return replace(inferred, likely=_likely_kind(graph, source[found], found, previous[found]).astype(np.int8))


def _likely_kind(graph: Graph, one: Int64, other: Int64, previous: Int64) -> Int64:
    """Why work may have waited for other work that ended just before.

    One CUDA graph launched both; or its stream was made to wait for an event; or one of the streams may be the legacy
    default stream and the other a blocking one, if the trace would show another wait.
    """
    trace, work = graph.trace, graph.work
    issued = work.issued_ns(graph.calls)
    call = work.call[other]
    from_graph = np.append(graph.calls.kind, ApiKind.OTHER)[call] == ApiKind.GRAPH_LAUNCH
    since, until = np.append(issued, 0)[previous], issued[other]
    waits = _between(trace.event_waits.time_ns, since, until, work.stream[other], trace.event_waits.stream)
    made_to_wait = _between(graph.calls.start_ns[graph.calls.kind == ApiKind.WAIT_EVENT], since, until)
    unclear = from_graph & made_to_wait | trace.health.has("syncs-not-recorded") | (not len(trace.syncs))
    return np.select(
        [from_graph & (work.call[one] == call), waits, ~unclear & _may_synchronise(graph, one, other)],
        [DependencyKind.STREAM_ORDER, DependencyKind.EVENT, DependencyKind.LEGACY_DEFAULT_STREAM],
        DependencyKind.NOT_RECORDED,
    )


def _between(times: Int64, since: Int64, until: Int64, wanted: Int64 | None = None, key: Int64 | None = None) -> Bool:
    """Whether one of some times, of the wanted key where one is given, lies from a time on and before another."""
    if wanted is None or key is None:
        times = np.sort(times)
        found: Bool = np.searchsorted(times, until) > np.searchsorted(times, since)
        return found
    result = np.zeros(len(since), np.bool_)
    for value in np.unique(wanted).tolist():
        mine = wanted == value
        result[mine] = _between(times[key == value], since[mine], until[mine])
    return result


def _may_synchronise(graph: Graph, one: Int64, other: Int64) -> Bool:
    """Whether the streams of two ops may be the legacy default stream and a blocking one."""
    work, kind_of = graph.work, _stream_kinds(graph)
    columns = (work.process, work.device, work.stream)
    first, second = (
        np.array(
            [
                kind_of.get(place, StreamKind.UNKNOWN)
                for place in zip(*(column[some].tolist() for column in columns), strict=True)
            ],
            np.int64,
        )
        for some in (one, other)
    )
    streams = work.stream[one], work.stream[other]
    listed = (first != StreamKind.UNKNOWN) & (second != StreamKind.UNKNOWN)
    default = np.isin(streams[0], _LEGACY_DEFAULT) | np.isin(streams[1], _LEGACY_DEFAULT)
    free = (first == StreamKind.NON_BLOCKING) | (second == StreamKind.NON_BLOCKING)
    alike = (first == second) & (first != StreamKind.UNKNOWN)
    result: Bool = ~free & ~alike & (listed | default) & (streams[0] != streams[1])
    result &= (streams[0] != NO_ID) & (streams[1] != NO_ID)
    return result
