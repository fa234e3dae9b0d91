"""The swaps that give one graph a part of another: memory of copies, waits, streams, allocations, kernels, host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from overlapscope.comparison.matching import (
    COPY,
    Matching,
    last_common_work,
    next_common_call,
    reordered,
)
from overlapscope.comparison.swaps import Part, Stretches, Swap, Swaps, host_gaps_ns, rows_in
from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.measure.copies import host_kind
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ALLOCATIONS, SYNC_CALLS, MemoryKind
from overlapscope.whatif.calls import scalar_reads

_ON_DEVICE = (
    DependencyKind.STREAM_ORDER,
    DependencyKind.EVENT,
    DependencyKind.OTHER_DEVICE,
    DependencyKind.LEGACY_DEFAULT_STREAM,
    DependencyKind.COPY_ENGINE,
)


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts in which two graphs differ: makes the swaps of the graph before towards the graph after."""

    matching: Matching

    @property
    def graph(self) -> Graph:
        """The graph before, which is swapped."""
        return self.matching.before

    @property
    def other(self) -> Graph:
        """The graph after."""
        return self.matching.after

    @property
    def swaps(self) -> Swaps:
        """The swap of each part that can be swapped by itself."""
        alone = {
            Part.MEMORY: self._copies(self.other_memory),
            Part.COPY_TIMES: self._copies(~self.other_memory),
            Part.WAITS: self._waits(self._scaled_host_ns),
            Part.STREAMS: self._streams(),
            Part.ALLOCATIONS: self._allocations(),
            Part.KERNEL_TIMES: self._kernel_times(),
            Part.HOST: self._host(),
        }
        return Swaps(alone, self._waits(self._other_host_ns))

    @cached_property
    def other_memory(self) -> Bool:
        """The pairs of work that are copies from or to other host memory."""
        sides = (self.graph, self.matching.work.before), (self.other, self.matching.work.after)
        before, after = (
            np.append(host_kind(graph.trace.copies), MemoryKind.UNKNOWN)[graph.work.copy[rows]] for graph, rows in sides
        )
        differs: Bool = (before != MemoryKind.UNKNOWN) & (after != MemoryKind.UNKNOWN) & (before != after)
        return differs

    def _kernel_times(self) -> Swap:
        """The swap of the times of kernels and memsets."""
        rows, other_rows = self.matching.work.before, self.matching.work.after
        no_copy = self.graph.work.table[rows] != COPY
        ends = self.graph.work_end(rows[no_copy]), self.other.work_end(other_rows[no_copy])
        return Swap.of(self.graph, self._longer(*ends, DependencyKind.EXECUTION))

    def _copies(self, pairs: Bool) -> Swap:
        """The swap of the times of copies and their calls, of what these wait for, and of what waits for them."""
        graph, other = self.graph, self.other
        pairs = pairs & (graph.work.table[self.matching.work.before] == COPY)
        rows, other_rows = self.matching.work.before[pairs], self.matching.work.after[pairs]
        calls = np.stack([graph.work.call[rows], other.work.call[other_rows]])
        paired = self._are_pairs(calls)
        rows, other_rows, calls = rows[paired], other_rows[paired], np.unique(calls[:, paired], axis=1)
        ends, other_ends = graph.call_end(calls[0]), other.call_end(calls[1])
        delta = self._longer(graph.work_end(rows), other.work_end(other_rows), DependencyKind.EXECUTION)
        delta += self._longer(ends, other_ends, *OWN_DURATION)
        added = other.dependencies.take(_of_copies(other.dependencies, other_ends, other.work_start(other_rows)))
        return Swap.of(graph, delta, _of_copies(graph.dependencies, ends, graph.work_start(rows)), self._mapped(added))

    def _waits(self, host_ns: Callable[[Int64, Int64], Int64]) -> Swap:
        """The swap of synchronisations, and of reads of single values, that only one of both graphs has."""
        graph, edges = self.graph, self.graph.dependencies
        alone = _waiting_alone(graph, self.matching.calls.before)
        into = np.isin(edges.target, graph.call_end(alone))
        syncs = graph.call_end(alone[np.isin(graph.calls.kind[alone], SYNC_CALLS)])
        took = np.isin(edges.target, syncs) & edges.of_kind(*OWN_DURATION)
        waits = into & edges.of_kind(DependencyKind.SYNCHRONISATION, DependencyKind.STAGING)
        return Swap.of(graph, np.where(took, -edges.weight_ns, 0), waits, self._mapped(self._other_waits(host_ns)))

    def _other_waits(self, host_ns: Callable[[Int64, Int64], Int64]) -> Dependencies:
        """The waits that only the other graph has: for the last common work, before the next common call.

        Host time between the wait and that call is not the wait's: ``host_ns`` says how long it is.
        """
        other, edges = self.other, self.other.dependencies
        alone = _waiting_alone(other, self.matching.calls.after)
        into = np.isin(edges.target, other.call_end(alone))
        waits = edges.take(into & edges.of_kind(DependencyKind.SYNCHRONISATION, DependencyKind.STAGING))
        work = other.work_of(waits.source)
        source = other.work_end(last_common_work(other, self.matching.work.after)[work])
        call = waits.target // 2
        following = next_common_call(other, self.matching.calls.after)[call]
        known = (work >= 0) & (source != NO_ID) & (following != NO_ID)
        call, following = call[known], following[known]
        target, weight_ns = other.call_start(following), host_ns(call, following)
        return replace(waits.take(known), source=source[known], target=target, weight_ns=weight_ns)

    def _other_host_ns(self, call: Int64, following: Int64) -> Int64:
        """The host time of the other graph between its calls and the next common ones."""
        gaps = host_gaps_ns(self.other)
        return gaps[following] - gaps[call]

    def _scaled_host_ns(self, call: Int64, following: Int64) -> Int64:
        """The host time of this graph before these common calls, in the share that it is in the other graph."""
        total, other_total = (stretches.total_ns for stretches in self._stretches)
        number = np.full(len(self.other.calls) + 1, NO_ID, np.int64)
        number[self.matching.calls.after] = np.arange(len(other_total))
        stretch = number[following]
        share = np.minimum(self._other_host_ns(call, following) / np.maximum(other_total[stretch], 1), 1)
        return np.rint(share * total[stretch]).astype(np.int64)

    @cached_property
    def _stretches(self) -> tuple[Stretches, Stretches]:
        """The stretches of host threads before the calls that both graphs have, in each graph."""
        calls, work = self.matching.calls, self.matching.work
        return (
            Stretches.of(self.graph, calls.before, work.before),
            Stretches.of(self.other, calls.after, work.after),
        )

    def _streams(self) -> Swap:
        """The swap of the work for which work waits, where the graphs differ in that; nothing if work changes places.

        The order of a queue is left out where it is that of issue: the one goes with the other.
        """
        graph, other, work = self.graph, self.other, self.matching.work
        edges, other_edges = graph.dependencies, other.dependencies
        added = other_edges.take(
            _queued(other_edges, other.work_start(work.after)) & ~_as_issued(other_edges, self.matching.flipped)
        )
        common = last_common_work(other, work.after)[other.work_of(added.source)]
        ended = added.source % 2 == 1
        source = np.where(ended, other.work_end(common), other.work_start(common))
        added = self._mapped(replace(added, source=source).take(source != NO_ID))
        gone = _queued(edges, graph.work_start(work.before)) & np.isin(graph.work_of(edges.source), work.before)
        gone &= ~_as_issued(edges, self.matching)
        gone[gone] = ~edges.take(gone).among(added)
        swap = Swap.of(graph, None, gone, added.take(~added.among(edges) & (added.source != added.target)))
        return Swap.of(graph) if swap.contradicts(graph) else swap

    def _allocations(self) -> Swap:
        """The swap of the times of allocating and freeing, also where only one of both graphs does."""
        graph, other, calls = self.graph, self.other, self.matching.calls
        both = np.isin(graph.calls.kind[calls.before], ALLOCATIONS)
        delta = self._longer(graph.call_end(calls.before[both]), other.call_end(calls.after[both]), *OWN_DURATION)
        alone = graph.into(graph.call_end(calls_alone(graph, calls.before, ALLOCATIONS)), *OWN_DURATION)
        delta[alone] = -graph.dependencies.weight_ns[alone]
        other_alone = calls_alone(other, calls.after, ALLOCATIONS)
        took = other.dependencies.weight_ns[other.into(other.call_end(other_alone), *OWN_DURATION)]
        following = other.call_start(next_common_call(other, calls.after)[other_alone])
        node = np.append(self.matching.nodes, NO_ID)[following]
        gap = np.where(node == NO_ID, NO_ID, graph.into(node, DependencyKind.PROGRAM_ORDER))
        np.add.at(delta, gap[gap != NO_ID], took[gap != NO_ID])
        return Swap.of(graph, delta)

    def _host(self) -> Swap:
        """The swap of host time between the same two calls, of waits for threads, and of calls that are no copies."""
        graph, other, calls = self.graph, self.other, self.matching.calls
        copying = np.isin(calls.before, graph.work.call[graph.work.table == COPY])
        plain = ~copying & ~np.isin(graph.calls.kind[calls.before], ALLOCATIONS)
        delta = self._longer(graph.call_end(calls.before[plain]), other.call_end(calls.after[plain]), *OWN_DURATION)
        here, there = self._stretches
        handed_ns, same_handed = self._handed()
        same = (here.previous == there.previous) & (here.previous != NO_ID) & ~here.issues & ~there.issues
        same &= ~(here.handed | there.handed) | same_handed
        return Swap.of(graph, delta + here.resized(there.total_ns, same) + handed_ns)

    def _handed(self) -> tuple[Int64, Bool]:
        """The ns by which threads wait longer for the same other threads, and the pairs of calls that wait for them."""
        edges, handoffs = self.graph.dependencies, self.other.dependencies
        handoffs = self._mapped(handoffs.take(handoffs.of_kind(DependencyKind.THREAD_HANDOFF)))
        row = rows_in(edges, handoffs, len(self.graph.time_ns))
        into = self.graph.into(self.graph.call_start(self.matching.calls.before), DependencyKind.THREAD_HANDOFF)
        longer = np.where(row == NO_ID, 0, np.append(handoffs.weight_ns, 0)[row] - edges.weight_ns)
        return longer, (into != NO_ID) & (np.append(row, NO_ID)[into] != NO_ID)

    def _longer(self, nodes: Int64, other_nodes: Int64, *kinds: DependencyKind) -> Int64:
        """The ns by which dependencies of these kinds into nodes weigh more in the other graph, where both have one."""
        delta = np.zeros(len(self.graph.dependencies), np.int64)
        rows, others = self.graph.into(nodes, *kinds), self.other.into(other_nodes, *kinds)
        both = (rows != NO_ID) & (others != NO_ID)
        rows, others = rows[both], others[both]
        delta[rows] = self.other.dependencies.weight_ns[others] - self.graph.dependencies.weight_ns[rows]
        return delta

    def _are_pairs(self, calls: Int64) -> Bool:
        """The columns that are a pair of calls that both graphs have."""
        pair_of = np.full(len(self.graph.calls) + 1, NO_ID, np.int64)
        pair_of[self.matching.calls.before] = self.matching.calls.after
        both: Bool = (calls[0] != NO_ID) & (pair_of[calls[0]] == calls[1])
        return both

    def _mapped(self, edges: Dependencies) -> Dependencies:
        """Dependencies of the other graph between the nodes of this one."""
        return mapped(edges, self.matching.nodes)


def mapped(edges: Dependencies, nodes: Int64) -> Dependencies:
    """Dependencies between other nodes; those with an end that has no counterpart are left out."""
    moved = replace(edges, source=nodes[edges.source], target=nodes[edges.target])
    return moved.take((moved.source != NO_ID) & (moved.target != NO_ID))


def calls_alone(graph: Graph, common: Int64, kinds: tuple[int, ...]) -> Int64:
    """The calls of these kinds that only this graph has."""
    calls = np.flatnonzero(np.isin(graph.calls.kind, kinds))
    return calls[~np.isin(calls, common)]


def reads_alone(graph: Graph, common: Int64) -> Int64:
    """The calls that read single values to the host and that only this graph has."""
    copies = np.append(scalar_reads(graph.trace), False)[graph.work.copy] & (graph.work.table == COPY)
    calls: Int64 = np.unique(graph.work.call[copies])
    alone: Int64 = calls[(calls != NO_ID) & ~np.isin(calls, common)]
    return alone


def _waiting_alone(graph: Graph, common: Int64) -> Int64:
    """The calls that wait for the GPU and that only this graph has."""
    return np.concatenate([calls_alone(graph, common, SYNC_CALLS), reads_alone(graph, common)])


def _of_copies(edges: Dependencies, call_ends: Int64, starts: Int64) -> Bool:
    """Launches of copies, waits of their calls, of others for these, and of copies for what is not recorded."""
    of_copies: Bool = np.isin(edges.target, call_ends) & edges.of_kind(DependencyKind.STAGING)
    of_copies |= np.isin(edges.source, call_ends) & edges.of_kind(DependencyKind.DRIVER_LOCK)
    of_copies |= np.isin(edges.target, starts) & edges.of_kind(DependencyKind.LAUNCH, DependencyKind.NOT_RECORDED)
    return of_copies


def _as_issued(edges: Dependencies, matching: Matching) -> Bool:
    """The dependencies of ``before`` that are the order of a queue which has another order in ``after``."""
    as_issued = np.zeros(len(edges), np.bool_)
    for queue, kind in (("stream", DependencyKind.STREAM_ORDER), ("engine", DependencyKind.COPY_ENGINE)):
        moved = matching.before.work_start(np.flatnonzero(reordered(matching, queue)))
        as_issued |= np.isin(edges.target, moved) & edges.of_kind(kind)
    return as_issued


def _queued(edges: Dependencies, starts: Int64) -> Bool:
    """The waits of work for other work."""
    queued: Bool = np.isin(edges.target, starts) & edges.of_kind(*_ON_DEVICE)
    return queued
