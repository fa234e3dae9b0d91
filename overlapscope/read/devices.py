"""The GPUs of a trace, with what a calibration notes of them."""

from __future__ import annotations

from dataclasses import replace

from overlapscope.calibration.schema import Calibration
from overlapscope.model.metadata import Device


def with_calibration(device: Device, calibration: Calibration | None) -> Device:
    """``device`` with its copy engines, where the trace does not tell them, and its link, as they were recorded."""
    if calibration is None:
        return device
    gpu = calibration.gpu(device.number)
    return replace(
        device,
        copy_engines=gpu.copy_engines if device.copy_engines is None else device.copy_engines,
        pcie_generation=gpu.link.pcie_generation,
        pcie_width=gpu.link.pcie_width,
    )
