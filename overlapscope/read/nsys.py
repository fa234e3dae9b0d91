"""Read an Nsight Systems SQLite export into a draft of tables.

The file is opened read-only and immutable. Only existing tables and columns are selected: tables are absent when
nothing was recorded, and columns change between versions. There are no indexes, so nothing is joined in SQL. This is
the only reader that uses sqlite3.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import numpy as np

from overlapscope.calibration.data import count, from_json, from_marks, moment
from overlapscope.errors import UnknownTraceFormat, UnusableTrace
from overlapscope.model.columns import NO_ID
from overlapscope.model.trace import MISSING_COLUMN, Device, Metadata
from overlapscope.read.draft import Arrays, Draft, take
from overlapscope.read.helpers import Options
from overlapscope.read.labels import enum_labels
from overlapscope.read.log import HealthLog
from overlapscope.read.nsys_columns import (
    COLUMNS,
    MARK_EVENT,
    Rows,
    Source,
    Strings,
    columns_of,
    long_between,
    strings_of,
)
from overlapscope.read.selection import Selection
from overlapscope.read.values import integers

_SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError, OverflowError)
_SIGNATURES = ("StringIds", "META_DATA_EXPORT", "EXPORT_META_DATA")
_CUDA_TABLES = {
    "kernels": "CUPTI_ACTIVITY_KIND_KERNEL",
    "copies": "CUPTI_ACTIVITY_KIND_MEMCPY",
    "memsets": "CUPTI_ACTIVITY_KIND_MEMSET",
    "api_calls": "CUPTI_ACTIVITY_KIND_RUNTIME",
    "syncs": "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "event_records": "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
    "ranges": "NVTX_EVENTS",
    "host_events": "OSRT_API",
    "overheads": "PROFILER_OVERHEAD",
    "streams": "TARGET_INFO_CUDA_STREAM",
}
_TIMES = ("start", "end")
_WORK = (*_TIMES, "globalPid", "deviceId", "streamId", "correlationId")
_KEYS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": _WORK,
    "CUPTI_ACTIVITY_KIND_MEMCPY": (*_WORK, "copyKind", "bytes"),
    "CUPTI_ACTIVITY_KIND_MEMSET": _WORK,
    "CUPTI_ACTIVITY_KIND_RUNTIME": (*_TIMES, "globalTid", "correlationId", "nameId"),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (*_TIMES, "globalPid", "correlationId"),
    "NVTX_EVENTS": (*_TIMES, "globalTid", "eventType"),
    "OSRT_API": (*_TIMES, "globalTid", "nameId"),
}
"""Columns without which a table says too little; no known version lacks one."""
CHECKED = frozenset(_KEYS)
"""The tables whose columns `check_keys` checks."""


class Export:
    """The tables of one export file, read by whole columns; unreadable parts are logged."""

    def __init__(self, connection: sqlite3.Connection, log: HealthLog) -> None:
        self._connection = connection
        self._log = log
        names = "SELECT name FROM sqlite_master WHERE type = ?"
        self.tables, self.views = (
            {str(name) for (name,) in connection.execute(names, [kind])} for kind in ("table", "view")
        )

    def columns(self, table: str) -> list[str]:
        """The columns that ``table`` has; empty where it does not exist, or is a view, which may have no end."""
        if table not in self.tables:
            return []
        return [str(row[1]) for row in self._connection.execute(f'PRAGMA table_info("{table}")')]

    def rows(self, table: str) -> Rows:
        """The columns of ``table`` that are used."""
        names = [column for column in self.columns(table) if column in COLUMNS]
        rows = Rows(names)
        if names:
            with self._logged(table, lambda: rows.count):
                rows.read(self._connection.execute(_select(table, names)))
        return rows

    def lists(self, table: str) -> dict[str, list[Any]]:
        """Every column of a small table as a list."""
        columns = self.columns(table)
        values = self._select(table, columns)
        lists = zip(*values, strict=True) if values else ((),) * len(columns)
        return {column: list(part) for column, part in zip(columns, lists, strict=True)}

    def pairs(self, table: str, key: str, value: str) -> dict[Any, Any]:
        """A two-column table as a dict; empty where it or a column is missing."""
        if not {key, value} <= set(self.columns(table)):
            return {}
        return dict(self._select(table, [key, value]))

    def texts(self, table: str, key: str, value: int, strings: Strings) -> list[str]:
        """The texts of the rows in which a column has a value, in the order in which they are stored."""
        columns = [column for column in self.columns(table) if column in {key, "text", "textId"}]
        if key not in columns:
            return []
        columns.remove(key)
        cells = chain.from_iterable(self._select(table, columns, f'WHERE "{key}" = {value}'))
        texts = (strings.get(cell, "") if isinstance(cell, int) else cell for cell in cells)
        return [text for text in texts if isinstance(text, str) and text]

    def _select(self, table: str, columns: list[str], where: str = "") -> list[tuple[Any, ...]]:
        read: list[tuple[Any, ...]] = []
        if columns:
            with self._logged(table, lambda: len(read)):
                read.extend(self._connection.execute(f"{_select(table, columns)} {where}"))
        return read

    @contextmanager
    def _logged(self, table: str, count: Callable[[], int]) -> Generator[None]:
        """Log that a table is damaged; what was read of it before is kept."""
        try:
            yield
        except _SQLITE_ERRORS as error:
            self._log.add(f"damaged-table:{table}", 1, table, error, count())


def _select(table: str, columns: list[str]) -> str:
    selected = ", ".join(f'"{column}"' for column in columns)
    return f'SELECT {selected} FROM "{table}"'


def read_nsys(database: Path, path: Path, log: HealthLog, options: Options) -> Draft:
    """Read the uncompressed ``database`` into a draft; ``path`` is the file that the user named.

    Raises:
        UnknownTraceFormat: a SQLite file that is no Nsight Systems export.
        UnusableTrace: the file is damaged so that its tables cannot be read, or they lack their times.
    """
    connection = sqlite3.connect(f"file:{quote(os.fsencode(database.resolve()))}?mode=ro&immutable=1", uri=True)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        export = Export(connection, log)
        if not any(name in export.tables for name in _SIGNATURES):
            raise UnknownTraceFormat(f"{path}: a SQLite file, but no Nsight Systems export (no StringIds table)")
        return _draft(export, path, log, options)
    except _SQLITE_ERRORS as error:
        raise UnusableTrace(
            f"{path}: the SQLite file is damaged ({error}); export it again from the .nsys-rep"
        ) from error
    finally:
        connection.close()


def _draft(export: Export, path: Path, log: HealthLog, options: Options) -> Draft:
    strings = strings_of(export.pairs("StringIds", "id", "value"))
    selection = replace(options.selection, process_known=True)
    draft = Draft(_metadata(export, strings, path), log, process_known=True, syncs_recorded=True, selection=selection)
    translation = Source(strings, enum_labels(export.pairs), draft.pool, log)
    for done, (table, source) in enumerate(_CUDA_TABLES.items(), 1):
        if options.progress is not None:
            options.progress(done, len(_CUDA_TABLES))
        if source in export.views:
            text = f"no table {source}, but a view of this name, which is not read"
            log.add(f"{MISSING_COLUMN}{source}", 1, text)
        if source in export.tables and selection.reads(table):
            rows = export.rows(source)
            log.events_read += rows.count
            if rows.count:
                check_keys(str(path), source, rows.names, rows.count, log)
                columns = columns_of(table, rows, translation)
                if table == "host_events":
                    columns = long_between(columns, draft.tables.get("api_calls", {}))
                draft.tables[table] = _within(table, columns, selection, log)
                log.events_kept += draft.rows(table)
    if log.events_kept and not {"id", "value"} <= set(export.columns("StringIds")):
        text = "missing table: StringIds, with the names of kernels, calls and ranges"
        log.add(f"{MISSING_COLUMN}StringIds", 1, text)
    _fill_devices(draft, export)
    log.note_dropped(export.lists("DIAGNOSTIC_EVENT").get("text", ()))
    log.add("whole-graph-trace", export.rows("CUPTI_ACTIVITY_KIND_GRAPH_TRACE").count)
    return draft


def _within(table: str, columns: Arrays, selection: Selection, log: HealthLog) -> Arrays:
    """The rows that have to be read, of a table that has times."""
    if selection.window is None or "end_ns" not in columns:
        return columns
    inside = selection.rows_to_read(table, columns["start_ns"], columns["end_ns"])
    log.add("not-wanted", ~inside)
    return take(columns, inside)


def _fill_devices(draft: Draft, export: Export) -> None:
    """Fill in the devices of streams and synchronisations from the list of contexts, since their rows lack them."""
    contexts = export.lists("TARGET_INFO_CUDA_CONTEXT_INFO")
    if not {"processId", "contextId", "deviceId"} <= set(contexts):
        return
    keys = zip(contexts["processId"], contexts["contextId"], strict=True)
    devices = dict(zip(keys, contexts["deviceId"], strict=True))
    for table in ("streams", "syncs"):
        if columns := draft.tables.get(table):
            places = zip(columns["process"].tolist(), columns["context"].tolist(), strict=True)
            device = integers([devices.get(place) for place in places])
            columns["device"] = np.where(device == NO_ID, columns.get("device", device), device)


def _metadata(export: Export, strings: Strings, path: Path) -> Metadata:
    keys = export.pairs("META_DATA_EXPORT", "name", "value") or export.pairs("EXPORT_META_DATA", "name", "value")
    calibration = from_json(from_marks(export.texts("NVTX_EVENTS", "eventType", MARK_EVENT, strings)))
    start = export.lists("TARGET_INFO_SESSION_START_TIME").get("utcEpochNs") or [None]
    threads = export.lists("ThreadNames")
    thread_names = {
        ((key >> 24) & 0xFFFFFF, key & 0xFFFFFF): strings.get(name, "")
        for key, name in zip(threads.get("globalTid", ()), threads.get("nameId", ()), strict=False)
        if isinstance(key, int)
    }
    return Metadata(
        format="nsys",
        path=str(path),
        tool=f"Nsight Systems {keys.get('EXPORT_PRODUCT_VERSION', '')}".strip(),
        schema_version=str(keys.get("EXPORT_SCHEMA_VERSION", "")),
        base_time_ns=moment(start[0]),
        devices=tuple(device.with_calibration(calibration) for device in _devices(export)),
        thread_names=MappingProxyType(thread_names),
        recording=calibration,
    )


def _devices(export: Export) -> list[Device]:
    """The GPUs of an export, numbered as CUDA numbers them where the file maps that."""
    rows = export.lists("TARGET_INFO_GPU")
    mapped = export.pairs("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId")
    result = []
    for index, gpu in enumerate(rows.get("id", [])):
        row = {name: values[index] for name, values in rows.items()}
        number = count(mapped.get(gpu, row.get("cuDevice", gpu)))
        if number is None:
            continue
        major, minor = row.get("computeMajor"), row.get("computeMinor")
        result.append(
            Device(
                number=number,
                name=str(row.get("name", "")),
                memory_bytes=count(row.get("totalMemory")),
                multiprocessors=count(row.get("smCount")),
                compute_capability=f"{major}.{minor}" if major is not None else None,
                copy_engines=count(row.get("asyncEngines")),
            )
        )
    return sorted(result, key=lambda device: device.number)


def check_keys(path: str, table: str, columns: Iterable[str], rows: int, log: HealthLog) -> None:
    """Count the rows of a table that lacks a column that every version has.

    Raises:
        UnusableTrace: the table lacks its times.
    """
    missing = [key for key in _KEYS.get(table, ()) if key not in columns]
    named = f"no column {' and no column '.join(missing)}"
    if set(missing) & set(_TIMES):
        raise UnusableTrace(
            f"{path}: the table {table} has {named}: this is the layout of no known version; export it again"
        )
    if missing:
        log.add(f"{MISSING_COLUMN}{table}", rows, f"rows of the table {table}, which has {named}", of=rows)
