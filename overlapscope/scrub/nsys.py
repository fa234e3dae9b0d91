"""Scrub an Nsight Systems SQLite export."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from overlapscope.atomic_files import output_errors, writing
from overlapscope.errors import OutputError, UnusableTrace
from overlapscope.model.columns import NO_TIME
from overlapscope.read.bytestream import read_blocks
from overlapscope.read.log import HealthLog, dropped_records
from overlapscope.read.nsys import CHECKED, check_keys
from overlapscope.read.values import whole_numbers
from overlapscope.scrub.texts import Hiding

_TABLES = {
    "StringIds",
    "NVTX_EVENTS",
    "PROFILER_OVERHEAD",
    "OSRT_API",
    "CUDA_GRAPH_NODE_EVENTS",
    "META_DATA_EXPORT",
    "EXPORT_META_DATA",
    "DIAGNOSTIC_EVENT",
    "TARGET_INFO_SESSION_START_TIME",
    "TARGET_INFO_GPU",
    "TARGET_INFO_CUDA_DEVICE",
    "TARGET_INFO_CUDA_CONTEXT_INFO",
    "TARGET_INFO_CUDA_STREAM",
    "ThreadNames",
}
_PREFIXES = ("CUPTI_ACTIVITY_KIND_", "ENUM_", "sqlite_")
_TEXTS = {
    "StringIds": {"value"},
    "NVTX_EVENTS": {"text"},
    "TARGET_INFO_GPU": {"name"},
    "TARGET_INFO_CUDA_DEVICE": {"name"},
    "META_DATA_EXPORT": {"name", "value"},
    "EXPORT_META_DATA": {"name", "value"},
    "DIAGNOSTIC_EVENT": {"text"},
}
"""Columns that may hold text; in ``ENUM_`` tables these are ``name`` and ``label``. All others hold numbers."""
_EXPORT_KEYS = ("EXPORT_PRODUCT_NAME", "EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION")
_STRING_USERS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": ("demangledName", "shortName", "mangledName"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("nameId",),
    "NVTX_EVENTS": ("textId",),
    "PROFILER_OVERHEAD": ("nameId",),
    "OSRT_API": ("nameId",),
    "ThreadNames": ("nameId",),
}
_THREADS = "pt_autograd_"
"""Prefix of the thread names that are kept, followed by a number: torch's own, which show what the thread does."""


def scrub_nsys(source: Path, target: Path, hiding: Hiding = Hiding()) -> Counter[str]:
    """Write the Nsight Systems export ``source`` (SQLite, plain or gzip) to ``target`` without host, user or commands.

    Returns:
        The number of removed rows by table, and of unused or changed strings.

    Raises:
        TraceNotFound: ``source`` cannot be read.
        UnusableTrace: it is no SQLite database, or it is damaged.
        OutputError: ``target`` cannot be written.
    """
    dropped: Counter[str] = Counter()
    log = HealthLog()
    with output_errors(target), tempfile.TemporaryDirectory(prefix="scrub-") as folder:
        work = Path(folder) / "work.sqlite"
        try:
            with work.open("wb") as copy:
                for block in read_blocks(source, log):
                    copy.write(block)
            if log.health().damaged:
                raise UnusableTrace(f"{source}: cannot be scrubbed, the compressed file is damaged")
            dropped.update({warning.code: warning.count for warning in log.health()})
            with closing(sqlite3.connect(work, isolation_level=None)) as connection:
                connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
                _check_layout(connection, str(source), log)
                _scrub(connection, hiding, dropped)
        except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
            if "full" in str(error):
                raise OutputError(f"{target}: cannot be written ({error})") from error
            raise UnusableTrace(f"{source}: cannot be scrubbed, the database is damaged ({error})") from error
        with writing(target) as file, work.open("rb") as ready:
            shutil.copyfileobj(ready, file)
    return dropped


def _check_layout(connection: sqlite3.Connection, path: str, log: HealthLog) -> None:
    """Refuse what no reader takes: what its other columns hold is not known."""
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        if table in CHECKED and connection.execute(f'SELECT 1 FROM "{table}" LIMIT 1').fetchone():
            check_keys(path, table, _columns(connection, table), 0, log)


def _scrub(connection: sqlite3.Connection, hiding: Hiding, dropped: Counter[str]) -> None:
    tables = _drop_others(connection, dropped)
    for table in tables & {"META_DATA_EXPORT", "EXPORT_META_DATA"}:
        marks = ", ".join("?" * len(_EXPORT_KEYS))
        connection.execute(f"DELETE FROM {table} WHERE name NOT IN ({marks})", _EXPORT_KEYS)
    _create_functions(connection, {"dropped_records": dropped_records, "hidden": hiding, "number": _number})
    if "text" in _columns(connection, "DIAGNOSTIC_EVENT"):
        connection.execute("UPDATE DIAGNOSTIC_EVENT SET text = dropped_records(CAST(text AS BLOB))")
        others = connection.execute("DELETE FROM DIAGNOSTIC_EVENT WHERE text = ''")
        dropped["messages of the profiler"] = others.rowcount
    if "ThreadNames" in tables:
        _drop_named_threads(connection, dropped)
    _drop_unused_strings(connection, tables, dropped)
    for table in sorted(tables):
        _scrub_columns(connection, table, dropped)
    connection.execute("VACUUM")


def _create_functions(connection: sqlite3.Connection, functions: dict[str, Callable[[str], str | int | None]]) -> None:
    """Let functions of texts take their bytes, as the file has them: a text may not be what its encoding says."""
    (encoding,) = connection.execute("PRAGMA encoding").fetchone()
    codec = {"UTF-16le": "utf-16-le", "UTF-16be": "utf-16-be"}.get(encoding, "utf-8")
    for name, function in functions.items():
        connection.create_function(name, 1, partial(_of_bytes, function, codec))


def _of_bytes(function: Callable[[str], str | int | None], codec: str, raw: bytes | None) -> str | int | None:
    return function((raw or b"").decode(codec, "replace"))


def _scrub_columns(connection: sqlite3.Connection, table: str, dropped: Counter[str]) -> None:
    """Scrub the text columns of a table, and remove texts from its number columns but those that are numbers."""
    texts = {"name", "label"} if table.startswith("ENUM_") else _TEXTS.get(table, set())
    texts = texts | set(_STRING_USERS.get(table, ()))
    for _, column, _, required, *_ in connection.execute(f'PRAGMA table_info("{table}")').fetchall():
        cell, raw = f'"{column}"', f'CAST("{column}" AS BLOB)'  # a text may be no UTF-8
        kinds, nothing = ("'blob'" if column in texts else "'text', 'blob'"), ("''" if required else "NULL")
        number = "NULL" if column in texts else f"number({raw})"
        query = f'UPDATE "{table}" SET {cell} = COALESCE({number}, {nothing}) WHERE typeof({cell}) IN ({kinds})'
        dropped["texts where numbers belong"] += connection.execute(query).rowcount
        if column in texts:
            changed = f"typeof({cell}) = 'text' AND {cell} IS NOT hidden({raw})"
            query = f'UPDATE "{table}" SET {cell} = hidden({raw}) WHERE {changed}'
            dropped["changed texts"] += connection.execute(query).rowcount


def _number(text: str) -> int | None:
    """The whole number that a text says, as the reader takes it."""
    (number,) = whole_numbers([text], NO_TIME).tolist()
    return None if number == NO_TIME else int(number)


def _drop_others(connection: sqlite3.Connection, dropped: Counter[str]) -> set[str]:
    """Drop views, triggers and every table that is not read; returns the names of the remaining tables."""
    tables = set()
    for kind, name in connection.execute("SELECT type, name FROM sqlite_master").fetchall():
        if kind == "table" and (name in _TABLES or name.startswith(_PREFIXES)):
            tables.add(name)
        elif kind in {"view", "trigger", "table"}:
            if kind == "table":
                dropped[f"table {name}"] = connection.execute(f'SELECT COUNT(*) FROM "{name}"').fetchone()[0]
            connection.execute(f'DROP {kind.upper()} IF EXISTS "{name}"')
    return {name for name in tables if not name.startswith("sqlite_")}


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    """Empty where there is no such table."""
    return {row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')}


def _drop_named_threads(connection: sqlite3.Connection, dropped: Counter[str]) -> None:
    """Drop all thread names but torch's own, since they include those of other programs on the machine."""
    known = "nameId" in _columns(connection, "ThreadNames") and {"id", "value"} <= _columns(connection, "StringIds")
    number = f"substr(value, {len(_THREADS) + 1})"
    of_torch = f"value GLOB '{_THREADS}[0-9]*' AND {number} NOT GLOB '*[^0-9]*'"
    others = f"WHERE nameId IS NULL OR nameId NOT IN (SELECT id FROM StringIds WHERE {of_torch})" if known else ""
    dropped["names of threads"] = connection.execute(f"DELETE FROM ThreadNames {others}").rowcount


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
