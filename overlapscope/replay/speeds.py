"""How long copies of a size take: pinned ones by the trace itself, its calibration, or its link; and pageable ones."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from overlapscope.measure.copies import host_kind
from overlapscope.model.columns import Float64, Int64
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.metadata import Device
from overlapscope.model.trace import Trace

REACHED_GB_S = {1: 3.0, 2: 6.0, 3: 12.0, 4: 25.0, 5: 55.0}
"""What pinned copies reach over 16 lanes of PCIe, by generation; seen in public: 12, 24 to 26, 52 to 57 for 3, 4, 5."""
PCIE_LANES = 16
_LINKS = (
    (r"\b(RTX 50[56]0|RTX PRO 2000)\b", 5, 8),
    (r"\b(B200|B300|H100|H200|H800|H20|RTX 50\d\d|RTX PRO|MI3\d\d[AX]?)\b", 5, 16),
    (r"\b(A2|RTX 3050|RTX 4060|RTX A1000|RTX 2000 Ada)\b", 4, 8),
    (r"\b(A100|A800|A30|A40|A10G?|L2|L4|L20|L40S?|RTX [34]0\d\d|RTX A\d{4}|RTX \d000( SFF)? Ada|MI2\d\dX?)\b", 4, 16),
    (r"\b(V100S?|P100|P40|P4|T4|TITAN|RTX 20\d\d|GTX 1\d\d\d|Quadro (GV|RTX|P|T)\w*)\b", 3, 16),
)
"""PCIe generation and lanes of GPUs by name, as their data sheets have it, the first that fits.

Grace systems have another link; laptops have fewer lanes, as their makers please: neither is here.
"""
_OTHER_LINK = re.compile(r"\b(GH200|GB200|GB300|GB10|MI300A)\b|Laptop|Max-Q", re.IGNORECASE)
LONGEST_NS = 7 * 24 * 3600 * 10**9
_LATENCY_NS = 1_500  # of a tiny copy; measured on an H200


@dataclass(frozen=True, eq=False)
class Speed:
    """Sizes and what moving each takes, by size; ``basis`` says where that is known from."""

    size_bytes: Float64
    time_ns: Float64
    basis: str

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
    return _calibrated(trace, direction, MemoryKind.PINNED) or _link(trace) or own


def staged_speed(trace: Trace, direction: Direction) -> Speed | None:
    """The speed of pageable copies in a direction: the trace's own, else the calibration; None where nothing tells."""
    own = _own(trace, direction, MemoryKind.PAGEABLE)
    return own or _calibrated(trace, direction, MemoryKind.PAGEABLE)


def _own(trace: Trace, direction: Direction, kind: MemoryKind) -> Speed | None:
    copies = trace.copies
    rows = (copies.direction == direction) & (host_kind(copies) == kind) & (copies.size_bytes > 0)
    if not rows.any():
        return None
    sizes, member = np.unique(copies.size_bytes[rows], return_inverse=True)
    times = np.array([np.median(copies.duration_ns[rows][member == index]) for index in range(len(sizes))])
    return _from_points(sizes.astype(float), times, f"{kind.label} copies of this trace")


def _calibrated(trace: Trace, direction: Direction, kind: MemoryKind) -> Speed | None:
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
    """The slowest of what the devices' links reach, as recorded, else as GPUs of their name have it with 16 lanes."""
    known = [entry for device in trace.metadata.devices if (entry := _link_of(device)) is not None]
    if not known:
        return None
    rate, why = min(known)
    sizes = np.array([1.0, 1e9])
    return _from_points(sizes, _LATENCY_NS + sizes / rate, f"{rate:.0f} GB/s, what {why} reaches")


def _link_of(device: Device) -> tuple[float, str] | None:
    if device.pcie_generation in REACHED_GB_S and device.pcie_width:
        return _reached(
            device.pcie_generation, device.pcie_width
        ), f"PCIe {device.pcie_generation} x{device.pcie_width}"
    if _OTHER_LINK.search(device.name):
        return None
    for pattern, generation, lanes in _LINKS:
        if re.search(pattern, device.name, re.IGNORECASE):
            return _reached(generation, lanes), f"PCIe {generation} x{lanes} (the usual link of an {device.name})"
    return None


def _reached(generation: int, lanes: int) -> float:
    return REACHED_GB_S[generation] * lanes / PCIE_LANES


def _from_points(sizes: Float64, times: Float64, basis: str) -> Speed:
    """Larger copies take longer: what scatters the other way is smoothed."""
    return Speed(np.append(0.0, sizes), np.maximum.accumulate(np.append(min(times[0], _LATENCY_NS), times)), basis)
