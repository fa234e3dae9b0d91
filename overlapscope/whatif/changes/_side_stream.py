"""Copies get a stream of their own.

A copy to the device waits for its launch, its engine and the copies before it; the next work of its old stream waits
for it, because a trace does not show what reads it; only a recording that knows its operators' arguments does. Where as
many bytes came to the host before on that stream, they may be what it sends back, so it waits for these. A copy to the
host waits for the work before it on its old stream, and later work of that stream does not wait for it. Who waited for
either by way of later work of the stream still does: a host that reads what came, another stream that reads what went.

A copy to another device does as one to the host on the stream that sends it. On the one that receives it no order is
left but that what waited for it still does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from overlapscope.measure.queues import LINK
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind, Direction
from overlapscope.model.trace import Trace
from overlapscope.whatif.config import SimulationConfig
from overlapscope.dependencies.device import before
from overlapscope.replay.edits.common import Edited, Streams, Where, by_stream, codes
from overlapscope.replay.edits.readers import first_readers, tensors_known
from overlapscope.replay.edits.sent_back import sent_back
from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind

_TWO_BUFFERS = "copies to another device are received in two buffers in turn"
_UNKNOWN = "the trace does not say what reads a copy, so the next work of its old stream waits for it"


def side_stream(graph: Graph, where: Where, config: SimulationConfig) -> Edited:
    """Only copies over a link are moved; what was moved before stays so."""
    work, edges = graph.work, graph.dependencies
    moved = np.append(graph.trace.copies.stream, NO_ID)[work.copy] != work.stream
    moved &= work.table == 1
    moved[where.work(graph)] = True
    moved &= work.engine > 0
    index = np.arange(len(work))
    down = _leaves(graph)
    ordered = edges.of_kind(DependencyKind.STREAM_ORDER, DependencyKind.NOT_RECORDED)
    gone = ordered & np.isin(edges.target, graph.work_start(index[moved & ~down]))
    gone |= ordered & np.isin(edges.source, graph.work_end(index[moved & down]))
    streams = by_stream(graph)
    received = _received(graph, streams, moved)
    gone |= _implicit(graph, moved) | _legacy(graph, moved) | received
    reads = _reads(graph, streams, moved, config)
    gone |= ordered & np.isin(edges.source, graph.work_end(index[moved & ~down])) & ~edges.among(reads)
    gone, engines = _engines(graph, moved, gone, config)
    new = reads.take(~reads.among(edges.take(~gone)))
    order = (
        *_still_waited(graph, streams, moved),
        *_new_order(graph, streams, moved, config),
        sent_back(graph, moved & ~down, config, inputs=False),
        _next_but_one(graph, streams, edges.take(received)),
    )
    changed = graph.with_dependencies(edges.take(~gone), engines, new, *order)
    unknown = moved & (work.engine == Direction.HTOD) & ~tensors_known(graph)
    basis = (_UNKNOWN,) * bool(unknown.any()) + (_TWO_BUFFERS,) * bool(received.any())
    return Edited(replace(changed, trace=_on_new_streams(graph, streams, moved)), basis, edges.take(received))


def _leaves(graph: Graph) -> Bool:
    """Which work copies something from the device of its stream to elsewhere."""
    work, copies = graph.work, graph.trace.copies
    source = np.append(copies.source_device, NO_ID)[work.copy]
    leaves: Bool = (work.engine == Direction.DTOH) | ((work.engine == Direction.PTOP) & (work.device == source))
    return leaves


def _received(graph: Graph, streams: Streams, moved: Bool) -> Bool:
    """What moved copies to other devices waited for on the streams that receive them, and what waited with them."""
    work, edges = graph.work, graph.dependencies
    rows = np.flatnonzero(edges.of_kind(DependencyKind.EVENT))
    source, target = graph.work_of(edges.source[rows]), graph.work_of(edges.target[rows])
    to = np.append(graph.trace.copies.target_device, NO_ID)[work.copy[target]]
    sent = moved[target] & (work.engine[target] == Direction.PTOP) & (work.device[target] != to)
    sent &= work.device[source] == to
    wait = codes(np.stack([edges.source[rows], streams[2][target]]))
    gone = np.zeros(len(edges), np.bool_)
    gone[rows] = np.isin(wait, wait[sent])
    return gone


def _next_but_one(graph: Graph, streams: Streams, received: Dependencies) -> Dependencies:
    """What receives a copy has two buffers: the copy after the next on its stream needs the first of them again.

    So what a copy waited for, when the buffer was one, the next one waits for.
    """
    copies = np.unique(graph.work_of(received.target))
    copies = copies[graph.work.engine[copies] == Direction.PTOP]
    to = np.append(graph.trace.copies.target_device, NO_ID)[graph.work.copy[copies]]
    after = np.full(len(graph.work) + 1, NO_ID, np.int64)
    lanes = codes(np.stack([streams[2][copies], to]))
    for lane in np.unique(lanes).tolist():
        mine = copies[lanes == lane]
        after[mine[:-1]] = mine[1:]
    target = graph.work_start(after[graph.work_of(received.target)])
    later = graph.time_ns[received.source] <= graph.time_ns[target]
    return Dependencies.of(received.source, np.where(later, target, NO_ID), received.weight_ns, DependencyKind.EVENT)


def _implicit(graph: Graph, moved: Bool) -> Bool:
    """What waited for a copy of another stream without being told to: a non-blocking stream makes nothing wait."""
    work, edges = graph.work, graph.dependencies
    rows = np.flatnonzero(edges.of_kind(DependencyKind.NOT_RECORDED))
    source, target = graph.work_of(edges.source[rows]), graph.work_of(edges.target[rows])
    gone = np.zeros(len(edges), np.bool_)
    gone[rows] = moved[source] & (work.stream[source] != work.stream[target])
    return gone


def _legacy(graph: Graph, moved: Bool) -> Bool:
    """What the legacy default stream had to do with them: nothing, where a stream is non-blocking."""
    some = np.flatnonzero(moved)
    ends = np.isin(graph.dependencies.source, graph.work_end(some)) | np.isin(graph.dependencies.target, graph.work_start(some))
    legacy: Bool = ends & graph.dependencies.of_kind(DependencyKind.LEGACY_DEFAULT_STREAM)
    return legacy


def _lanes(graph: Graph, streams: Streams, moved: Bool) -> Int64:
    """A number for what shares a stream afterwards: what stays on each, and its copies of each direction and device."""
    work = graph.work
    to = np.append(graph.trace.copies.target_device, NO_ID)[work.copy]
    return codes(np.stack([streams[2], np.where(moved, work.engine, 0), np.where(moved, to, NO_ID)]))


def _on_new_streams(graph: Graph, streams: Streams, moved: Bool) -> Trace:
    """The trace in which moved copies share a stream with others of their direction and device only.

    Each stream that shared them with anything else gets a new one for every direction.
    """
    trace, work = graph.trace, graph.work
    _, _, stream_of = streams
    lane = _lanes(graph, streams, moved)
    keeps = np.unique(stream_of, return_index=True)[1]  # what a stream begins with stays on it, if nothing is to stay
    stays = np.isin(lane, np.where(np.isin(stream_of[keeps], stream_of[~moved]), NO_ID, lane[keeps]))
    shared = moved & ~stays
    stream = trace.copies.stream.copy()
    highest = int(max((table.stream.max(initial=0) for table in trace.device_work), default=0))
    stream[work.row[shared]] = highest + 1 + np.unique(lane[shared], return_inverse=True)[1]
    return replace(trace, copies=replace(trace.copies, stream=stream))


def _new_order(graph: Graph, streams: Streams, moved: Bool, config: SimulationConfig) -> Iterator[Dependencies]:
    """What shares a stream keeps its order; copies that leave its device stay after the work before them."""
    order, _, stream_of = streams
    lane = _lanes(graph, streams, moved)
    by_lane = order[np.argsort(lane[order], kind="stable")]
    same = lane[by_lane[:-1]] == lane[by_lane[1:]]
    yield _after(graph, by_lane[:-1][same], by_lane[1:][same], config)
    staying = order[np.maximum.accumulate(np.where(moved[order], 0, np.arange(len(order))))]
    leaving = (moved & _leaves(graph))[order] & (stream_of[staying] == stream_of[order]) & ~moved[staying]
    yield _after(graph, staying[leaving], order[leaving], config)


def _still_waited(graph: Graph, streams: Streams, moved: Bool) -> Iterator[Dependencies]:
    """Host and other streams that waited for work after a moved copy on its stream wait for the copy too.

    What waits on another stream may read what a copy to the device brought, or overwrite what one to the host took. The
    host waits for copies to itself, and with the device for all.
    """
    work, edges = graph.work, graph.dependencies
    order, place, stream_of = streams
    source = graph.work_of(edges.source)
    from_work = source >= 0
    whole = np.zeros(len(edges), np.bool_)
    by_host = edges.of_kind(DependencyKind.SYNCHRONISATION)
    whole[by_host] = graph.calls.kind[edges.target[by_host] // 2] == ApiKind.DEVICE_SYNC
    for direction in LINK:
        mine = np.sort(place[moved & (work.engine == direction)])
        waits = edges.of_kind(DependencyKind.EVENT) | (by_host & (whole | (direction == Direction.DTOH)))
        rows = np.flatnonzero(waits & from_work)
        at = np.searchsorted(mine, place[source[rows]], "right") - 1
        copy = np.append(order[mine], NO_ID)[at]
        same = (at >= 0) & (stream_of[copy] == stream_of[source[rows]]) & (copy != source[rows])
        some = edges.take(rows[same])
        yield replace(some, source=graph.work_end(copy[same]))


def _engines(graph: Graph, moved: Bool, gone: Bool, config: SimulationConfig) -> tuple[Bool, Dependencies]:
    """A copy engine's order without short copies that stay, which find their place: what goes too, and what comes."""
    edges, work = graph.dependencies, graph.work
    rows = np.flatnonzero(edges.of_kind(DependencyKind.COPY_ENGINE))
    source, target = graph.work_of(edges.source[rows]), graph.work_of(edges.target[rows])
    short = ~moved & (work.end_ns - work.start_ns < config.near_ns)
    gone = gone.copy()
    gone[rows] |= (moved[source] & short[target]) | (short[source] & moved[target])
    earlier = before(work, work.engine, np.flatnonzero((work.engine > 0) & ~short))
    again = moved & (earlier != NO_ID) & (work.end_ns[earlier] <= work.start_ns)
    index = np.flatnonzero(again)
    order = Dependencies.of(graph.work_end(earlier[index]), graph.work_start(index), config.follow_ns, DependencyKind.COPY_ENGINE)
    return gone, order.take(~order.among(edges.take(~gone)))


def _reads(graph: Graph, streams: Streams, moved: Bool, config: SimulationConfig) -> Dependencies:
    """Of what stays on its stream, what may read a copy waits for it, and for those that its thread issued with it."""
    copies = np.flatnonzero(moved & ~_leaves(graph))
    readers = _of_any(graph, first_readers(graph, streams, copies, ~moved), copies, streams, moved)
    apart = graph.work.end_ns[copies] <= graph.work.start_ns[readers]
    source, target = graph.work_end(copies), graph.work_start(np.where(apart, readers, NO_ID))
    return Dependencies.of(source, target, config.follow_ns, DependencyKind.STREAM_ORDER)


def _of_any(graph: Graph, readers: Int64, copies: Int64, streams: Streams, moved: Bool) -> Int64:
    """The first reader of any of the copies that follow each other on a stream, where their own thread issued it.

    Such a thread records an event when it has issued all of them; another one may hear of each by itself.
    """
    order, place, stream = streams
    began = ~moved[order]
    began[1:] |= stream[order[1:]] != stream[order[:-1]]
    group = np.cumsum(began)[place[copies]]
    owner = np.append(graph.calls.owner, NO_ID)[graph.work.call]
    own = (readers != NO_ID) & (owner[readers] == owner[copies])
    first = np.full(len(order) + 1, len(order))
    np.minimum.at(first, group[own], place[readers[own]])
    found: Int64 = np.where(own, np.append(order, NO_ID)[first[group]], readers)
    return found


def _after(graph: Graph, one: Int64, other: Int64, config: SimulationConfig) -> Dependencies:
    """Each op after another one of its stream that was over before it, where in the trace one was between them."""
    apart = graph.work.end_ns[one] <= graph.work.start_ns[other]
    source, target = graph.work_end(one[apart]), graph.work_start(other[apart])
    new = np.append(graph.dependencies.source, NO_ID)[graph.into(target, DependencyKind.STREAM_ORDER)] != source
    return Dependencies.of(source[new], target[new], config.follow_ns, DependencyKind.STREAM_ORDER)
