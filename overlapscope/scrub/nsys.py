"""Scrub an Nsight Systems export."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path

from overlapscope.errors import UnusableTrace
from overlapscope.read.bytestream import read_blocks
from overlapscope.read.log import HealthLog
from overlapscope.scrub.texts import Hiding
from overlapscope.scrub.writing import writing

_TABLES = {
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
_PREFIXES = ("CUPTI_ACTIVITY_KIND_", "ENUM_", "sqlite_")
_EXPORT_KEYS = ("EXPORT_PRODUCT_NAME", "EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION")
_STRING_USERS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": ("demangledName", "shortName", "mangledName"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("nameId",),
    "NVTX_EVENTS": ("textId",),
    "PROFILER_OVERHEAD": ("nameId",),
}
_DROPPED_COLUMNS = {"NVTX_EVENTS": ("jsonText", "jsonTextId", "binaryData"), "TARGET_INFO_GPU": ("uuid",)}


def scrub_nsys(source: Path, target: Path, hiding: Hiding = Hiding()) -> Counter[str]:
    """Write the Nsight Systems export ``source`` (SQLite, plain or gzip) to ``target`` without what names its origin.

    Returns:
        How much was left out: rows by table, and unused or changed strings.

    Raises:
        TraceNotFound: ``source`` cannot be read.
        UnusableTrace: it is no SQLite database, or a damaged one.
        OutputError: ``target`` cannot be written.
    """
    dropped: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="scrub-") as folder:
        work = Path(folder) / "work.sqlite"
        with work.open("wb") as copy:
            for block in read_blocks(source, HealthLog()):
                copy.write(block)
        try:
            with closing(sqlite3.connect(work, isolation_level=None)) as connection:
                _scrub(connection, hiding, dropped)
        except sqlite3.Error as error:
            raise UnusableTrace(f"{source}: cannot be scrubbed, the database is damaged ({error})") from error
        with writing(target) as file, work.open("rb") as ready:
            shutil.copyfileobj(ready, file)
    return dropped


def _scrub(connection: sqlite3.Connection, hiding: Hiding, dropped: Counter[str]) -> None:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for name in sorted(tables - _TABLES):
        if not name.startswith(_PREFIXES):
            dropped[f"table {name}"] = connection.execute(f'SELECT COUNT(*) FROM "{name}"').fetchone()[0]
            connection.execute(f'DROP TABLE "{name}"')
    if "META_DATA_EXPORT" in tables:
        marks = ", ".join("?" * len(_EXPORT_KEYS))
        connection.execute(f"DELETE FROM META_DATA_EXPORT WHERE name NOT IN ({marks})", _EXPORT_KEYS)
    for table, columns in _DROPPED_COLUMNS.items():
        for column in _columns(connection, table) & set(columns):
            connection.execute(f'UPDATE "{table}" SET "{column}" = NULL')
    _drop_unused_strings(connection, tables, dropped)
    _hide_texts(connection, "StringIds", "value", hiding, dropped)
    _hide_texts(connection, "NVTX_EVENTS", "text", hiding, dropped)
    connection.execute("VACUUM")


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    """Empty where there is no such table."""
    return {row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')}


def _drop_unused_strings(connection: sqlite3.Connection, tables: set[str], dropped: Counter[str]) -> None:
    used = [
        f'SELECT "{column}" FROM "{table}" WHERE "{column}" IS NOT NULL'
        for table, columns in _STRING_USERS.items()
        for column in _columns(connection, table) & set(columns)
    ]
    if "StringIds" not in tables:
        return
    kept = " UNION ".join(used) or "SELECT NULL WHERE 0"
    dropped["unused strings"] = connection.execute(f"DELETE FROM StringIds WHERE id NOT IN ({kept})").rowcount


def _hide_texts(connection: sqlite3.Connection, table: str, column: str, hiding: Hiding, dropped: Counter[str]) -> None:
    if column not in _columns(connection, table):
        return
    connection.create_function("hidden", 1, lambda text: hiding(text) if isinstance(text, str) else text)
    query = f'UPDATE "{table}" SET "{column}" = hidden("{column}") WHERE "{column}" IS NOT hidden("{column}")'
    dropped["changed texts"] += connection.execute(query).rowcount
