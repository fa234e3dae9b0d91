"""Calls of one kind in a row: many small copies as one, many launches as one graph launch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from overlapscope.measure.issue import first_copy_of, synchronised_copy
from overlapscope.measure.places import innermost
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind, Direction
from overlapscope.model.trace import Trace
from overlapscope.replay.autograd import by_autograd
from overlapscope.whatif.config import SimulationConfig
from overlapscope.replay.edits.common import Edited, Where, enqueue_ns, without_wait
from overlapscope.whatif.packing import Packing, packing
from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.whatif.copy_speeds import pinned_speed

_MORE = "that pieces may be in no cache, and need views: only the upper bound counts that"
_DEVICES = 1 << 16  # more than one machine has
_BESIDE = (ApiKind.OTHER, ApiKind.QUERY, ApiKind.EVENT_RECORD, ApiKind.STREAM_SYNC)
"""Calls that may stand between those of a run."""


def graph_launch(graph: Graph, where: Where, config: SimulationConfig) -> Edited:
    """Launches in a row cost the host as much as one, with what the thread did between them.

    Copies and fills within a device are launches too: a graph takes them; and a backward pass, whose launches another
    thread makes.
    """
    calls, copies = graph.calls, graph.trace.copies
    within = np.append(copies.direction == Direction.DTOD, False)[first_copy_of(graph.trace)[calls.row]]
    within &= calls.kind == ApiKind.COPY
    mine = (np.isin(calls.kind, (ApiKind.LAUNCH, ApiKind.MEMSET)) | within) & where.calls[calls.row]
    place = np.full(len(calls), NO_ID, np.int64)
    joined = graph.work.call != NO_ID
    place[graph.work.call[joined]] = graph.work.device[joined]
    leader = _leaders(graph, mine, (ApiKind.OTHER, ApiKind.QUERY), place)
    inside = np.flatnonzero((leader != NO_ID) & (leader != np.arange(len(calls))))
    weight, edges = graph.dependencies.weight_ns.copy(), graph.dependencies
    into = np.isin(edges.target, np.concatenate([graph.call_start(inside), graph.call_end(inside)]))
    short = weight <= config.launch_gap_ns  # a longer gap is other work, which a graph does not do
    weight[into & edges.of_kind(DependencyKind.PROGRAM_ORDER, *OWN_DURATION, DependencyKind.DRIVER_LOCK) & short] = 0
    weight[_passed_on(graph, leader != NO_ID)] = 0
    nodes = np.flatnonzero(np.isin(graph.work.call, inside))
    within = np.isin(edges.target, graph.work_start(nodes)) & edges.of_kind(DependencyKind.STREAM_ORDER)
    within &= edges.source % 2 == 1  # not those that follow a start, which they overlap as they are
    weight[within] = np.minimum(weight[within], config.node_gap_ns)
    return Edited(graph.with_weights(weight), ("launches in a row as one graph launch",))


def _passed_on(graph: Graph, launching: Bool) -> Int64:
    """Dependencies by which a backward pass goes from its thread to autograd's and back, between launches."""
    handed = np.flatnonzero(graph.dependencies.of_kind(DependencyKind.THREAD_HANDOFF))
    one, other = graph.dependencies.source[handed] // 2, graph.dependencies.target[handed] // 2
    engine = by_autograd(graph)
    passed: Int64 = handed[launching[one] & launching[other] & (engine[one] | engine[other])]
    return passed


def coalesce(graph: Graph, where: Where, config: SimulationConfig) -> Edited:
    """Small copies to the device in a row are gathered in one pinned buffer and sent as one.

    What may come to it: pieces that are in no cache, and views of what arrives, where they were tensors of their own.
    """
    copies, calls = graph.trace.copies, graph.calls
    copy = first_copy_of(graph.trace)[calls.row]
    wanted = where.copies & (copies.direction == Direction.HTOD) & (copies.duration_ns <= config.host.most_enqueue_ns)
    mine = (calls.kind == ApiKind.COPY) & np.append(wanted, False)[copy] & (copy != NO_ID)
    waits = np.append(wanted, False)[synchronised_copy(graph.trace)[calls.row]]
    waits &= synchronised_copy(graph.trace)[calls.row] != NO_ID
    place = np.append(copies.stream * _DEVICES + copies.device, NO_ID)[copy]
    leader = _leaders(graph, mine, _BESIDE, place)
    leader[~(mine | waits | (leader != NO_ID))] = NO_ID
    inside = np.flatnonzero((leader != NO_ID) & (leader != np.arange(len(calls))))
    graph = without_wait(graph, np.flatnonzero(leader != NO_ID), enqueue_ns(graph, config))
    members = np.flatnonzero(mine & (leader != NO_ID))
    if not len(members):
        return Edited(graph, ("no small copies to the device are in a row",))
    gather = packing(graph.trace)
    graph, basis = _as_one(graph, members, leader, copy, gather)
    weight, edges = graph.dependencies.weight_ns.copy(), graph.dependencies
    into = np.isin(edges.target, np.concatenate([graph.call_start(inside), graph.call_end(inside)]))
    short = weight <= config.launch_gap_ns  # a longer gap is other work, which stays
    weight[into & (edges.of_kind(*OWN_DURATION) | (edges.of_kind(DependencyKind.PROGRAM_ORDER) & short))] = 0
    more = _more(graph, members, leader, gather)
    return Edited(graph.with_weights(weight), (*basis, *([_MORE] if len(more) else [])), more)


def _as_one(
    graph: Graph, members: Int64, leader: Int64, copy: Int64, gather: Packing | None
) -> tuple[Graph, tuple[str, ...]]:
    """The first copy of each run takes the time of all bytes, its call that of packing them; the others take none."""
    copies = graph.trace.copies
    leaders, group = np.unique(leader[members], return_inverse=True)
    total = np.bincount(group, copies.size_bytes[copy[members]], len(leaders)).astype(np.int64)
    speed = pinned_speed(graph.trace, Direction.HTOD, total)
    work_of_copy = np.full(len(copies) + 1, NO_ID, np.int64)
    rows = np.flatnonzero(graph.work.table == 1)
    work_of_copy[graph.work.row[rows]] = rows
    weight = graph.dependencies.weight_ns.copy()
    run = graph.into(graph.work_end(work_of_copy[copy[members]]), DependencyKind.EXECUTION)
    weight[run] = 0
    others = graph.work_start(work_of_copy[copy[np.setdiff1d(members, leaders)]])
    weight[np.isin(graph.dependencies.target, others) & graph.dependencies.of_kind(DependencyKind.STREAM_ORDER, DependencyKind.COPY_ENGINE)] = 0
    first = graph.into(graph.work_end(work_of_copy[copy[leaders]]), DependencyKind.EXECUTION)
    durations = np.bincount(group, copies.duration_ns[copy[members]], len(leaders)).astype(np.int64)
    weight[first] = durations if speed is None else speed.copy_time_ns(total)
    told = [] if speed is None else [f"one copy of all bytes: {speed.basis}"]
    call = graph.into(graph.call_end(leaders), *OWN_DURATION)
    if gather is not None:
        weight[call] += gather.host_ns(copies.size_bytes[copy[members]], group)
    told.append("packing on the host is not counted" if gather is None else gather.basis)
    issue = graph.into(graph.work_start(work_of_copy[copy[leaders]]), DependencyKind.LAUNCH)
    known = issue != NO_ID
    source = graph.dependencies.source.copy()
    source[issue[known]], weight[issue[known]] = graph.call_end(leaders[known]), 0
    return replace(graph, edges=replace(graph.dependencies, source=source, weight_ns=weight)), tuple(told)


def _more(graph: Graph, members: Int64, leader: Int64, gather: Packing | None) -> Dependencies:
    """The leaders' calls with what may come to packing, as far as that is known."""
    if gather is None:
        return Dependencies.none()
    rows = graph.calls.row[members]
    leaders, group = np.unique(leader[members], return_inverse=True)
    sizes = graph.trace.copies.size_bytes[first_copy_of(graph.trace)[rows]]
    more_ns = gather.more_ns(sizes, _made_for(graph.trace, rows), group)
    some = leaders[more_ns > 0]
    taken = graph.dependencies.weight_ns[graph.into(graph.call_end(some), *OWN_DURATION)] + more_ns[more_ns > 0]
    return Dependencies.of(graph.call_start(some), graph.call_end(some), taken, *OWN_DURATION)


def _made_for(trace: Trace, rows: Int64) -> Bool:
    """Which copy calls are of an operator that makes a tensor for what it copies, as ``.to(device)`` does."""
    ops, calls = trace.cpu_ops, trace.api_calls
    makers = ops.take(np.isin(ops.name_id, trace.names.find("aten::_to_copy")))
    made: Bool = innermost(makers, calls.process[rows], calls.thread[rows], calls.start_ns[rows]) != NO_ID
    return made


def _leaders(graph: Graph, mine: Bool, beside: tuple[ApiKind, ...], place: Int64) -> Int64:
    """For each call of a run its first call; `NO_ID` for calls of none. Calls of other kinds and places end a run."""
    calls = graph.calls
    latest = np.maximum.accumulate(np.where(mine, np.arange(len(calls)), 0))
    free = mine | np.isin(calls.kind, beside)
    begins = np.ones(len(calls), np.bool_)
    begins[1:] = (
        ~free[1:] | ~free[:-1] | (calls.thread[1:] != calls.thread[:-1]) | (calls.process[1:] != calls.process[:-1])
    )
    begins[1:] |= place[latest][1:] != place[latest][:-1]
    run = np.cumsum(begins) - 1
    count = np.bincount(run[mine], minlength=len(calls) + 1)
    first = np.full(len(calls) + 1, len(calls), np.int64)
    np.minimum.at(first, run[mine], np.flatnonzero(mine))
    last = np.full(len(calls) + 1, NO_ID, np.int64)
    np.maximum.at(last, run[mine], np.flatnonzero(mine))
    index = np.arange(len(calls))
    inside = (count[run] > 1) & free & (index >= first[run]) & (index <= last[run])
    return np.where(inside, first[run], NO_ID)
