"""Threads that nothing ties to the rest of a program, such as one that pins batches and makes no device work."""

from __future__ import annotations

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.model.columns import NO_ID, Bool


def apart(graph: Graph) -> Bool:
    """Which nodes are of calls of such threads; none where every thread is one.

    They wait for others, by locks and queues that no trace records, and go on at the pace that they were recorded at.
    How long the program takes does not follow from them.
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
