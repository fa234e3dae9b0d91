"""`Trace`: the immutable tables of one profile, with metadata and health."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from overlapscope.formatting import counted
from overlapscope.model.columns import Names, Table
from overlapscope.model.health import Health
from overlapscope.model.metadata import Metadata
from overlapscope.model.tables import (
    ApiCalls,
    Copies,
    CpuOps,
    DeviceWork,
    EventRecords,
    EventWaits,
    Frames,
    Kernels,
    Memsets,
    Modules,
    Overheads,
    Ranges,
    Streams,
    Syncs,
    Timed,
)


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
    "kernels": Kernels,
    "copies": Copies,
    "memsets": Memsets,
    "api_calls": ApiCalls,
    "syncs": Syncs,
    "event_records": EventRecords,
    "event_waits": EventWaits,
    "ranges": Ranges,
    "modules": Modules,
    "cpu_ops": CpuOps,
    "frames": Frames,
    "overheads": Overheads,
    "streams": Streams,
}
"""Attribute name and class of every table of a `Trace`, in order."""

DEVICE_WORK = tuple(name for name, kind in TABLES.items() if issubclass(kind, DeviceWork))
"""Names of the tables of device work."""
