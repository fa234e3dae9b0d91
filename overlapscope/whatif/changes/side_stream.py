"""Copies get a stream of their own.

## What it changes
A copy to the GPU waits for its launch, its copy engine and the copies before it; the next work of its old stream that
may consume it waits for it. A copy to the host waits for the work before it on its old stream, and later work of that
stream does not wait for it. Who waited for either by way of later work of the stream still does: a host that reads what
came, another stream that consumes what went. A copy to another GPU does as one to the host on the stream that sends it,
and waits for nothing on the GPU that receives it.

## What it assumes
A trace does not show what consumes a copy: the next work of the old stream is taken to, unless the recording knows the
operators' arguments. Where as many bytes came to the host before on that stream, they may be what goes back (a D2H-H2D
round trip), so the copy waits for these.

Races are not simulated: where the recording knows the host tensors, copies from and to one of them stay in their order,
as with an event between the streams (OVL101, OVL102). What copies to the host read must stay until they end, and what
copies to the GPU overwrite must have been read: the prediction says both.

## Bounds
At best nothing waits for copies whose consumers are not known. At worst they go round two buffers: each group waits for
the work before the group before it. Copies to another GPU wait at worst for the one buffer that they have there now.

## When it misleads
Without an event, another stream may use memory before the copy is there; without `record_stream`, memory that it still
uses may be handed out again (OVL104). The prediction has the order that is right; the program has to make it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.measure.copies import host_kind
from overlapscope.measure.grouping import at, last_before, neighbours
from overlapscope.measure.waits import synchronised_copy
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import LINK, ApiKind, Direction, MemoryKind
from overlapscope.whatif.calls import Streams, codes
from overlapscope.whatif.change import Bounds, Change, Editor, Where
from overlapscope.whatif.host_memory import IN_ORDER, consumers_known, first_consumers, in_recorded_order, round_trips

_RECEIVED = "copies to another device find a free buffer there"
UNKNOWN_CONSUMERS = "the trace does not say what reads a copy, so the next work of its old stream waits for it"
_LEAVING = "nothing overwrites or reuses the memory that copies to the host read, before they end (record_stream)"
_ARRIVING = "copies to the GPU write to memory that no other stream still reads (two buffers, or record_stream)"
_ORDER = (DependencyKind.STREAM_ORDER, DependencyKind.NOT_RECORDED)
_EVENTS = (DependencyKind.EVENT, DependencyKind.OTHER_DEVICE)

_LARGEST_STREAM = 2**62
"""Ids beyond are addresses, and leave no room for others."""


@dataclass(frozen=True)
class SideStream(Change):
    """Copies over a link get a stream of their own."""

    name: ClassVar[str] = "side-stream"
    condition: ClassVar[str] = "if events order copies and consumers"
    needs_order: ClassVar[bool] = True
    says_where_to: ClassVar[bool] = True
    """Whether it says by itself what is assumed of the memory that copies write to."""

    def apply(self, editor: Editor, where: Where) -> None:
        """Move them; what was moved before stays so."""
        graph, edges = editor.graph, editor.dependencies
        move = _Move.of(graph, where)
        received = move.received()
        consumed = move.consumers()
        gone = move.released() | received
        gone |= edges.of_kind(*_ORDER) & np.isin(edges.source, graph.work_end(move.arrivals)) & ~edges.among(consumed)
        kept = edges.take(~gone)
        order = (
            *move.still_waited(),
            *move.new_order(),
            round_trips(graph, move.arrivals, inputs=False),
            known := in_recorded_order(graph, np.flatnonzero(move.moved)),
        )
        streams = move.new_streams()
        editor.remove(gone)
        editor.add(consumed.take(~consumed.among(kept)), *order)
        editor.set_copies(stream=streams)
        editor.possible = Dependencies.concat(editor.possible, edges.take(received))
        uploads = move.moved & (graph.work.engine == Direction.HTOD)
        if move.left_running().any():
            editor.grant(_LEAVING)
        if uploads.any() and self.says_where_to:
            editor.grant(_ARRIVING)
        editor.assume(
            *[UNKNOWN_CONSUMERS] * bool((uploads & ~consumers_known(graph)).any()),
            *[_RECEIVED] * bool(received.any()),
            *[IN_ORDER] * bool(len(known)),
        )

    def bounds(self, before: Graph, after: Graph) -> Bounds | None:
        """Two buffers at worst; at best no wait for copies whose consumers are not known, nor by coincidence."""
        other = at(before.trace.copies.stream != after.trace.copies.stream, before.work.copy, False)
        moved = np.flatnonzero((before.work.engine == Direction.HTOD) & other)
        if not len(moved):
            return None
        edges, unknown = after.dependencies, moved[~consumers_known(after)[moved]]
        free = edges.of_kind(DependencyKind.NOT_RECORDED)
        free |= np.isin(edges.source, after.work_end(unknown)) & edges.of_kind(DependencyKind.STREAM_ORDER)
        return Bounds(_two_buffers(before, after, moved), edges.take(free))


@dataclass(frozen=True, eq=False)
class _Move:
    """Copies of a graph that get streams of their own."""

    graph: Graph
    streams: Streams
    moved: Bool

    @classmethod
    def of(cls, graph: Graph, where: Where) -> _Move:
        """The copies to which the change applies, and copies that an earlier change has moved."""
        work = graph.work
        moved = at(graph.trace.copies.stream, work.copy) != work.stream
        moved[where.work(graph)] = True
        return cls(graph, Streams.of(graph), moved & (work.engine > 0))

    @property
    def leaving(self) -> Bool:
        """Which work copies something from the device of its stream to elsewhere."""
        work = self.graph.work
        at_source = np.equal(work.device, at(self.graph.trace.copies.source_device, work.copy))
        return np.isin(work.engine, Direction.DTOH) | (np.isin(work.engine, Direction.PTOP) & at_source)

    def left_running(self) -> Bool:
        """Which moved copies to the host are not waited for right after, so that later work may run beside them."""
        work, trace = self.graph.work, self.graph.trace
        waited = np.append(host_kind(trace.copies) == MemoryKind.PAGEABLE, False)
        waited[synchronised_copy(trace)] = True
        return self.moved & np.isin(work.engine, Direction.DTOH) & ~at(waited[:-1], work.copy, False)

    @property
    def arrivals(self) -> Int64:
        """Moved copies that bring something to the device of their stream."""
        return np.flatnonzero(self.moved & ~self.leaving)

    def released(self) -> Bool:
        """Dependencies that a stream of its own takes away: of stream order, of the default stream, by coincidence."""
        graph, edges = self.graph, self.graph.dependencies
        source, target = (np.maximum(graph.work_of(nodes), NO_ID) for nodes in (edges.source, edges.target))
        ordered, stream = edges.of_kind(*_ORDER), graph.work.stream
        gone = ordered & np.isin(edges.target, graph.work_start(self.arrivals))
        gone |= ordered & np.isin(edges.source, graph.work_end(np.flatnonzero(self.moved & self.leaving)))
        from_moved = at(self.moved, source, False) & (edges.source % 2 == 1)
        to_moved = at(self.moved, target, False) & (edges.target % 2 == 0)
        gone |= (from_moved | to_moved) & edges.of_kind(DependencyKind.LEGACY_DEFAULT_STREAM)
        elsewhere = at(stream, source) != at(stream, target)
        gone |= from_moved & elsewhere & edges.of_kind(DependencyKind.NOT_RECORDED)
        return gone

    def received(self) -> Bool:
        """Which waits of moved copies, and of work that shares such a wait, are for work on the receiving device."""
        graph, work, edges = self.graph, self.graph.work, self.graph.dependencies
        rows = np.flatnonzero(edges.of_kind(*_EVENTS))
        source, target = graph.work_of(edges.source[rows]), graph.work_of(edges.target[rows])
        to = at(graph.trace.copies.target_device, work.copy[target])
        sent = self.moved[target] & (work.engine[target] == Direction.PTOP) & (work.device[target] != to)
        sent &= work.device[source] == to
        wait = codes(np.stack([edges.source[rows], self.streams.stream[target]]))
        gone = np.zeros(len(edges), np.bool_)
        gone[rows] = np.isin(wait, wait[sent])
        return gone

    def consumers(self) -> Dependencies:
        """Work that stays on its stream and may consume a copy waits for it."""
        graph, copies = self.graph, self.arrivals
        consumer = first_consumers(graph, self.streams, copies, ~self.moved)
        later = graph.work.end_ns[copies] <= graph.work.start_ns[consumer]
        return graph.after_work(copies, np.where(later, consumer, NO_ID), DependencyKind.STREAM_ORDER)

    def still_waited(self) -> Iterator[Dependencies]:
        """Host and other streams that waited for work after a moved copy on its stream wait for the copy too.

        What waits on another stream may consume what a copy to the device brought, or overwrite what one to the host
        took. The host waits for copies to itself, and with the device for all.
        """
        graph, work, edges, streams = self.graph, self.graph.work, self.graph.dependencies, self.streams
        source = graph.work_of(edges.source)
        by_host = edges.of_kind(DependencyKind.SYNCHRONISATION)
        whole = np.zeros(len(edges), np.bool_)
        whole[by_host] = graph.calls.kind[edges.target[by_host] // 2] == ApiKind.DEVICE_SYNC
        for direction in LINK:
            places = np.sort(streams.place[self.moved & (work.engine == direction)])
            waits = edges.of_kind(*_EVENTS) | (by_host & (whole | (direction == Direction.DTOH)))
            rows = np.flatnonzero(waits & (source >= 0))
            copy = last_before(streams.order[places], places, streams.place[source[rows]], "right")
            of_stream = (at(streams.stream, copy) == streams.stream[source[rows]]) & (copy != source[rows])
            yield replace(edges.take(rows[of_stream]), source=graph.work_end(copy[of_stream]))

    def _lanes(self) -> Int64:
        """A number for what shares a stream afterwards: what stays on each, and its copies by direction and device."""
        work = self.graph.work
        to = at(self.graph.trace.copies.target_device, work.copy)
        engine, target = np.where(self.moved, work.engine, 0), np.where(self.moved, to, NO_ID)
        return codes(np.stack([self.streams.stream, engine, target]))

    def new_streams(self) -> Int64:
        """Streams of all copies: moved ones share theirs with others of their direction and device only.

        Each stream that shared them with anything else gets a new one for every direction.
        """
        trace, work, lane = self.graph.trace, self.graph.work, self._lanes()
        stream_of, begins = self.streams.stream, self.streams.first
        emptied = ~np.isin(stream_of[begins], stream_of[~self.moved])
        shared = self.moved & ~np.isin(lane, lane[begins[emptied]])  # what a stream begins with stays if all is moved
        stream = trace.copies.stream.copy()
        used = np.concatenate([table.stream for table in trace.device_work])
        highest = int(used[used < _LARGEST_STREAM].max(initial=0))
        stream[work.row[shared]] = highest + 1 + np.unique(lane[shared], return_inverse=True)[1]
        return stream

    def new_order(self) -> Iterator[Dependencies]:
        """The order of the new streams: work on one stream keeps its order, copies to other devices come later."""
        order, stream, moved, lane = self.streams.order, self.streams.stream, self.moved, self._lanes()
        yield _after(self.graph, *neighbours(order[np.argsort(lane[order], kind="stable")], lane))
        staying = order[np.maximum.accumulate(np.where(moved[order], 0, np.arange(len(order))))]
        leaving = (moved & self.leaving)[order] & (stream[staying] == stream[order]) & ~moved[staying]
        yield _after(self.graph, staying[leaving], order[leaving])


def _after(graph: Graph, one: Int64, other: Int64) -> Dependencies:
    """Each op after another one of its stream that was over before it, where in the trace one was between them."""
    ordered = graph.into(graph.work_start(other), DependencyKind.STREAM_ORDER)
    new = graph.work.end_ns[one] <= graph.work.start_ns[other]
    new &= at(graph.dependencies.source, ordered) != graph.work_end(one)
    return graph.after_work(one[new], other[new], DependencyKind.STREAM_ORDER)


def _two_buffers(before: Graph, after: Graph, moved: Int64) -> Dependencies:
    """Moved copies wait for what was before the group before their own, and for what they may send back."""
    work = before.work
    order = moved[np.lexsort((moved, work.stream[moved], work.device[moved], work.process[moved]))]
    edge = before.into(before.work_start(order), DependencyKind.STREAM_ORDER)
    ahead = np.where(edge == NO_ID, NO_ID, before.work_of(at(before.dependencies.source, edge, 0)))
    begins = ~np.isin(ahead, order)
    group, first = np.cumsum(begins) - 1, np.flatnonzero(begins)
    columns = (values[order[first]] for values in (work.process, work.device, work.stream))
    one, other = neighbours(np.arange(len(first)), *columns)
    earlier = np.full(len(first), NO_ID)
    earlier[other] = ahead[first[one]]
    buffers = after.after_work(earlier[group], order, DependencyKind.EVENT)
    return Dependencies.concat(buffers, round_trips(before, moved, inputs=True))
