"""Kernels that fill a device run one after the other, whatever their streams: in the order in which they could begin.

The device gives its multiprocessors to the thread blocks of the kernel that came first, and to those of the next one as
they become free (CUDA C++ Programming Guide, on concurrent kernel execution: kernels that use many resources are less
likely to run at once).
"""

from __future__ import annotations

import numpy as np

from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.replay.engine import Replay
from overlapscope.replay.graph import Because, Edges, Graph


def in_turns(played: Replay) -> Edges:
    """What orders such kernels of different streams that a replay has run at once, for longer than the trace ever has.

    As long as in the trace they may: the next kernel's first blocks run beside the last ones of the one before.
    """
    graph = played.graph
    work, fills = graph.work, _fills(graph)
    parts = [Edges.none()]
    for process, device in sorted(set(zip(work.process[fills].tolist(), work.device[fills].tolist(), strict=True))):
        mine = np.flatnonzero(fills & (work.process == process) & (work.device == device))
        beside = int(_beside_ns(graph, mine, graph.time_ns)[2].max(initial=0))
        one, other, together = _beside_ns(graph, mine, played.time_ns)
        if (together > beside).any():
            parts.append(Edges.of(graph.work_end(one), graph.work_start(other), -beside, Because.DEVICE))
    return Edges.together(*parts)


def _beside_ns(graph: Graph, some: Int64, time_ns: Int64) -> tuple[Int64, Int64, Int64]:
    """Pairs of kernels of different streams that begin one after the other, and how long they run at once."""
    starts, ends = time_ns[graph.work_start(some)], time_ns[graph.work_end(some)]
    order = np.lexsort((some, starts))
    one, other = order[:-1], order[1:]
    apart = graph.work.stream[some[one]] != graph.work.stream[some[other]]
    one, other = one[apart], other[apart]
    together = np.maximum(np.minimum(ends[one], ends[other]) - starts[other], 0)
    return some[one], some[other], together


def _fills(graph: Graph) -> Bool:
    """Which work is of kernels with a thread block for every multiprocessor of their device, where both are known."""
    trace, work = graph.trace, graph.work
    count = {device.number: device.multiprocessors for device in trace.metadata.devices if device.multiprocessors}
    kernel = work.table == 0
    blocks = np.append(trace.kernels.blocks, NO_ID)[np.where(kernel, work.row, NO_ID)]
    needed = np.array([count.get(device, np.iinfo(np.int64).max) for device in work.device.tolist()], np.int64)
    filled: Bool = kernel & (blocks >= needed)
    return filled
