"""What a GPU did when, in each step: the picture of a rank, small enough to keep for thousands of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from overlapscope.fleet.figures import COLLECTIVES, COPIES, KERNELS
from overlapscope.measure.devices import Activity
from overlapscope.measure.spans import Spans, covered, merge, subtract
from overlapscope.model.columns import Int64

SLOTS = 200
"""Slots of a step: as many as a map's narrow row shows, so that a step has at most so many rows."""
OTHER = "other"
"""Memsets, and what comes before the first work of the trace or after its last."""


def parts_of(active: Activity, idle: Mapping[str, Spans]) -> dict[str, Spans]:
    """What a GPU did when: kernels, exposed collectives and copies, and why it was idle otherwise."""
    return {
        KERNELS: active.compute,
        COLLECTIVES: active.exposed_collectives,
        COPIES: subtract(active.copies, merge(active.kernels, active.memsets)),
        **{code: subtract(spans, active.copies) for code, spans in idle.items()},
    }


def runs(start_ns: Int64, end_ns: Int64, parts: Mapping[str, Spans]) -> Iterator[tuple[int, str, int, int]]:
    """The runs of slots in which the same part has most of the time: step's row, part, begin and end.

    Args:
        start_ns: begin of each step.
        end_ns: their ends.
        parts: what the GPU did, by name; disjoint. What none of them covers is a part of its own.
    """
    if not len(start_ns):
        return
    edges = _edges(start_ns, end_ns)
    names, starts, ends = list(parts), edges[:, :-1].ravel(), edges[:, 1:].ravel()
    within = np.array([covered(starts, ends, spans) for spans in parts.values()]).reshape(len(names), -1)
    rest = np.maximum(ends - starts - within.sum(axis=0), 0)
    mostly = np.argmax(np.vstack([within, rest]), axis=0).reshape(len(start_ns), SLOTS)
    for row, parts_of in enumerate(mostly):
        first = np.flatnonzero(np.append(True, parts_of[1:] != parts_of[:-1]))
        for begin, end in zip(first.tolist(), [*first[1:].tolist(), SLOTS], strict=True):
            name = [*names, OTHER][parts_of[begin]]
            yield row, name, int(edges[row, begin]), int(edges[row, end])


def _edges(start_ns: Int64, end_ns: Int64) -> Int64:
    """The edges of the slots of each step, in whole nanoseconds."""
    edges: Int64 = start_ns[:, None] + (end_ns - start_ns)[:, None] * np.arange(SLOTS + 1) // SLOTS
    return edges
