"""How long copies of a size take: pinned ones by the trace itself, its calibration, or its link; and pageable ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.hardware import pinned_bandwidth
from overlapscope.measure.copies import host_kind
from overlapscope.model.columns import Float64, Int64
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.trace import Trace

LONGEST_NS = 7 * 24 * 3600 * 10**9
LEAST_NS = 1_500
"""What a tiny pinned copy takes; measured on an H200."""


@dataclass(frozen=True, eq=False)
class Speed:
    """Sizes and what moving each takes, by size; ``known_from`` says where that is known from."""

    size_bytes: Float64
    time_ns: Float64
    known_from: str

    def exact_ns(self, size_bytes: Int64) -> Float64:
        """What these sizes take: in between as on a line, beyond the largest at its bandwidth."""
        known = np.interp(size_bytes, self.size_bytes, self.time_ns)
        scaled: Float64 = known * np.maximum(size_bytes / self.size_bytes[-1], 1.0)
        return scaled

    def copy_time_ns(self, size_bytes: Int64) -> Int64:
        """The same in whole ns, a week at most: what a damaged calibration says cannot be added up."""
        rounded: Int64 = np.rint(np.minimum(self.exact_ns(size_bytes), LONGEST_NS)).astype(np.int64)
        return rounded


def pinned_speed(trace: Trace, direction: Direction, sizes: Int64) -> Speed | None:
    """The speed of pinned copies in a direction, for copies of these sizes; None where nothing tells.

    The trace's own pinned copies go first, if they are as large as half of the largest asked for; then the calibration,
    then the link, then smaller copies of its own.
    """
    own = _own(trace, direction, MemoryKind.PINNED)
    largest = float(sizes.max(initial=0))
    if own is not None and own.size_bytes[-1] >= largest / 2:
        return own
    return calibrated_speed(trace, direction, MemoryKind.PINNED) or _link(trace) or own


def staged_speed(trace: Trace, direction: Direction) -> Speed | None:
    """The speed of pageable copies in a direction: the trace's own, else the calibration; None where nothing tells."""
    own = _own(trace, direction, MemoryKind.PAGEABLE)
    return own or calibrated_speed(trace, direction, MemoryKind.PAGEABLE)


def _own(trace: Trace, direction: Direction, kind: MemoryKind) -> Speed | None:
    copies = trace.copies
    rows = (copies.direction == direction) & (host_kind(copies) == kind) & (copies.size_bytes > 0)
    if not rows.any():
        return None
    sizes, member = np.unique(copies.size_bytes[rows], return_inverse=True)
    times = np.array([np.median(copies.duration_ns[rows][member == index]) for index in range(len(sizes))])
    return _from_points(sizes.astype(float), times, f"{kind.label} copies of this trace")


def calibrated_speed(trace: Trace, direction: Direction, kind: MemoryKind) -> Speed | None:
    """The speed that the calibration of a trace measured; None where it has none."""
    recording = trace.metadata.recording
    entries = [
        (entry.size_bytes, entry.copy_ns)
        for entry in (recording.copies if recording is not None else ())
        if entry.direction == direction.label and entry.host_memory == kind.label
    ]
    if not entries:
        return None
    sizes, times = np.array(sorted(entries), float).T
    return _from_points(sizes, times, "the calibration in this trace")


def _link(trace: Trace) -> Speed | None:
    """Over the slowest of the devices' links that are known."""
    known = [found for device in trace.metadata.devices if (found := pinned_bandwidth(device)) is not None]
    if not known:
        return None
    slowest = min(known, key=lambda found: (found.gb_s, found.source))
    sizes = np.array([1.0, 1e9])
    known_from = f"{slowest.gb_s:.0f} GB/s, what {slowest.source} reaches"
    return _from_points(sizes, LEAST_NS + sizes / slowest.gb_s, known_from)


def _from_points(sizes: Float64, times: Float64, known_from: str) -> Speed:
    """Larger copies take longer: what scatters the other way is smoothed."""
    return Speed(np.append(0.0, sizes), np.maximum.accumulate(np.append(min(times[0], LEAST_NS), times)), known_from)
