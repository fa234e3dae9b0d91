"""The dependencies of a trace as a graph.

Every call and every op (kernel, copy, memset) has two nodes, its start and its end. A dependency says that a node comes
no earlier than another one plus a weight. What bound a node in the trace has the weight that was seen there; every
other dependency has at most what is usual. So the unchanged graph gives the trace's own times, and a wait that nothing
explains stays a wait.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.measure.copies import host_kind
from overlapscope.measure.grouping import at, distinct_columns, once_for_each, outermost
from overlapscope.measure.places import innermost
from overlapscope.model.columns import NO_ID, Bool, Columnar, Int8, Int64
from overlapscope.model.enums import ALLOCATIONS, LINK, MemoryKind
from overlapscope.model.tables import CpuOps
from overlapscope.model.trace import Trace

FOLLOW_NS = 2_000
"""Most time between two ops of a stream, or on a copy engine, when nothing else is in the way, in ns.

1 to 2 us were measured on an H200. Where enough kernels of a trace waited only for the one before them, their median is
used instead.
"""


@dataclass(frozen=True, eq=False)
class Dependencies(Columnar):
    """Dependencies of nodes on nodes, with the least time between them in ns.

    ``inferred`` says that the trace does not record it. ``likely`` is the kind; for a wait that was not recorded, the
    kind that it most likely was.
    """

    source: Int64
    target: Int64
    weight_ns: Int64
    kind: Int8
    inferred: Bool
    likely: Int8

    def of_kind(self, *kinds: DependencyKind) -> Bool:
        """Which rows are of these kinds."""
        wanted = np.zeros(len(DependencyKind), np.bool_)
        wanted[list(kinds)] = True
        return wanted[self.kind]

    def among(self, others: Dependencies) -> Bool:
        """Which rows connect the same two nodes as one of the others."""
        if not len(self) or not len(others):
            return np.zeros(len(self), np.bool_)
        nodes = 1 + max(int(ends.max()) for ends in (self.source, self.target, others.source, others.target))
        leaves, enters = np.zeros((2, nodes), np.bool_)
        leaves[others.source], enters[others.target] = True, True
        result = leaves[self.source] & enters[self.target]
        rows = np.flatnonzero(result)  # few, as others are few
        ways = np.sort(others.source * nodes + others.target)
        asked = self.source[rows] * nodes + self.target[rows]
        result[rows] = at(ways, np.searchsorted(ways[:-1], asked)) == asked
        return result

    @classmethod
    def of(
        cls,
        source: Int64,
        target: Int64,
        weight_ns: Int64 | int,
        kind: DependencyKind,
        *,
        inferred: Bool | bool = False,
    ) -> Dependencies:
        """Dependencies of one kind; those from or to an unknown node (negative) are left out."""
        known = (source >= 0) & (target >= 0)
        weight, guessed = (np.broadcast_to(value, len(source))[known] for value in (weight_ns, inferred))
        kinds = np.full(len(weight), kind, np.int8)
        return cls(source[known], target[known], weight.astype(np.int64), kinds, guessed, kinds)


@dataclass(frozen=True, eq=False)
class Calls(Columnar):
    """The calls of a trace that are not inside others, by thread and start; ``row`` is their row in api_calls."""

    row: Int64
    start_ns: Int64
    end_ns: Int64
    process: Int64
    thread: Int64
    kind: Int8

    @classmethod
    def of(cls, trace: Trace) -> Calls:
        """The outermost calls of a trace."""
        table = trace.api_calls
        rows = np.flatnonzero(table.parent == NO_ID)
        rows = rows[np.lexsort((table.start_ns[rows], table.thread[rows], table.process[rows]))]
        columns = (getattr(table, name)[rows] for name in ("start_ns", "end_ns", "process", "thread", "kind"))
        return cls(rows, *columns)

    @cached_property
    def owner(self) -> Int64:
        """A number for each call's thread, from 0 on."""
        other = (self.thread[1:] != self.thread[:-1]) | (self.process[1:] != self.process[:-1])
        return np.append(0, np.cumsum(other))[: len(self)]

    @cached_property
    def first(self) -> Int64:
        """The first call of each thread, by its number."""
        return np.flatnonzero(np.diff(self.owner, prepend=NO_ID))


@dataclass(frozen=True, eq=False)
class Work(Columnar):
    """All device work of a trace by its start; ``call`` is an index into the graph's calls.

    ``table`` is 0 for kernels, 1 for copies, 2 for memsets, ``row`` the row there. ``engine`` is the direction of
    copies over a link, 0 for other work.
    """

    start_ns: Int64
    end_ns: Int64
    process: Int64
    device: Int64
    stream: Int64
    call: Int64
    table: Int64
    row: Int64
    engine: Int64

    @classmethod
    def of(cls, trace: Trace, index: Int64) -> Work:
        """The work of a trace; ``index`` gives the call of the graph for each row of api_calls, `NO_ID` at its end."""
        copies = trace.copies
        engines: tuple[Any, ...] = (0, np.where(np.isin(copies.direction, LINK), copies.direction, 0), 0)
        parts = []
        for number, (table, engine) in enumerate(zip(trace.device_work, engines, strict=True)):
            count = len(table)
            place = (table.start_ns, table.end_ns, table.process, table.device, table.stream, index[table.call])
            columns = (*place, np.full(count, number), np.arange(count), np.broadcast_to(engine, count))
            parts.append(cls(*(values.astype(np.int64) for values in columns)))
        work = cls.concat(*parts)
        return work.take(np.lexsort((work.end_ns, work.start_ns)))

    @property
    def copy(self) -> Int64:
        """Row of each copy, `NO_ID` for other work."""
        return np.where(self.table == 1, self.row, NO_ID)

    def issued_ns(self, calls: Calls) -> Int64:
        """When each op was issued; 0 where that is not known."""
        return at(calls.start_ns, self.call, 0)


@dataclass(frozen=True, eq=False)
class Graph:
    """The nodes of a trace and their dependencies.

    Nodes ``2 * i`` and ``2 * i + 1`` are the start and the end of call ``i``; those of the work follow. ``time_ns`` is
    when each came in the trace. ``call_of`` gives for each row of api_calls the index of the call that it is or lies
    in, with `NO_ID` appended.
    """

    trace: Trace
    calls: Calls
    call_of: Int64
    work: Work
    time_ns: Int64
    dependencies: Dependencies

    def call_start(self, index: Int64) -> Int64:
        """Nodes at which calls start; unknown calls have unknown nodes."""
        return np.where(index == NO_ID, NO_ID, 2 * index)

    def call_end(self, index: Int64) -> Int64:
        """Nodes at which calls end."""
        return np.where(index == NO_ID, NO_ID, 2 * index + 1)

    def work_start(self, index: Int64) -> Int64:
        """Nodes at which work starts."""
        return np.where(index == NO_ID, NO_ID, 2 * (len(self.calls) + index))

    def work_end(self, index: Int64) -> Int64:
        """Nodes at which work ends."""
        return np.where(index == NO_ID, NO_ID, 2 * (len(self.calls) + index) + 1)

    def work_of(self, node: Int64) -> Int64:
        """The work that nodes belong to; negative for nodes of calls."""
        return node // 2 - len(self.calls)

    def after_work(
        self,
        one: Int64,
        other: Int64,
        kind: DependencyKind,
        weight_ns: Int64 | int = FOLLOW_NS,
        *,
        inferred: Bool | bool = False,
    ) -> Dependencies:
        """Dependencies by which work starts after other work has ended; `NO_ID` for none."""
        return Dependencies.of(self.work_end(one), self.work_start(other), weight_ns, kind, inferred=inferred)

    @cached_property
    def streams(self) -> list[tuple[int, int, int]]:
        """Process, device and number of every stream with work."""
        keys = np.stack([self.work.process, self.work.device, self.work.stream])
        return [(int(a), int(b), int(c)) for a, b, c in distinct_columns(keys)[0].T]

    def of_memory(self, kind: MemoryKind) -> Bool:
        """Which work copies from or to host memory of a kind."""
        return at(host_kind(self.trace.copies) == kind, self.work.copy, kind == MemoryKind.UNKNOWN)

    def with_dependencies(self, *parts: Dependencies) -> Graph:
        """A graph of these nodes with other dependencies."""
        return replace(self, dependencies=Dependencies.concat(*parts))

    def into(self, nodes: Int64, *kinds: DependencyKind) -> Int64:
        """For each node the row of the dependency of some kinds that leads into it, `NO_ID` where there is none."""
        rows = np.flatnonzero(self.dependencies.of_kind(*kinds))
        row_of = np.full(len(self.time_ns), NO_ID)
        row_of[self.dependencies.target[rows]] = rows
        return np.take(row_of, nodes)

    @cached_property
    def work_of_copy(self) -> Int64:
        """For each row of copies its index among the work, with `NO_ID` appended."""
        result = np.full(len(self.trace.copies) + 1, NO_ID, np.int64)
        rows = np.flatnonzero(self.work.table == 1)
        result[self.work.row[rows]] = rows
        return result

    def runs(self, work: Int64) -> Int64:
        """The row of the dependency of each op's own duration."""
        return self.into(self.work_end(work), DependencyKind.EXECUTION)

    def work_of_rows(self, copies: Bool) -> Int64:
        """The work of rows of copies, by its start."""
        return np.flatnonzero(at(copies, self.work.copy, False))

    def bound_by(self, nodes: Int64) -> Int64:
        """The likely `DependencyKind` that bound each of some nodes in the trace, `NO_ID` where none did."""
        return at(self.dependencies.likely, self.binding[nodes])

    @cached_property
    def binding(self) -> Int64:
        """For each node the row of the dependency that bound it in the trace, `NO_ID` where it has none."""
        return last_into(self.time_ns, self.dependencies, self.dependencies.weight_ns)


def nodes_of(trace: Trace) -> Graph:
    """The nodes of a trace, with nothing but each call's and each op's own duration."""
    calls = Calls.of(trace)
    index = np.full(len(trace.api_calls) + 1, NO_ID, np.int64)
    index[calls.row] = np.arange(len(calls))
    call_of = index[np.append(outermost(trace.api_calls.parent), NO_ID)]
    work = Work.of(trace, call_of)
    start = np.concatenate([calls.start_ns, work.start_ns])
    end = np.concatenate([calls.end_ns, work.end_ns])
    of_call = np.where(np.isin(calls.kind, ALLOCATIONS), DependencyKind.ALLOCATION, DependencyKind.API_CALL)
    kind = np.append(of_call, np.full(len(work), DependencyKind.EXECUTION)).astype(np.int8)
    node = 2 * np.arange(len(start))
    durations = Dependencies(node, node + 1, end - start, kind, np.zeros(len(start), np.bool_), kind)
    return Graph(trace, calls, call_of, work, np.stack([start, end], axis=1).ravel(), durations)


def bound(time_ns: Int64, edges: Dependencies) -> Dependencies:
    """Cut every weight to what was seen, and give the last dependency into each node all of what was seen."""
    seen = time_ns[edges.target] - time_ns[edges.source]
    weight = np.minimum(edges.weight_ns, seen)
    last = last_into(time_ns, edges, weight)
    last = last[last != NO_ID]
    weight[last] = seen[last]
    return replace(edges, weight_ns=weight)


def last_into(time_ns: Int64, edges: Dependencies, weight_ns: Int64) -> Int64:
    """For each node the row of the dependency that holds it back longest, of two the surer kind; `NO_ID` for none."""
    order = np.lexsort((-edges.kind, time_ns[edges.source] + weight_ns, edges.target))
    result = np.full(len(time_ns), NO_ID, np.int64)
    result[edges.target[order]] = order  # the last one written came last
    return result


def detached(graph: Graph) -> Bool:
    """Which nodes are of calls of threads without any dependency on work or another thread; none if all threads are so.

    Such threads wait for others, by locks and queues that no trace records, and go on at the pace that they were
    recorded at. How long the program takes does not follow from them.
    """
    calls, nodes = graph.calls, len(graph.time_ns)
    owner = np.full(nodes, NO_ID, np.int64)
    owner[: 2 * len(calls)] = np.repeat(calls.owner, 2)
    source, target = owner[graph.dependencies.source], owner[graph.dependencies.target]
    crossing = source != target
    tied = np.zeros(len(calls.first) + 1, np.bool_)
    tied[source[crossing]] = tied[target[crossing]] = True
    result: Bool = (owner != NO_ID) & ~tied[owner]
    return result if tied[:-1].any() else np.zeros(nodes, np.bool_)


_TORCHS = "aten::"  # torch's own operators touch nothing but their arguments and what they return


def issuing_operators(graph: Graph, rows: Int64) -> Int64:
    """For rows of work the row of the innermost operator that issued it, where that is one of torch's own."""
    return _operators(graph.work, graph.calls, graph.trace.cpu_ops)[rows]


@once_for_each
def _operators(work: Work, calls: Calls, ops: CpuOps) -> Int64:
    """The operator of all work, which no change of a graph changes."""
    process, thread, moment = (at(values, work.call) for values in (calls.process, calls.thread, calls.start_ns))
    operator = innermost(ops, process, thread, moment).astype(np.int64)
    name_id, names = at(ops.name_id, operator), ops.names
    torchs = [number for number in np.unique(name_id).tolist() if names[number].startswith(_TORCHS)]
    return np.where(np.isin(name_id, torchs), operator, NO_ID)
