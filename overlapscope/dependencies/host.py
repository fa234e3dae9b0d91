"""What host threads wait for: their own work, synchronisations, copies that block them, each other.

Sources: `FACTS` in `kinds`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from overlapscope.dependencies.config import DependencyConfig
from overlapscope.dependencies.graph import Dependencies, Graph, bound
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.dependencies.threads import hand_offs
from overlapscope.measure.host import blocked_from_ns, plain_enqueue_ns
from overlapscope.measure.spans import each_of
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import HOST_ALLOCATIONS, SYNC_CALLS, ApiKind, Direction, MemoryKind


def host_dependencies(graph: Graph, config: DependencyConfig) -> Dependencies:
    """Dependencies into the starts and ends of all calls."""
    waits = Dependencies.together(_synchronisations(graph), _staging(graph), _locks(graph, config))
    waits = waits.take(graph.time_ns[waits.source] <= graph.time_ns[waits.target])
    own = graph.dependencies.take(graph.dependencies.of_kind(*OWN_DURATION))
    plain = plain_enqueue_ns(graph.trace, config.host)
    waiting = np.isin(own.target, waits.target)
    own = replace(own, weight_ns=np.where(waiting, np.minimum(own.weight_ns, plain), own.weight_ns))
    return Dependencies.together(bound(graph.time_ns, Dependencies.together(own, waits)), _threads(graph, config))


def _threads(graph: Graph, config: DependencyConfig) -> Dependencies:
    """Each call after the one before it on its thread, and after the calls of threads that it waited for."""
    calls, index = graph.calls, np.arange(len(graph.calls))
    same = calls.owner[1:] == calls.owner[:-1]
    before, after = index[:-1][same], index[1:][same]
    beside = calls.start_ns[after] < calls.end_ns[before]  # calls of one thread that overlap: the trace is not sound
    source = np.where(beside, graph.call_start(before), graph.call_end(before))
    handed, idle_ns = hand_offs(graph, config)
    own_ns = np.maximum(calls.start_ns[after] - graph.time_ns[source] - idle_ns[after], 0)
    order = Dependencies.of(source, graph.call_start(after), own_ns, DependencyKind.PROGRAM_ORDER)
    return Dependencies.together(order, handed)


def _synchronisations(graph: Graph) -> Dependencies:
    """From the work that a synchronising call waits for to its end: of each stream the last.

    Also the last kernel and the last copy to the host, since what comes after them may be moved elsewhere.
    """
    calls, work = graph.calls, graph.work
    rows = np.flatnonzero(np.isin(calls.kind, SYNC_CALLS))
    stream, on = (values[calls.row[rows]] for values in _synchronised(graph))
    everything = calls.kind[rows] == ApiKind.DEVICE_SYNC
    issued = work.issued_ns(calls)
    parts = [Dependencies.none()]
    for process, device, number in graph.streams:
        mine = np.flatnonzero((work.process == process) & (work.device == device) & (work.stream == number))
        mine = mine[work.call[mine] != NO_ID]
        mine = mine[np.argsort(issued[mine], kind="stable")]
        here = (calls.process[rows] == process) & ((on == device) | (on == NO_ID))
        until = rows[here & ((stream == number) | everything)]
        for some in (mine, mine[work.engine[mine] == 0], mine[work.engine[mine] == Direction.DTOH]):
            last = np.append(NO_ID, some)[np.searchsorted(issued[some], calls.start_ns[until])]
            parts.append(_synchronised_with(graph, last, until))
    not_recorded = rows[(stream == NO_ID) & ~everything]
    parts += [
        _synchronised_with(graph, which(graph, not_recorded), not_recorded, inferred=True)
        for which in (_ended_inside, _issued_before)
    ]
    return Dependencies.together(*parts)


def _synchronised_with(graph: Graph, work: Int64, call: Int64, *, inferred: bool = False) -> Dependencies:
    ends, returns = graph.work_end(work), graph.call_end(call)
    return Dependencies.of(ends, returns, 0, DependencyKind.SYNCHRONISATION, inferred=inferred)


def _issued_before(graph: Graph, index: Int64) -> Int64:
    """The work that its thread issued last before each call: what it waits for, where nothing else is known."""
    work, calls = graph.work, graph.calls
    joined = np.flatnonzero(work.call != NO_ID)
    joined = joined[np.argsort(work.call[joined], kind="stable")]
    last = np.append(NO_ID, joined)[np.searchsorted(work.call[joined], index)]
    own = np.append(calls.owner, NO_ID)[np.append(work.call, NO_ID)[last]] == calls.owner[index]
    return np.where((last != NO_ID) & own, last, NO_ID)


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
    for process in np.unique(calls.process[index]).tolist():
        mine = np.flatnonzero(work.process == process)
        mine = mine[np.argsort(work.end_ns[mine], kind="stable")]
        here = calls.process[index] == process
        last = np.append(NO_ID, mine)[np.searchsorted(work.end_ns[mine], calls.end_ns[index[here]], "right")]
        inside = np.append(work.end_ns, 0)[last] >= calls.start_ns[index[here]]
        result[here] = np.where(inside, last, NO_ID)
    return result


def _staging(graph: Graph) -> Dependencies:
    """From a copy to the end of the call that it blocks: from its start where the call ends before it does."""
    trace, work, calls = graph.trace, graph.work, graph.calls
    copies = np.flatnonzero((work.table == 1) & (work.call != NO_ID))
    row, call = work.row[copies], work.call[copies]
    down = trace.copies.direction[row] == Direction.DTOH
    kind = np.where(down, trace.copies.target_kind[row], trace.copies.source_kind[row])
    after_start = calls.end_ns[call] > work.start_ns[copies]
    after_end = calls.end_ns[call] >= work.end_ns[copies]
    blocks = (calls.kind[call] == ApiKind.COPY) & after_start & ((kind == MemoryKind.PAGEABLE) | after_end)
    source = np.where(after_end, graph.work_end(copies), graph.work_start(copies))
    return Dependencies.of(source[blocks], graph.call_end(call[blocks]), 0, DependencyKind.STAGING)


def _locks(graph: Graph, config: DependencyConfig) -> Dependencies:
    """From the ends of calls that hold a lock of the driver to calls of other threads that began before and waited.

    Copy calls that blocked hold it, and calls that page-lock host memory.
    """
    calls = graph.calls
    blocked = blocked_from_ns(graph.trace, config.host)[calls.row] < calls.end_ns
    blocking = np.flatnonzero(np.isin(calls.kind, (ApiKind.COPY, *HOST_ALLOCATIONS)) & blocked)
    waiting = np.flatnonzero(~np.isin(calls.kind, (*SYNC_CALLS, ApiKind.COPY)) & blocked)
    parts = [Dependencies.none()]
    for process in np.unique(calls.process[blocking]).tolist():
        own = blocking[calls.process[blocking] == process]
        own = own[np.argsort(calls.end_ns[own], kind="stable")]
        mine = waiting[calls.process[waiting] == process]
        first, past = (
            np.searchsorted(calls.end_ns[own], moment[mine], "right") for moment in (calls.start_ns, calls.end_ns)
        )
        which, place = each_of(first, past)
        other = calls.owner[own[place]] != calls.owner[mine[which]]
        source, target = graph.call_end(own[place[other]]), graph.call_end(mine[which[other]])
        parts.append(Dependencies.of(source, target, 0, DependencyKind.DRIVER_LOCK, inferred=True))
    return Dependencies.together(*parts)
