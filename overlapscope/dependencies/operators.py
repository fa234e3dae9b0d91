"""Which of torch's operators issued which work."""

from __future__ import annotations

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.measure.places import innermost
from overlapscope.model.columns import NO_ID, Int64

_OWN = "aten::"  # torch's own operators touch nothing but their arguments and what they return


def issuing_operators(graph: Graph, some: Int64) -> Int64:
    """For some work the row of the innermost operator that issued it, where that is one of torch's own."""
    calls, ops, names = graph.calls, graph.trace.cpu_ops, graph.trace.names
    call = graph.work.call[some]
    process, thread, moment = (
        np.append(values, NO_ID)[call] for values in (calls.process, calls.thread, calls.start_ns)
    )
    operator = innermost(ops, process, thread, moment).astype(np.int64)
    own = np.array([name.startswith(_OWN) for name in names.values] + [False])
    return np.where(own[np.append(ops.name_id, NO_ID)[operator]], operator, NO_ID)
