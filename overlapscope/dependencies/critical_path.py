"""What a replay's length is made of: the chain of moments that bound each other, back from the last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import Direction
from overlapscope.dependencies.simulate import Simulation
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """Dependencies of the graph, the first in time first; ``weight_ns`` is the time that each adds."""

    edges: Int64
    weight_ns: Int64


def critical_path(simulated: Simulation, last: int | None = None, since_ns: int | None = None) -> CriticalPath:
    """The edges that bound the last moment of a replay (or another), back to one that waits for nothing.

    With ``since_ns`` it goes back no further than moments that were before that time in the trace.
    """
    moment = int(np.argmax(simulated.time_ns)) if last is None else last
    source, found, times = simulated.graph.dependencies.source, [], simulated.graph.time_ns
    while (edge := int(simulated.bound_by[moment])) != NO_ID and (since_ns is None or times[moment] > since_ns):
        found.append(edge)
        moment = int(source[edge])
    edges = np.array(found[::-1], np.int64)
    target = simulated.graph.dependencies.target[edges]
    return CriticalPath(edges, simulated.time_ns[target] - simulated.time_ns[source[edges]])


def made_of(simulated: Simulation, path: CriticalPath) -> dict[str, int]:
    """Time on a path by what it is spent on, in ns, the longest first."""
    graph, because = simulated.graph, simulated.graph.dependencies.because[path.dependencies]
    work = graph.work_of(graph.dependencies.target[path.dependencies])
    engine = np.append(graph.work.engine, 0)[np.where(work >= 0, work, -1)]
    names = {
        "kernels": (because == DependencyKind.EXECUTION) & (engine == 0),
        "copies to the device": (because == DependencyKind.EXECUTION) & (engine == Direction.HTOD),
        "copies to the host": (because == DependencyKind.EXECUTION) & (engine == Direction.DTOH),
        "other copies": (because == DependencyKind.EXECUTION) & ~np.isin(engine, (0, Direction.HTOD, Direction.DTOH)),
        "the host's own work": np.isin(because, (DependencyKind.PROGRAM_ORDER, DependencyKind.THREAD_HANDOFF)),
        "calls": np.isin(because, (*OWN_DURATION, DependencyKind.STAGING, DependencyKind.DRIVER_LOCK, Because.QUEUE)),
        "launches and gaps on the device": np.isin(
            because,
            (DependencyKind.LAUNCH, DependencyKind.STREAM_ORDER, DependencyKind.EVENT, DependencyKind.COPY_ENGINE, DependencyKind.NOT_RECORDED, DependencyKind.LEGACY_DEFAULT_STREAM),
        ),
        "synchronisations": because == DependencyKind.SYNCHRONISATION,
    }
    sums = {name: int(path.weight_ns[rows].sum()) for name, rows in names.items()}
    return dict(sorted(((name, total) for name, total in sums.items() if total), key=lambda entry: -entry[1]))
