"""Which host threads are those of torch's autograd engine: they work for the thread that asked for gradients."""

from __future__ import annotations

import numpy as np

from overlapscope.model.columns import Bool
from overlapscope.replay.graph import Graph

_THREAD = "pt_autograd"  # what torch calls them
_NODE = "autograd::engine::evaluate_function"


def by_autograd(graph: Graph) -> Bool:
    """Which calls threads of the engine made: by their names, else by the operators that they ran."""
    trace, calls = graph.trace, graph.calls
    ops = trace.cpu_ops
    nodes = [index for index, name in enumerate(trace.names.values) if name.startswith(_NODE)]
    ran = np.isin(ops.name_id, nodes)
    named = {place for place, name in trace.metadata.thread_names.items() if _THREAD in name}
    theirs = np.zeros(len(calls), np.bool_)
    for process, thread in named | set(zip(ops.process[ran].tolist(), ops.thread[ran].tolist(), strict=True)):
        theirs |= (calls.process == process) & (calls.thread == thread)
    return theirs


def threads_told(graph: Graph) -> bool:
    """Whether the trace has anything that would tell."""
    return bool(graph.trace.metadata.thread_names) or bool(len(graph.trace.cpu_ops))
