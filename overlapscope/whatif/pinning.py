"""Host time inside ``pin_memory()``, which copies into pinned memory, and the copies of what it has just written."""

from __future__ import annotations

import numpy as np

from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.measure.copies import host_kind
from overlapscope.measure.spans import EMPTY, Spans, contains, covered, union
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.trace import Trace
from overlapscope.whatif.editor import Editor

PINNING = ("aten::pin_memory", "aten::_pin_memory")
"""Operators that pin."""


def without_pinning(editor: Editor, chosen: Int64) -> bool:
    """Take the time inside ``pin_memory()`` out of some calls and out of what their threads do before them.

    Returns:
        Whether there was any.
    """
    graph, calls = editor.graph, editor.graph.calls
    weight, inside = editor.dependencies.weight_ns.copy(), [np.empty(0, np.int64)]
    for owner in np.unique(calls.owner[chosen]).tolist():
        mine = chosen[calls.owner[chosen] == owner]
        spans = _spans(graph.trace, int(calls.process[mine[0]]), int(calls.thread[mine[0]]))
        gap = graph.into(graph.call_start(mine), DependencyKind.PROGRAM_ORDER)
        known, rows = mine[gap != NO_ID], gap[gap != NO_ID]
        begin = graph.time_ns[editor.dependencies.source[rows]]
        weight[rows] = np.maximum(weight[rows] - covered(begin, calls.start_ns[known], spans), 0)
        inside.append(mine[contains(spans, calls.start_ns[mine], calls.end_ns[mine])])
    changed = bool((weight != editor.dependencies.weight_ns).any())
    editor.set_weights(weight)
    editor.without_waits(np.concatenate(inside))
    return changed


def after_pinning(trace: Trace) -> Bool:
    """Which copies to the device are of pinned memory, from threads that had pinned before."""
    ops, calls, copies = trace.cpu_ops, trace.api_calls, trace.copies
    pins = ops.take(np.isin(ops.name_id, trace.names.find(*PINNING)))
    later = np.zeros(len(calls) + 1, np.bool_)
    for process, thread in set(zip(pins.process.tolist(), pins.thread.tolist(), strict=True)):
        first_ns = pins.end_ns[(pins.process == process) & (pins.thread == thread)].min()
        later[:-1] |= (calls.process == process) & (calls.thread == thread) & (calls.start_ns >= first_ns)
    found: Bool = later[copies.call] & (copies.direction == Direction.HTOD) & (host_kind(copies) == MemoryKind.PINNED)
    return found


def _spans(trace: Trace, process: int, thread: int) -> Spans:
    """When a thread pinned."""
    ops = trace.cpu_ops
    mine = np.isin(ops.name_id, trace.names.find(*PINNING)) & (ops.process == process) & (ops.thread == thread)
    return union(ops.start_ns[mine], ops.end_ns[mine]) if mine.any() else EMPTY
