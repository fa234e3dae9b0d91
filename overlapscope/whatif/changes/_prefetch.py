"""Copies to the device are issued some steps earlier, on a stream of their own, and not waited for.

A step is what lies between two groups of copy calls on a thread with a launch between them. What a copy waited for by
an event, it waits for as many steps earlier: the buffers go round. Who waits for the device after they were issued
waits for them too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from overlapscope.measure.copies import host_kind
from overlapscope.measure.spans import each_of
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import ApiKind, Direction, MemoryKind
from overlapscope.model.trace import Trace
from overlapscope.whatif.config import SimulationConfig
from overlapscope.replay.edits.common import Edited, Where
from overlapscope.replay.edits.non_blocking import non_blocking
from overlapscope.replay.edits.side_stream import side_stream
from overlapscope.dependencies.simulate import has_cycle
from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind


def prefetch(graph: Graph, where: Where, config: SimulationConfig) -> Edited:
    """``where.value`` steps ahead."""
    wanted = where.copies & (graph.trace.copies.direction == Direction.HTOD)
    pageable = wanted & (host_kind(graph.trace.copies) == MemoryKind.PAGEABLE)
    basis = [f"{int(pageable.sum())} pageable copies stay where they are: pin them first"] if pageable.any() else []
    up = Where(wanted & ~pageable, where.calls)
    unblocked = non_blocking(graph, up, config)
    aside = side_stream(unblocked.graph, up, config)
    graph = aside.graph
    some = up.work(graph)
    some = some[graph.work.call[some] != NO_ID]
    steps = round(where.value or 1)
    earlier = _same_copy_earlier(graph, some, steps)
    edges = graph.dependencies
    issue = graph.into(graph.work_start(some), DependencyKind.LAUNCH)
    source = edges.source.copy()
    launched = issue != NO_ID
    source[issue[launched]] = graph.call_start(graph.work.call[earlier[launched]])
    other = earlier != some
    gone = edges.of_kind(DependencyKind.EVENT) & np.isin(edges.target, graph.work_start(some[other]))
    kept = Dependencies(source, edges.target, edges.weight_ns, edges.kind).take(~gone)
    waits = _waits_of(graph, earlier[other], some[other])
    synced = _next_device_sync(graph, graph.work.call[earlier[other]])
    host = Dependencies.of(graph.work_end(some[other]), graph.call_end(synced), 0, DependencyKind.SYNCHRONISATION)
    trace = _issued_by(graph, some[other], earlier[other])
    moved = graph.with_dependencies(kept, waits)
    synced_too = graph.with_dependencies(kept, waits, host)  # in a trace out of order, a copy may wait for what follows that
    graph = synced_too if len(host) and not has_cycle(synced_too) else moved
    return Edited(replace(graph, trace=trace), (*basis, *unblocked.basis, *aside.basis), unblocked.doubtful)


def _next_device_sync(graph: Graph, call: Int64) -> Int64:
    """The first call after each on its thread that waits for the device, and so for what was issued early too."""
    calls = graph.calls
    syncs = np.flatnonzero(calls.kind == ApiKind.DEVICE_SYNC)
    found = np.append(syncs, NO_ID)[np.searchsorted(syncs, call, "right")]
    same = (calls.thread[found] == calls.thread[call]) & (calls.process[found] == calls.process[call])
    return np.where((found != NO_ID) & same, found, NO_ID)


def _issued_by(graph: Graph, some: Int64, earlier: Int64) -> Trace:
    """The trace in which some copies are issued by the calls of earlier ones; their own stay, and issue nothing."""
    copies = graph.trace.copies
    call = copies.call.copy()
    call[graph.work.row[some]] = graph.calls.row[graph.work.call[earlier]]
    return replace(graph.trace, copies=replace(copies, call=call))


def _waits_of(graph: Graph, earlier: Int64, some: Int64) -> Dependencies:
    """The events that ``earlier`` copies wait for, for ``some`` to wait for."""
    events = graph.dependencies.take(graph.dependencies.of_kind(DependencyKind.EVENT))
    events = events.take(np.argsort(events.target, kind="stable"))
    first, last = (np.searchsorted(events.target, graph.work_start(earlier), side) for side in ("left", "right"))
    member, edge = each_of(first, last)
    return Dependencies.of(events.source[edge], graph.work_start(some[member]), events.weight_ns[edge], DependencyKind.EVENT)


def _same_copy_earlier(graph: Graph, some: Int64, steps: int) -> Int64:
    """For each copy the first one of the group that lies this many steps before its own, at least the first group's."""
    call = graph.work.call[some]
    group = _groups(graph)[call]
    owner = np.stack([graph.calls.process[call], graph.calls.thread[call]])
    result = some.copy()
    for process, thread in sorted(set(zip(*owner.tolist(), strict=True))):
        mine = np.flatnonzero((owner[0] == process) & (owner[1] == thread))
        order = mine[np.argsort(call[mine], kind="stable")]
        _, first, number = np.unique(group[order], return_index=True, return_inverse=True)
        leader = some[order[first]]
        result[order] = leader[np.maximum(number - steps, 0)]
    return result


def _groups(graph: Graph) -> Int64:
    """A number for each call that grows with every launch before it on its thread."""
    launches = np.isin(graph.calls.kind, (ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH))
    return np.cumsum(launches)
