"""What each part of a graph becomes where it is as in another graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from overlapscope.comparison.common import host_gaps_ns, last_common_work, next_common_call
from overlapscope.comparison.inside import COPY
from overlapscope.comparison.matching import Matching
from overlapscope.comparison.queues import reordered
from overlapscope.comparison.stretches import Stretches
from overlapscope.comparison.swaps import Part, Swap, Swaps
from overlapscope.comparison.usual import same_in
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
    """A graph, another one, and what both have: makes the swaps of ``graph`` towards ``other``."""

    graph: Graph
    other: Graph
    matching: Matching

    @property
    def swaps(self) -> Swaps:
        """The swap of each part that can be swapped by itself."""
        made: dict[Part, Callable[[], Swap]] = {
            Part.MEMORY: lambda: self._copies(self.other_memory),
            Part.COPY_TIMES: lambda: self._copies(~self.other_memory),
            Part.WAITS: lambda: self._waits(self._work_after),
            Part.STREAMS: self._streams,
            Part.ALLOCATIONS: self._allocations,
            Part.KERNEL_TIMES: self._kernel_times,
            Part.HOST: self._host,
        }
        return Swaps({part: make() for part, make in made.items()}, self._waits(self._work_after_there))

    @cached_property
    def other_memory(self) -> Bool:
        """Which pairs of work are copies from or to other host memory."""
        sides = (self.graph, self.matching.work.before), (self.other, self.matching.work.after)
        one, another = (
            np.append(host_kind(graph.trace.copies), MemoryKind.UNKNOWN)[graph.work.copy[rows]] for graph, rows in sides
        )
        other: Bool = (one != MemoryKind.UNKNOWN) & (another != MemoryKind.UNKNOWN) & (one != another)
        return other

    def _kernel_times(self) -> Swap:
        """What kernels and memsets take."""
        mine, theirs = self.matching.work.before, self.matching.work.after
        some = self.graph.work.table[mine] != COPY
        ends = self.graph.work_end(mine[some]), self.other.work_end(theirs[some])
        return Swap.of(self.graph, self._longer(*ends, DependencyKind.EXECUTION))

    def _copies(self, some: Bool) -> Swap:
        """What some copies and their calls take, whom these wait for, and who waits for them."""
        graph, other = self.graph, self.other
        some = some & (graph.work.table[self.matching.work.before] == COPY)
        mine, theirs = self.matching.work.before[some], self.matching.work.after[some]
        calls = np.stack([graph.work.call[mine], other.work.call[theirs]])
        paired = self._are_pairs(calls)
        mine, theirs, calls = mine[paired], theirs[paired], np.unique(calls[:, paired], axis=1)
        ends, their_ends = graph.call_end(calls[0]), other.call_end(calls[1])
        delta = self._longer(graph.work_end(mine), other.work_end(theirs), DependencyKind.EXECUTION)
        delta += self._longer(ends, their_ends, *OWN_DURATION)
        came = other.dependencies.take(_of_copies(other.dependencies, their_ends, other.work_start(theirs)))
        return Swap.of(graph, delta, _of_copies(graph.dependencies, ends, graph.work_start(mine)), self._mapped(came))

    def _waits(self, work_after: Callable[[Int64, Int64], Int64]) -> Swap:
        """Synchronisations, and reads of single values, that only one of both has."""
        graph, other, edges = self.graph, self.other, self.graph.dependencies
        alone = waiting_alone(graph, self.matching)
        into = np.isin(edges.target, graph.call_end(alone))
        syncs = graph.call_end(alone[np.isin(graph.calls.kind[alone], SYNC_CALLS)])
        took = np.isin(edges.target, syncs) & edges.of_kind(*OWN_DURATION)
        waits = into & edges.of_kind(DependencyKind.SYNCHRONISATION, DependencyKind.STAGING)
        return Swap.of(
            graph, np.where(took, -edges.weight_ns, 0), waits, self._mapped(self._waits_of(other, work_after))
        )

    def _waits_of(self, other: Graph, work_after: Callable[[Int64, Int64], Int64]) -> Dependencies:
        """Waits that only the other graph has: for the last common work, before the next common call.

        What the host does between the wait and that call is not the wait's: ``work_after`` says how long it takes.
        """
        edges = other.dependencies
        alone = waiting_alone(other, self.matching.flipped)
        into = np.isin(edges.target, other.call_end(alone))
        waits = edges.take(into & edges.of_kind(DependencyKind.SYNCHRONISATION, DependencyKind.STAGING))
        work = other.work_of(waits.source)
        source = other.work_end(last_common_work(other, self.matching.work.after)[work])
        call = waits.target // 2
        following = next_common_call(other, self.matching.calls.after)[call]
        known = (work >= 0) & (source != NO_ID) & (following != NO_ID)
        call, following = call[known], following[known]
        target, weight_ns = other.call_start(following), work_after(call, following)
        return replace(waits.take(known), source=source[known], target=target, weight_ns=weight_ns)

    def _work_after_there(self, call: Int64, following: Int64) -> Int64:
        """What the host does in the other graph between its calls and the next common ones."""
        gaps = host_gaps_ns(self.other)
        return gaps[following] - gaps[call]

    def _work_after(self, call: Int64, following: Int64) -> Int64:
        """The same share of what the host does here before these common calls."""
        mine, theirs = (Stretches.of(graph, calls).total_ns for graph, calls in self._calls)
        number = np.full(len(self.other.calls) + 1, NO_ID, np.int64)
        number[self.matching.calls.after] = np.arange(len(theirs))
        stretch = number[following]
        share = np.minimum(self._work_after_there(call, following) / np.maximum(theirs[stretch], 1), 1)
        return np.rint(share * mine[stretch]).astype(np.int64)

    @property
    def _calls(self) -> tuple[tuple[Graph, Int64], tuple[Graph, Int64]]:
        """Both graphs, each with the calls that both have."""
        return (self.graph, self.matching.calls.before), (self.other, self.matching.calls.after)

    def _streams(self) -> Swap:
        """For which other work work waits, where the two graphs differ in that; nothing if work changes places.

        The order of a queue is left out where it is that of issue: the one goes with the other.
        """
        graph, other, work = self.graph, self.other, self.matching.work
        own, theirs = graph.dependencies, other.dependencies
        came = theirs.take(
            _queued(theirs, other.work_start(work.after)) & ~_as_issued(theirs, other, graph, self.matching.flipped)
        )
        common = last_common_work(other, work.after)[other.work_of(came.source)]
        ended = came.source % 2 == 1
        source = np.where(ended, other.work_end(common), other.work_start(common))
        came = self._mapped(replace(came, source=source).take(source != NO_ID))
        gone = _queued(own, graph.work_start(work.before)) & np.isin(graph.work_of(own.source), work.before)
        gone &= ~_as_issued(own, graph, other, self.matching)
        gone[gone] = ~own.take(gone).among(came)
        swap = Swap.of(graph, None, gone, came.take(~came.among(own) & (came.source != came.target)))
        return Swap.of(graph) if swap.contradicts(graph) else swap

    def _allocations(self) -> Swap:
        """What allocating and freeing takes, also where only one of both does."""
        graph, other, calls = self.graph, self.other, self.matching.calls
        both = np.isin(graph.calls.kind[calls.before], ALLOCATIONS)
        delta = self._longer(graph.call_end(calls.before[both]), other.call_end(calls.after[both]), *OWN_DURATION)
        mine = graph.into(graph.call_end(calls_alone(graph, calls.before, ALLOCATIONS)), *OWN_DURATION)
        delta[mine] = -graph.dependencies.weight_ns[mine]
        theirs = calls_alone(other, calls.after, ALLOCATIONS)
        took = other.dependencies.weight_ns[other.into(other.call_end(theirs), *OWN_DURATION)]
        following = other.call_start(next_common_call(other, calls.after)[theirs])
        node = np.append(self._node, NO_ID)[following]
        gap = np.where(node == NO_ID, NO_ID, graph.into(node, DependencyKind.PROGRAM_ORDER))
        np.add.at(delta, gap[gap != NO_ID], took[gap != NO_ID])
        return Swap.of(graph, delta)

    def _host(self) -> Swap:
        """What threads do between the same two calls, for whom they wait, and what other calls than copies take."""
        graph, other, calls = self.graph, self.other, self.matching.calls
        copying = np.isin(calls.before, graph.work.call[graph.work.table == COPY])
        plain = ~copying & ~np.isin(graph.calls.kind[calls.before], ALLOCATIONS)
        delta = self._longer(graph.call_end(calls.before[plain]), other.call_end(calls.after[plain]), *OWN_DURATION)
        mine, theirs = (Stretches.of(*side) for side in self._calls)
        handed_ns, alike = self._handed()
        same = (mine.previous == theirs.previous) & (mine.previous != NO_ID) & ~mine.issues & ~theirs.issues
        same &= ~(mine.handed | theirs.handed) | alike
        return Swap.of(graph, delta + mine.made(theirs.total_ns, same) + handed_ns)

    def _handed(self) -> tuple[Int64, Bool]:
        """By how much longer threads wait for the same others, and which pairs of calls wait for the same."""
        own = self.graph.dependencies
        theirs = self.other.dependencies
        theirs = self._mapped(theirs.take(theirs.of_kind(DependencyKind.THREAD_HANDOFF)))
        row = same_in(own, theirs, len(self.graph.time_ns))
        into = self.graph.into(self.graph.call_start(self.matching.calls.before), DependencyKind.THREAD_HANDOFF)
        longer = np.where(row == NO_ID, 0, np.append(theirs.weight_ns, 0)[row] - own.weight_ns)
        return longer, (into != NO_ID) & (np.append(row, NO_ID)[into] != NO_ID)

    def _longer(self, mine: Int64, theirs: Int64, *kinds: DependencyKind) -> Int64:
        """By how much the dependencies of some kinds into nodes weigh more in the other graph, where both have one."""
        delta = np.zeros(len(self.graph.dependencies), np.int64)
        rows, others = self.graph.into(mine, *kinds), self.other.into(theirs, *kinds)
        both = (rows != NO_ID) & (others != NO_ID)
        rows, others = rows[both], others[both]
        delta[rows] = self.other.dependencies.weight_ns[others] - self.graph.dependencies.weight_ns[rows]
        return delta

    def _are_pairs(self, calls: Int64) -> Bool:
        """Which columns are a pair of calls that both graphs have."""
        pair_of = np.full(len(self.graph.calls) + 1, NO_ID, np.int64)
        pair_of[self.matching.calls.before] = self.matching.calls.after
        both: Bool = (calls[0] != NO_ID) & (pair_of[calls[0]] == calls[1])
        return both

    @cached_property
    def _node(self) -> Int64:
        """For each node of the other graph the one of this graph."""
        return self.matching.nodes(self.graph, self.other)

    def _mapped(self, theirs: Dependencies) -> Dependencies:
        """Dependencies of the other graph between the nodes of this one."""
        moved = replace(theirs, source=self._node[theirs.source], target=self._node[theirs.target])
        return moved.take((moved.source != NO_ID) & (moved.target != NO_ID))


def calls_alone(graph: Graph, common: Int64, kinds: tuple[int, ...]) -> Int64:
    """Calls of some kinds that only this graph has."""
    calls = np.flatnonzero(np.isin(graph.calls.kind, kinds))
    return calls[~np.isin(calls, common)]


def reads_alone(graph: Graph, matching: Matching) -> Int64:
    """Calls that read single values to the host, which only this graph makes."""
    copies = np.append(scalar_reads(graph.trace), False)[graph.work.copy] & (graph.work.table == COPY)
    calls: Int64 = np.unique(graph.work.call[copies])
    alone: Int64 = calls[(calls != NO_ID) & ~np.isin(calls, matching.calls.before)]
    return alone


def waiting_alone(graph: Graph, matching: Matching) -> Int64:
    """Calls that wait for the GPU, which only this graph makes."""
    syncs = calls_alone(graph, matching.calls.before, SYNC_CALLS)
    return np.concatenate([syncs, reads_alone(graph, matching)])


def _of_copies(edges: Dependencies, call_ends: Int64, starts: Int64) -> Bool:
    """Launches of copies, waits of their calls, of others for these, and of copies for what is not recorded."""
    mine: Bool = np.isin(edges.target, call_ends) & edges.of_kind(DependencyKind.STAGING)
    mine |= np.isin(edges.source, call_ends) & edges.of_kind(DependencyKind.DRIVER_LOCK)
    mine |= np.isin(edges.target, starts) & edges.of_kind(DependencyKind.LAUNCH, DependencyKind.NOT_RECORDED)
    return mine


def _as_issued(edges: Dependencies, graph: Graph, other: Graph, matching: Matching) -> Bool:
    """Which dependencies are the order of a queue that has another one in the other graph."""
    found = np.zeros(len(edges), np.bool_)
    for queue, kind in (("stream", DependencyKind.STREAM_ORDER), ("engine", DependencyKind.COPY_ENGINE)):
        moved = graph.work_start(np.flatnonzero(reordered(graph, other, matching, queue)))
        found |= np.isin(edges.target, moved) & edges.of_kind(kind)
    return found


def _queued(edges: Dependencies, starts: Int64) -> Bool:
    """Waits of work for other work."""
    queued: Bool = np.isin(edges.target, starts) & edges.of_kind(*_ON_DEVICE)
    return queued
