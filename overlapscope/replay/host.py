"""What host threads wait for: their own work, synchronisations, copies that hold them, each other.

Sources: CUDA Runtime API, "API synchronization behavior".
"""

from __future__ import annotations

import numpy as np

from overlapscope.measure.host import blocked_from_ns, plain_enqueue_ns
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import SYNC_CALLS, ApiKind, Direction, MemoryKind
from overlapscope.replay.config import ReplayConfig
from overlapscope.replay.fed import fed
from overlapscope.replay.graph import Because, Edges, Graph, bound
from overlapscope.replay.idle import busy_threads
from overlapscope.replay.joins import joins
from overlapscope.replay.turns import turns


def host_edges(graph: Graph, config: ReplayConfig) -> Edges:
    """Edges into the starts and ends of all calls."""
    waits = Edges.together(_synchronisations(graph), _staging(graph), _locks(graph, config), _queues(graph, config))
    waits = waits.take(graph.time_ns[waits.source] <= graph.time_ns[waits.target])
    own = graph.edges.take(graph.edges.of_kind(Because.CALL))
    plain = plain_enqueue_ns(graph.trace, config.host)
    held = np.isin(own.target, waits.target)
    own = Edges(own.source, own.target, np.where(held, np.minimum(own.lag_ns, plain), own.lag_ns), own.because)
    return Edges.together(bound(graph.time_ns, Edges.together(own, waits)), _threads(graph, config))


def _threads(graph: Graph, config: ReplayConfig) -> Edges:
    """Each call after the one before it on its thread, or after those of another that had the work meanwhile."""
    calls, index = graph.calls, np.arange(len(graph.calls))
    same = (calls.process[1:] == calls.process[:-1]) & (calls.thread[1:] == calls.thread[:-1])
    before, after = index[:-1][same], index[1:][same]
    gap = calls.start_ns[after] - calls.end_ns[before]
    beside = gap < 0  # calls of one thread that overlap, in a trace that is not sound
    source = np.where(beside, graph.call_start(before), graph.call_end(before))
    gap = np.where(beside, calls.start_ns[after] - calls.start_ns[before], gap)
    threads = busy_threads(graph)
    joined = joins(graph, _silent_since(graph), threads, config)
    turned = turns(graph, before, after, threads.engine, config)
    turned = turned.take(~np.isin(turned.target, joined.target))
    resumed = np.isin(after, np.append(joined.target, turned.target) // 2)
    given, waited_ns = fed(graph, before[~resumed], after[~resumed], threads, config)
    gap[resumed] = 0
    gap[~resumed] -= waited_ns
    return Edges.together(Edges.of(source, graph.call_start(after), gap, Because.GAP), joined, turned, given)


def _silent_since(graph: Graph) -> Int64:
    """Since when each call's thread had made none: since its last one, or since the trace began."""
    calls, trace = graph.calls, graph.trace
    since_ns = np.append(0, calls.end_ns[:-1])[: len(calls)]
    for process in np.unique(calls.process).tolist():
        starts = [table.start_ns[table.process == process] for table in (calls, trace.cpu_ops, trace.ranges)]
        since_ns[calls.first[calls.process[calls.first] == process]] = np.concatenate(starts).min()
    return since_ns


def _synchronisations(graph: Graph) -> Edges:
    """From the work that a synchronising call waits for to its end: of each stream the last.

    Also the last kernel and the last copy to the host, since what comes after them may be moved elsewhere.
    """
    calls, work = graph.calls, graph.work
    rows = np.flatnonzero(np.isin(calls.kind, SYNC_CALLS))
    stream, on = (values[calls.row[rows]] for values in _synchronised(graph))
    everything = calls.kind[rows] == ApiKind.DEVICE_SYNC
    issued = work.issued_ns(calls)
    parts = [Edges.none()]
    for process, device, number in graph.streams():
        mine = np.flatnonzero((work.process == process) & (work.device == device) & (work.stream == number))
        mine = mine[work.call[mine] != NO_ID]
        mine = mine[np.argsort(issued[mine], kind="stable")]
        here = (calls.process[rows] == process) & ((on == device) | (on == NO_ID))
        until = rows[here & ((stream == number) | everything)]
        for some in (mine, mine[work.engine[mine] == 0], mine[work.engine[mine] == Direction.DTOH]):
            last = np.append(NO_ID, some)[np.searchsorted(issued[some], calls.start_ns[until])]
            parts.append(Edges.of(graph.work_end(last), graph.call_end(until), 0, Because.SYNC))
    untold = rows[(stream == NO_ID) & ~everything]
    parts += [
        Edges.of(graph.work_end(which(graph, untold)), graph.call_end(untold), 0, Because.SYNC)
        for which in (_ended_before, _issued_before)
    ]
    return Edges.together(*parts)


def _issued_before(graph: Graph, index: Int64) -> Int64:
    """The work that its thread issued last before each call: what it waits for, where nothing else is known."""
    work, calls = graph.work, graph.calls
    joined = np.flatnonzero(work.call != NO_ID)
    joined = joined[np.argsort(work.call[joined], kind="stable")]
    last = np.append(NO_ID, joined)[np.searchsorted(work.call[joined], index)]
    call = np.append(work.call, NO_ID)[last]
    own = (last != NO_ID) & (calls.thread[call] == calls.thread[index])
    own &= calls.process[call] == calls.process[index]
    return np.where(own, last, NO_ID)


def _synchronised(graph: Graph) -> tuple[Int64, Int64]:
    """For each row of api_calls the stream and the device that a synchronisation waits for, where that is recorded."""
    syncs = graph.trace.syncs
    stream, device = np.full((2, len(graph.trace.api_calls) + 1), NO_ID, np.int64)
    stream[syncs.call] = np.where(syncs.stream != NO_ID, syncs.stream, syncs.source_stream)
    device[syncs.call] = syncs.device
    return stream[:-1], device[:-1]


def _ended_before(graph: Graph, index: Int64) -> Int64:
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


def _staging(graph: Graph) -> Edges:
    """From a copy to the end of the call that it holds: from its start where the call ends before it does."""
    trace, work, calls = graph.trace, graph.work, graph.calls
    copies = np.flatnonzero((work.table == 1) & (work.call != NO_ID))
    row, call = work.row[copies], work.call[copies]
    down = trace.copies.direction[row] == Direction.DTOH
    kind = np.where(down, trace.copies.target_kind[row], trace.copies.source_kind[row])
    after_start = calls.end_ns[call] > work.start_ns[copies]
    after_end = calls.end_ns[call] >= work.end_ns[copies]
    holds = (calls.kind[call] == ApiKind.COPY) & after_start & ((kind == MemoryKind.PAGEABLE) | after_end)
    source = np.where(after_end, graph.work_end(copies), graph.work_start(copies))
    return Edges.of(source[holds], graph.call_end(call[holds]), 0, Because.STAGING)


def _locks(graph: Graph, config: ReplayConfig) -> Edges:
    """From the end of a copy call that held the driver to those of other threads' calls that waited under it."""
    calls = graph.calls
    held = blocked_from_ns(graph.trace, config.host)[calls.row]
    holding = np.flatnonzero((calls.kind == ApiKind.COPY) & (held < calls.end_ns))
    waiting = np.flatnonzero(~np.isin(calls.kind, (*SYNC_CALLS, ApiKind.COPY)) & (held < calls.end_ns))
    parts = [Edges.none()]
    for process in np.unique(calls.process[holding]).tolist():
        own = holding[calls.process[holding] == process]
        own = own[np.argsort(calls.end_ns[own], kind="stable")]
        mine = waiting[calls.process[waiting] == process]
        last = np.append(NO_ID, own)[np.searchsorted(calls.end_ns[own], calls.end_ns[mine], "right")]
        under = (
            (calls.end_ns[last] > calls.start_ns[mine]) & (calls.thread[last] != calls.thread[mine]) & (last != NO_ID)
        )
        parts.append(Edges.of(graph.call_end(last[under]), graph.call_end(mine[under]), 0, Because.LOCK))
    return Edges.together(*parts)


def _queues(graph: Graph, config: ReplayConfig) -> Edges:
    """From the op whose start made room in a full queue to the end of the call that waited for it."""
    calls, work = graph.calls, graph.work
    held = blocked_from_ns(graph.trace, config.host)[calls.row] < calls.end_ns
    waiting = held & np.isin(calls.kind, (ApiKind.LAUNCH, ApiKind.MEMSET))
    parts = [Edges.none()]
    for process, device, stream in graph.streams():
        mine = (work.process == process) & (work.device == device) & (work.stream == stream) & (work.call != NO_ID)
        ops = np.flatnonzero(mine)  # by start
        own = ops[waiting[work.call[ops]]]
        ends = calls.end_ns[work.call[own]]
        begun = np.searchsorted(work.start_ns[ops], ends, "right")
        issued = np.searchsorted(np.sort(calls.end_ns[work.call[ops]]), ends, "right")
        full = (issued - begun >= config.full_queue) & (begun > 0)
        source = ops[np.maximum(begun - 1, 0)]
        parts.append(Edges.of(graph.work_start(source[full]), graph.call_end(work.call[own[full]]), 0, Because.QUEUE))
    return Edges.together(*parts)
