"""The host is slower after it staged a large copy: its caches have lost what they had of the program.

By how much, a recording measures, after copies to the GPU and under the profiler: on hosts of H200s the first two
operators after 4 MiB took 1.7 times as long as usual and forty of them 1.1 times, after 64 MiB 2.1 and 1.2 times; after
256 KiB they took no longer. Without the profiler, and after copies to the host, it is taken to be the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from overlapscope.calibration.schema import PostStaging
from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.measure.issue import synchronised_copy
from overlapscope.model.columns import NO_ID, Bool, Float64, Int64
from overlapscope.model.enums import MemoryKind
from overlapscope.whatif.editor import Editor


def without_slowdown(editor: Editor, copies: Int64) -> None:
    """Let the host be as fast as usual after some copies, as work, that are staged no more.

    Until its thread stages the next copy, what it did between two calls in a time since this one takes as long as the
    operators of the calibration usually do which took that time after such a copy. Longer gaps are other work, and
    copies smaller than all of the calibration slow nothing. From a copy whose call is synchronised right after, the
    host comes back there.
    """
    graph, recording = editor.graph, editor.trace.metadata.recording
    measured = sorted(recording.post_staging if recording else (), key=lambda entry: entry.size_bytes)
    if not measured:
        return
    synchronised = synchronised_copy(graph.trace)[graph.calls.row]
    every = _staged_bytes(graph, np.flatnonzero(graph.of_memory(MemoryKind.PAGEABLE)), synchronised)
    freed = _staged_bytes(graph, copies, synchronised)
    calls, weight = np.arange(len(graph.calls)), np.append(graph.dependencies.weight_ns, 0)
    gap = graph.into(graph.call_start(calls), DependencyKind.PROGRAM_ORDER)
    own_ns = weight[graph.into(graph.call_end(calls), *OWN_DURATION)]
    worked = np.cumsum(weight[gap] + own_ns)
    last = _last_before(every >= measured[0].size_bytes, graph.calls.owner)
    end = worked - own_ns - np.append(worked, 0)[last]
    size = np.append(freed, 0)[last]
    short = (gap != NO_ID) & (weight[gap] <= editor.config.host_gap_ns) & (size >= measured[0].size_bytes)
    for each in np.unique(size[short]).tolist():
        mine = short & (size == each)
        until, since = (_usually_ns(each, measured, times[mine]) for times in (end, end - weight[gap]))
        editor.limit_weights(gap[mine], np.rint(until - since).astype(np.int64))


def _usually_ns(size: int, measured: Sequence[PostStaging], after_ns: Int64) -> Float64:
    """What usually takes as long as that which took so long after a copy of this size; what was lost stays lost."""
    usual = np.unique([0, *(time for entry in measured for time in entry.usual_ns)]).astype(float)
    sizes, more = [entry.size_bytes for entry in measured], []
    for entry in measured:
        lost = np.maximum.accumulate(np.maximum(np.subtract(entry.issue_ns, entry.usual_ns), 0))
        more.append(np.interp(usual, [0, *entry.usual_ns], [0, *lost]))
    extra = np.array([np.interp(size, sizes, column) for column in np.transpose(more)])
    after = usual + extra
    found: Float64 = np.where(after_ns < after[-1], np.interp(after_ns, after, usual), after_ns - extra[-1])
    return found


def _last_before(some: Bool, owner: Int64) -> Int64:
    """The last of some calls that each one's thread made before it, `NO_ID` where there is none."""
    last = np.append(NO_ID, np.maximum.accumulate(np.where(some, np.arange(len(some)), NO_ID)))[: len(some)]
    return np.where(np.append(owner, NO_ID)[last] == owner, last, NO_ID)


def _staged_bytes(graph: Graph, copies: Int64, synchronised: Int64) -> Int64:
    """For each call the bytes of some copies that its thread comes back from at its end."""
    work, sizes = graph.work, graph.trace.copies.size_bytes
    later = np.isin(work.copy[copies], synchronised[synchronised != NO_ID])
    mine = copies[(work.call[copies] != NO_ID) & ~later]
    staged = np.zeros(len(graph.calls) + 1, np.int64)
    np.maximum.at(staged, work.call[mine], sizes[work.row[mine]])
    chosen = np.append(np.zeros(len(sizes), np.bool_), False)
    chosen[work.row[copies]] = True
    return np.maximum(staged[:-1], np.where(chosen[synchronised], np.append(sizes, 0)[synchronised], 0))
