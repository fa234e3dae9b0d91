"""Simulate a graph: the longest way to each node, and the critical path, back from the last node."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from overlapscope.dependencies.graph import Graph, detached
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.measure.copies import host_kind
from overlapscope.measure.grouping import at
from overlapscope.measure.spans import each_of
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.tables import Copies

if TYPE_CHECKING:
    import pandas as pd

_NOT_YET = np.iinfo(np.int64).min // 2  # before all times, and no overflow with a weight


@dataclass(frozen=True, eq=False)
class Chains:
    """The chains of a graph by number, and its dependencies: those inside of chains, and those into their first nodes.

    ``first`` is the first node of each chain, ``chain`` the chain of each node. ``inside`` and ``between`` are rows of
    dependencies; those between chains are in an order in which each comes after all into the chain that it leaves.
    ``leaves`` and ``enters`` are these chains.
    """

    first: Int64
    chain: Int64
    inside: Int64
    between: Int64
    leaves: list[int]
    enters: list[int]

    @classmethod
    def of(cls, graph: Graph) -> Chains:
        """The chains of a graph.

        Raises:
            ValueError: the graph has a cycle.
        """
        edges, count = graph.dependencies, len(graph.time_ns)
        alone = np.bincount(edges.target, minlength=count)[edges.target] == 1
        inside = alone & (edges.source == edges.target - 1)
        begins = np.ones(count, np.bool_)
        begins[edges.target[inside]] = False
        first, chain, between = np.flatnonzero(begins), np.cumsum(begins) - 1, np.flatnonzero(~inside)
        leaves, enters = chain[edges.source[between]], chain[edges.target[between]]
        order = np.argsort(_places(graph.time_ns[first], first, leaves, enters)[enters], kind="stable")
        ways = leaves[order].tolist(), enters[order].tolist()
        return cls(first, chain, np.flatnonzero(inside), between[order], *ways)

    def times(self, graph: Graph) -> Int64:
        """When each node comes: as soon as its dependencies allow; those without any stay where they were.

        The graph may have other weights and times than that of which these are the chains.
        """
        edges, along = graph.dependencies, np.zeros(len(graph.time_ns), np.int64)
        along[edges.target[self.inside]] = edges.weight_ns[self.inside]
        along = np.cumsum(along)
        along -= along[self.first][self.chain]
        begins = graph.time_ns[self.first]
        begins[self.chain[edges.target[self.between]]] = _NOT_YET
        weight = edges.weight_ns[self.between] + along[edges.source[self.between]]
        return self._begins(begins.tolist(), weight.tolist())[self.chain] + along

    def _begins(self, times: list[int], weights: list[int]) -> Int64:
        """When each chain begins: as soon as what it waits for allows, each of which is known before."""
        for one, other, weight in zip(self.leaves, self.enters, weights, strict=True):
            reached = times[one] + weight
            if reached > times[other]:  # noqa: PLR1730 - a call of max() takes longer than the rest of the loop
                times[other] = reached
        return np.array(times, np.int64)


def _places(time_ns: Int64, node: Int64, source: Int64, target: Int64) -> Int64:
    """A place for each chain, such that dependencies lead forward: by time, or sorted out where that does not do."""
    order = np.lexsort((node % 2, time_ns))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    if (place[source] < place[target]).all():
        return place
    sorted_out = one_after_the_other(source, target, len(order))
    if len(sorted_out) < len(order):
        raise ValueError("the graph has a cycle")
    place[sorted_out] = np.arange(len(order))
    return place


def one_after_the_other(source: Int64, target_of: Int64, count: int) -> Int64:
    """Kahn's algorithm: nodes such that every dependency leads forward, without those that cycles keep waiting."""
    by_source = np.argsort(source, kind="stable")
    first = np.searchsorted(source[by_source], np.arange(count + 1)).tolist()
    target = target_of[by_source].tolist()
    missing = np.bincount(target_of, minlength=count).tolist()
    order = [node for node in range(count) if not missing[node]]
    for node in order:  # grows
        for edge in range(first[node], first[node + 1]):
            following = target[edge]
            missing[following] -= 1
            if not missing[following]:
                order.append(following)
    return np.array(order, np.int64)


@dataclass(frozen=True, eq=False)
class Simulation:
    """When each node of a graph comes."""

    graph: Graph
    time_ns: Int64

    @property
    def length_ns(self) -> int:
        """The time from the first to the last node, but for detached threads, in ns; 0 without any."""
        times = self.time_ns[~detached(self.graph)]
        return int(times.max() - times.min()) if len(times) else 0

    @cached_property
    def bound_by(self) -> Int64:
        """The row of the dependency that bound each node, `NO_ID` for nodes that wait for nothing."""
        edges = self.graph.dependencies
        reached = self.time_ns[edges.source] + edges.weight_ns == self.time_ns[edges.target]
        rows = np.flatnonzero(reached)[::-1]
        result = np.full(len(self.time_ns), NO_ID, np.int64)
        result[edges.target[rows]] = rows  # the last one written is the first row
        return result


def simulate(graph: Graph) -> Simulation:
    """Let every node come as soon as its edges allow; those without edges stay where they were.

    Raises:
        ValueError: the graph has a cycle.
    """
    return Simulation(graph, Chains.of(graph).times(graph))


def has_cycle(graph: Graph) -> bool:
    """Whether some nodes wait for each other, so that it cannot be simulated."""
    if _leads_forward(graph):
        return False
    try:
        Chains.of(graph)
    except ValueError:
        return True
    return False


def _leads_forward(graph: Graph) -> bool:
    """Whether every dependency leads to a later node of the trace, at one time from starts to ends and by number."""
    source, target = graph.dependencies.source, graph.dependencies.target
    before, after = graph.time_ns[source], graph.time_ns[target]
    together = np.flatnonzero(before >= after)
    one, other = source[together], target[together]
    forward = (one % 2 < other % 2) | ((one % 2 == other % 2) & (one < other))
    return bool(((before == after)[together] & forward).all())


def in_cycles(graph: Graph) -> Bool:
    """Which nodes wait for each other, or come between such."""
    edges, count = graph.dependencies, len(graph.time_ns)
    waiting = np.ones(count, np.bool_)
    for source, target in ((edges.source, edges.target), (edges.target, edges.source)):
        waiting[one_after_the_other(source, target, count)] = False
    return waiting


_ON_DEVICE = (
    DependencyKind.LAUNCH,
    DependencyKind.STREAM_ORDER,
    DependencyKind.EVENT,
    DependencyKind.OTHER_DEVICE,
    DependencyKind.COPY_ENGINE,
    DependencyKind.NOT_RECORDED,
    DependencyKind.LEGACY_DEFAULT_STREAM,
)


_PATH_COLUMNS = ("end_ns", "what", "dependency", "inferred", "added_ns", "after")


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """Rows of a graph's dependencies, the first in time first, and the time that each adds, in ns."""

    simulation: Simulation
    rows: Int64
    added_ns: Int64

    @classmethod
    def none(cls, simulation: Simulation) -> CriticalPath:
        """An empty path."""
        nothing = np.empty(0, np.int64)
        return cls(simulation, nothing, nothing)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def made_of(self) -> dict[str, int]:
        """Time on the path by what it is spent on, in ns, the longest first."""
        graph = self.simulation.graph
        kind, work = graph.dependencies.kind[self.rows], graph.work_of(graph.dependencies.target[self.rows])
        engine = at(graph.work.engine, np.maximum(work, NO_ID), 0)
        runs = kind == DependencyKind.EXECUTION
        names: dict[str, Bool] = {
            "kernels": runs & (engine == 0),
            "copies to the device": runs & (engine == Direction.HTOD),
            "copies to the host": runs & (engine == Direction.DTOH),
            "other copies": runs & ~np.isin(engine, (0, Direction.HTOD, Direction.DTOH)),
            "the host's own work": np.isin(kind, (DependencyKind.PROGRAM_ORDER, DependencyKind.THREAD_HANDOFF)),
            "calls": np.isin(kind, (*OWN_DURATION, DependencyKind.STAGING, DependencyKind.DRIVER_LOCK)),
            "launches and gaps on the device": np.isin(kind, _ON_DEVICE),
            "synchronisations": kind == DependencyKind.SYNCHRONISATION,
        }
        sums = {name: int(self.added_ns[rows].sum()) for name, rows in names.items()}
        return dict(sorted(((name, total) for name, total in sums.items() if total), key=lambda entry: -entry[1]))

    def to_dict(self) -> list[dict[str, Any]]:
        """One entry for each dependency: ``end_ns``, ``what``, ``dependency``, ``inferred``, ``added_ns``, ``after``.

        ``what`` came at ``end_ns`` of the simulated time, ``added_ns`` after ``after``, by this kind of dependency.
        """
        graph, edges = self.simulation.graph, self.simulation.graph.dependencies.take(self.rows)
        times = self.simulation.time_ns[edges.target].tolist()
        source, target = ([node_name(graph, node) for node in nodes.tolist()] for nodes in (edges.source, edges.target))
        kinds = [DependencyKind(kind).label for kind in edges.kind.tolist()]
        columns = times, target, kinds, edges.inferred.tolist(), self.added_ns.tolist(), source
        return [dict(zip(_PATH_COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]

    def to_pandas(self) -> pd.DataFrame:
        """The dependencies as a frame, with a row for each."""
        import pandas as pd

        return pd.DataFrame(self.to_dict(), columns=list(_PATH_COLUMNS))


def critical_path(simulation: Simulation, last: int | None = None, since_ns: int | None = None) -> CriticalPath:
    """The dependencies that bound the last node of a simulation (or another), back to one that waits for nothing.

    With ``since_ns`` it goes back no further than nodes that were before that time in the trace.
    """
    node = int(np.argmax(simulation.time_ns)) if last is None else last
    rows = simulation.bound_by[_way_back(simulation, node, since_ns)]
    source, target = simulation.graph.dependencies.source[rows], simulation.graph.dependencies.target[rows]
    return CriticalPath(simulation, rows, simulation.time_ns[target] - simulation.time_ns[source])


def _way_back(simulation: Simulation, last: int, since_ns: int | None) -> Int64:
    """The nodes on the path to one, by time, but for the first; nodes that follow by number are one step."""
    graph, numbers = simulation.graph, np.arange(len(simulation.time_ns))
    came_from = at(graph.dependencies.source, simulation.bound_by)
    if since_ns is not None:
        came_from[graph.time_ns <= since_ns] = NO_ID
    begin = np.maximum.accumulate(np.where(came_from == numbers - 1, 0, numbers))
    begins, ends = [int(begin[last])], [last]
    while (node := int(came_from[begins[-1]])) != NO_ID:
        begins.append(int(begin[node]))
        ends.append(node)
    return each_of(np.array(begins[::-1]), np.array(ends[::-1]) + 1)[1][1:]


def node_name(graph: Graph, node: int) -> str:
    """The name of a node for people: its call on a thread or its work on a stream, and whether it starts or ends."""
    side, op = "end" if node % 2 else "start", node // 2 - len(graph.calls)
    if op < 0:
        call = node // 2
        name = graph.trace.names[int(graph.trace.api_calls.name_id[graph.calls.row[call]])]
        return f"{name} on thread {graph.calls.thread[call]}, {side}"
    row = int(graph.work.row[op])
    table = graph.trace.device_work[int(graph.work.table[op])].take(slice(row, row + 1))
    if isinstance(table, Copies):
        name = f"{Direction(int(table.direction[0])).label} copy ({MemoryKind(int(host_kind(table)[0])).label})"
    else:
        name = graph.trace.names[int(table.name_id[0])] or "work"
    return f"{name} on stream {table.stream[0]}, {side}"
