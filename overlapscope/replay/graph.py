"""What each call and each piece of device work of a trace waited for, as a graph of moments.

Every call and every op (kernel, copy, fill) has two moments, its start and its end. An edge says that a moment comes no
sooner than another plus a lag. What bound a moment in the trace has the lag that was seen there; everything else has
at most what is usual. So the graph gives the trace's own times back, and a wait that nothing explains stays a wait.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from overlapscope.measure.copies import host_kind
from overlapscope.measure.queues import LINK
from overlapscope.model.columns import NO_ID, Bool, Int8, Int32, Int64
from overlapscope.model.enums import Labelled, MemoryKind
from overlapscope.model.trace import Trace


class Because(Labelled):
    """Why a moment waits for another."""

    GAP = 0, "the thread's own work since its last call"
    CALL = 1, "the call itself"
    RUN = 2, "its own duration"
    ISSUE = 3, "its launch"
    STREAM = 4, "the work before it on its stream"
    EVENT = 5, "an event"
    ENGINE = 6, "its copy engine"
    DEVICE = 7, "work that ended just before, on another stream"
    STAGING = 8, "a copy that holds its call"
    SYNC = 9, "a synchronisation"
    LOCK = 10, "another thread's copy call"
    HANDOFF = 11, "another thread"
    QUEUE = 12, "a full launch queue"
    LEGACY = 13, "the legacy default stream"


@dataclass(frozen=True, eq=False)
class Edges:
    """From a moment to a moment, with the least time between them, in ns."""

    source: Int64
    target: Int64
    lag_ns: Int64
    because: Int8

    def __len__(self) -> int:
        return len(self.source)

    def take(self, rows: Bool | Int64) -> Edges:
        """Some of them."""
        return Edges(*(getattr(self, entry.name)[rows] for entry in fields(self)))

    def of_kind(self, *because: Because) -> Bool:
        """Which of them are there for one of these reasons."""
        return np.isin(self.because, because)

    def among(self, others: Edges) -> Bool:
        """Which of them are between the same two moments as one of the others."""
        moments = 1 + max(self.target.max(initial=0), others.target.max(initial=0))
        found: Bool = np.isin(self.source * moments + self.target, others.source * moments + others.target)
        return found

    @classmethod
    def of(cls, source: Int64, target: Int64, lag_ns: Int64 | int, because: Because) -> Edges:
        """Edges for one reason; those from or to an unknown moment (negative) are left out."""
        lag = np.broadcast_to(np.asarray(lag_ns, np.int64), len(source))
        known = (source >= 0) & (target >= 0)
        return cls(source[known], target[known], lag[known], np.full(int(known.sum()), because, np.int8))

    @classmethod
    def none(cls) -> Edges:
        """No edge."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, nothing, np.empty(0, np.int8))

    @classmethod
    def together(cls, *parts: Edges) -> Edges:
        """All edges of several."""
        return cls(*(np.concatenate([getattr(part, entry.name) for part in parts]) for entry in fields(cls)))


@dataclass(frozen=True, eq=False)
class Calls:
    """The calls of a trace that are not inside others, by thread and start; ``row`` is theirs in api_calls."""

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
        """A number for each one's thread."""
        other = (self.thread[1:] != self.thread[:-1]) | (self.process[1:] != self.process[:-1])
        return np.append(0, np.cumsum(other))[: len(self)]

    @cached_property
    def first(self) -> Int64:
        """The first call of each thread, by its number."""
        return np.flatnonzero(np.diff(self.owner, prepend=NO_ID))


@dataclass(frozen=True, eq=False)
class Work:
    """All device work of a trace by its start; ``call`` is an index into the graph's calls.

    ``table`` is 0 for kernels, 1 for copies, 2 for fills, ``row`` the row there. ``engine`` is the direction of copies
    over a link, 0 for other work.
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
    def of(cls, trace: Trace, calls: Calls) -> Work:
        """All of a trace, with the outermost call around each launching one."""
        index_of = np.full(len(trace.api_calls) + 1, NO_ID, np.int64)
        index_of[calls.row] = np.arange(len(calls))
        outer = np.append(_outermost(trace), NO_ID)
        copies = trace.copies
        engines = (
            np.zeros(len(trace.kernels)),
            np.where(np.isin(copies.direction, LINK), copies.direction, 0),
            np.zeros(len(trace.memsets)),
        )
        parts = []
        for number, (table, engine) in enumerate(zip(trace.device_work, engines, strict=True)):
            place = (table.start_ns, table.end_ns, table.process, table.device, table.stream)
            parts.append(
                (*place, index_of[outer[table.call]], np.full(len(table), number), np.arange(len(table)), engine)
            )
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
        """When each was issued; 0 where that is not known."""
        issued: Int64 = np.append(calls.start_ns, 0)[self.call]
        return issued


def _outermost(trace: Trace) -> Int64:
    """For each call, the row of the outermost call around it."""
    outer = np.where(trace.api_calls.parent == NO_ID, np.arange(len(trace.api_calls)), trace.api_calls.parent)
    while True:
        further = outer[outer]
        if (further == outer).all():
            return outer
        outer = further


@dataclass(frozen=True, eq=False)
class Graph:
    """The moments of a trace and what orders them.

    Moments ``2 * i`` and ``2 * i + 1`` are the start and the end of call ``i``; those of the work follow.
    ``time_ns`` is when they were in the trace.
    """

    trace: Trace
    calls: Calls
    work: Work
    time_ns: Int64
    edges: Edges

    def call_start(self, index: Int64) -> Int64:
        """Moments at which some calls start; unknown calls have unknown moments."""
        return np.where(index == NO_ID, NO_ID, 2 * index)

    def call_end(self, index: Int64) -> Int64:
        """Moments at which they end."""
        return np.where(index == NO_ID, NO_ID, 2 * index + 1)

    def work_start(self, index: Int64) -> Int64:
        """Moments at which some work starts."""
        return np.where(index == NO_ID, NO_ID, 2 * (len(self.calls) + index))

    def work_end(self, index: Int64) -> Int64:
        """Moments at which it ends."""
        return np.where(index == NO_ID, NO_ID, 2 * (len(self.calls) + index) + 1)

    def streams(self) -> list[tuple[int, int, int]]:
        """Process, device and number of every stream with work."""
        work = self.work
        return sorted(set(zip(work.process.tolist(), work.device.tolist(), work.stream.tolist(), strict=True)))

    def on_device(self, process: Int64 | Int32, device: Int64 | Int32, stream: Int64) -> Int64:
        """The device of some streams: the one named where they work there, else the only other that has their number.

        What waits for an event is told the number of the stream that recorded it, which may be another device's.
        """
        result = device.astype(np.int64)
        devices: dict[tuple[int, int], list[int]] = {}
        for owner, place, number in self.streams():
            devices.setdefault((owner, number), []).append(place)
        for (owner, number), places in devices.items():
            if len(places) == 1:
                result[(process == owner) & (stream == number)] = places[0]
        return result

    def of_memory(self, kind: MemoryKind) -> Bool:
        """Which work copies from or to host memory of a kind."""
        kinds = np.append(host_kind(self.trace.copies), MemoryKind.UNKNOWN)
        found: Bool = kinds[self.work.copy] == kind
        return found

    def work_of(self, moment: Int64) -> Int64:
        """The work that some moments belong to; negative for those of calls."""
        return moment // 2 - len(self.calls)

    def with_edges(self, *edges: Edges) -> Graph:
        """The same moments with other edges."""
        return replace(self, edges=Edges.together(*edges))

    def with_lags(self, lag_ns: Int64) -> Graph:
        """The same edges with other lags."""
        return replace(self, edges=replace(self.edges, lag_ns=lag_ns))

    def into(self, moments: Int64, because: Because) -> Int64:
        """For each moment the edge of one kind that leads into it, `NO_ID` where there is none."""
        rows = np.flatnonzero(self.edges.of_kind(because))
        where = np.full(len(self.time_ns), NO_ID, np.int64)
        where[self.edges.target[rows]] = rows
        result: Int64 = where[moments]
        return result


def moments(trace: Trace) -> Graph:
    """The moments of a trace, with nothing but each call's and each op's own duration to order them."""
    calls = Calls.of(trace)
    work = Work.of(trace, calls)
    start = np.concatenate([calls.start_ns, work.start_ns])
    end = np.concatenate([calls.end_ns, work.end_ns])
    time = np.stack([start, end], axis=1).ravel()
    index = np.arange(len(start))
    because = np.where(index < len(calls), Because.CALL, Because.RUN).astype(np.int8)
    return Graph(trace, calls, work, time, Edges(2 * index, 2 * index + 1, end - start, because))


def bound(time_ns: Int64, edges: Edges) -> Edges:
    """Cut every lag to what was seen, and give the last edge into each moment all of what was seen."""
    seen = time_ns[edges.target] - time_ns[edges.source]
    lag = np.minimum(edges.lag_ns, seen)
    reached = time_ns[edges.source] + lag
    order = np.lexsort((reached, edges.target))
    closes = np.ones(len(order), np.bool_)
    closes[:-1] = edges.target[order][1:] != edges.target[order][:-1]
    last = order[closes]
    lag[last] = seen[last]
    return Edges(edges.source, edges.target, lag, edges.because)
