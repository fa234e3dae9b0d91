"""Pageable copies come from and go to pinned memory: their calls return at once, they run at the pinned bandwidth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from overlapscope.measure.copies import host_kind
from overlapscope.measure.queues import launch_latency_ns
from overlapscope.model.columns import Bool, Int8, Int64
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.trace import Trace
from overlapscope.whatif.config import SimulationConfig
from overlapscope.replay.edits.common import Edited, Where, blocking_calls, enqueue_ns
from overlapscope.replay.edits.host_reads import read_later, waits_gone
from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.whatif.copy_speeds import pinned_speed


def pin(graph: Graph, where: Where, config: SimulationConfig) -> Edited:
    """Pinned ahead of time: pinning itself is not in the prediction. Calls that block by name still wait.

    What comes to the host is waited for before it is read, see `read_later`.
    """
    pageable = host_kind(graph.trace.copies) == MemoryKind.PAGEABLE
    some = Where(where.copies & pageable, where.calls).work(graph)
    weight, basis = _durations(graph, some)
    calls = np.unique(graph.work.call[some])
    calls = calls[calls >= 0]
    edges = graph.dependencies
    own = graph.into(graph.call_end(calls), *OWN_DURATION)
    weight[own] = np.minimum(weight[own], enqueue_ns(graph, config))
    issue = np.isin(edges.target, graph.work_start(some)) & edges.of_kind(DependencyKind.LAUNCH)
    latency = round(config.queue.tolerance * launch_latency_ns(graph.trace, config.queue))
    weight[issue] = np.minimum(weight[issue], latency)
    gone = np.isin(edges.target, graph.call_end(calls)) & edges.of_kind(DependencyKind.STAGING)
    gone |= np.isin(edges.target, graph.work_start(some)) & edges.of_kind(DependencyKind.NOT_RECORDED)  # it was staging
    changed = replace(graph.with_weights(weight), trace=_pinned(graph.trace, where.copies & pageable))
    # One that returned before its copy had ended did not block, whatever it is called.
    ended = graph.work.end_ns[some] <= np.append(graph.calls.end_ns, 0)[graph.work.call[some]]
    blocking = some[ended & np.isin(graph.work.call[some], blocking_calls(graph))]
    waits = Dependencies.of(graph.work_end(blocking), graph.call_end(graph.work.call[blocking]), 0, DependencyKind.STAGING)
    edited = changed.with_dependencies(changed.dependencies.take(~gone), waits)
    came = some[graph.work.engine[some] == Direction.DTOH]
    later = read_later(edited, waits_gone(graph, edited), came)
    return Edited(edited.with_dependencies(later.of(edited)), (*basis, *later.basis), later.unread, later.kept)


def _pinned(trace: Trace, some: Bool) -> Trace:
    """The trace in which the host's side of some copies is pinned."""
    copies = trace.copies

    def kinds(kind: Int8) -> Int8:
        return np.where(some & (kind == MemoryKind.PAGEABLE), MemoryKind.PINNED, kind).astype(np.int8)

    return replace(
        trace, copies=replace(copies, source_kind=kinds(copies.source_kind), target_kind=kinds(copies.target_kind))
    )


def _durations(graph: Graph, some: Int64) -> tuple[Int64, tuple[str, ...]]:
    """All weights, those of some copies as long as they would be pinned, and what that is known from."""
    copies, row = graph.trace.copies, graph.work.row[some]
    run = graph.into(graph.work_end(some), DependencyKind.EXECUTION)
    weight, basis = graph.dependencies.weight_ns.copy(), []
    for direction in (Direction.HTOD, Direction.DTOH):
        mine = copies.direction[row] == direction
        if not mine.any():
            continue
        sizes = copies.size_bytes[row[mine]]
        speed = pinned_speed(graph.trace, direction, sizes)
        if speed is None:
            basis.append(f"{direction.label}: no pinned bandwidth is known, so copies keep their length")
            continue
        weight[run[mine]] = np.minimum(speed.copy_time_ns(sizes), weight[run[mine]])
        basis.append(f"{direction.label}: {speed.basis}")
    return weight, tuple(basis)
