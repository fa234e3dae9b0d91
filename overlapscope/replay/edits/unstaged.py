"""The host is slower after it staged a large copy: its caches have lost what they had of the program.

By how much, a recording calibrates, after copies to the device and under the profiler: on hosts of H200s the first two
operators after 4 MiB took 1.7 times as long as usual and forty of them 1.1 times, after 64 MiB 2.1 and 1.2 times; after
256 KiB they took no longer. Without the profiler, and after copies to the host, it is taken to be the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from overlapscope.measure.issue import synchronised_copy
from overlapscope.model.columns import NO_ID, Bool, Float64, Int64
from overlapscope.model.enums import ApiKind, MemoryKind
from overlapscope.model.recording import AfterCopy, Recording
from overlapscope.replay.config import ReplayConfig
from overlapscope.replay.graph import Because, Graph

_LAUNCHES = (ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH)


def without_staging(graph: Graph, copies: Int64, config: ReplayConfig) -> Graph:
    """The graph in which the calls of some ``copies``, as work, stage nothing: what follows them is as fast as usual.

    Until its thread stages the next copy, what it did in a time since this one, calls and all, takes as long as the
    operators of the calibration usually do which took that time after such a copy; the gaps between its calls become
    shorter by that. A long one is other work, by which the caches lose as much. Where the next copy follows soon and
    nothing is launched before it, they are taken to be in a loop, which is in the caches from its first round on, and
    slow anew after each copy, by no more than what the calibration lost altogether. A copy whose call is synchronised
    holds the host until then. Copies smaller than all of the calibration's slow nothing.
    """
    recording = graph.trace.metadata.recording
    measured = sorted(recording.after_copies if recording else (), key=lambda entry: entry.size_bytes)
    if recording is None or not measured:
        return graph
    followed = synchronised_copy(graph.trace)[graph.calls.row]
    held = np.maximum(*_bytes(graph, np.flatnonzero(graph.of_memory(MemoryKind.PAGEABLE)), followed))
    gaps = _Gaps.of(graph, held >= measured[0].size_bytes, config)
    size = np.append(_freed_bytes(graph, copies, followed), 0)[gaps.held_by]
    lag = graph.edges.lag_ns.copy()
    for each in np.unique(size[size >= measured[0].size_bytes]).tolist():
        slow = _Slow.after(each, measured)
        mine = size == each
        looped, other = gaps.edge[mine & gaps.looped], mine & ~gaps.looped
        lag[looped] = np.rint(slow.in_loops(lag[looped], _hot_ns(recording, slow))).astype(np.int64)
        until, since = (slow.usually(times[other]) for times in (gaps.end_ns, gaps.begin_ns))
        lag[gaps.edge[other]] = np.rint(until - since).astype(np.int64)
    return graph.with_lags(lag)


@dataclass(frozen=True, eq=False)
class _Slow:
    """What issuing work takes as ``usual``, cumulative and from nothing on, and how much ``extra`` after a copy.

    ``first_ns`` is the extra of the first two operators.
    """

    usual: Float64
    extra: Float64
    first_ns: float

    @classmethod
    def after(cls, size: int, measured: Sequence[AfterCopy]) -> _Slow:
        """Between the sizes that were measured, in proportion. What was lost once is not won back."""
        usual = np.unique([0, *(time for entry in measured for time in entry.usual_ns)]).astype(float)
        sizes, first, more = [entry.size_bytes for entry in measured], [], []
        for entry in measured:
            lost = np.maximum.accumulate(np.maximum(np.subtract(entry.issue_ns, entry.usual_ns), 0))
            more.append(np.interp(usual, [0, *entry.usual_ns], [0, *lost]))
            first.append(lost[0])
        extra = np.array([np.interp(size, sizes, column) for column in np.transpose(more)])
        return cls(usual, extra, float(np.interp(size, sizes, first)))

    def usually(self, after_ns: Int64) -> Float64:
        """What usually takes as long as that which took so long after the copy."""
        after, beyond = self.usual + self.extra, after_ns - self.extra[-1]
        found: Float64 = np.where(after_ns < after[-1], np.interp(after_ns, after, self.usual), beyond)
        return found

    def in_loops(self, gap_ns: Int64, hot_ns: float) -> Float64:
        """What gaps take in a loop whose copies stage nothing, as the first two operators do, ``hot_ns`` in a loop."""
        share = hot_ns / (hot_ns + self.first_ns)
        shorter: Float64 = np.maximum(share * gap_ns, gap_ns - self.extra[-1])
        return shorter


def _hot_ns(recording: Recording, slow: _Slow) -> float:
    """What a tiny copy and a tiny kernel take after others like them: under the profiler where that was measured."""
    for cost in (recording.issue_profiled, recording.issue_unprofiled):
        if cost is not None and cost.kernel_ns and cost.copy_ns:
            return float(cost.kernel_ns + cost.copy_ns)
    return float(slow.usual[1])


@dataclass(frozen=True, eq=False)
class _Gaps:
    """Edges of what threads do for a short time between two calls, and what each of them comes back from, if anything.

    ``held_by`` is the last call that was held by a copy, or came after a long time; ``begin_ns`` and ``end_ns`` are how
    long the thread had worked since then; ``looped`` are those after which the next copy follows soon.
    """

    edge: Int64
    held_by: Int64
    begin_ns: Int64
    end_ns: Int64
    looped: Bool

    @classmethod
    def of(cls, graph: Graph, held: Bool, config: ReplayConfig) -> _Gaps:
        """All between calls of which some were ``held`` by copies."""
        calls, lag = np.arange(len(graph.calls)), np.append(graph.edges.lag_ns, 0)
        gap = graph.into(graph.call_start(calls), Because.GAP)
        own = lag[graph.into(graph.call_end(calls), Because.CALL)]
        worked = np.append(np.cumsum(lag[gap] + own), 0)
        launched = np.append(np.cumsum(np.isin(graph.calls.kind, _LAUNCHES)), 0)
        begun = np.append(worked[:-1] - own, 0)
        short = lag[gap] <= config.launch_gap_ns
        last = _last_before(held | ~short, graph.calls.owner)
        following = _next(held, graph.calls.owner)
        looped = (following != NO_ID) & (begun[following] - worked[last] <= config.launch_gap_ns)
        looped &= launched[following] == launched[last]
        mine = np.flatnonzero((gap != NO_ID) & short)
        end = (begun[:-1] - worked[last])[mine]
        return cls(gap[mine], last[mine], end - lag[gap[mine]], end, looped[mine])


def _last_before(some: Bool, owner: Int64) -> Int64:
    """The last of some calls that each one's thread made before it, `NO_ID` where there is none."""
    last = np.append(NO_ID, np.maximum.accumulate(np.where(some, np.arange(len(some)), NO_ID)))[: len(some)]
    return np.where(np.append(owner, NO_ID)[last] == owner, last, NO_ID)


def _next(some: Bool, owner: Int64) -> Int64:
    """The first of some calls that each one's thread makes, from it on, `NO_ID` where there is none."""
    first = np.minimum.accumulate(np.where(some, np.arange(len(some)), len(some))[::-1])[::-1]
    return np.where(np.append(owner, NO_ID)[first] == owner, first, NO_ID)


def _freed_bytes(graph: Graph, copies: Int64, followed: Int64) -> Int64:
    """For each call the bytes of some copies that the host comes back from at its end.

    ``followed`` is the copy that each call synchronises right after, if any: the host comes back from it there.
    """
    staged, synchronised = _bytes(graph, copies, followed)
    waiting = copies[np.isin(graph.work.copy[copies], followed)]
    again = np.isin(np.arange(len(staged)), graph.work.call[waiting])
    return np.where(again, 0, np.maximum(staged, synchronised))


def _bytes(graph: Graph, copies: Int64, followed: Int64) -> tuple[Int64, Int64]:
    """For each call the bytes of some copies that it issued, and of those that it synchronises right after."""
    work, table = graph.work, graph.trace.copies
    staged = np.zeros(len(graph.calls) + 1, np.int64)
    mine = copies[work.call[copies] != NO_ID]
    np.maximum.at(staged, work.call[mine], table.size_bytes[work.row[mine]])
    size_of = np.zeros(len(table) + 1, np.int64)
    size_of[work.row[mine]] = table.size_bytes[work.row[mine]]
    return staged[:-1], size_of[followed]
