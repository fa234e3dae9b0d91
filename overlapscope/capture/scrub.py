"""Take out of a trace what its reader does not need and its owner may not want to publish.

Both functions keep by list, not drop by list: a field that nobody here has heard of does not get through.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

_KINETO_KEYS = {
    "schemaVersion",
    "deviceProperties",
    "traceEvents",
    "displayTimeUnit",
    "baseTimeNanoseconds",
    "cuda_driver_version",
    "cuda_runtime_version",
    "cupti_version",
    "hip_driver_version",
    "hip_runtime_version",
    "roctracer_version",
}
_NSYS_TABLES = {
    "StringIds",
    "NVTX_EVENTS",
    "PROFILER_OVERHEAD",
    "CUDA_GRAPH_NODE_EVENTS",
    "META_DATA_EXPORT",
    "TARGET_INFO_GPU",
    "TARGET_INFO_CUDA_DEVICE",
    "TARGET_INFO_CUDA_CONTEXT_INFO",
    "TARGET_INFO_CUDA_STREAM",
}
_NSYS_PREFIXES = ("CUPTI_ACTIVITY_KIND_", "ENUM_", "sqlite_")
_NSYS_EXPORT_KEYS = ("EXPORT_PRODUCT_NAME", "EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION")
_STRING_USERS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": ("demangledName", "shortName", "mangledName"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("nameId",),
    "NVTX_EVENTS": ("textId",),
    "PROFILER_OVERHEAD": ("nameId",),
}


def scrub_kineto(source: str | Path, target: str | Path) -> None:
    """Write the Kineto trace ``source`` to ``target`` (gzip) without host, user, path or environment.

    Events stay as they are; of the header only the known technical keys do.
    """
    raw = Path(source).read_bytes()
    trace: dict[str, Any] = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    kept = {key: value for key, value in trace.items() if key in _KINETO_KEYS}
    _write_gzip(target, json.dumps(kept, separators=(",", ":")).encode())


def scrub_nsys(source: str | Path, target: str | Path) -> None:
    """Write the Nsight Systems export ``source`` (SQLite) to ``target`` (gzip) without what names its origin."""
    work = Path(target).with_suffix(".scrub")
    shutil.copyfile(source, work)
    connection = sqlite3.connect(work, isolation_level=None)
    try:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for name in tables - _NSYS_TABLES:
            if not name.startswith(_NSYS_PREFIXES):
                connection.execute(f'DROP TABLE "{name}"')
        if "META_DATA_EXPORT" in tables:
            marks = ", ".join("?" * len(_NSYS_EXPORT_KEYS))
            connection.execute(f"DELETE FROM META_DATA_EXPORT WHERE name NOT IN ({marks})", _NSYS_EXPORT_KEYS)
        if "TARGET_INFO_GPU" in tables:
            connection.execute("UPDATE TARGET_INFO_GPU SET uuid = ''")
        _drop_unused_strings(connection, tables)
        connection.execute("VACUUM")
        connection.close()
        _write_gzip(target, work.read_bytes())
    finally:
        connection.close()
        work.unlink(missing_ok=True)


def _drop_unused_strings(connection: sqlite3.Connection, tables: set[str]) -> None:
    used = [
        f'SELECT "{column}" FROM "{table}" WHERE "{column}" IS NOT NULL'
        for table, columns in _STRING_USERS.items()
        if table in tables
        for column in columns
    ]
    if used and "StringIds" in tables:
        connection.execute(f"DELETE FROM StringIds WHERE id NOT IN ({' UNION '.join(used)})")


def _write_gzip(target: str | Path, data: bytes) -> None:
    # No name and no time in the gzip header: the same trace gives the same file.
    Path(target).write_bytes(gzip.compress(data, compresslevel=9, mtime=0))
