"""A trace as one Arrow file that can be mapped into memory: each column is a list in the file's single row.

What a column cannot hold stands as JSON in the schema. The file ends with a checksum of all that comes before it.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, fields
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from overlapscope.calibration.data import from_json, to_json
from overlapscope.model.columns import Names
from overlapscope.model.trace import TABLES, Device, Health, HealthSeverity, HealthWarning, Metadata, Trace

if TYPE_CHECKING:
    import pyarrow

_NAMES, _ABOUT = "names", b"overlapscope"
_CHECKSUM_BYTES = 8
_PLAIN = ("format", "path", "tool", "schema_version", "base_time_ns", "rank", "world_size")


def write_trace(trace: Trace, file: IO[bytes]) -> None:
    """Write a trace.

    Raises:
        ValueError: it has a text that Arrow cannot hold.
    """
    import pyarrow as pa

    columns = {_NAMES: pa.array(trace.names.values, pa.large_string())}
    for name, table in trace.tables():
        for spec in table.columns():
            values = getattr(table, spec.name)
            columns[f"{name}.{spec.name}"] = pa.array(values.view(np.uint8) if spec.dtype == np.bool_ else values)
    lists = [pa.LargeListArray.from_arrays(pa.array([0, len(each)], pa.int64()), each) for each in columns.values()]
    batch = pa.RecordBatch.from_arrays(lists, list(columns))
    batch = batch.replace_schema_metadata({_ABOUT: json.dumps(_about(trace)).encode()})
    summing = _Summing(file)
    with pa.ipc.new_file(pa.PythonFile(summing, "w"), batch.schema) as writer:
        writer.write_batch(batch)
    file.write(summing.checksum.to_bytes(_CHECKSUM_BYTES, "little"))


def read_trace(path: Path, source: str) -> Trace:
    """Map a trace that was written, as one that was read from ``source``.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not whole.
    """
    batch = _batch(path)
    names = Names(tuple(batch.column(_NAMES).values.to_pylist()))
    tables: dict[str, Any] = {}
    for name, kind in TABLES.items():
        columns = {spec.name: _values(batch, f"{name}.{spec.name}", spec.dtype) for spec in kind.columns()}
        tables[name] = kind(names=names, **columns)
    about = json.loads(batch.schema.metadata[_ABOUT])
    return Trace(names=names, metadata=_metadata(about["metadata"], source), health=_health(about["health"]), **tables)


def source_of(path: Path) -> str:
    """The file that a trace was read from; empty where it cannot be told."""
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as file:
            about = pa.ipc.open_file(file.read_buffer(file.size() - _CHECKSUM_BYTES)).schema.metadata[_ABOUT]
        return str(json.loads(about)["metadata"]["path"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _batch(path: Path) -> pyarrow.RecordBatch:
    """The file's single row, after its checksum was compared."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        whole = file.read_buffer()
    body = whole.slice(0, max(len(whole) - _CHECKSUM_BYTES, 0))
    if int.from_bytes(whole.slice(len(body)).to_pybytes(), "little") != zlib.crc32(body):
        raise ValueError(f"{path}: is not what was written")
    return pa.ipc.open_file(body).get_batch(0)


def _values(batch: pyarrow.RecordBatch, name: str, dtype: np.dtype[Any]) -> Any:
    values = batch.column(name).values.to_numpy(zero_copy_only=True)
    return values.view(np.bool_) if dtype == np.bool_ else values


class _Summing:
    """A file that sums up what is written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.checksum, self.closed = file, 0, False

    def write(self, data: Any) -> int:
        self.checksum = zlib.crc32(data, self.checksum)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


def _about(trace: Trace) -> dict[str, Any]:
    metadata, health = trace.metadata, trace.health
    data: dict[str, Any] = {name: getattr(metadata, name) for name in _PLAIN}
    data["devices"] = [asdict(device) for device in metadata.devices]
    data["versions"] = dict(metadata.versions)
    data["thread_names"] = [[*thread, name] for thread, name in metadata.thread_names.items()]
    data["recorded_ns"] = metadata.recorded_ns
    data["recording"] = None if metadata.recording is None else to_json(metadata.recording)
    counts = {entry.name: getattr(health, entry.name) for entry in fields(Health) if entry.name != "warnings"}
    return {"metadata": data, "health": counts | {"warnings": [asdict(warning) for warning in health]}}


def _metadata(data: dict[str, Any], source: str) -> Metadata:
    return Metadata(
        **{name: data[name] for name in _PLAIN} | {"path": source},
        devices=tuple(Device(**device) for device in data["devices"]),
        versions=MappingProxyType(data["versions"]),
        thread_names=MappingProxyType({(process, thread): name for process, thread, name in data["thread_names"]}),
        recorded_ns=tuple((start, end) for start, end in data["recorded_ns"]),
        recording=from_json(data["recording"]),
    )


def _health(data: dict[str, Any]) -> Health:
    warnings = (HealthWarning(**row | {"severity": HealthSeverity(row["severity"])}) for row in data["warnings"])
    return Health(**data | {"warnings": tuple(warnings)})
