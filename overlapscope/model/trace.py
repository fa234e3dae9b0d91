"""`Trace`: the immutable tables of one profile, with its metadata and its health: counted warnings about doubtful data.

Environment, host and user names are never kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from overlapscope.calibration.schema import Calibration
from overlapscope.formatting import counted
from overlapscope.model.columns import Names, Table
from overlapscope.model.frames import Row, frame
from overlapscope.model.tables import (
    ApiCalls,
    Copies,
    CpuOps,
    DeviceWork,
    EventRecords,
    EventWaits,
    Frames,
    HostEvents,
    Kernels,
    Memsets,
    Modules,
    Overheads,
    Ranges,
    Samples,
    Streams,
    Syncs,
    Timed,
)

if TYPE_CHECKING:
    import pandas


class HealthSeverity(StrEnum):
    """Severity of a warning: a fact about the recording, doubtful figures, or lost data."""

    INFO = "info"
    WARNING = "warning"
    DAMAGE = "damage"


@dataclass(frozen=True)
class HealthWarning(Row):
    """One warning about a trace.

    ``share`` is ``count`` over the number of rows that it could concern, from 0 to 1; None where that has no meaning,
    as for a truncated file.
    """

    code: str
    severity: HealthSeverity
    count: int
    share: float | None
    message: str

    @property
    def of_the_file(self) -> bool:
        """Whether it is about the file as a whole, and counts nothing."""
        return self.message.startswith(_OF_THE_FILE)

    @property
    def text(self) -> str:
        """The message, after what it counts."""
        return self.message if self.of_the_file else f"{self._counted} {self.message}"

    @property
    def _counted(self) -> str:
        return f"{self.count:,}" if self.share is None else f"{self.count:,} ({100 * self.share:.3g} %)"


_OF_THE_FILE = ("the ", "no ", "missing ", "bytes ")
"""Begins of messages about the file as a whole."""

MISSING_COLUMN = "missing-column:"
"""Prefix of the codes of warnings that a table, or a column of it, is missing that every file of its format has."""
_NO_DEVICE_WORK = ("no-device-work", "device-work-lost", "unknown-device-work")
"""Codes of the warnings that say why there is no device work."""


@dataclass(frozen=True)
class Health:
    """All warnings of a trace, and how many events of the file were read and kept.

    Events that the model leaves out by design (flow arrows, counters, device-side copies of host annotations) are read
    but not kept, without a warning.
    """

    warnings: tuple[HealthWarning, ...] = ()
    events_read: int = 0
    events_kept: int = 0

    def __iter__(self) -> Iterator[HealthWarning]:
        return iter(self.warnings)

    def __len__(self) -> int:
        return len(self.warnings)

    def to_dict(self) -> dict[str, Any]:
        """The warnings and counts as JSON-ready data; the keys are those of an audit."""
        warnings = [warning.to_dict() for warning in self.warnings]
        return {"health": warnings, "events_read": self.events_read, "events_kept": self.events_kept}

    def to_pandas(self) -> pandas.DataFrame:
        """The warnings, one per row."""
        columns = [entry.name for entry in fields(HealthWarning)]
        return frame((warning.to_dict() for warning in self.warnings), columns)

    @property
    def damaged(self) -> bool:
        """Whether data was lost."""
        return any(warning.severity is HealthSeverity.DAMAGE for warning in self.warnings)

    @property
    def no_device_work(self) -> str:
        """The reason why the trace has no device work, as a phrase; empty where it has some."""
        return next((warning.message for warning in self.warnings if warning.code in _NO_DEVICE_WORK), "")

    @property
    def incomplete(self) -> tuple[HealthWarning, ...]:
        """The warnings about tables and columns that every file of its format has, and this one lacks."""
        return tuple(warning for warning in self.warnings if warning.code.startswith(MISSING_COLUMN))

    def has(self, code: str) -> bool:
        """Whether there is a warning with this code."""
        return any(warning.code == code for warning in self.warnings)


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

    def with_calibration(self, calibration: Calibration | None) -> Device:
        """The GPU with its copy engines, where the trace does not tell them, and its link, as they were recorded."""
        if calibration is None:
            return self
        gpu = calibration.gpu(self.number)
        return replace(
            self,
            copy_engines=gpu.copy_engines if self.copy_engines is None else self.copy_engines,
            pcie_generation=gpu.link.pcie_generation,
            pcie_width=gpu.link.pcie_width,
        )


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
    versions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    thread_names: Mapping[tuple[int, int], str] = field(default_factory=lambda: MappingProxyType({}))
    recorded_ns: tuple[tuple[int, int], ...] = ()
    recording: Calibration | None = None

    def device_name(self, number: int) -> str:
        """The name of device ``number``, or ``""`` where the trace does not list it."""
        return next((device.name for device in self.devices if device.number == number), "")


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Trace:
    """Everything read from one profile, immutable; measures are functions of it."""

    kernels: Kernels
    copies: Copies
    memsets: Memsets
    api_calls: ApiCalls
    syncs: Syncs
    event_records: EventRecords
    event_waits: EventWaits
    ranges: Ranges
    modules: Modules
    cpu_ops: CpuOps
    frames: Frames
    samples: Samples
    host_events: HostEvents
    overheads: Overheads
    streams: Streams
    names: Names
    metadata: Metadata
    health: Health

    def tables(self) -> Iterator[tuple[str, Table]]:
        """Every table with the name of its attribute."""
        for name in TABLES:
            yield name, getattr(self, name)

    @property
    def calibration(self) -> Calibration:
        """The calibration of the recording; one without anything measured where a profiler by itself made the trace."""
        return self.metadata.recording or Calibration()

    @property
    def device_work(self) -> tuple[DeviceWork, ...]:
        """The tables of device work: kernels, copies and memsets."""
        return self.kernels, self.copies, self.memsets

    @property
    def start_ns(self) -> int:
        """Begin of the first row of any table; 0 for a trace without rows."""
        return min((int(table.start_ns.min()) for table in self._timed()), default=0)

    @property
    def end_ns(self) -> int:
        """End of the last row of any table; 0 for a trace without rows."""
        return max((int(table.end_ns.max()) for table in self._timed()), default=0)

    def _timed(self) -> Iterator[Timed]:
        for _, table in self.tables():
            if isinstance(table, Timed) and len(table):
                yield table

    def __repr__(self) -> str:
        sizes = ", ".join(counted(len(table), _one(name), name) for name, table in self.tables() if len(table))
        warnings = counted(len(self.health), "health warning")
        return f"<Trace {self.metadata.format}: {sizes or 'no events'}; {warnings}>"


def _one(table: str) -> str:
    """The singular of a table's name."""
    return "copy" if table == "copies" else table.removesuffix("s")


TABLES: dict[str, type[Table]] = {
    name: kind for name, kind in get_type_hints(Trace).items() if isinstance(kind, type) and issubclass(kind, Table)
}
"""Attribute name and class of every table of a `Trace`, in order."""

DEVICE_WORK = tuple(name for name, kind in TABLES.items() if issubclass(kind, DeviceWork))
"""Names of the tables of device work."""
