"""What device work waits for: its launch, its stream, events, its copy engine, other work.

Sources: CUDA C++ Programming Guide, sections on streams, events, implicit synchronisation and concurrent transfers.
"""

from __future__ import annotations

from itertools import permutations, product

import numpy as np

from overlapscope.measure.queues import launch_latency_ns
from overlapscope.model.columns import NO_ID, NO_TIME, Int64
from overlapscope.model.enums import ApiKind, StreamKind, SyncKind
from overlapscope.replay.config import ReplayConfig
from overlapscope.replay.graph import Because, Edges, Graph, Work, bound

_ORDER = (Because.STREAM, Because.ENGINE)


def device_edges(graph: Graph, config: ReplayConfig) -> Edges:
    """Edges into the starts of all device work.

    What came last bound the start, and has the lag that was seen; where that is more than is usual and other work of
    the device ended just before, that is what bound it.
    """
    work = graph.work
    index = np.arange(len(work))
    engine = np.flatnonzero(work.engine > 0)
    starts = graph.work_start(index)
    latency = round(config.queue.tolerance * launch_latency_ns(graph.trace, config.queue))
    issued, previous = _issued(graph), before(work, work.stream, index)
    follow = _follow_ns(graph, previous, issued, latency, config)
    known = [
        Edges.of(issued, starts, latency, Because.ISSUE),
        Edges.of(graph.work_end(previous), starts, follow, Because.STREAM),
        Edges.of(graph.work_end(before(work, work.engine, engine)), starts, config.follow_ns, Because.ENGINE),
        _event_edges(graph, config),
        _legacy_edges(graph, config),
    ]
    edges = _from_start_where_they_overlap(graph, Edges.together(*known))
    return bound(graph.time_ns, Edges.together(edges, _unexplained(graph, edges, config.near_ns)))


def _issued(graph: Graph) -> Int64:
    """The moment from which each op could start: its call's end, or the call's start where it began before that end.

    A launch that was held, by a lock or a full queue, has issued nothing until it returns.
    """
    work = graph.work
    returned = work.start_ns >= np.append(graph.calls.end_ns, 0)[work.call]
    return np.where(returned, graph.call_end(work.call), graph.call_start(work.call))


def _follow_ns(graph: Graph, previous: Int64, issued: Int64, latency_ns: int, config: ReplayConfig) -> Int64:
    """What passes between the work before each op on its stream and the op itself, when that is all it waits for.

    Between two kernels: what usually did where the second one had been launched long enough before the first ended.
    """
    work = graph.work
    kernels = (work.table == 0) & (np.append(work.table, NO_ID)[previous] == 0) & (issued != NO_ID)
    ended = np.append(work.end_ns, 0)[previous]
    queued = kernels & (np.append(graph.time_ns, 0)[issued] + latency_ns <= ended)
    seen = work.start_ns[queued] - ended[queued]
    usual = int(np.median(seen)) if len(seen) >= config.telling_gaps else config.follow_ns
    return np.where(kernels, min(max(usual, 0), config.follow_ns), config.follow_ns)


def _from_start_where_they_overlap(graph: Graph, edges: Edges) -> Edges:
    """Work may begin before the end of what it follows (programmatic dependent launch): then it follows its start."""
    early = (graph.time_ns[edges.source] > graph.time_ns[edges.target]) & edges.of_kind(*_ORDER)
    source = np.where(early, edges.source - 1, edges.source)
    lag = np.where(early, graph.time_ns[edges.target] - graph.time_ns[source], edges.lag_ns)
    edges = Edges(source, edges.target, lag, edges.because)
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


def _event_edges(graph: Graph, config: ReplayConfig) -> Edges:
    """From the last op before a recorded event to the first op after the wait for it.

    Of kernels and of copies in each direction, since one may be moved to another stream where the others stay.
    """
    trace, work = graph.trace, graph.work
    syncs = trace.syncs.take(trace.syncs.kind == SyncKind.STREAM_WAIT_EVENT)
    calls = np.append(trace.api_calls.start_ns, NO_TIME)
    waited = np.where(syncs.call == NO_ID, syncs.start_ns, calls[syncs.call])
    recorded = np.where(syncs.record_call == NO_ID, waited, calls[syncs.record_call])
    issued = work.issued_ns(graph.calls)
    engines = np.unique(work.engine)
    source, target = np.full((2, len(engines), len(syncs)), NO_ID, np.int64)
    origin = graph.on_device(syncs.process, syncs.device, syncs.source_stream)
    for process, device, stream in graph.streams():
        mine = syncs.process == process
        out = mine & (syncs.source_stream == stream) & np.isin(origin, (device, NO_ID))
        into = mine & (syncs.stream == stream) & np.isin(syncs.device, (device, NO_ID))
        every = _by_issue(work, issued, process, device, stream)
        for number, engine in enumerate(engines):
            rows = every[work.engine[every] == engine]
            source[number, out] = np.append(NO_ID, rows)[np.searchsorted(issued[rows], recorded[out])]
            target[number, into] = np.append(rows, NO_ID)[np.searchsorted(issued[rows], waited[into])]
    told = [
        Edges.of(graph.work_end(one), graph.work_start(other), config.follow_ns, Because.EVENT)
        for one, other in product(source, target)
    ]
    return Edges.together(*told, _untold_events(graph, config))


def _legacy_edges(graph: Graph, config: ReplayConfig) -> Edges:
    """Between the legacy default stream and blocking ones: each waits for what was issued to the other before.

    Where the trace lists its streams; what Kineto leaves out shows as work that ended just before.
    """
    work, streams = graph.work, graph.trace.streams
    issued = work.issued_ns(graph.calls)
    places = list(zip(streams.process.tolist(), streams.device.tolist(), streams.stream.tolist(), strict=True))
    kind_of = dict(zip(places, streams.kind.tolist(), strict=True))
    rows = {place: _by_issue(work, issued, *place) for place in graph.streams() if place in kind_of}
    parts = [Edges.none()]
    for one, other in permutations(rows, 2):
        if one[:2] == other[:2] and {kind_of[one], kind_of[other]} == {StreamKind.LEGACY_DEFAULT, StreamKind.BLOCKING}:
            last = np.append(NO_ID, rows[one])[np.searchsorted(issued[rows[one]], issued[rows[other]])]
            ends, starts = graph.work_end(last), graph.work_start(rows[other])
            parts.append(Edges.of(ends, starts, config.follow_ns, Because.LEGACY))
    return Edges.together(*parts)


def _by_issue(work: Work, issued: Int64, process: int, device: int, stream: int) -> Int64:
    """A stream's work in the order in which it was issued; what nothing is known to have issued is left out."""
    rows = np.flatnonzero((work.process == process) & (work.device == device) & (work.stream == stream))
    rows = rows[work.call[rows] != NO_ID]
    ordered: Int64 = rows[np.argsort(issued[rows], kind="stable")]
    return ordered


def _untold_events(graph: Graph, config: ReplayConfig) -> Edges:
    """For waits that only their calls show: what the thread issued last before its record, and next after the wait.

    Where the trace has the two the other way round, there was no such wait.
    """
    trace, work, calls = graph.trace, graph.work, graph.calls
    told = np.zeros(len(trace.api_calls) + 1, np.bool_)
    told[trace.syncs.call] = True
    waits = np.flatnonzero((calls.kind == ApiKind.WAIT_EVENT) & ~told[calls.row])
    records = np.flatnonzero(calls.kind == ApiKind.EVENT_RECORD)
    before = np.searchsorted(records, waits) - 1  # calls are in the order of their thread
    record = np.append(records, NO_ID)[before]
    same = (
        (before >= 0) & (calls.thread[record] == calls.thread[waits]) & (calls.process[record] == calls.process[waits])
    )
    joined = np.flatnonzero(work.call != NO_ID)
    joined = joined[np.argsort(work.call[joined], kind="stable")]
    order = work.call[joined]
    first = np.append(joined, NO_ID)[np.searchsorted(order, waits)]
    last = np.append(NO_ID, joined)[np.searchsorted(order, record)]
    for one in (first, last):
        same &= (one != NO_ID) & (calls.thread[np.append(work.call, NO_ID)[one]] == calls.thread[waits])
    stream = np.append(work.stream, NO_ID)
    same &= stream[first] != stream[last]
    return Edges.of(graph.work_end(last[same]), graph.work_start(first[same]), config.follow_ns, Because.EVENT)


def _unexplained(graph: Graph, edges: Edges, near_ns: int) -> Edges:
    """For starts that nothing known explains, the work of the device that ended just before."""
    work, starts = graph.work, graph.work_start(np.arange(len(graph.work)))
    ready = np.full(len(graph.time_ns), np.iinfo(np.int64).min)
    usual = np.minimum(edges.lag_ns, graph.time_ns[edges.target] - graph.time_ns[edges.source])
    np.maximum.at(ready, edges.target, graph.time_ns[edges.source] + usual)
    source = np.full(len(work), NO_ID, np.int64)
    for process, device in set(zip(work.process.tolist(), work.device.tolist(), strict=True)):
        mine = np.flatnonzero((work.process == process) & (work.device == device))
        by_end = mine[np.argsort(work.end_ns[mine], kind="stable")]
        position = np.searchsorted(work.end_ns[by_end], work.start_ns[mine], "right") - 1
        last = by_end[np.maximum(position, 0)]
        end = work.end_ns[last]
        near = (position >= 0) & (work.start_ns[mine] - end <= near_ns) & (end > ready[starts[mine]]) & (last != mine)
        near &= work.start_ns[last] < work.start_ns[mine]
        source[mine[near]] = last[near]
    return Edges.of(graph.work_end(source), starts, near_ns, Because.DEVICE)
