"""How long copies of a size take from pinned memory: from the trace itself, its calibration, or its link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.measure.copies import host_kind
from overlapscope.model.columns import Float64, Int64
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.trace import Trace

LANE_GB_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""Raw bandwidth of a PCIe lane by generation, in one direction (PCI-SIG)."""
LINK_SHARE = 0.87
"""What pinned copies reach of it: 55 of 63 GB/s on generation 5, 26 of 32 on 4, 12 of 16 on 3."""
_LATENCY_NS = 1_500  # of a tiny copy; measured on an H200


@dataclass(frozen=True, eq=False)
class Speed:
    """Sizes and what a copy of each takes, by size; ``basis`` says where that is known from."""

    size_bytes: Float64
    copy_ns: Float64
    basis: str

    def copy_time_ns(self, size_bytes: Int64) -> Int64:
        """What copies of these sizes take: in between as on a line, beyond the largest at its bandwidth."""
        known = np.interp(size_bytes, self.size_bytes, self.copy_ns)
        scale = np.maximum(size_bytes / self.size_bytes[-1], 1.0)
        rounded: Int64 = np.rint(known * scale).astype(np.int64)
        return rounded


def pinned_speed(trace: Trace, direction: Direction, sizes: Int64) -> Speed | None:
    """The speed of pinned copies in a direction, for copies of these sizes; None where nothing tells.

    The trace's own pinned copies go first, if they are as large as half of the largest asked for; then the calibration,
    then the link.
    """
    own = _own(trace, direction)
    largest = float(sizes.max(initial=0))
    if own is not None and own.size_bytes[-1] >= largest / 2:
        return own
    return _calibrated(trace, direction) or own or _link(trace)


def _own(trace: Trace, direction: Direction) -> Speed | None:
    copies = trace.copies
    rows = (copies.direction == direction) & (host_kind(copies) == MemoryKind.PINNED) & (copies.size_bytes > 0)
    if not rows.any():
        return None
    sizes, member = np.unique(copies.size_bytes[rows], return_inverse=True)
    times = np.array([np.median(copies.duration_ns[rows][member == index]) for index in range(len(sizes))])
    return _from_points(sizes.astype(float), times, "pinned copies of this trace")


def _calibrated(trace: Trace, direction: Direction) -> Speed | None:
    recording = trace.metadata.recording
    entries = [
        (entry.size_bytes, entry.copy_ns)
        for entry in (recording.copies if recording is not None else ())
        if entry.direction == direction.label and entry.host_memory == "pinned"
    ]
    if not entries:
        return None
    sizes, times = np.array(sorted(entries), float).T
    return _from_points(sizes, times, "the calibration in this trace")


def _link(trace: Trace) -> Speed | None:
    rates = [
        LANE_GB_S.get(device.pcie_generation or 0, 0.0) * (device.pcie_width or 0) * LINK_SHARE
        for device in trace.metadata.devices
    ]
    rate = max(rates, default=0.0)
    if not rate:
        return None
    sizes = np.array([1.0, 1e9])
    return _from_points(sizes, _LATENCY_NS + sizes / rate, f"{rate:.0f} GB/s, what its link reaches")


def _from_points(sizes: Float64, times: Float64, basis: str) -> Speed:
    """Larger copies take longer: what scatters the other way is smoothed."""
    return Speed(np.append(0.0, sizes), np.maximum.accumulate(np.append(min(times[0], _LATENCY_NS), times)), basis)


def gather_gb_s(trace: Trace) -> float | None:
    """What a thread copies on the host, in GB/s, no less than what staging reaches here; None where nothing tells.

    Staging copies on the host and sends at the same time, so that it is no faster than the host's part alone.
    """
    copies = trace.copies
    rows = (copies.direction == Direction.HTOD) & (host_kind(copies) == MemoryKind.PAGEABLE) & (copies.duration_ns > 0)
    recording = trace.metadata.recording
    measured = [
        entry.size_bytes / entry.copy_ns
        for entry in (recording.copies if recording is not None else ())
        if entry.host_memory == "pageable" and entry.direction == Direction.HTOD.label and entry.copy_ns
    ]
    own = (copies.size_bytes[rows] / copies.duration_ns[rows]).tolist()
    return max([*measured, *own], default=None)
