"""Read an Nsight Systems SQLite export into a draft of tables.

The file is opened read-only and immutable. Only existing tables and columns are selected: tables are absent when
nothing was recorded, and columns change between versions. There are no indexes, so nothing is joined in SQL. This is
the only reader that uses sqlite3.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import numpy as np

from overlapscope.calibration.marks import joined
from overlapscope.calibration.reading import from_json
from overlapscope.calibration.values import count, moment
from overlapscope.errors import UnknownTraceFormat, UnusableTrace
from overlapscope.model.columns import NO_ID
from overlapscope.model.health import MISSING_COLUMN
from overlapscope.model.metadata import Device, Metadata
from overlapscope.read.devices import with_calibration
from overlapscope.read.draft import Arrays, Draft
from overlapscope.read.dropped import note_dropped
from overlapscope.read.helpers import Options
from overlapscope.read.log import HealthLog
from overlapscope.read.nsys_columns import BUILDERS, COLUMNS, MARK_EVENT, Source, Strings, strings_of
from overlapscope.read.nsys_keys import check_keys, check_strings
from overlapscope.read.nsys_labels import enum_labels
from overlapscope.read.nsys_rows import Rows
from overlapscope.read.selection import NOT_WANTED, Selection
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
    "overheads": "PROFILER_OVERHEAD",
    "streams": "TARGET_INFO_CUDA_STREAM",
}


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
        there = self.columns(table)
        columns = [column for column in there if column in {"text", "textId"}]
        if key not in there:
            return []
        rows = self._select(table, columns, f'WHERE "{key}" = {value}')
        return [text for row in rows for part in row if (text := _text(part, strings))]

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
            text = f"the table {table} is damaged ({error}); {count()} rows were read"
            self._log.damage(f"damaged-table:{table}", 1, text)


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
            log.damage(f"{MISSING_COLUMN}{source}", 1, f"no table {source}, but a view of this name, which is not read")
        if source not in export.tables:
            continue
        if selection.reads(table):
            rows = export.rows(source)
            log.events_read += rows.count
            if rows.count:
                check_keys(str(path), source, rows.names, rows.count, log)
                draft.tables[table] = _within(table, BUILDERS[table](rows, translation), selection, log)
                log.events_kept += draft.rows(table)
    check_strings(export.columns("StringIds"), log.events_kept, log)
    _fill_devices(draft, export)
    _log_missing_work(export, log)
    return draft


def _within(table: str, columns: Arrays, selection: Selection, log: HealthLog) -> Arrays:
    """The rows that have to be read, of a table that has times."""
    if selection.window is None or "end_ns" not in columns:
        return columns
    inside = selection.rows_to_read(table, columns["start_ns"], columns["end_ns"])
    log.note("not-wanted", int((~inside).sum()), NOT_WANTED, len(inside))
    return {name: values[inside] for name, values in columns.items()}


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
            found = integers([devices.get(place) for place in places])
            columns["device"] = np.where(found == NO_ID, columns.get("device", found), found)


def _log_missing_work(export: Export, log: HealthLog) -> None:
    note_dropped(log, export.lists("DIAGNOSTIC_EVENT").get("text", ()))
    graphs = export.rows("CUPTI_ACTIVITY_KIND_GRAPH_TRACE").count
    log.warn(
        "whole-graph-trace",
        graphs,
        "CUDA graph launches were traced as a whole: the kernels and copies inside are not in the trace; "
        "record with --cuda-graph-trace=node",
    )


def _metadata(export: Export, strings: Strings, path: Path) -> Metadata:
    keys = export.pairs("META_DATA_EXPORT", "name", "value") or export.pairs("EXPORT_META_DATA", "name", "value")
    calibration = from_json(joined(export.texts("NVTX_EVENTS", "eventType", MARK_EVENT, strings)))
    start = export.lists("TARGET_INFO_SESSION_START_TIME").get("utcEpochNs") or [None]
    threads = export.lists("ThreadNames")
    thread_names = {
        _process_and_thread(key): strings.get(name, "")
        for key, name in zip(threads.get("globalTid", ()), threads.get("nameId", ()), strict=False)
        if isinstance(key, int)
    }
    return Metadata(
        format="nsys",
        path=str(path),
        tool=f"Nsight Systems {keys.get('EXPORT_PRODUCT_VERSION', '')}".strip(),
        schema_version=str(keys.get("EXPORT_SCHEMA_VERSION", "")),
        base_time_ns=moment(start[0]),
        devices=tuple(with_calibration(device, calibration) for device in _devices(export)),
        thread_names=MappingProxyType(thread_names),
        recording=calibration,
    )


def _process_and_thread(global_tid: int) -> tuple[int, int]:
    return (global_tid >> 24) & 0xFFFFFF, global_tid & 0xFFFFFF


def _devices(export: Export) -> list[Device]:
    """The GPUs, numbered as CUDA numbers them where the file maps that."""
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


def _text(part: Any, strings: Strings) -> str:
    return part if isinstance(part, str) else strings.get(part, "") if isinstance(part, int) else ""
