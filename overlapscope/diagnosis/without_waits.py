"""How long GPUs would be idle if no thread had synchronised: what a synchronisation took from the run-ahead at most.

A synchronisation can only have cost the launch run-ahead that there would be without it. Where the next call waits for
the same work, or where the host takes longer than the GPU anyway, the GPU is idle without it too.
"""

from __future__ import annotations

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.simulate import simulate
from overlapscope.measure.distinct import distinct_columns
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import SYNC_CALLS
from overlapscope.whatif.calls import scalar_reads
from overlapscope.whatif.config import SimulationConfig
from overlapscope.whatif.editor import Editor


def idle_without_waits(graph: Graph, config: SimulationConfig) -> Int64:
    """For each row of api_calls, for how long its GPU would be idle before the work that it launched, in ns.

    That is simulated without any synchronisation of the host, and without reads of single values. It is 0 for calls
    that launched nothing; a 0 is appended.
    """
    editor = Editor(graph, config)
    editor.without_waits(np.flatnonzero(np.isin(graph.calls.kind, SYNC_CALLS)))
    editor.without_waits(editor.calls_of(scalar_reads(graph.trace)))
    times = simulate(editor.graph).time_ns[2 * len(graph.calls) :]
    idle = _idle_before(graph, times[0::2], times[1::2])
    result = np.zeros(len(graph.trace.api_calls) + 1, np.int64)
    launched = graph.work.call != NO_ID
    np.add.at(result, graph.calls.row[graph.work.call[launched]], idle[launched])
    return result


def _idle_before(graph: Graph, start_ns: Int64, end_ns: Int64) -> Int64:
    """For each piece of work, for how long its GPU did nothing before it."""
    result = np.zeros(len(start_ns), np.int64)
    _, device = distinct_columns(np.stack([graph.work.process, graph.work.device]))
    for number in range(int(device.max(initial=-1)) + 1):
        mine = np.flatnonzero(device == number)
        mine = mine[np.argsort(start_ns[mine], kind="stable")]
        busy_until = np.maximum.accumulate(end_ns[mine])
        result[mine[1:]] = np.maximum(start_ns[mine[1:]] - busy_until[:-1], 0)
    return result
