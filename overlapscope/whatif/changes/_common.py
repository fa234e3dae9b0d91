"""What several edits need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from overlapscope.measure.copies import host_kind
from overlapscope.measure.host import plain_enqueue_ns
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind, MemoryKind
from overlapscope.model.trace import Trace
from overlapscope.whatif.config import SimulationConfig
from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind


@dataclass(frozen=True, eq=False)
class Where:
    """What an edit is about: rows of copies, rows of api_calls, and the change's number."""

    copies: Bool
    calls: Bool
    value: float | None = None

    def work(self, graph: Graph) -> Int64:
        """The copies as work of a graph."""
        mine: Bool = (graph.work.table == 1) & np.append(self.copies, False)[graph.work.copy]
        return np.flatnonzero(mine)


@dataclass(frozen=True, eq=False)
class Edited:
    """A graph after an edit, and what the edit rests on.

    ``doubtful`` are edges that may have to stay, and ``kept`` those that stay and may not have to.
    """

    graph: Graph
    basis: tuple[str, ...] = ()
    doubtful: Dependencies = field(default_factory=Dependencies.none)
    kept: Dependencies = field(default_factory=Dependencies.none)


Edit = Callable[[Graph, Where, SimulationConfig], Edited]


def codes(keys: Int64) -> Int64:
    """One number for each different column."""
    return np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1)


Streams = tuple[Int64, Int64, Int64]
"""All work, stream by stream; the place of each in that; and a number for each one's stream."""


def by_stream(graph: Graph) -> Streams:
    """The work of a graph along its streams."""
    work = graph.work
    order = np.lexsort((np.arange(len(work)), work.stream, work.device, work.process))
    place = np.empty(len(work), np.int64)
    place[order] = np.arange(len(work))
    keys = np.stack([work.process, work.device, work.stream])[:, order]
    number = np.empty(len(work), np.int64)
    number[order] = np.cumsum(np.append(False, (keys[:, 1:] != keys[:, :-1]).any(axis=0)))[: len(work)]
    return order, place, number


def index_of_calls(graph: Graph) -> Int64:
    """For each row of api_calls its index among the graph's calls, `NO_ID` for those inside others, and at the end."""
    index = np.full(len(graph.trace.api_calls) + 1, NO_ID, np.int64)
    index[graph.calls.row] = np.arange(len(graph.calls))
    return index


def blocking_calls(graph: Graph) -> Int64:
    """Copy calls that block by their name, from whatever memory they copy: ``cudaMemcpy`` and its like."""
    table = graph.trace.api_calls
    names = np.unique(table.name_id)
    blocking = [name for name in names.tolist() if "Async" not in graph.trace.names[name]]
    mine: Bool = (graph.calls.kind == ApiKind.COPY) & np.isin(table.name_id[graph.calls.row], blocking)
    return np.flatnonzero(mine)


def enqueue_ns(graph: Graph, config: SimulationConfig) -> int:
    """What the call of an asynchronous pinned copy takes here: their own median, else a plain launch.

    No longer than a call, or issuing one from Python, took when the recording was calibrated: under the profiler, if
    that is known, since it is in the trace's other calls too.
    """
    copies, calls = graph.trace.copies, graph.calls
    rows = (host_kind(copies) == MemoryKind.PINNED) & (copies.call != NO_ID)
    own = index_of_calls(graph)[copies.call[rows]]
    own = own[own != NO_ID]
    plain = plain_enqueue_ns(graph.trace, config.host)
    if not len(own):
        return min(plain, _calibrated_call_ns(graph.trace) or plain)
    return min(int(np.median(calls.end_ns[own] - calls.start_ns[own])), round(plain * config.host.tolerance))


def _calibrated_call_ns(trace: Trace) -> int | None:
    recording = trace.metadata.recording
    issued = (recording.issue_profiled, recording.issue_unprofiled) if recording else ()
    known = [cost.call_ns for cost in issued if cost and cost.call_ns]
    known += [cost.copy_ns for cost in issued[::-1] if cost and cost.copy_ns]
    return next(iter(known), None)


def without_wait(graph: Graph, calls: Int64, takes_ns: int = 0) -> Graph:
    """The graph in which some calls wait for nothing and take no longer than this."""
    edges = graph.dependencies
    into = np.isin(edges.target, graph.call_end(calls))
    gone = into & edges.of_kind(DependencyKind.SYNCHRONISATION, DependencyKind.STAGING, DependencyKind.DRIVER_LOCK, Because.QUEUE)
    own = into & edges.of_kind(*OWN_DURATION)
    weight = np.where(own, np.minimum(edges.weight_ns, takes_ns), edges.weight_ns)
    changed = graph.with_weights(weight)
    return changed.with_dependencies(changed.dependencies.take(~gone))
