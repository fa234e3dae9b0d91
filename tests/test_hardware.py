"""What pinned copies are expected to reach, by what a trace tells of a GPU."""

from __future__ import annotations

import pytest

from overlapscope.hardware import PinnedBandwidth, pinned_bandwidth
from overlapscope.model.trace import Device

H100 = "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    ("name", "generation", "lanes", "expected"),
    [
        ("", 3, 16, PinnedBandwidth(12.0, "PCIe 3 x16", recorded=True)),
        (H100, 4, 8, PinnedBandwidth(12.5, "PCIe 4 x8", recorded=True)),
        ("NVIDIA GH200 480GB", 5, 16, PinnedBandwidth(55.0, "PCIe 5 x16", recorded=True)),
        (H100, None, None, PinnedBandwidth(55.0, f"PCIe 5 x16 (the usual link of an {H100})", recorded=False)),
        (H100, 9, 16, PinnedBandwidth(55.0, f"PCIe 5 x16 (the usual link of an {H100})", recorded=False)),
        (H100, 5, 0, PinnedBandwidth(55.0, f"PCIe 5 x16 (the usual link of an {H100})", recorded=False)),
        ("NVIDIA GH200 480GB", None, None, None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None, None, None),
        ("Test GPU", 5, None, None),
    ],
)
def test_a_recorded_link_goes_before_the_usual_one(
    name: str, generation: int | None, lanes: int | None, expected: PinnedBandwidth | None
) -> None:
    assert pinned_bandwidth(Device(0, name, pcie_generation=generation, pcie_width=lanes)) == expected
