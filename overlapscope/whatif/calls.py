"""Calls that several changes are about: what a plain enqueue takes, which calls block, which wait for a copy."""

from __future__ import annotations

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.measure.copies import host_kind
from overlapscope.measure.host import plain_enqueue_ns
from overlapscope.measure.issue import synchronised_copy
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind, Direction, MemoryKind
from overlapscope.model.trace import Trace
from overlapscope.whatif.config import SimulationConfig

_VALUE_BYTES = 16  # of the largest number that .item() reads, a complex128


def scalar_reads(trace: Trace) -> Bool:
    """Copies to the host of a single value, as .item() and nonzero() make them; one per row of copies."""
    copies = trace.copies
    small = (copies.size_bytes > 0) & (copies.size_bytes <= _VALUE_BYTES)
    values: Bool = small & (copies.direction == Direction.DTOH)
    return values


def synchronisations_after(graph: Graph, copies: Bool) -> Bool:
    """Which calls of a graph synchronise right after one of some copies."""
    synchronised = synchronised_copy(graph.trace)[graph.calls.row]
    found: Bool = np.append(copies, False)[synchronised] & (synchronised != NO_ID)
    return found


def blocking_by_name(graph: Graph) -> Int64:
    """Copy calls that block by their name, from whatever memory they copy: ``cudaMemcpy`` and its like."""
    table = graph.trace.api_calls
    blocking = [name for name in np.unique(table.name_id).tolist() if "Async" not in graph.trace.names[name]]
    mine: Bool = (graph.calls.kind == ApiKind.COPY) & np.isin(table.name_id[graph.calls.row], blocking)
    return np.flatnonzero(mine)


def enqueue_ns(graph: Graph, config: SimulationConfig) -> int:
    """What the call of an asynchronous pinned copy takes here, in ns: their own median, else a plain launch.

    No longer than a call, or issuing one from Python, took when the recording was calibrated: under the profiler, if
    that is known, since it is in the trace's other calls too.
    """
    copies, calls, host = graph.trace.copies, graph.calls, config.dependencies.host
    rows = (host_kind(copies) == MemoryKind.PINNED) & (copies.call != NO_ID)
    own = graph.call_of[copies.call[rows]]
    own = own[own != NO_ID]
    plain = plain_enqueue_ns(graph.trace, host)
    if not len(own):
        return min(plain, _calibrated_call_ns(graph.trace) or plain)
    return min(int(np.median(calls.end_ns[own] - calls.start_ns[own])), round(plain * host.tolerance))


def _calibrated_call_ns(trace: Trace) -> int | None:
    recording = trace.metadata.recording
    issued = (recording.issue_profiled, recording.issue_unprofiled) if recording else ()
    known = [cost.call_ns for cost in issued if cost and cost.call_ns]
    known += [cost.copy_ns for cost in issued[::-1] if cost and cost.copy_ns]
    return next(iter(known), None)
