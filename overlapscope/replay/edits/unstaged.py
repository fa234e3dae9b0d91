"""The host is slower after it staged a large copy: its caches have lost what they had of the program.

By how much, a recording calibrates: on hosts of H200s the first two operators after 4 MiB took twice as long as usual,
forty of them a fourth longer; after 256 KiB hardly any did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from overlapscope.measure.issue import synchronised_copy
from overlapscope.model.columns import NO_ID, Bool, Float64, Int64
from overlapscope.model.enums import MemoryKind
from overlapscope.model.recording import AfterCopy, Recording
from overlapscope.replay.config import ReplayConfig
from overlapscope.replay.graph import Because, Graph


def without_staging(graph: Graph, copies: Int64, config: ReplayConfig) -> Graph:
    """The graph in which the calls of some ``copies``, as work, stage nothing: what follows them is as fast as usual.

    Until its thread stages the next copy, what it did in a time since this one takes as long as the operators of the
    calibration usually do which took that time after such a copy, and what it did after all of those as long as it did.
    Where the next one follows soon, they are in a loop, which is in the caches from its first round on: what is between
    them takes as large a share as a tiny copy and a tiny kernel that follow others like them. A long time between two
    calls is other work, by which the caches lose as much. Copies smaller than all of the calibration's slow nothing.
    """
    recording = graph.trace.metadata.recording
    measured = sorted(recording.after_copies if recording else (), key=lambda entry: entry.size_bytes)
    if recording is None or not measured:
        return graph
    least = measured[0].size_bytes
    staged = _staged_bytes(graph, np.flatnonzero(graph.of_memory(MemoryKind.PAGEABLE)))
    gaps = _Gaps.of(graph, staged >= least, config)
    size = np.append(_staged_bytes(graph, copies), 0)[gaps.held_by]
    lag = graph.edges.lag_ns.copy()
    for each in np.unique(size[size >= least]).tolist():
        mine = size == each
        looped, other = gaps.edge[mine & gaps.looped], mine & ~gaps.looped
        lag[looped] = np.rint(lag[looped] * _share(recording, measured, each)).astype(np.int64)
        until, since = (_usually(measured, each, times[other]) for times in (gaps.end_ns, gaps.begin_ns))
        lag[gaps.edge[other]] = np.rint(until - since).astype(np.int64)
    return graph.with_lags(lag)


@dataclass(frozen=True, eq=False)
class _Gaps:
    """Edges of what threads do for a short time between two calls, and what each of them comes back from, if anything.

    ``held_by`` is the last call that staged a copy, or came after a long time; ``begin_ns`` and ``end_ns`` are how long
    the thread had worked since then; ``looped`` are those after which it soon stages the next one.
    """

    edge: Int64
    held_by: Int64
    begin_ns: Int64
    end_ns: Int64
    looped: Bool

    @classmethod
    def of(cls, graph: Graph, staging: Bool, config: ReplayConfig) -> _Gaps:
        """All between calls of which some are ``staging``."""
        calls, lag = np.arange(len(graph.calls)), np.append(graph.edges.lag_ns, 0)
        gap = graph.into(graph.call_start(calls), Because.GAP)
        own = lag[graph.into(graph.call_end(calls), Because.CALL)]
        worked = np.append(np.cumsum(lag[gap] + own), 0)
        begun = worked[:-1] - own
        short = lag[gap] <= config.launch_gap_ns
        last, following = _last_before(staging | ~short, graph.calls.owner), _next(staging, graph.calls.owner)
        between = np.append(begun, 0)[following] - worked[last]
        looped = (last != NO_ID) & (following != NO_ID) & (between <= config.launch_gap_ns)
        mine = np.flatnonzero((gap != NO_ID) & short)
        end = (begun - worked[last])[mine]
        return cls(gap[mine], last[mine], end - lag[gap[mine]], end, looped[mine])


def _last_before(some: Bool, owner: Int64) -> Int64:
    """The last of some calls that each one's thread made before it, `NO_ID` where there is none."""
    last = np.append(NO_ID, np.maximum.accumulate(np.where(some, np.arange(len(some)), NO_ID)))[: len(some)]
    return np.where(np.append(owner, NO_ID)[last] == owner, last, NO_ID)


def _next(some: Bool, owner: Int64) -> Int64:
    """The first of some calls that each one's thread makes, from it on, `NO_ID` where there is none."""
    first = np.minimum.accumulate(np.where(some, np.arange(len(some)), len(some))[::-1])[::-1]
    return np.where(np.append(owner, NO_ID)[first] == owner, first, NO_ID)


def _share(recording: Recording, measured: Sequence[AfterCopy], size: int) -> float:
    """What a tiny copy and a tiny kernel take after others like them, as a share of that after a copy of some size."""
    after = float(np.interp(size, [entry.size_bytes for entry in measured], [entry.issue_ns[0] for entry in measured]))
    cost = recording.issue_profiled
    usual = cost.kernel_ns + cost.copy_ns if cost and cost.kernel_ns and cost.copy_ns else measured[0].usual_ns[0]
    return min(usual / after, 1.0)


def _usually(measured: Sequence[AfterCopy], size: int, after_ns: Int64) -> Float64:
    """What usually takes as long as that which took so long after a copy of some size."""
    usual = np.unique([0, *(time for entry in measured for time in entry.usual_ns)]).astype(float)
    more = [
        np.interp(usual, [0, *entry.usual_ns], [0, *np.maximum(np.subtract(entry.issue_ns, entry.usual_ns), 0)])
        for entry in measured
    ]
    sizes = [entry.size_bytes for entry in measured]
    extra = np.array([np.interp(size, sizes, column) for column in np.transpose(more)])
    after = np.maximum.accumulate(usual + extra)
    result: Float64 = np.where(after_ns < after[-1], np.interp(after_ns, after, usual), after_ns - (after - usual)[-1])
    return result


def _staged_bytes(graph: Graph, copies: Int64) -> Int64:
    """For each call the bytes that some copies had it stage, also for the synchronisation that follows it."""
    work, table = graph.work, graph.trace.copies
    staged = np.zeros(len(graph.calls) + 1, np.int64)
    mine = copies[work.call[copies] != NO_ID]
    np.maximum.at(staged, work.call[mine], table.size_bytes[work.row[mine]])
    size_of = np.zeros(len(table) + 1, np.int64)
    size_of[work.row[mine]] = table.size_bytes[work.row[mine]]
    synchronised: Int64 = size_of[synchronised_copy(graph.trace)[graph.calls.row]]
    return np.maximum(staged[:-1], synchronised)
