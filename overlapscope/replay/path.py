"""What a replay's length is made of: the chain of moments that bound each other, back from the last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import Direction
from overlapscope.replay.engine import Replay
from overlapscope.replay.graph import Because


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """Edges of the graph, the first in time first; ``lag_ns`` is the time that each adds."""

    edges: Int64
    lag_ns: Int64


def critical_path(played: Replay, last: int | None = None, since_ns: int | None = None) -> CriticalPath:
    """The edges that bound the last moment of a replay (or another), back to one that waits for nothing.

    With ``since_ns`` it goes back no further than moments that were before that time in the trace.
    """
    moment = int(np.argmax(played.time_ns)) if last is None else last
    source, found, times = played.graph.edges.source, [], played.graph.time_ns
    while (edge := int(played.bound_by[moment])) != NO_ID and (since_ns is None or times[moment] > since_ns):
        found.append(edge)
        moment = int(source[edge])
    edges = np.array(found[::-1], np.int64)
    target = played.graph.edges.target[edges]
    return CriticalPath(edges, played.time_ns[target] - played.time_ns[source[edges]])


def made_of(played: Replay, path: CriticalPath) -> dict[str, int]:
    """Time on a path by what it is spent on, in ns, the longest first."""
    graph, because = played.graph, played.graph.edges.because[path.edges]
    work = graph.work_of(graph.edges.target[path.edges])
    engine = np.append(graph.work.engine, 0)[np.where(work >= 0, work, -1)]
    names = {
        "kernels": (because == Because.RUN) & (engine == 0),
        "copies to the device": (because == Because.RUN) & (engine == Direction.HTOD),
        "copies to the host": (because == Because.RUN) & (engine == Direction.DTOH),
        "other copies": (because == Because.RUN) & ~np.isin(engine, (0, Direction.HTOD, Direction.DTOH)),
        "the host's own work": np.isin(because, (Because.GAP, Because.HANDOFF)),
        "calls": np.isin(because, (Because.CALL, Because.STAGING, Because.LOCK, Because.QUEUE)),
        "launches and gaps on the device": np.isin(
            because,
            (Because.ISSUE, Because.STREAM, Because.EVENT, Because.ENGINE, Because.DEVICE, Because.LEGACY),
        ),
        "synchronisations": because == Because.SYNC,
    }
    sums = {name: int(path.lag_ns[rows].sum()) for name, rows in names.items()}
    return dict(sorted(((name, total) for name, total in sums.items() if total), key=lambda entry: -entry[1]))
