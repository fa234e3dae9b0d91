"""Turn the rows of an Nsight Systems table into the columns of a table of the model; times are in ns already."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from overlapscope.model.columns import NO_ID, NO_TIME, Bool, Int8, Int64
from overlapscope.model.enums import ISSUING, ApiKind, HostEventKind, RangeKind
from overlapscope.read.draft import Arrays, NamePool, take
from overlapscope.read.labels import Labels, api_kind, api_name
from overlapscope.read.log import HealthLog
from overlapscope.read.values import first_known, whole_numbers

Strings = dict[int, str]
COLUMNS = frozenset({
    "start", "end", "timestamp", "globalPid", "globalTid", "processId", "deviceId", "contextId", "streamId",
    "correlationId", "graphNodeId", "demangledName", "shortName", "mangledName", "nameId", "gridX", "gridY", "gridZ",
    "blockX", "blockY", "blockZ", "bytes", "copyKind", "srcKind", "dstKind", "srcDeviceId", "dstDeviceId", "syncType",
    "eventId", "eventSyncId", "eventType", "domainId", "text", "textId", "flag", "priority", "returnValue",
})  # fmt: skip
"""All columns that are read of any table."""
MARK_EVENT = 34
"""The event type of NVTX marks."""
_PUSH_POP, _START_END, _DOMAIN = 59, 60, 75
_NO_UINT32 = 2**32 - 1
_GRID_X, _GRID_YZ = 2**31, 2**16  # beyond the largest grid
_BATCH = 1 << 12  # rows
_NULL = type(None)


@dataclass(frozen=True)
class Cells:
    """One column of a table: its whole numbers where they are ``known``, and its other cells by row."""

    numbers: Int64
    known: Bool
    others: dict[int, Any]

    @classmethod
    def of(cls, cells: Sequence[Any], first: int) -> Cells:
        """The cells of consecutive rows; the first of them is row ``first``."""
        kinds = set(map(type, cells))
        if kinds == {int}:
            return cls(np.fromiter(cells, np.int64, len(cells)), np.ones(len(cells), np.bool_), {})
        if kinds == {_NULL}:
            return cls(np.zeros(len(cells), np.int64), np.zeros(len(cells), np.bool_), {})
        known = np.array([type(cell) is int for cell in cells])
        numbers = np.array([cell if type(cell) is int else 0 for cell in cells], np.int64)
        if kinds <= {int, _NULL}:
            return cls(numbers, known, {})
        others = {first + row: cell for row, cell in enumerate(cells) if cell is not None and type(cell) is not int}
        return cls(numbers, known, others)

    @property
    def given(self) -> Bool:
        """Which cells are not NULL."""
        result = self.known.copy()
        result[list(self.others)] = True
        return result

    def mapped(self, table: Mapping[Any, Any], default: Any) -> list[Any]:
        """The value of each cell in ``table``."""
        used, codes = np.unique(self.numbers, return_inverse=True)
        values = np.empty(len(used) + 1, object)
        values[:] = [*(table.get(number, default) for number in used.tolist()), default]
        result: list[Any] = values[np.where(self.known, codes, len(used))].tolist()
        for row, cell in self.others.items():
            result[row] = table.get(cell, default)
        return result


@dataclass
class Rows:
    """Columns of a database table as arrays, read a batch of rows at a time.

    Nearly all cells are integers. What is neither an integer nor NULL, such as text, is kept beside them by its row.
    """

    names: Sequence[str]
    count: int = 0
    _parts: list[list[Cells]] = field(default_factory=list)

    def read(self, rows: Iterator[tuple[Any, ...]]) -> None:
        """Add rows; where reading fails, those before are kept."""
        while True:
            batch: list[tuple[Any, ...]] = []
            try:
                batch.extend(islice(rows, _BATCH))
            finally:
                if batch:
                    self._parts.append([Cells.of(cells, self.count) for cells in zip(*batch, strict=True)])
                    self.count += len(batch)
            if not batch:
                return

    def cells(self, name: str) -> Cells | None:
        """A column; None where the table does not have it.

        Raises:
            KeyError: it is not among `COLUMNS`, and so never read.
        """
        if name not in COLUMNS:
            raise KeyError(name)
        if name not in self.names:
            return None
        place = self.names.index(name)
        parts = [part[place] for part in self._parts]
        return Cells(
            np.concatenate([part.numbers for part in parts] or [np.empty(0, np.int64)]),
            np.concatenate([part.known for part in parts] or [np.empty(0, np.bool_)]),
            {row: cell for part in parts for row, cell in part.others.items()},
        )

    def numbers(self, name: str, null: int = NO_ID) -> Int64:
        """A column as integers; ``null`` where it is missing or holds none."""
        cells = self.cells(name)
        if cells is None:
            return np.full(self.count, null, np.int64)
        result = np.where(cells.known, cells.numbers, null)
        result[list(cells.others)] = whole_numbers(list(cells.others.values()), null)
        return result

    def ids(self, name: str) -> Int64:
        """A column of ids; Nsight Systems writes 0xFFFFFFFF for "none"."""
        values = self.numbers(name)
        return np.where(values == _NO_UINT32, NO_ID, values)

    def enums(self, name: str, table: Mapping[int, Any]) -> Int8:
        """A column of enum numbers, translated by ``table``; 0 where it has none."""
        cells = self.cells(name)
        return np.zeros(self.count, np.int8) if cells is None else np.array(cells.mapped(table, 0), np.int8)

    @property
    def process(self) -> Int64:
        """The process of each row."""
        packed = self.ids("globalPid" if "globalPid" in self.names else "globalTid")
        return np.where(packed == NO_ID, NO_ID, (packed >> 24) & 0xFFFFFF)

    @property
    def thread(self) -> Int64:
        """The thread of each row."""
        packed = self.ids("globalTid")
        return np.where(packed == NO_ID, NO_ID, packed & 0xFFFFFF)

    @property
    def times(self) -> Arrays:
        """The begin and the end of each row, in ns."""
        return {"start_ns": self.numbers("start", NO_TIME), "end_ns": self.numbers("end", NO_TIME)}

    @property
    def place(self) -> Arrays:
        """The process, the device and the stream of each row, and its correlation id."""
        columns = {"device": "deviceId", "stream": "streamId", "correlation": "correlationId"}
        return {"process": self.process} | {name: self.ids(column) for name, column in columns.items()}


@dataclass(frozen=True)
class Source:
    """The context in which a file's rows are translated: its strings and labels, the name pool and the log."""

    strings: Strings
    labels: Labels
    pool: NamePool
    log: HealthLog


def strings_of(pairs: Mapping[Any, Any]) -> Strings:
    """StringIds as text by id; what is no text is no name."""
    return {key: value for key, value in pairs.items() if isinstance(key, int) and isinstance(value, str)}


def _texts(rows: Rows, source: Source, *columns: str) -> list[str]:
    """The text of the first of ``columns`` that names a string, row by row."""
    result: list[str | None] = [None] * rows.count
    given = np.zeros(rows.count, np.bool_)
    for cells in filter(None, map(rows.cells, columns)):
        given |= cells.given
        if None in result:
            named = cells.mapped(source.strings, None)
            for row, cell in cells.others.items():
                named[row] = cell if isinstance(cell, str) else named[row]
            result = [new if text is None else text for text, new in zip(result, named, strict=True)]
    source.log.add("lost-names", given & np.array([text is None for text in result], np.bool_))
    return [text or "" for text in result]


def _device(rows: Rows) -> Arrays:
    graph_node = rows.ids("graphNodeId")
    graph_node[graph_node == 0] = NO_ID
    return rows.times | rows.place | {"context": rows.ids("contextId"), "graph_node": graph_node}


def _host(rows: Rows) -> Arrays:
    return rows.times | {"process": rows.process, "thread": rows.thread}


def _kernels(rows: Rows, source: Source) -> Arrays:
    names = _texts(rows, source, "demangledName", "shortName", "mangledName", "nameId")
    return _device(rows) | {
        "name_id": source.pool.ids(names),
        "blocks": _volume(rows, "grid"),
        "threads_per_block": _volume(rows, "block"),
    }


def _volume(rows: Rows, prefix: str) -> Int64:
    x, y, z = (rows.numbers(f"{prefix}{axis}") for axis in "XYZ")
    known = (x >= 0) & (x < _GRID_X) & (y >= 0) & (y < _GRID_YZ) & (z >= 0) & (z < _GRID_YZ)
    return np.where(known, x * y * z, NO_ID)


def _copies(rows: Rows, source: Source) -> Arrays:
    return _memsets(rows, source) | {
        "direction": rows.enums("copyKind", source.labels.directions),
        "source_kind": rows.enums("srcKind", source.labels.memory),
        "target_kind": rows.enums("dstKind", source.labels.memory),
        "source_device": rows.ids("srcDeviceId"),
        "target_device": rows.ids("dstDeviceId"),
    }


def _memsets(rows: Rows, _source: Source) -> Arrays:
    no_name = np.full(rows.count, NO_ID, np.int32)  # Nsight Systems names neither copies nor memsets
    return _device(rows) | {"name_id": no_name, "size_bytes": rows.numbers("bytes")}


def _api_calls(rows: Rows, source: Source) -> Arrays:
    texts = _texts(rows, source, "nameId")
    plain = {text: api_name(text) for text in set(texts)}
    names = [plain[text] for text in texts]
    columns = _host(rows) | {
        "name_id": source.pool.ids(names),
        "kind": np.array([api_kind(name) for name in names], np.int8),
        "correlation": rows.ids("correlationId"),
    }
    failed = _failed(columns, rows.ids("globalTid"), rows.numbers("returnValue", 0) != 0)
    columns["kind"][failed] = ApiKind.OTHER
    count = len(np.unique(columns["correlation"][failed]))
    source.log.add("failed-calls", count, of=rows.count)
    return columns


def _failed(columns: Arrays, thread: Int64, error: Bool) -> Bool:
    """Which calls that issue work did not; of several rows of one call, as tracers write them, only one may say so."""
    issuing, correlation = np.isin(columns["kind"], ISSUING), columns["correlation"]
    failed: Bool = issuing & error
    named = {*zip(thread[failed].tolist(), correlation[failed].tolist(), strict=True)}
    for row in np.flatnonzero(issuing & np.isin(correlation, correlation[failed & (correlation != NO_ID)])).tolist():
        failed[row] = (int(thread[row]), int(correlation[row])) in named
    return failed


def _syncs(rows: Rows, source: Source) -> Arrays:
    kind = rows.enums("syncType", source.labels.syncs)
    return rows.times | rows.place | _events(rows) | {"context": rows.ids("contextId"), "kind": kind}


def _event_records(rows: Rows, _source: Source) -> Arrays:
    time = rows.numbers("timestamp", NO_TIME)
    time[time == 0] = NO_TIME  # written as 0 when device timestamps are off
    return rows.place | _events(rows) | {"time_ns": time}


def _events(rows: Rows) -> Arrays:
    return {"event": rows.ids("eventId"), "event_sync": rows.ids("eventSyncId")}


def _ranges(rows: Rows, source: Source) -> Arrays:
    kind = rows.numbers("eventType")
    texts = _texts(rows, source, "text", "textId")
    domains = _domains(rows, kind, texts)
    wanted = (kind == _PUSH_POP) | (kind == _START_END)
    ends = rows.numbers("end", NO_TIME)
    open_ended = wanted & (ends == NO_TIME)
    source.log.add("open-range", open_ended, of=int(wanted.sum()))
    wanted &= ~open_ended
    columns = _host(rows) | {
        "name_id": source.pool.ids(texts),
        "kind": np.full(len(texts), RangeKind.NVTX, np.int8),
        "domain_id": np.fromiter((source.pool[text] if text else NO_ID for text in domains), np.int32, len(texts)),
    }
    return take(columns, wanted)


def _domains(rows: Rows, kind: Int64, texts: list[str]) -> list[str]:
    """The name of each row's NVTX domain, which a row of its own gives; empty for the default one."""
    places = list(zip(rows.process.tolist(), rows.numbers("domainId").tolist(), strict=True))
    named = {places[row]: texts[row] for row in np.flatnonzero(kind == _DOMAIN).tolist()}
    return [named.get(place, "") for place in places] if named else [""] * rows.count


_OS_CALLS = {
    HostEventKind.SLEEP: re.compile(r"^(u|nano|clock_nano)?sleep$"),
    HostEventKind.FILE: re.compile(
        r"^(f?(read|write|open|close)|p(read|write)v?|readv|writev|openat|f(data)?sync)(64)?$"
    ),
}
"""Calls of the operating system by their kind, as Nsight Systems names them; other calls wait for something unknown."""
_LEAST_OS_CALL_NS = 1_000_000
"""Shorter calls of the operating system are no events of the host, in ns: a recording notes those from 1 ms on too."""


def _host_events(rows: Rows, source: Source) -> Arrays:
    texts = _texts(rows, source, "nameId")
    kinds = {text: next((kind for kind, of in _OS_CALLS.items() if of.match(text)), 0) for text in set(texts)}
    return _host(rows) | {
        "name_id": source.pool.ids(texts),
        "kind": np.array([kinds[text] for text in texts], np.int8),
    }


def long_between(events: Arrays, calls: Arrays) -> Arrays:
    """The calls of the operating system that take long, between the first and the last CUDA call of their thread.

    Threads that make no CUDA call, such as the driver's, wait most of the time.
    """
    kept = np.zeros(len(events["start_ns"]), np.bool_)
    threads = zip(*(calls.get(name, np.empty(0, np.int64)).tolist() for name in ("process", "thread")), strict=True)
    for process, thread in set(threads):
        made, here = ((table["process"] == process) & (table["thread"] == thread) for table in (calls, events))
        first, last = calls["start_ns"][made].min(), calls["end_ns"][made].max()
        kept |= here & (events["start_ns"] >= first) & (events["end_ns"] <= last)
    return take(events, kept & (events["end_ns"] - events["start_ns"] >= _LEAST_OS_CALL_NS))


def _overheads(rows: Rows, source: Source) -> Arrays:
    return _host(rows) | {"name_id": source.pool.ids(_texts(rows, source, "nameId"))}


def _streams(rows: Rows, source: Source) -> Arrays:
    return {
        "process": first_known(rows.ids("processId"), rows.process),
        "context": rows.ids("contextId"),
        "stream": rows.ids("streamId"),
        "kind": rows.enums("flag", source.labels.streams),
        "priority": rows.numbers("priority", 0).astype(np.uint32).astype(np.int32),  # written as unsigned 32 bits
    }


def columns_of(table: str, rows: Rows, source: Source) -> Arrays:
    """The columns of a table of the model; rows without times, or that end before they start, are left out."""
    columns = _BUILDERS[table](rows, source)
    return _usable(columns, source.log) if "end_ns" in columns else columns


def _usable(columns: Arrays, log: HealthLog) -> Arrays:
    """Drop rows without times, or that end before they start."""
    start, end = columns["start_ns"], columns["end_ns"]
    readable = (start != NO_TIME) & (end != NO_TIME)
    forward: Bool = readable & (end >= start)
    log.add("no-time", ~readable, "rows", "time")
    log.add("negative-duration", readable & ~forward, "rows")
    return columns if forward.all() else take(columns, forward)


_BUILDERS: dict[str, Callable[[Rows, Source], Arrays]] = {
    "kernels": _kernels,
    "copies": _copies,
    "memsets": _memsets,
    "api_calls": _api_calls,
    "syncs": _syncs,
    "event_records": _event_records,
    "ranges": _ranges,
    "host_events": _host_events,
    "overheads": _overheads,
    "streams": _streams,
}
