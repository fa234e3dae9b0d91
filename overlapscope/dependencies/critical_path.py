"""What the length of a simulation is made of: the chain of nodes that bound each other, back from the last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.dependencies.simulate import Simulation
from overlapscope.measure.copies import host_kind
from overlapscope.measure.spans import each_of
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import Direction, MemoryKind

if TYPE_CHECKING:
    import pandas as pd

_ON_DEVICE = (
    DependencyKind.LAUNCH,
    DependencyKind.STREAM_ORDER,
    DependencyKind.EVENT,
    DependencyKind.OTHER_DEVICE,
    DependencyKind.COPY_ENGINE,
    DependencyKind.NOT_RECORDED,
    DependencyKind.LEGACY_DEFAULT_STREAM,
)


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
        engine = np.append(graph.work.engine, 0)[np.where(work >= 0, work, -1)]
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
        columns = (times, edges.source.tolist(), edges.target.tolist(), edges.kind.tolist(), edges.inferred.tolist())
        return [
            {
                "end_ns": end,
                "what": node_name(graph, target),
                "dependency": DependencyKind(kind).label,
                "inferred": inferred,
                "added_ns": added,
                "after": node_name(graph, source),
            }
            for end, source, target, kind, inferred, added in zip(*columns, self.added_ns.tolist(), strict=True)
        ]

    def to_pandas(self) -> pd.DataFrame:
        """The same as a frame, a row for each dependency."""
        import pandas as pd

        names = ("end_ns", "what", "dependency", "inferred", "added_ns", "after")
        return pd.DataFrame(self.to_dict(), columns=list(names))


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
    came_from = np.append(graph.dependencies.source, NO_ID)[simulation.bound_by]
    if since_ns is not None:
        came_from[graph.time_ns <= since_ns] = NO_ID
    begin = np.maximum.accumulate(np.where(came_from == numbers - 1, 0, numbers))
    begins, ends = [int(begin[last])], [last]
    while (node := int(came_from[begins[-1]])) != NO_ID:
        begins.append(int(begin[node]))
        ends.append(node)
    return each_of(np.array(begins[::-1]), np.array(ends[::-1]) + 1)[1][1:]


def node_name(graph: Graph, node: int) -> str:
    """What a node is, for people: its call on a thread or its work on a stream, and whether it starts or ends."""
    return f"{_owner_name(graph, node // 2)}, {'end' if node % 2 else 'start'}"


def _owner_name(graph: Graph, index: int) -> str:
    trace = graph.trace
    if index < len(graph.calls):
        name = trace.names[int(trace.api_calls.name_id[graph.calls.row[index]])]
        return f"{name} on thread {graph.calls.thread[index]}"
    op = index - len(graph.calls)
    table, row = trace.device_work[int(graph.work.table[op])], int(graph.work.row[op])
    where = f"on stream {table.stream[row]}"
    if table is trace.copies:
        memory = MemoryKind(int(host_kind(trace.copies.take(np.array([row])))[0])).label
        return f"{Direction(int(trace.copies.direction[row])).label} copy ({memory}) {where}"
    return f"{trace.names[int(table.name_id[row])]} {where}" if table.name_id[row] != NO_ID else f"work {where}"
