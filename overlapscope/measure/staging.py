"""Measure the extra device time of pageable copies, against pinned copies of the same size in the same trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.formatting import changed
from overlapscope.measure.copies import CopyFacts
from overlapscope.measure.devices import DeviceKey
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Bool, Float64, Int64
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.frames import Row
from overlapscope.model.trace import Trace


@dataclass(frozen=True)
class StagingConfig:
    """When two copies count as equally large.

    ``size_factor``: largest ratio between their sizes; the effective bandwidth of small copies grows with their size.
    """

    size_factor: float = 2.0

    __repr__ = changed


@dataclass(frozen=True)
class Staging(Row):
    """The pageable copies of one device and direction, and what staging cost in device time.

    ``staging_cost_ns`` is their device time beyond that of pinned copies of the same size in this trace. It covers the
    ``compared_count`` copies for which there are such pinned copies; it is None where there are none.
    """

    key: DeviceKey
    direction: str
    count: int
    size_bytes: int
    total_ns: int
    compared_count: int
    staging_cost_ns: int | None


def staging(trace: Trace, facts: CopyFacts, key: DeviceKey, window: Window, config: StagingConfig) -> list[Staging]:
    """The pageable copies of a device within the window, by direction."""
    copies = trace.copies
    here = key.rows(copies) & window.touches(copies.process, copies.start_ns, copies.end_ns)
    timed = key.rows(copies) & (copies.size_bytes > 0) & (copies.duration_ns > 0)
    result = []
    for direction in (Direction.HTOD, Direction.DTOH):
        way = copies.direction == direction
        pageable = here & way & (facts.host_kind == MemoryKind.PAGEABLE)
        if not pageable.any():
            continue
        pinned = timed & way & (facts.host_kind == MemoryKind.PINNED)
        costly = pageable & timed
        cost = _costs(copies.size_bytes, copies.duration_ns, costly, pinned, config.size_factor)
        cost *= facts.total_ns[costly] / copies.duration_ns[costly]  # the part of it within the window
        compared_count = np.isfinite(cost)
        sizes = copies.size_bytes[pageable]
        result.append(
            Staging(
                key=key,
                direction=direction.label,
                count=int(pageable.sum()),
                size_bytes=int(sizes[sizes != NO_ID].sum()),
                total_ns=int(facts.total_ns[pageable].sum()),
                compared_count=int(compared_count.sum()),
                staging_cost_ns=int(cost[compared_count].sum()) if compared_count.any() else None,
            )
        )
    return result


def _costs(size: Int64, duration: Int64, pageable: Bool, pinned: Bool, factor: float) -> Float64:
    """Device time beyond that of the pinned copy closest in size, scaled to the same size; NaN without one."""
    if not pinned.any():
        return np.full(int(pageable.sum()), np.nan)
    sizes, position = np.unique(size[pinned], return_inverse=True)
    rate = np.array([np.median(duration[pinned][position == index]) / bytes_ for index, bytes_ in enumerate(sizes)])
    wanted = size[pageable].astype(float)
    above = np.minimum(np.searchsorted(sizes, wanted), len(sizes) - 1)
    below = np.maximum(above - 1, 0)
    nearer = np.abs(np.log(wanted / sizes[below])) <= np.abs(np.log(wanted / sizes[above]))
    nearest = np.where(nearer, below, above)
    same = np.maximum(wanted / sizes[nearest], sizes[nearest] / wanted) <= factor
    return np.where(same, duration[pageable] - rate[nearest] * wanted, np.nan)
