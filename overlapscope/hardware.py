"""Links of GPUs by name, and the bandwidth of pinned copies over them: facts before anything is measured.

Bandwidths are those of `cudaMemcpyAsync` in one direction, from public measurements; links by name are those of the
makers' data sheets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from overlapscope.model.trace import Device

_PINNED_GB_S_X16 = {1: 3.0, 2: 6.0, 3: 12.0, 4: 25.0, 5: 55.0}
"""GB/s of pinned copies over 16 lanes of PCIe, by generation; seen in public: 12, 24 to 26, 52 to 57 for 3, 4, 5."""
_LANES = 16
_LINKS = (
    (r"\b(RTX 50[56]0|RTX PRO 2000)\b", 5, 8),
    (r"\b(B200|B300|H100|H200|H800|H20|RTX 50\d\d|RTX PRO|MI3\d\d[AX]?)\b", 5, 16),
    (r"\b(A2|RTX 3050|RTX 4060|RTX A1000|RTX 2000 Ada)\b", 4, 8),
    (r"\b(A100|A800|A30|A40|A10G?|L2|L4|L20|L40S?|RTX [34]0\d\d|RTX A\d{4}|RTX \d000( SFF)? Ada|MI2\d\dX?)\b", 4, 16),
    (r"\b(V100S?|P100|P40|P4|T4|TITAN|RTX 20\d\d|GTX 1\d\d\d|Quadro (GV|RTX|P|T)\w*)\b", 3, 16),
)
"""PCIe generation and lanes of GPUs by name, as their data sheets have it; the first pattern that fits counts."""
_OTHER_LINK = re.compile(r"\b(GH200|GB200|GB300|GB10|MI300A)\b|Laptop|Max-Q", re.IGNORECASE)
"""GPUs whose name does not tell their link: Grace systems have NVLink-C2C, laptops as many lanes as the maker chose."""


@dataclass(frozen=True)
class PinnedBandwidth:
    """The bandwidth that pinned copies of one direction are expected to reach on a device.

    Attributes:
        gb_s: 10**9 bytes a second.
        source: the link that reaches it, such as ``PCIe 5 x16``, and where that is known from if not from the trace.
        recorded: whether the trace tells the link; else it is the usual one of a GPU of that name.
    """

    gb_s: float
    source: str
    recorded: bool


def pinned_bandwidth(device: Device) -> PinnedBandwidth | None:
    """The bandwidth of pinned copies on ``device``: over its recorded link, else the usual link of a GPU of its name.

    Returns:
        None where neither is known.
    """
    generation, lanes = device.pcie_generation, device.pcie_width
    if generation in _PINNED_GB_S_X16 and lanes:
        return PinnedBandwidth(_gb_s(generation, lanes), f"PCIe {generation} x{lanes}", recorded=True)
    if _OTHER_LINK.search(device.name):
        return None
    for pattern, generation, lanes in _LINKS:
        if re.search(pattern, device.name, re.IGNORECASE):
            source = f"PCIe {generation} x{lanes} (the usual link of an {device.name})"
            return PinnedBandwidth(_gb_s(generation, lanes), source, recorded=False)
    return None


def _gb_s(generation: int, lanes: int) -> float:
    return _PINNED_GB_S_X16[generation] * lanes / _LANES
