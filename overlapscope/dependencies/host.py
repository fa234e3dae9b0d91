"""The dependencies of host threads: on their work, synchronisations, copies that block them, and each other.

Sources: `DependencyKind`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from overlapscope.dependencies.device import by_issue
from overlapscope.dependencies.graph import Dependencies, Graph, bound
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.dependencies.threads import hand_offs
from overlapscope.measure.grouping import at, each_value, last_before, neighbours
from overlapscope.measure.host import blocked_from_ns, plain_enqueue_ns
from overlapscope.measure.spans import each_of
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import HOST_ALLOCATIONS, SYNC_CALLS, ApiKind, Direction, MemoryKind


def host_dependencies(graph: Graph) -> Dependencies:
    """Dependencies into the starts and ends of all calls."""
    waits = Dependencies.concat(_synchronisations(graph), _staging(graph), _locks(graph))
    waits = waits.take(graph.time_ns[waits.source] <= graph.time_ns[waits.target])
    durations = graph.dependencies.take(graph.dependencies.of_kind(*OWN_DURATION))
    weight, waiting = durations.weight_ns, np.isin(durations.target, waits.target)
    plain = np.minimum(weight, plain_enqueue_ns(graph.trace.api_calls))
    durations = replace(durations, weight_ns=np.where(waiting, plain, weight))
    return Dependencies.concat(bound(graph.time_ns, Dependencies.concat(durations, waits)), _threads(graph))


def _threads(graph: Graph) -> Dependencies:
    """Each call after the one before it on its thread, and after the calls of threads that it waited for."""
    calls = graph.calls
    before, after = neighbours(np.arange(len(calls)), calls.owner)
    beside = calls.start_ns[after] < calls.end_ns[before]  # calls of one thread that overlap: the trace is not sound
    source = np.where(beside, graph.call_start(before), graph.call_end(before))
    handed, idle_ns = hand_offs(graph)
    work_ns = np.maximum(calls.start_ns[after] - graph.time_ns[source] - idle_ns[after], 0)
    order = Dependencies.of(source, graph.call_start(after), work_ns, DependencyKind.PROGRAM_ORDER)
    return Dependencies.concat(order, handed)


def _synchronisations(graph: Graph) -> Dependencies:
    """The dependencies of a synchronising call's end on the work that it waits for: the last of each stream.

    Also the last kernel and the last copy to the host, since what comes after them may be moved elsewhere.
    """
    calls, work = graph.calls, graph.work
    rows = np.flatnonzero(np.isin(calls.kind, SYNC_CALLS))
    stream, on = (values[calls.row[rows]] for values in _synchronised(graph))
    everything = calls.kind[rows] == ApiKind.DEVICE_SYNC
    issued = work.issued_ns(calls)
    parts = [Dependencies.none()]
    for process, device, number in graph.streams:
        every = by_issue(work, issued, process, device, number)
        here = (calls.process[rows] == process) & ((on == device) | (on == NO_ID))
        until = rows[here & ((stream == number) | everything)]
        groups = every, every[work.engine[every] == 0], every[work.engine[every] == Direction.DTOH]
        last = (last_before(ops, issued[ops], calls.start_ns[until]) for ops in groups)
        parts += [_synchronised_with(graph, ops, until) for ops in last]
    not_recorded = rows[(stream == NO_ID) & ~everything]
    parts += [
        _synchronised_with(graph, which(graph, not_recorded), not_recorded, inferred=True)
        for which in (_ended_inside, _issued_before)
    ]
    return Dependencies.concat(*parts)


def _synchronised_with(graph: Graph, work: Int64, call: Int64, *, inferred: bool = False) -> Dependencies:
    ends, returns = graph.work_end(work), graph.call_end(call)
    return Dependencies.of(ends, returns, 0, DependencyKind.SYNCHRONISATION, inferred=inferred)


def _issued_before(graph: Graph, index: Int64) -> Int64:
    """The work that its thread issued last before each call: what it waits for, where nothing else is known."""
    work, calls = graph.work, graph.calls
    joined = np.flatnonzero(work.call != NO_ID)
    joined = joined[np.argsort(work.call[joined], kind="stable")]
    last = last_before(joined, work.call[joined], index)
    return np.where(at(calls.owner, at(work.call, last)) == calls.owner[index], last, NO_ID)


def _synchronised(graph: Graph) -> tuple[Int64, Int64]:
    """For each row of api_calls the stream and the device that a synchronisation waits for, where that is recorded."""
    syncs = graph.trace.syncs
    stream, device = np.full((2, len(graph.trace.api_calls) + 1), NO_ID, np.int64)
    stream[syncs.call] = np.where(syncs.stream != NO_ID, syncs.stream, syncs.source_stream)
    device[syncs.call] = syncs.device
    return stream[:-1], device[:-1]


def _ended_inside(graph: Graph, index: Int64) -> Int64:
    """The work that ended last before the end of some calls, if it ended inside them."""
    work, calls = graph.work, graph.calls
    result = np.full(len(index), NO_ID, np.int64)
    for process, here in each_value(calls.process[index]):
        ops = np.flatnonzero(work.process == process)
        ops = ops[np.argsort(work.end_ns[ops], kind="stable")]
        last = last_before(ops, work.end_ns[ops], calls.end_ns[index[here]], "right")
        result[here] = np.where(at(work.end_ns, last, 0) >= calls.start_ns[index[here]], last, NO_ID)
    return result


def _staging(graph: Graph) -> Dependencies:
    """The dependencies of a blocked call's end on its copy: on the copy's start where the call ends before the copy."""
    trace, work, calls = graph.trace, graph.work, graph.calls
    copies = np.flatnonzero((work.table == 1) & (work.call != NO_ID))
    row, call = work.row[copies], work.call[copies]
    down = trace.copies.direction[row] == Direction.DTOH
    kind = np.where(down, trace.copies.target_kind[row], trace.copies.source_kind[row])
    after_start, after_end = calls.end_ns[call] > work.start_ns[copies], calls.end_ns[call] >= work.end_ns[copies]
    blocks = (calls.kind[call] == ApiKind.COPY) & after_start & ((kind == MemoryKind.PAGEABLE) | after_end)
    source = np.where(after_end, graph.work_end(copies), graph.work_start(copies))
    return Dependencies.of(source[blocks], graph.call_end(call[blocks]), 0, DependencyKind.STAGING)


def _locks(graph: Graph) -> Dependencies:
    """The dependencies of waiting calls on calls of other threads that hold a lock of the driver.

    Copy calls that blocked hold it, and calls that page-lock host memory.
    """
    calls = graph.calls
    blocked = blocked_from_ns(graph.trace.api_calls)[calls.row] < calls.end_ns
    blocking = np.flatnonzero(np.isin(calls.kind, (ApiKind.COPY, *HOST_ALLOCATIONS)) & blocked)
    waiting = np.flatnonzero(~np.isin(calls.kind, (*SYNC_CALLS, ApiKind.COPY)) & blocked)
    parts = [Dependencies.none()]
    for process, places in each_value(calls.process[blocking]):
        holders, waiters = blocking[places], waiting[calls.process[waiting] == process]
        holders = holders[np.argsort(calls.end_ns[holders], kind="stable")]
        ends, times = calls.end_ns[holders], (calls.start_ns[waiters], calls.end_ns[waiters])
        which, place = each_of(*(np.searchsorted(ends, moment, "right") for moment in times))
        holder, waiter = holders[place], waiters[which]
        other = calls.owner[holder] != calls.owner[waiter]
        source, target = graph.call_end(holder[other]), graph.call_end(waiter[other])
        parts.append(Dependencies.of(source, target, 0, DependencyKind.DRIVER_LOCK, inferred=True))
    return Dependencies.concat(*parts)
