"""Where work runs, and what the places are called: devices and their streams."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.measure.devices import DeviceKey, device_keys
from overlapscope.model.columns import NO_ID, Bool
from overlapscope.model.tables import DeviceWork
from overlapscope.model.trace import Trace


@dataclass(frozen=True)
class StreamKey:
    """A stream of a device. Two devices may both call theirs 7."""

    device: DeviceKey
    stream: int

    @property
    def title(self) -> str:
        """What people call it."""
        return "no stream" if self.stream == NO_ID else f"stream {self.stream}"

    def rows(self, table: DeviceWork) -> Bool:
        """Which rows of a table are this stream's."""
        mine: Bool = self.device.rows(table) & (table.stream == self.stream)
        return mine


def stream_keys(trace: Trace) -> list[StreamKey]:
    """Every stream with work on it, in order, device by device."""
    keys = []
    for device in device_keys(trace):
        used = [table.stream[device.rows(table)] for table in trace.device_work]
        keys += [StreamKey(device, stream) for stream in np.unique(np.concatenate(used)).tolist()]
    return keys


def device_titles(trace: Trace, owner: str = "of") -> dict[DeviceKey, str]:
    """What each device is called; with its process, after ``owner``, where another process has one of that number."""
    keys = device_keys(trace)
    numbers = [key.device for key in keys]
    return {key: f"{key.title} {owner} {key.process}" if numbers.count(key.device) > 1 else key.title for key in keys}
