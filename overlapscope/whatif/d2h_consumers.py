"""When the host reads what copies bring to it: where a recording shows it, before an operator that is given it."""

from __future__ import annotations

import numpy as np

from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.dependencies.operators import issuing_operators
from overlapscope.measure.places import enclosing, following
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.whatif.editor import Editor

UNKNOWN_READER = "the trace does not say when the host reads what is copied to it"
AT_ONCE = "what .cpu() and .to() bring to the host is taken to be read at once"
_COPY = "aten::copy_"  # others may read by themselves what they copy
_MAKING = ("aten::_to_copy", "aten::to")
_WAITS = (DependencyKind.SYNCHRONISATION, DependencyKind.STAGING)


def keep_waits_of_readers(editor: Editor, before: Graph, copies: Int64) -> Dependencies:
    """Let the host still wait for some copies to it, of which a change took its waits out, before it reads them.

    Before the first call after an operator that is given what was copied, the copy is there. Where no such operator is
    known, the host may read it at once (the upper bound has that), and is taken to if ``.cpu()`` or ``.to()`` made a
    tensor of it: the program asked for that where it uses it, while it has set aside a buffer for what comes later.

    Returns:
        The waits of the host that a change took out.
    """
    waits, kept = (edges.take(edges.of_kind(*_WAITS)) for edges in (before.dependencies, editor.dependencies))
    gone = waits.take(~waits.among(kept))
    graph, source = editor.graph, editor.graph.work_of(gone.source)
    free = np.intersect1d(copies, source)
    reads, known = _before_readers(graph, free)
    unknown = free[~known]
    new = _makes_tensor(graph, unknown)
    at_once, unread = (gone.take(np.isin(source, unknown[some])) for some in (new, ~new))
    editor.add(reads, at_once)
    editor.avoidable = Dependencies.together(editor.avoidable, at_once)
    editor.possible = Dependencies.together(editor.possible, unread)
    editor.assume(*[text for text, some in ((AT_ONCE, at_once), (UNKNOWN_READER, unread)) if len(some)])
    return gone


def _makes_tensor(graph: Graph, copies: Int64) -> Bool:
    """Which of some copies were issued by an operator that makes a new tensor of them."""
    if not len(copies):
        return np.zeros(0, np.bool_)
    ops = graph.trace.cpu_ops
    around = np.append(enclosing(ops), NO_ID)[issuing_operators(graph, copies)]
    new: Bool = np.isin(np.append(ops.name_id, NO_ID)[around], graph.trace.names.find(*_MAKING))
    return new


def _before_readers(graph: Graph, copies: Int64) -> tuple[Dependencies, Bool]:
    """From the end of copies to the next call of the thread that reads them, and of which copies that is known."""
    recording, ops = graph.trace.metadata.recording, graph.trace.cpu_ops
    if recording is None or recording.d2h_consumers is None or not len(copies) or not len(ops):
        return Dependencies.none(), np.zeros(len(copies), np.bool_)
    consumers, operator = recording.d2h_consumers, issuing_operators(graph, copies)
    named, issued = (np.append(column, NO_ID)[operator] for column in (ops.name_id, ops.start_ns))
    at = np.searchsorted(consumers.copy_start_ns, issued)
    read = np.append(consumers.copy_start_ns, NO_ID)[at] == issued
    read &= (operator != NO_ID) & np.isin(named, graph.trace.names.find(_COPY))
    reader = np.searchsorted(ops.start_ns, np.append(consumers.op_start_ns, 0)[np.where(read, at, -1)])
    reader = np.minimum(reader, len(ops) - 1)
    next_call = following(graph.calls, ops.process[reader], ops.thread[reader], ops.start_ns[reader])
    call = np.where(read, next_call, NO_ID)
    end, start = graph.work_end(copies), graph.call_start(call)
    read &= (call != NO_ID) & (graph.time_ns[end] <= graph.time_ns[start])  # else it was read too early as it is
    since = np.append(graph.calls.start_ns, 0)[call] - ops.start_ns[reader]
    own = np.append(graph.dependencies.weight_ns, 0)[graph.into(start, DependencyKind.PROGRAM_ORDER)]
    waits = Dependencies.of(end[read], start[read], np.clip(since, 0, own)[read], DependencyKind.SYNCHRONISATION)
    return waits, read
