"""Turn the rows of one Nsight Systems table into the columns of a table of the model; times are in ns already."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from overlapscope.model.columns import NO_ID, NO_TIME, Bool, Int8, Int64
from overlapscope.model.enums import ISSUING, ApiKind, RangeKind
from overlapscope.read.draft import Arrays, NamePool
from overlapscope.read.labels import api_kind, api_name
from overlapscope.read.log import HealthLog
from overlapscope.read.nsys_labels import Labels
from overlapscope.read.nsys_rows import Cells, Rows
from overlapscope.read.values import first_known

Strings = dict[int, str]
COLUMNS = frozenset({
    "start", "end", "timestamp", "globalPid", "globalTid", "processId", "deviceId", "contextId", "streamId",
    "correlationId", "graphNodeId", "demangledName", "shortName", "mangledName", "nameId", "gridX", "gridY", "gridZ",
    "blockX", "blockY", "blockZ", "bytes", "copyKind", "srcKind", "dstKind", "srcDeviceId", "dstDeviceId", "syncType",
    "eventId", "eventSyncId", "eventType", "domainId", "text", "textId", "flag", "priority", "returnValue",
})  # fmt: skip
"""All columns that are read of any table."""


@dataclass(frozen=True)
class Source:
    """What the translation of a file's rows needs: its strings and labels, the name pool and the log."""

    strings: Strings
    labels: Labels
    pool: NamePool
    log: HealthLog


_NO_UINT32 = 2**32 - 1
_GRID_X, _GRID_YZ = 2**31, 2**16  # beyond the largest grid
_PUSH_POP, _START_END, _DOMAIN = 59, 60, 75
MARK_EVENT = 34
"""The event type of NVTX marks."""


def strings_of(pairs: Mapping[Any, Any]) -> Strings:
    """StringIds as text by id; what is no text is no name."""
    return {key: value for key, value in pairs.items() if isinstance(key, int) and isinstance(value, str)}


def _cells(rows: Rows, name: str) -> Cells | None:
    if name not in COLUMNS:
        raise KeyError(name)
    return rows.cells(name)


def _numbers(rows: Rows, name: str, null: int = NO_ID) -> Int64:
    """A column as integers; ``null`` where it is missing or holds none."""
    cells = _cells(rows, name)
    return np.full(rows.count, null, np.int64) if cells is None else cells.whole(null)


def _ids(rows: Rows, name: str) -> Int64:
    """A column of ids; nsys writes 0xFFFFFFFF for "none"."""
    values = _numbers(rows, name)
    return np.where(values == _NO_UINT32, NO_ID, values)


def _process(rows: Rows) -> Int64:
    for name in ("globalPid", "globalTid"):
        if name in rows.names:
            packed = _ids(rows, name)
            return np.where(packed == NO_ID, NO_ID, (packed >> 24) & 0xFFFFFF)
    return np.full(rows.count, NO_ID, np.int64)


def _thread(rows: Rows) -> Int64:
    packed = _ids(rows, "globalTid")
    return np.where(packed == NO_ID, NO_ID, packed & 0xFFFFFF)


def _texts(rows: Rows, source: Source, *columns: str) -> list[str]:
    """The text of the first of ``columns`` that names a string, row by row."""
    result: list[str | None] = [None] * rows.count
    given = np.zeros(rows.count, np.bool_)
    for cells in filter(None, [_cells(rows, column) for column in columns]):
        given |= cells.given
        if None in result:
            named = cells.mapped(source.strings, None)
            for row, cell in cells.others.items():
                named[row] = cell if isinstance(cell, str) else named[row]
            result = [new if text is None else text for text, new in zip(result, named, strict=True)]
    lost = int((given & np.array([text is None for text in result], np.bool_)).sum())
    source.log.damage("lost-names", lost, "rows whose name is not in the table StringIds; it is not known", rows.count)
    return [text or "" for text in result]


def _mapped(rows: Rows, column: str, table: Mapping[int, Any]) -> Int8:
    cells = _cells(rows, column)
    if cells is None:
        return np.zeros(rows.count, np.int8)
    return np.array(cells.mapped(table, 0), np.int8)


def _usable(columns: Arrays, log: HealthLog) -> Arrays:
    """Drop rows without times, or that end before they start."""
    start, end = columns["start_ns"], columns["end_ns"]
    readable = (start != NO_TIME) & (end != NO_TIME)
    forward: Bool = readable & (end >= start)
    log.damage("no-time", int((~readable).sum()), "rows without a time; left out", len(start))
    log.damage(
        "negative-duration", int((readable & ~forward).sum()), "rows that end before they start; left out", len(start)
    )
    return columns if forward.all() else {name: values[forward] for name, values in columns.items()}


def _times(rows: Rows) -> Arrays:
    return {"start_ns": _numbers(rows, "start", NO_TIME), "end_ns": _numbers(rows, "end", NO_TIME)}


def _device(rows: Rows) -> Arrays:
    graph_node = _ids(rows, "graphNodeId")
    return _times(rows) | {
        "process": _process(rows),
        "device": _ids(rows, "deviceId"),
        "context": _ids(rows, "contextId"),
        "stream": _ids(rows, "streamId"),
        "correlation": _ids(rows, "correlationId"),
        "graph_node": np.where(graph_node == 0, NO_ID, graph_node),
    }


def _kernels(rows: Rows, source: Source) -> Arrays:
    names = _texts(rows, source, "demangledName", "shortName", "mangledName", "nameId")
    columns = _device(rows) | {
        "name_id": source.pool.ids(names),
        "blocks": _volume(rows, "grid"),
        "threads_per_block": _volume(rows, "block"),
    }
    return _usable(columns, source.log)


def _volume(rows: Rows, prefix: str) -> Int64:
    x, y, z = (_numbers(rows, f"{prefix}{axis}") for axis in "XYZ")
    known = (x >= 0) & (x < _GRID_X) & (y >= 0) & (y < _GRID_YZ) & (z >= 0) & (z < _GRID_YZ)
    return np.where(known, x * y * z, NO_ID)


def _copies(rows: Rows, source: Source) -> Arrays:
    way = _mapped(rows, "copyKind", source.labels.directions)
    columns = _device(rows) | {
        "name_id": np.full(rows.count, NO_ID, np.int32),  # nsys gives copies no name
        "size_bytes": _numbers(rows, "bytes"),
        "direction": way,
        "source_kind": _mapped(rows, "srcKind", source.labels.memory),
        "target_kind": _mapped(rows, "dstKind", source.labels.memory),
        "source_device": _ids(rows, "srcDeviceId"),
        "target_device": _ids(rows, "dstDeviceId"),
    }
    return _usable(columns, source.log)


def _memsets(rows: Rows, source: Source) -> Arrays:
    name = np.full(rows.count, NO_ID, np.int32)
    return _usable(_device(rows) | {"size_bytes": _numbers(rows, "bytes"), "name_id": name}, source.log)


def _api_calls(rows: Rows, source: Source) -> Arrays:
    texts = _texts(rows, source, "nameId")
    plain = {text: api_name(text) for text in set(texts)}
    names = [plain[text] for text in texts]
    columns = _times(rows) | {
        "process": _process(rows),
        "thread": _thread(rows),
        "name_id": source.pool.ids(names),
        "kind": np.array([api_kind(name) for name in names], np.int8),
        "correlation": _ids(rows, "correlationId"),
    }
    failed = _failed(columns, _ids(rows, "globalTid"), _numbers(rows, "returnValue", 0) != 0)
    columns["kind"][failed] = ApiKind.OTHER
    count = len(np.unique(columns["correlation"][failed]))
    source.log.note(
        "failed-calls", count, "calls that launch or copy returned an error, and issued nothing", rows.count
    )
    return _usable(columns, source.log)


def _failed(columns: Arrays, thread: Int64, error: Bool) -> Bool:
    """Which calls that issue work did not; of several rows of one call, as tracers write them, only one may say so."""
    issuing, correlation = np.isin(columns["kind"], ISSUING), columns["correlation"]
    failed: Bool = issuing & error
    named = {*zip(thread[failed].tolist(), correlation[failed].tolist(), strict=True)}
    for row in np.flatnonzero(issuing & np.isin(correlation, correlation[failed & (correlation != NO_ID)])).tolist():
        failed[row] = (int(thread[row]), int(correlation[row])) in named
    return failed


def _syncs(rows: Rows, source: Source) -> Arrays:
    columns = _times(rows) | {
        "process": _process(rows),
        "device": _ids(rows, "deviceId"),
        "context": _ids(rows, "contextId"),
        "stream": _ids(rows, "streamId"),
        "kind": _mapped(rows, "syncType", source.labels.syncs),
        "correlation": _ids(rows, "correlationId"),
        "event": _ids(rows, "eventId"),
        "event_sync": _ids(rows, "eventSyncId"),
    }
    return _usable(columns, source.log)


def _event_records(rows: Rows, _source: Source) -> Arrays:
    time = _numbers(rows, "timestamp", NO_TIME)
    return {
        "time_ns": np.where(time == 0, NO_TIME, time),  # written as 0 when device timestamps are off
        "process": _process(rows),
        "device": _ids(rows, "deviceId"),
        "stream": _ids(rows, "streamId"),
        "event": _ids(rows, "eventId"),
        "correlation": _ids(rows, "correlationId"),
        "event_sync": _ids(rows, "eventSyncId"),
    }


def _ranges(rows: Rows, source: Source) -> Arrays:
    kind = _numbers(rows, "eventType")
    texts = _texts(rows, source, "text", "textId")
    domains = _domains(rows, kind, texts)
    wanted = (kind == _PUSH_POP) | (kind == _START_END)
    ends = _numbers(rows, "end", NO_TIME)
    open_ended = wanted & (ends == NO_TIME)
    source.log.warn(
        "open-range", int(open_ended.sum()), "NVTX ranges that were never closed; left out", int(wanted.sum())
    )
    wanted &= ~open_ended
    columns = _times(rows) | {
        "process": _process(rows),
        "thread": _thread(rows),
        "name_id": source.pool.ids(texts),
        "kind": np.full(len(texts), RangeKind.NVTX, np.int8),
        "domain_id": np.fromiter((source.pool[text] if text else NO_ID for text in domains), np.int32, len(texts)),
    }
    return _usable({name: values[wanted] for name, values in columns.items()}, source.log)


def _domains(rows: Rows, kind: Int64, texts: list[str]) -> list[str]:
    """The name of each row's NVTX domain, which a row of its own gives; empty for the default one."""
    places = list(zip(_process(rows).tolist(), _numbers(rows, "domainId").tolist(), strict=True))
    named = {places[row]: texts[row] for row in np.flatnonzero(kind == _DOMAIN).tolist()}
    return [named.get(place, "") for place in places] if named else [""] * rows.count


def _overheads(rows: Rows, source: Source) -> Arrays:
    columns = _times(rows) | {
        "process": _process(rows),
        "thread": _thread(rows),
        "name_id": source.pool.ids(_texts(rows, source, "nameId")),
    }
    return _usable(columns, source.log)


def _streams(rows: Rows, source: Source) -> Arrays:
    return {
        "process": first_known(_ids(rows, "processId"), _process(rows)),
        "context": _ids(rows, "contextId"),
        "stream": _ids(rows, "streamId"),
        "kind": _mapped(rows, "flag", source.labels.streams),
        "priority": _numbers(rows, "priority", 0).astype(np.uint32).astype(np.int32),  # written as unsigned 32 bits
    }


Builder = Callable[[Rows, Source], Arrays]
BUILDERS: dict[str, Builder] = {
    "kernels": _kernels,
    "copies": _copies,
    "memsets": _memsets,
    "api_calls": _api_calls,
    "syncs": _syncs,
    "event_records": _event_records,
    "ranges": _ranges,
    "overheads": _overheads,
    "streams": _streams,
}
"""Table name to the function that makes its columns."""
