"""The dependencies of a trace as a graph.

Every call and every op (kernel, copy, memset) has two nodes, its start and its end. A dependency says that a node comes
no earlier than another one plus a weight. What bound a node in the trace has the weight that was seen there; every
other dependency has at most what is usual. So the unchanged graph gives the trace's own times, and a wait that nothing
explains stays a wait.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.measure.copies import host_kind
from overlapscope.measure.distinct import distinct_columns
from overlapscope.model.columns import NO_ID, Bool, Int8, Int64
from overlapscope.model.enums import ALLOCATIONS, LINK, MemoryKind
from overlapscope.model.trace import Trace


@dataclass(frozen=True, eq=False)
class Dependencies:
    """From a node to a node, with the least time between them in ns.

    ``inferred`` says that the trace does not record it. ``likely`` is the kind; for a wait that was not recorded, the
    kind that it most likely was.
    """

    source: Int64
    target: Int64
    weight_ns: Int64
    kind: Int8
    inferred: Bool
    likely: Int8

    def __len__(self) -> int:
        return len(self.source)

    def take(self, rows: Bool | Int64) -> Dependencies:
        """Some rows."""
        return Dependencies(*(getattr(self, entry.name)[rows] for entry in fields(self)))

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
        found = leaves[self.source] & enters[self.target]
        some = np.flatnonzero(found)  # few, as others are few
        found[some] = np.isin(
            self.source[some] * nodes + self.target[some], others.source * nodes + others.target, kind="sort"
        )
        return found

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
        weight = np.broadcast_to(np.asarray(weight_ns, np.int64), len(source))
        known = (source >= 0) & (target >= 0)
        guessed = np.broadcast_to(inferred, len(source))[known]
        kinds = np.full(int(known.sum()), kind, np.int8)
        return cls(source[known], target[known], weight[known], kinds, guessed, kinds)

    @classmethod
    def none(cls) -> Dependencies:
        """No dependency."""
        nothing = np.empty(0, np.int64)
        kinds = np.empty(0, np.int8)
        return cls(nothing, nothing, nothing, kinds, np.empty(0, np.bool_), kinds)

    @classmethod
    def together(cls, *parts: Dependencies) -> Dependencies:
        """All rows of several."""
        some = [part for part in parts if len(part)]
        if len(some) == 1:
            return some[0]
        return cls(*(np.concatenate([getattr(part, entry.name) for part in parts]) for entry in fields(cls)))


@dataclass(frozen=True, eq=False)
class Calls:
    """The calls of a trace that are not inside others, by thread and start; ``row`` is their row in api_calls."""

    row: Int64
    start_ns: Int64
    end_ns: Int64
    process: Int64
    thread: Int64
    kind: Int8

    @classmethod
    def of(cls, trace: Trace) -> Calls:
        """All of a trace."""
        table = trace.api_calls
        rows = np.flatnonzero(table.parent == NO_ID)
        rows = rows[np.lexsort((table.start_ns[rows], table.thread[rows], table.process[rows]))]
        columns = (getattr(table, name)[rows] for name in ("start_ns", "end_ns", "process", "thread", "kind"))
        return cls(rows, *columns)

    def __len__(self) -> int:
        return len(self.row)

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
class Work:
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
        """All of a trace; ``index`` gives for each row of api_calls the graph's call, `NO_ID` at its end."""
        copies = trace.copies
        engines: tuple[Any, ...] = (0, np.where(np.isin(copies.direction, LINK), copies.direction, 0), 0)
        parts = []
        for number, (table, engine) in enumerate(zip(trace.device_work, engines, strict=True)):
            count = len(table)
            place = (table.start_ns, table.end_ns, table.process, table.device, table.stream, index[table.call])
            parts.append((*place, np.full(count, number), np.arange(count), np.broadcast_to(engine, count)))
        columns = [np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True)]
        order = np.lexsort((columns[1], columns[0]))
        return cls(*(column[order] for column in columns))

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def copy(self) -> Int64:
        """Row of each copy, `NO_ID` for other work."""
        return np.where(self.table == 1, self.row, NO_ID)

    def issued_ns(self, calls: Calls) -> Int64:
        """When each op was issued; 0 where that is not known."""
        issued: Int64 = np.append(calls.start_ns, 0)[self.call]
        return issued


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
        """Nodes at which some calls start; unknown calls have unknown nodes."""
        return np.where(index == NO_ID, NO_ID, 2 * index)

    def call_end(self, index: Int64) -> Int64:
        """Nodes at which they end."""
        return np.where(index == NO_ID, NO_ID, 2 * index + 1)

    def work_start(self, index: Int64) -> Int64:
        """Nodes at which some work starts."""
        return np.where(index == NO_ID, NO_ID, 2 * (len(self.calls) + index))

    def work_end(self, index: Int64) -> Int64:
        """Nodes at which it ends."""
        return np.where(index == NO_ID, NO_ID, 2 * (len(self.calls) + index) + 1)

    def work_of(self, node: Int64) -> Int64:
        """The work that some nodes belong to; negative for those of calls."""
        return node // 2 - len(self.calls)

    @cached_property
    def streams(self) -> list[tuple[int, int, int]]:
        """Process, device and number of every stream with work."""
        keys = np.stack([self.work.process, self.work.device, self.work.stream])
        return [(int(a), int(b), int(c)) for a, b, c in distinct_columns(keys)[0].T]

    def of_memory(self, kind: MemoryKind) -> Bool:
        """Which work copies from or to host memory of a kind."""
        kinds = np.append(host_kind(self.trace.copies), MemoryKind.UNKNOWN)
        found: Bool = kinds[self.work.copy] == kind
        return found

    def with_dependencies(self, *parts: Dependencies) -> Graph:
        """The same nodes with other dependencies."""
        return replace(self, dependencies=Dependencies.together(*parts))

    def into(self, nodes: Int64, *kinds: DependencyKind) -> Int64:
        """For each node the row of the dependency of some kinds that leads into it, `NO_ID` where there is none."""
        rows = np.flatnonzero(self.dependencies.of_kind(*kinds))
        where = np.full(len(self.time_ns), NO_ID, np.int64)
        where[self.dependencies.target[rows]] = rows
        result: Int64 = where[nodes]
        return result

    @cached_property
    def work_of_copy(self) -> Int64:
        """For each row of copies its index among the work, with `NO_ID` appended."""
        result = np.full(len(self.trace.copies) + 1, NO_ID, np.int64)
        rows = np.flatnonzero(self.work.table == 1)
        result[self.work.row[rows]] = rows
        return result

    def bound_by(self, nodes: Int64) -> Int64:
        """The likely `DependencyKind` that bound each of some nodes in the trace, `NO_ID` where none did."""
        kinds: Int64 = np.append(self.dependencies.likely.astype(np.int64), NO_ID)[self.binding[nodes]]
        return kinds

    @cached_property
    def binding(self) -> Int64:
        """For each node the row of the dependency that bound it in the trace, `NO_ID` where it has none."""
        edges = self.dependencies
        reached = self.time_ns[edges.source] + edges.weight_ns
        order = np.lexsort((-edges.kind, reached, edges.target))  # of two that agree, the surer kind
        result = np.full(len(self.time_ns), NO_ID, np.int64)
        result[edges.target[order]] = order  # the last one written came last
        return result


def nodes_of(trace: Trace) -> Graph:
    """The nodes of a trace, with nothing but each call's and each op's own duration."""
    calls = Calls.of(trace)
    index = np.full(len(trace.api_calls) + 1, NO_ID, np.int64)
    index[calls.row] = np.arange(len(calls))
    call_of = index[np.append(_outermost(trace), NO_ID)]
    work = Work.of(trace, call_of)
    start = np.concatenate([calls.start_ns, work.start_ns])
    end = np.concatenate([calls.end_ns, work.end_ns])
    kind = np.concatenate([_own_kind(calls), np.full(len(work), DependencyKind.EXECUTION)]).astype(np.int8)
    index = np.arange(len(start))
    own = Dependencies(2 * index, 2 * index + 1, end - start, kind, np.zeros(len(start), np.bool_), kind)
    return Graph(trace, calls, call_of, work, np.stack([start, end], axis=1).ravel(), own)


def _own_kind(calls: Calls) -> Int64:
    return np.where(np.isin(calls.kind, ALLOCATIONS), DependencyKind.ALLOCATION, DependencyKind.API_CALL)


def _outermost(trace: Trace) -> Int64:
    """For each call, the row of the outermost call around it."""
    outer = np.where(trace.api_calls.parent == NO_ID, np.arange(len(trace.api_calls)), trace.api_calls.parent)
    while True:
        further = outer[outer]
        if (further == outer).all():
            return outer
        outer = further


def bound(time_ns: Int64, edges: Dependencies) -> Dependencies:
    """Cut every weight to what was seen, and give the last dependency into each node all of what was seen."""
    seen = time_ns[edges.target] - time_ns[edges.source]
    weight = np.minimum(edges.weight_ns, seen)
    order = np.lexsort((-edges.kind, time_ns[edges.source] + weight, edges.target))
    closes = np.ones(len(order), np.bool_)
    closes[:-1] = edges.target[order][1:] != edges.target[order][:-1]
    last = order[closes]
    weight[last] = seen[last]
    return replace(edges, weight_ns=weight)
