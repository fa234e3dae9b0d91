"""When the host reads what copies bring to it: where a recording tells, before an operator that is given it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.measure.places import enclosing, following
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.replay.edits.readers import issuing_operators
from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind

UNREAD = "the trace does not say when the host reads what is copied to it"
AT_ONCE = "what .cpu() and .to() bring to the host is taken to be read at once"
_COPY = "aten::copy_"  # others may read by themselves what they copy
_MAKING = ("aten::_to_copy", "aten::to")


def waits_gone(before: Graph, after: Graph) -> Dependencies:
    """The waits of the host that are there no more."""
    waits, kept = (graph.dependencies.take(graph.dependencies.of_kind(DependencyKind.SYNCHRONISATION, DependencyKind.STAGING)) for graph in (before, after))
    return waits.take(~waits.among(kept))


@dataclass(frozen=True, eq=False)
class Waits:
    """What the host waits for of some copies to it where it waited for more.

    ``reads`` are waits before what is known to read them, ``kept`` those for what is taken to be read at once, and
    ``unread`` those that had to stay if something else were read at once.
    """

    reads: Dependencies
    kept: Dependencies
    unread: Dependencies

    def of(self, graph: Graph) -> Dependencies:
        """All edges of a graph, with those that stay."""
        return Dependencies.together(graph.dependencies, self.reads, self.kept)

    @property
    def basis(self) -> tuple[str, ...]:
        """What is taken for granted here."""
        return tuple(text for text, some in ((AT_ONCE, self.kept), (UNREAD, self.unread)) if len(some))


def read_later(graph: Graph, gone: Dependencies, copies: Int64) -> Waits:
    """What the host still waits for of some copies to it when some of its waits are gone.

    Before the first call after an operator that is given what was copied, the copy is there. Where no such operator is
    known, the host may read it at once, and is taken to if ``.cpu()`` or ``.to()`` made a tensor of it: the program
    asked for that where it uses it, while it has set aside a buffer for what comes later.
    """
    source = graph.work_of(gone.source)
    free = np.intersect1d(copies, source)
    reads, known = _before_reads(graph, free)
    unknown = free[~known]
    new = _makes_tensor(graph, unknown)
    kept, unread = (gone.take(np.isin(source, unknown[some])) for some in (new, ~new))
    return Waits(reads, kept, unread)


def _makes_tensor(graph: Graph, copies: Int64) -> Bool:
    """Which of some copies were issued by an operator that makes a new tensor of them."""
    if not len(copies):
        return np.zeros(0, np.bool_)
    ops = graph.trace.cpu_ops
    around = np.append(enclosing(ops), NO_ID)[issuing_operators(graph)[copies]]
    named = np.append(ops.name_id, NO_ID)[around]
    new: Bool = np.isin(named, graph.trace.names.find(*_MAKING))
    return new


def _before_reads(graph: Graph, copies: Int64) -> tuple[Dependencies, Bool]:
    """From the end of copies to the next call of the thread that reads them, and of which copies that is known."""
    recording, ops = graph.trace.metadata.recording, graph.trace.cpu_ops
    if recording is None or recording.d2h_consumers is None or not len(copies):
        return Dependencies.none(), np.zeros(len(copies), np.bool_)
    reads, operator = recording.d2h_consumers, issuing_operators(graph)[copies]
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
    weight = np.clip(since, 0, _work_before(graph, call))
    return Dependencies.of(end[read], start[read], weight[read], DependencyKind.SYNCHRONISATION), read


def _work_before(graph: Graph, call: Int64) -> Int64:
    """What the thread does by itself before each call."""
    edge = graph.into(graph.call_start(call), DependencyKind.PROGRAM_ORDER)
    work: Int64 = np.append(graph.dependencies.weight_ns, 0)[edge]
    return work
