"""Small Nsight Systems exports with the columns that a test wants, and no others."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]
MEMORY_LABELS = {0: "Pageable", 1: "Pinned", 2: "Device"}


def global_id(pid: int, tid: int = 0) -> int:
    return (0x100 << 48) | (pid << 24) | tid


def write(path: Path, tables: dict[str, Rows], strings: dict[int, str] | None = None) -> Path:
    """A database with ``tables``, each with just the columns of its rows."""
    everything = {"StringIds": [{"id": key, "value": text} for key, text in (strings or {1: "x"}).items()]} | tables
    connection = sqlite3.connect(path)
    for name, rows in everything.items():
        columns = list(dict.fromkeys(column for row in rows for column in row)) or ["start"]
        connection.execute(f'CREATE TABLE "{name}" ({", ".join(columns)})')
        for row in rows:
            marks = ", ".join("?" * len(columns))
            connection.execute(f'INSERT INTO "{name}" VALUES ({marks})', [row.get(column) for column in columns])
    connection.commit()
    connection.close()
    return path


def work(start: int, end: int, *, pid: int = 10, stream: int = 7, correlation: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "start": start, "end": end, "deviceId": 0, "contextId": 1, "streamId": stream,
        "correlationId": correlation, "globalPid": global_id(pid),
    } | more  # fmt: skip


def call(
    start: int, end: int, name: int, *, pid: int = 10, tid: int = 11, correlation: int = 1, **more: Any
) -> dict[str, Any]:
    return {
        "start": start, "end": end, "globalTid": global_id(pid, tid), "correlationId": correlation, "nameId": name,
    } | more  # fmt: skip
