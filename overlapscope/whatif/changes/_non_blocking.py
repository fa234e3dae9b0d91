"""The host does not wait for copies."""

from __future__ import annotations

import numpy as np

from overlapscope.measure.copies import host_kind
from overlapscope.measure.issue import synchronised_copy
from overlapscope.model.columns import NO_ID, Bool
from overlapscope.model.enums import SYNC_CALLS, ApiKind, Direction, MemoryKind
from overlapscope.whatif.config import SimulationConfig
from overlapscope.replay.edits.common import Edited, Where, blocking_calls, enqueue_ns, index_of_calls, without_wait
from overlapscope.replay.edits.host_reads import read_later, waits_gone
from overlapscope.replay.edits.unread import without_operators
from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind

_OWN = "a synchronisation of the device or an event after a copy is taken to be there for the copy"
_VALUE_BYTES = 16  # of the largest number that .item() reads, a complex128


def non_blocking(graph: Graph, where: Where, config: SimulationConfig) -> Edited:
    """The synchronisation that directly follows a copy is gone, and calls that block by name wait no more.

    A single value that comes to the host is one that the program reads, and waits for in any case; so is what it
    waits for with a synchronisation of its own, of the device or an event. What else comes to the host is waited for
    before it is read, where the trace knows that; where it does not, see `read_later`. A synchronisation of the device
    or an event after a copy to the device may be there for something else.
    """
    copies = graph.trace.copies
    wanted = where.copies & ~_values(graph)
    down = copies.direction == Direction.DTOH
    before = graph
    graph = _without_wait_after(graph, wanted, of_events=~down)
    pinned = wanted & (host_kind(copies) == MemoryKind.PINNED)
    calls = index_of_calls(graph)[copies.call[pinned]]
    some = np.intersect1d(calls[calls != NO_ID], blocking_calls(graph))
    if len(some):
        graph = without_wait(graph, some, enqueue_ns(graph, config))
    gone = waits_gone(before, graph)
    came = Where(wanted & down, where.calls).work(graph)
    waits = read_later(graph, gone, came)
    own = gone.take(~np.isin(gone.source, graph.work_end(came)) & _of_the_program(graph, gone))
    basis = (*waits.basis, _OWN) if len(own) else waits.basis
    return Edited(graph.with_dependencies(waits.of(graph)), basis, Dependencies.together(waits.unread, own), waits.kept)


def _of_the_program(graph: Graph, waits: Dependencies) -> Bool:
    """Which waits are of synchronisations of the device or an event, which no copy makes by itself."""
    kind = graph.calls.kind[waits.target // 2]
    own: Bool = np.isin(kind, SYNC_CALLS) & (kind != ApiKind.STREAM_SYNC)
    return own


def no_host_read(graph: Graph, where: Where, config: SimulationConfig) -> Edited:
    """Copies to the host are not waited for, neither in their own calls nor right after.

    A single value that is not read is not copied either: its copy, both calls and the operators around them take no
    time.
    """
    copies = graph.trace.copies
    down = where.copies & (copies.direction == Direction.DTOH)
    value = down & _values(graph)
    reads, waits = (np.flatnonzero(calls) for calls in _calls_of(graph, value))
    graph = _without_wait_after(graph, down, of_events=down)
    calls = index_of_calls(graph)[copies.call[down]]
    graph = without_wait(graph, calls[calls != NO_ID], enqueue_ns(graph, config))
    graph = without_wait(without_operators(graph, reads), np.concatenate([reads, waits]))
    edges, weight = graph.dependencies, graph.dependencies.weight_ns.copy()
    gone = edges.of_kind(DependencyKind.EXECUTION) & np.isin(edges.target, graph.work_end(Where(value, where.calls).work(graph)))
    gone |= edges.of_kind(DependencyKind.PROGRAM_ORDER) & np.isin(edges.target, graph.call_start(waits))
    weight[gone] = 0
    graph = graph.with_weights(weight)
    later = edges.of_kind(DependencyKind.SYNCHRONISATION) & (edges.target % 2 == 0)  # into the start of a call that reads
    later &= np.isin(edges.source, graph.work_end(Where(down, where.calls).work(graph)))
    return Edited(graph.with_dependencies(graph.dependencies.take(~later)))


def _values(graph: Graph) -> Bool:
    """Copies to the host of a single value, as .item() and nonzero() make them."""
    copies = graph.trace.copies
    small = (copies.size_bytes > 0) & (copies.size_bytes <= _VALUE_BYTES)
    values: Bool = small & (copies.direction == Direction.DTOH)
    return values


def _without_wait_after(graph: Graph, copies: Bool, *, of_events: Bool) -> Graph:
    """The graph without the synchronisations that directly follow some copies.

    Those of a stream, which a blocking copy makes itself; those of the device or an event, which the program makes, for
    the copies ``of_events`` only.
    """
    synchronised = synchronised_copy(graph.trace)[graph.calls.row]
    some = np.append(copies, False)[synchronised] & (synchronised != NO_ID)
    some &= (graph.calls.kind == ApiKind.STREAM_SYNC) | np.append(of_events, False)[synchronised]
    return without_wait(graph, np.flatnonzero(some))


def _calls_of(graph: Graph, some: Bool) -> tuple[Bool, Bool]:
    """The calls that make some copies, and the synchronisations that directly follow."""
    reads = np.zeros(len(graph.calls) + 1, np.bool_)
    reads[index_of_calls(graph)[graph.trace.copies.call[some]]] = True
    synchronised = synchronised_copy(graph.trace)[graph.calls.row]
    return reads[:-1], np.append(some, False)[synchronised] & (synchronised != NO_ID)
