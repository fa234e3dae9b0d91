"""`Swap`: a change that gives one graph a part of another, and the stretches of host time that a swap resizes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from overlapscope.comparison.matching import next_common_call, previous_common_call
from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.dependencies.simulate import has_cycle, in_cycles
from overlapscope.measure.grouping import outermost, rows_by_thread
from overlapscope.measure.places import enclosing, innermost
from overlapscope.measure.spans import covered, union
from overlapscope.model.columns import NO_ID, Bool, Float64, Int64
from overlapscope.model.enums import ALLOCATIONS, SYNC_CALLS


class Part(StrEnum):
    """A part of a program that can be as before or as after, each by itself; the rest is in ``ORDER``."""

    MEMORY = "memory"
    COPY_TIMES = "copy-times"
    WAITS = "synchronisations"
    STREAMS = "streams"
    ALLOCATIONS = "allocations"
    KERNEL_TIMES = "kernel-times"
    HOST = "host-time"
    ORDER = "order"
    PROFILER = "profiler"


@dataclass(frozen=True, eq=False)
class Swap:
    """A change of a graph: what is added to the weights of its dependencies, which of them go, and which come."""

    delta_ns: Int64
    gone: Bool
    added: Dependencies

    @classmethod
    def of(
        cls,
        graph: Graph,
        delta_ns: Int64 | None = None,
        gone: Bool | None = None,
        added: Dependencies | None = None,
    ) -> Swap:
        """The change of a graph; nothing where nothing is given."""
        count = len(graph.dependencies)
        return cls(
            np.zeros(count, np.int64) if delta_ns is None else delta_ns,
            np.zeros(count, np.bool_) if gone is None else gone,
            Dependencies.none() if added is None else added,
        )

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return not (self.delta_ns.any() or self.gone.any() or len(self.added))

    def contradicts(self, graph: Graph) -> bool:
        """Whether its new dependencies would make a graph wait for itself."""
        kept = graph.dependencies.take(~self.gone)
        return bool(len(self.added)) and has_cycle(graph.with_dependencies(kept, self.added))


@dataclass(frozen=True, eq=False)
class Swaps:
    """The swap of each part of a graph by itself, and the swap of waits beside a swap of the host's times.

    Host time after a wait belongs to the swap of the waits, unless the host's own times are swapped too.
    """

    alone: Mapping[Part, Swap]
    waits_beside_host: Swap

    def of(self, parts: Collection[Part]) -> list[Swap]:
        """The swaps of several parts together."""
        waits = self.waits_beside_host if Part.HOST in parts else self.alone[Part.WAITS]
        return [waits if part is Part.WAITS else self.alone[part] for part in parts]


def swapped(graph: Graph, swaps: Iterable[Swap]) -> Graph:
    """The graph after swaps, but for the new dependencies that contradict it."""
    edges = graph.dependencies
    weight, gone, added = edges.weight_ns.copy(), np.zeros(len(edges), np.bool_), [Dependencies.none()]
    for swap in swaps:
        weight += swap.delta_ns
        gone |= swap.gone
        added.append(swap.added)
    kept = graph.with_dependencies(replace(edges, weight_ns=np.maximum(weight, 0)).take(~gone))
    return _with(kept, Dependencies.concat(*added))


def _with(graph: Graph, added: Dependencies) -> Graph:
    """The graph with further dependencies; those that would make it wait for itself are left out."""
    both = graph.with_dependencies(graph.dependencies, added)
    if not len(added) or not has_cycle(both):
        return both
    waiting = in_cycles(both)
    fitting = graph.with_dependencies(graph.dependencies, added.take(~(waiting[added.source] & waiting[added.target])))
    return graph if has_cycle(fitting) else fitting


def rows_in(edges: Dependencies, others: Dependencies, nodes: int) -> Int64:
    """The row in ``others`` of each dependency, by its kind and nodes; else `NO_ID`."""
    if not len(others):
        return np.full(len(edges), NO_ID, np.int64)
    keys, other_keys = (_keys(each, nodes) for each in (edges, others))
    order = np.argsort(other_keys, kind="stable")
    row = order[np.minimum(np.searchsorted(other_keys[order], keys), len(order) - 1)]
    return np.where(other_keys[row] == keys, row, NO_ID)


def _keys(edges: Dependencies, nodes: int) -> Int64:
    """A number for each pair of nodes and kind."""
    keys: Int64 = (edges.source * nodes + edges.target) * len(DependencyKind) + edges.kind
    return keys


def host_gaps_ns(graph: Graph) -> Int64:
    """The time that threads spend between calls, summed up to each call of a thread."""
    gap = graph.into(graph.call_start(np.arange(len(graph.calls))), DependencyKind.PROGRAM_ORDER)
    took: Int64 = np.cumsum(np.where(gap == NO_ID, 0, np.append(graph.dependencies.weight_ns, 0)[gap]))
    return took


def _share_in_operators(graph: Graph, alone: Bool, common: Bool) -> Float64:
    """The share of the time before each call in outermost operators around calls that are alone, and no common ones.

    This is what a copy or kernel took on the host, and goes with it.
    """
    calls, operators, share = graph.calls, graph.trace.cpu_ops, np.zeros(len(graph.calls))
    outer = np.append(outermost(enclosing(operators)), NO_ID)
    around = outer[innermost(operators, calls.process, calls.thread, calls.start_ns)]
    begin = np.append(0, calls.end_ns[:-1])[: len(calls)]
    begin[calls.first] = calls.start_ns[calls.first]
    own = operators.take(np.setdiff1d(around[alone], np.append(around[common], NO_ID)))
    threads = rows_by_thread(calls.process, calls.thread)
    for thread, rows in rows_by_thread(own.process, own.thread).items():
        here = threads[thread]
        inside = covered(begin[here], calls.start_ns[here], union(own.start_ns[rows], own.end_ns[rows]))
        share[here] = inside / np.maximum(calls.start_ns[here] - begin[here], 1)
    return share


@dataclass(frozen=True, eq=False)
class Stretches:
    """The stretches of host threads in front of common calls, each since the common call before on its thread.

    Attributes:
        row: the dependencies with the time of a stretch: gaps, and calls between that issue and wait for nothing.
        stretch: the stretch of each row.
        weight_ns: the weight of each row, less what operators took that issue nothing but work of this graph alone.
        last: the gap right before each common call.
        previous: the common call before each.
        issues: whether a call in the stretch issues work that both graphs have.
        handed: whether a call in the stretch waits for another thread.
        dependencies: the number of dependencies of the graph.
    """

    row: Int64
    stretch: Int64
    weight_ns: Int64
    last: Int64
    previous: Int64
    issues: Bool
    handed: Bool
    dependencies: int

    @classmethod
    def of(cls, graph: Graph, common: Int64, common_work: Int64) -> Stretches:
        """The stretches in front of the common calls of a graph, and the work that the other graph has too."""
        calls, index = graph.calls, np.arange(len(graph.calls))
        number = np.full(len(calls) + 1, NO_ID, np.int64)
        number[common] = np.arange(len(common))
        following = np.where(number[:-1] != NO_ID, index, next_common_call(graph, common))
        stretch, between = number[following], number[:-1] == NO_ID
        issuing = np.isin(index, graph.work.call)
        plain = between & ~issuing & ~np.isin(calls.kind, (*SYNC_CALLS, *ALLOCATIONS))
        gap = graph.into(graph.call_start(index), DependencyKind.PROGRAM_ORDER)
        duration = np.where(plain, graph.into(graph.call_end(index), *OWN_DURATION), NO_ID)
        row, of = np.append(gap, duration), np.append(stretch, stretch)
        known = (row != NO_ID) & (of != NO_ID)
        reissuing = np.isin(index, graph.work.call[common_work])
        issues = np.zeros(len(common), np.bool_)
        issues[stretch[between & reissuing & (stretch != NO_ID)]] = True
        other = 1 - _share_in_operators(graph, between & issuing & ~reissuing, ~between)
        weight_ns = graph.dependencies.weight_ns[row[known]] * np.append(other, np.ones(len(calls)))[known]
        handed = np.zeros(len(common) + 1, np.bool_)
        handed[stretch[graph.into(graph.call_start(index), DependencyKind.THREAD_HANDOFF) != NO_ID]] = True
        return cls(
            row=row[known],
            stretch=of[known],
            weight_ns=np.rint(weight_ns).astype(np.int64),
            last=gap[common],
            previous=number[previous_common_call(graph, common)[common]],
            issues=issues,
            handed=handed[:-1],
            dependencies=len(graph.dependencies),
        )

    @property
    def total_ns(self) -> Int64:
        """The time of each stretch."""
        total = np.zeros(len(self.last), np.int64)
        np.add.at(total, self.stretch, self.weight_ns)
        return total

    def resized(self, total_ns: Int64, wanted: Bool) -> Int64:
        """The ns to add to each dependency so that the wanted stretches take this long."""
        delta, time_ns = np.zeros(self.dependencies, np.int64), self.total_ns
        rows = wanted[self.stretch] & (time_ns[self.stretch] > 0)
        factor = total_ns / np.maximum(time_ns, 1)
        delta[self.row[rows]] = np.rint(self.weight_ns[rows] * (factor[self.stretch[rows]] - 1)).astype(np.int64)
        empty = wanted & (time_ns == 0) & (self.last != NO_ID)
        delta[self.last[empty]] = total_ns[empty]
        return delta
