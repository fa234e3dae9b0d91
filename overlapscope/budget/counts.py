"""What is counted exactly: synchronisations and scalar reads in each step, bytes from and to pageable memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from overlapscope.budget.figure import Figure, missing, places_of_calls, places_of_copies
from overlapscope.budget.scope import Scope
from overlapscope.budget.waits import rule_of_calls, waited_for, waits_by_name
from overlapscope.measure.copies import host_kind
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import LINK, SYNC_CALLS, Direction, MemoryKind
from overlapscope.whatif.calls import scalar_reads

NO_CALLS = "no CUDA call in it was recorded"


def synchronisations(scope: Scope) -> Figure:
    """The most synchronisations in a step: calls that wait until the GPU has finished some work, however short."""
    waits = scope.calls & (np.isin(scope.trace.api_calls.kind, SYNC_CALLS) | waits_by_name(scope.trace))
    return _most_per_step(scope, np.flatnonzero(waits))


def scalar_reads_per_step(scope: Scope) -> Figure:
    """The most scalar reads in a step: copies of a single value to the host that the host waits for."""
    copies = scope.trace.copies
    values = scope.copies & scalar_reads(scope.trace)
    called = copies.call[values & waited_for(scope.trace)]
    rows = np.unique(called[called != NO_ID]).astype(np.int64)
    figure = _most_per_step(scope, rows[scope.calls[rows]])
    unknown = values & ((copies.call == NO_ID) | (host_kind(copies) == MemoryKind.UNKNOWN))
    if figure.value is None or not (unknown & ~waited_for(scope.trace)).any():
        return figure
    return replace(figure, doubt="calls or memory kinds of copies to the host were not recorded")


def pageable_bytes(scope: Scope) -> Figure:
    """Bytes that are copied from or to pageable memory, but for single values: these are scalar reads."""
    copies = scope.trace.copies
    over_link = scope.copies & np.isin(copies.direction, LINK) & ~scalar_reads(scope.trace)
    kind = host_kind(copies)
    pageable = np.flatnonzero(over_link & (kind == MemoryKind.PAGEABLE))
    sizes = np.maximum(copies.size_bytes[pageable], 0)
    unknown = over_link & (kind == MemoryKind.UNKNOWN) & (copies.direction != Direction.PTOP)
    doubts = ["the memory kind of copies was not recorded"] if unknown.any() else []
    doubts += ["the size of copies was not recorded"] if (copies.size_bytes[pageable] == NO_ID).any() else []
    if scope.trace.health.has("copies-not-recorded") or not scope.devices:
        return missing("its copies were not recorded" if scope.devices else "it has no GPU work")
    places = places_of_copies(scope.trace, pageable, sizes, "bytes")
    return Figure(int(sizes.sum()), doubt=", ".join(doubts), rule="OVL001", places=places)


def _most_per_step(scope: Scope, rows: Int64) -> Figure:
    """The step with the most of some calls."""
    if not scope.calls.any():
        return missing(NO_CALLS)
    if not len(scope.steps):
        return missing("the trace has no steps of torch's profiler: limit a range instead")
    counts = scope.per_step(rows)
    most = int(np.argmax(counts))
    here = scope.rows_of_step(rows, most)
    each = np.ones(len(here), np.int64)
    rule, places = rule_of_calls(scope.trace, here, each), places_of_calls(scope.trace, here, each, "count")
    return Figure(int(counts[most]), about=f"step {most + 1} of {len(counts)}", rule=rule, places=places)
