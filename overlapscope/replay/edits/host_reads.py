"""When the host reads what copies bring to it: where a recording tells, before an operator that is given it."""

from __future__ import annotations

import numpy as np

from overlapscope.measure.places import following
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.replay.edits.readers import issuing_operators
from overlapscope.replay.graph import Because, Edges, Graph

UNREAD = "the trace does not say when the host reads what is copied to it"
_COPY = "aten::copy_"  # others may read by themselves what they copy


def waits_gone(before: Graph, after: Graph) -> Edges:
    """The waits of the host that are there no more."""
    waits, kept = (graph.edges.take(graph.edges.of_kind(Because.SYNC, Because.STAGING)) for graph in (before, after))
    moments = len(before.time_ns)
    return waits.take(~np.isin(waits.source * moments + waits.target, kept.source * moments + kept.target))


def read_later(graph: Graph, gone: Edges, copies: Int64) -> tuple[Edges, Edges]:
    """What the host still waits for of some copies to it when some of its waits are gone.

    Before the first call after an operator that is given what was copied, the copy is there. Where no such operator is
    known, the host may read it at once: then the waits are returned as the second.
    """
    source = graph.work_of(gone.source)
    free = np.intersect1d(copies, source)
    reads, known = _before_reads(graph, free)
    return reads, gone.take(np.isin(source, free[~known]))


def _before_reads(graph: Graph, copies: Int64) -> tuple[Edges, Bool]:
    """From the end of copies to the next call of the thread that reads them, and of which copies that is known."""
    recording, ops = graph.trace.metadata.recording, graph.trace.cpu_ops
    if recording is None or recording.reads is None or not len(copies):
        return Edges.none(), np.zeros(len(copies), np.bool_)
    reads, operator = recording.reads, issuing_operators(graph)[copies]
    named = np.append(ops.name_id, NO_ID)[operator]
    issued = np.append(ops.start_ns, NO_ID)[operator]
    at = np.searchsorted(reads.copy_start_ns, issued)
    read = np.append(reads.copy_start_ns, NO_ID)[at] == issued
    read &= (operator != NO_ID) & np.isin(named, graph.trace.names.find(_COPY))
    reader = np.searchsorted(ops.start_ns, np.append(reads.op_start_ns, 0)[np.where(read, at, -1)])
    reader = np.minimum(reader, len(ops) - 1)
    next_call = following(graph.calls, ops.process[reader], ops.thread[reader], ops.start_ns[reader])
    call = np.where(read, next_call, NO_ID)
    end, start = graph.work_end(copies), graph.call_start(call)
    read &= (call != NO_ID) & (graph.time_ns[end] <= graph.time_ns[start])  # else it was read too early as it is
    since = np.append(graph.calls.start_ns, 0)[call] - ops.start_ns[reader]
    lag = np.clip(since, 0, _work_before(graph, call))
    return Edges.of(end[read], start[read], lag[read], Because.SYNC), read


def _work_before(graph: Graph, call: Int64) -> Int64:
    """What the thread does by itself before each call."""
    edge = graph.into(graph.call_start(call), Because.GAP)
    work: Int64 = np.append(graph.edges.lag_ns, 0)[edge]
    return work
