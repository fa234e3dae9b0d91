"""When the host reads what copies bring to it: where a recording tells, before an operator that is given it."""

from __future__ import annotations

import numpy as np

from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.replay.edits.readers import issuing_operators
from overlapscope.replay.graph import Because, Edges, Graph


def waits_before_reads(graph: Graph, copies: Int64) -> tuple[Edges, Bool]:
    """From the end of copies to the host to the next call of the thread that reads them, after it has read them.

    Also for which of the copies the trace knows whether anything reads them.
    """
    recording, ops = graph.trace.metadata.recording, graph.trace.cpu_ops
    operator = issuing_operators(graph)[copies]
    if recording is None or recording.reads is None or not len(copies):
        return Edges.none(), np.zeros(len(copies), np.bool_)
    reads = recording.reads
    issued = np.append(ops.start_ns, NO_ID)[operator]
    at = np.searchsorted(reads.copy_start_ns, issued)
    read = np.append(reads.copy_start_ns, NO_ID)[at] == issued
    read &= operator != NO_ID
    reader = np.searchsorted(ops.start_ns, np.append(reads.op_start_ns, 0)[at[read]])
    reader = np.minimum(reader, len(ops) - 1)
    call = _next_call(graph, reader)
    since = np.append(graph.calls.start_ns, 0)[call] - ops.start_ns[reader]
    waits = Edges.of(
        graph.work_end(copies[read]), graph.call_start(call), np.minimum(since, _work_before(graph, call)), Because.SYNC
    )
    return waits, operator != NO_ID


def _next_call(graph: Graph, operator: Int64) -> Int64:
    """The first call of its thread after the start of each operator; `NO_ID` where there is none."""
    calls, ops = graph.calls, graph.trace.cpu_ops
    result = np.full(len(operator), NO_ID, np.int64)
    for process, thread in set(zip(ops.process[operator].tolist(), ops.thread[operator].tolist(), strict=True)):
        mine = np.flatnonzero((calls.process == process) & (calls.thread == thread))
        here = (ops.process[operator] == process) & (ops.thread[operator] == thread)
        following = np.searchsorted(calls.start_ns[mine], ops.start_ns[operator[here]])
        result[here] = np.append(mine, NO_ID)[following]
    return result


def _work_before(graph: Graph, call: Int64) -> Int64:
    """What the thread does by itself before each call."""
    edge = graph.into(graph.call_start(call), Because.GAP)
    work: Int64 = np.append(graph.edges.lag_ns, 0)[edge]
    return work
