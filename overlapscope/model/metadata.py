"""Metadata of a trace: format, tool, devices, versions. Environment, host and user names are never kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from overlapscope.calibration.schema import Calibration


def _empty() -> Mapping[str, str]:
    return MappingProxyType({})


def _no_threads() -> Mapping[tuple[int, int], str]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Device:
    """A GPU that the trace lists; None where a value is not recorded."""

    number: int
    name: str
    memory_bytes: int | None = None
    multiprocessors: int | None = None
    compute_capability: str | None = None
    copy_engines: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None


@dataclass(frozen=True)
class Metadata:
    """Format, path, versions and devices of a trace.

    ``base_time_ns`` is the Unix time at zero of the trace's clock, where the file has it. ``thread_names`` maps
    (process, thread) to a name. ``recorded_ns`` has begin and end of each stretch for which the profiler says that it
    recorded, where it does. ``recording`` is the calibration of a trace that `overlapscope.record` made.
    """

    format: Literal["kineto", "nsys"]
    path: str
    tool: str = ""
    schema_version: str = ""
    base_time_ns: int | None = None
    rank: int | None = None
    world_size: int | None = None
    devices: tuple[Device, ...] = ()
    versions: Mapping[str, str] = field(default_factory=_empty)
    thread_names: Mapping[tuple[int, int], str] = field(default_factory=_no_threads)
    recorded_ns: tuple[tuple[int, int], ...] = ()
    recording: Calibration | None = None

    def device_name(self, number: int) -> str:
        """The name of device ``number``, or ``""`` where the trace does not list it."""
        return next((device.name for device in self.devices if device.number == number), "")
