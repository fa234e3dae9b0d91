"""The effects of pinning: the fastest copies, the DataLoader thread that pins batches, and the work after staging."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from overlapscope.calibration.schema import PostStaging
from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.measure.copies import host_kind
from overlapscope.measure.grouping import at, rows_by_thread
from overlapscope.measure.host_work import spans_on
from overlapscope.measure.places import named
from overlapscope.measure.spans import contains, covered
from overlapscope.measure.waits import synchronised_copy
from overlapscope.model.columns import NO_ID, Bool, Float64, Int64
from overlapscope.model.enums import ApiKind, Direction, MemoryKind
from overlapscope.model.trace import Trace
from overlapscope.whatif.calls import HOST_GAP_NS, next_call
from overlapscope.whatif.change import Editor
from overlapscope.whatif.copy_speeds import PACKING_GB_S

PINNING = ("aten::pin_memory", "aten::_pin_memory")
"""Operators that pin."""


def without_pinning(editor: Editor, chosen: Int64) -> bool:
    """Take the time inside ``pin_memory()`` out of some calls and out of what their threads do before them.

    Returns:
        Whether there was any.
    """
    ops = editor.trace.cpu_ops
    ops = ops.take(np.isin(ops.name_id, editor.trace.names.find(*PINNING)))
    graph, calls = editor.graph, editor.graph.calls
    weight, inside = editor.dependencies.weight_ns.copy(), [np.empty(0, np.int64)]
    for thread, places in rows_by_thread(calls.process[chosen], calls.thread[chosen]).items():
        made, spans = chosen[places], spans_on(ops, *thread)
        gap = graph.into(graph.call_start(made), DependencyKind.PROGRAM_ORDER)
        known, rows = made[gap != NO_ID], gap[gap != NO_ID]
        begin = graph.time_ns[editor.dependencies.source[rows]]
        weight[rows] = np.maximum(weight[rows] - covered(begin, calls.start_ns[known], spans), 0)
        inside.append(made[contains(spans, calls.start_ns[made], calls.end_ns[made])])
    changed = bool((weight != editor.dependencies.weight_ns).any())
    editor.set_weights(weight)
    editor.without_waits(np.concatenate(inside))
    return changed


def after_pinning(trace: Trace) -> Bool:
    """Which copies to the device are of pinned memory, from threads that had pinned before."""
    ops, calls, copies = trace.cpu_ops, trace.api_calls, trace.copies
    pins = ops.take(np.isin(ops.name_id, trace.names.find(*PINNING)))
    later = np.zeros(len(calls), np.bool_)
    for (process, thread), rows in rows_by_thread(pins.process, pins.thread).items():
        later |= (calls.process == process) & (calls.thread == thread) & (calls.start_ns >= pins.end_ns[rows].min())
    sent = (copies.direction == Direction.HTOD) & (host_kind(copies) == MemoryKind.PINNED)
    result: Bool = at(later, copies.call, False) & sent
    return result


LOADER_GB_S = 4.8
"""What the thread of a DataLoader pins of batches that come from workers, in shared memory that it has not touched yet.

3.8 to 5.0 GB/s in five loops on hosts of H200s, 4.8 at the median.
"""

_NEXT = re.compile(r"^enumerate\(DataLoader\)#")  # torch's own range around the next batch; its class follows
_WITHOUT_WORKERS = "_SingleProcess"


def charge_loader(editor: Editor, copies: Int64) -> None:
    """Let batches that some copies, as work, send from pageable memory come as late as pinning makes them.

    A loader with workers pins on a thread of its own: batches come no faster than that, and the first batch that the
    loop waits for comes later. It waits where taking a batch takes longer than pinning it; workers hand over the next
    ones at their own pace, as before. Without workers the loop's own thread pins.
    """
    batches = _Batches.of(editor.graph, copies)
    if not len(batches.call):
        return
    inline_ns, thread_ns = (batches.size_bytes / rate for rate in (PACKING_GB_S, LOADER_GB_S))
    pin_ns = np.rint(np.where(batches.inline, inline_ns, thread_ns)).astype(np.int64)
    waits = batches.taken_ns > pin_ns
    first = waits & ~(batches.follows & np.append(False, waits[:-1]))
    gap = editor.graph.into(editor.graph.call_start(batches.call), DependencyKind.PROGRAM_ORDER)
    later = (gap != NO_ID) & (batches.inline | first)
    weight = editor.dependencies.weight_ns.copy()
    weight[gap[later]] += pin_ns[later]
    editor.set_weights(weight)
    after = np.flatnonzero(~batches.inline[1:] & batches.follows[1:]) + 1
    start = editor.graph.call_start(batches.call)
    editor.add(
        Dependencies.of(start[after - 1], start[after], pin_ns[after], DependencyKind.THREAD_HANDOFF, inferred=True)
    )
    editor.assume(f"a DataLoader's thread pins its batches one by one, at {LOADER_GB_S:g} GB/s")


@dataclass(frozen=True, eq=False)
class _Batches:
    """Batches of loaders by thread and time: the call that comes first after each, and the bytes that are sent of it.

    ``taken_ns``: how long the loop took to get it. ``inline``: the thread that takes it made it too. ``follows``: the
    batch before it is of the same thread.
    """

    call: Int64
    size_bytes: Int64
    taken_ns: Int64
    inline: Bool
    follows: Bool

    @classmethod
    def of(cls, graph: Graph, copies: Int64) -> _Batches:
        """The batches of which copies are given: those from when a batch came to the next kernel launch."""
        ranges, calls, names = graph.trace.ranges, graph.calls, graph.trace.names
        rows = np.flatnonzero(named(ranges, _NEXT))
        rows = rows[np.lexsort((ranges.start_ns[rows], ranges.thread[rows], ranges.process[rows]))]
        first = next_call(graph, ranges.process[rows], ranges.thread[rows], ranges.end_ns[rows])
        rows, first = rows[first != NO_ID], first[first != NO_ID]
        last = np.diff(first, append=NO_ID) != 0
        rows, first = rows[last], first[last]
        past = np.append(first[1:], len(calls))
        copies = copies[graph.work.call[copies] != NO_ID]
        sizes = np.maximum(graph.trace.copies.size_bytes[graph.work.row[copies]], 0)
        sent = np.bincount(graph.work.call[copies], sizes, len(calls)).astype(np.int64)
        size = _until_launch(graph, sent, first, past)
        taken = ranges.end_ns[rows] - ranges.start_ns[rows]
        inline = np.array([_WITHOUT_WORKERS in names[number] for number in ranges.name_id[rows]], np.bool_)
        filled = size > 0
        follows = np.diff(calls.owner[first[filled]], prepend=NO_ID) == 0
        return cls(first[filled], size[filled], taken[filled], inline[filled], follows)


def _until_launch(graph: Graph, sent: Int64, first: Int64, past: Int64) -> Int64:
    """The bytes that calls send from some calls on, until their thread launches a kernel or other calls begin."""
    calls = graph.calls
    launches = np.append(np.flatnonzero(calls.kind == ApiKind.LAUNCH), len(calls))
    end = np.minimum(np.append(calls.first, len(calls))[calls.owner[first] + 1], past)
    end = np.minimum(end, launches[np.searchsorted(launches, first)])
    total = np.append(0, np.cumsum(sent))
    size_bytes: Int64 = total[np.maximum(end, first)] - total[first]
    return size_bytes


def without_slowdown(editor: Editor, copies: Int64) -> None:
    """Let the host be as fast as usual after some copies, as work, that are staged no more.

    Until its thread stages the next copy, what it did between two calls in a time since this one takes as long as the
    operators of the calibration usually do which took that time after such a copy. Longer gaps are other work, and
    copies smaller than all of the calibration slow nothing. From a copy whose call is synchronised right after, the
    host comes back there.
    """
    graph = editor.graph
    measured = sorted(editor.trace.calibration.post_staging, key=lambda entry: entry.size_bytes)
    if not measured:
        return
    synchronised = synchronised_copy(graph.trace)[graph.calls.row]
    every = _staged_bytes(graph, np.flatnonzero(graph.of_memory(MemoryKind.PAGEABLE)), synchronised)
    freed = _staged_bytes(graph, copies, synchronised)
    calls, weight = np.arange(len(graph.calls)), np.append(graph.dependencies.weight_ns, 0)
    gap = graph.into(graph.call_start(calls), DependencyKind.PROGRAM_ORDER)
    call_ns = weight[graph.into(graph.call_end(calls), *OWN_DURATION)]
    worked = np.cumsum(weight[gap] + call_ns)
    last = _last_staged(every >= measured[0].size_bytes, graph.calls.owner)
    end, size = worked - call_ns - at(worked, last, 0), at(freed, last, 0)
    short = (gap != NO_ID) & (weight[gap] <= HOST_GAP_NS) & (size >= measured[0].size_bytes)
    for each in np.unique(size[short]).tolist():
        rows = short & (size == each)
        until, since = (_unstaged_ns(each, measured, times[rows]) for times in (end, end - weight[gap]))
        editor.limit_weights(gap[rows], np.rint(until - since).astype(np.int64))


def _unstaged_ns(size: int, measured: Sequence[PostStaging], after_ns: Int64) -> Float64:
    """The time of host work without staging, by its time after a copy of this size, in ns; what was lost stays lost."""
    without = np.unique([0, *(time for entry in measured for time in entry.usual_ns)]).astype(float)
    sizes, more = [entry.size_bytes for entry in measured], []
    for entry in measured:
        lost = np.maximum.accumulate(np.maximum(np.subtract(entry.issue_ns, entry.usual_ns), 0))
        more.append(np.interp(without, [0, *entry.usual_ns], [0, *lost]))
    extra = np.array([np.interp(size, sizes, column) for column in np.transpose(more)])
    after = without + extra
    result: Float64 = np.where(after_ns < after[-1], np.interp(after_ns, after, without), after_ns - extra[-1])
    return result


def _last_staged(staged: Bool, owner: Int64) -> Int64:
    """The last staged call that each one's thread made before it, `NO_ID` where there is none."""
    last = np.append(NO_ID, np.maximum.accumulate(np.where(staged, np.arange(len(staged)), NO_ID)))[: len(staged)]
    return np.where(at(owner, last) == owner, last, NO_ID)


def _staged_bytes(graph: Graph, copies: Int64, synchronised: Int64) -> Int64:
    """For each call the bytes of some copies that its thread comes back from at its end."""
    work, sizes = graph.work, graph.trace.copies.size_bytes
    later = np.isin(work.copy[copies], synchronised[synchronised != NO_ID])
    at_call = copies[(work.call[copies] != NO_ID) & ~later]
    staged = np.zeros(len(graph.calls), np.int64)
    np.maximum.at(staged, work.call[at_call], sizes[work.row[at_call]])
    chosen = np.isin(synchronised, work.row[copies])
    return np.maximum(staged, np.where(chosen, at(sizes, synchronised, 0), 0))
