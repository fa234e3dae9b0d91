"""Kernels that fill a device run one after the other, whatever their streams: in the order in which they could begin.

The device gives its multiprocessors to the thread blocks of the kernel that came first, and to those of the next one as
they become free (CUDA C++ Programming Guide, on concurrent kernel execution: kernels that use many resources are less
likely to run at once).
"""

from __future__ import annotations

import numpy as np

from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.dependencies.simulate import Simulation
from overlapscope.model.columns import NO_ID, Bool, Int64


def one_after_the_other(simulated: Simulation) -> Dependencies:
    """Order such kernels of different streams where a simulation runs them at once for longer than the trace ever does.

    As long as in the trace they may: the next kernel's first blocks run beside the last ones of the one before. Each
    follows the one that began before it, and so, with the order of streams, all that did.
    """
    graph = simulated.graph
    work, fills = graph.work, _fills(graph)
    parts = [Dependencies.none()]
    for process, device in sorted(set(zip(work.process[fills].tolist(), work.device[fills].tolist(), strict=True))):
        mine = np.flatnonzero(fills & (work.process == process) & (work.device == device))
        together_ns = _beside_ns(graph, mine, simulated.time_ns)
        if together_ns and together_ns > (beside_ns := _beside_ns(graph, mine, graph.time_ns)):
            mine = mine[np.lexsort((mine, simulated.time_ns[graph.work_start(mine)]))]
            other = work.stream[mine[1:]] != work.stream[mine[:-1]]
            one, next_one = mine[:-1][other], mine[1:][other]
            parts.append(
                Dependencies.of(graph.work_end(one), graph.work_start(next_one), -beside_ns, DependencyKind.FULL_DEVICE)
            )
    return Dependencies.together(*parts)


def _beside_ns(graph: Graph, some: Int64, time_ns: Int64) -> int:
    """For how long a kernel ran, at most, beside one of another stream that had begun before it."""
    some = some[np.lexsort((some, time_ns[graph.work_start(some)]))]
    starts, ends = time_ns[graph.work_start(some)], time_ns[graph.work_end(some)]
    stream, longest = graph.work.stream[some], 0
    for each in np.unique(stream).tolist():
        mine = stream == each
        until = np.maximum.accumulate(np.where(mine, starts, ends))  # of others that have begun
        together = np.minimum(until[mine], ends[mine]) - starts[mine]
        longest = max(longest, int(together.max(initial=0)))
    return longest


def _fills(graph: Graph) -> Bool:
    """Which work is of kernels that have a block for every multiprocessor of their device, where both are known.

    What takes no time keeps nothing from running.
    """
    trace, work = graph.trace, graph.work
    blocks = np.append(trace.kernels.blocks, NO_ID)[np.where(work.table == 0, work.row, NO_ID)]
    filled = np.zeros(len(work), np.bool_)
    for device in trace.metadata.devices:
        if device.multiprocessors:
            filled |= (work.device == device.number) & (blocks >= device.multiprocessors)
    return filled & (work.end_ns > work.start_ns)
