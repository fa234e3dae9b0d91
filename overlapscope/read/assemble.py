"""Assemble a trace from a draft: sort, join with calls, resolve waits, check, and make it immutable."""

from __future__ import annotations

import numpy as np

from overlapscope.calibration.schema import MODULE
from overlapscope.errors import UnusableTrace
from overlapscope.model.columns import NO_ID, NO_TIME, Int8, Int32, Names
from overlapscope.model.enums import ApiKind
from overlapscope.model.tables import HostWork, Modules, Timed
from overlapscope.model.trace import DEVICE_WORK, TABLES, Trace
from overlapscope.read import checks, waits
from overlapscope.read.correlate import assign_processes, doubled, join, outermost, time_column
from overlapscope.read.draft import Draft, concat, take
from overlapscope.read.labels import api_kind, sync_kind
from overlapscope.read.selection import part_of
from overlapscope.read.values import LATEST_NS
from overlapscope.read.waits import event_waits

_STEP = "ProfilerStep#"
_LONGEST_NS = 7 * 86_400 * 10**9
"""The longest time between two rows. Recordings last seconds to minutes, and clocks of host and device were seen a day
apart; a week is beyond both, and short enough for the times of thousands of rows to be added."""
_LARGEST_BYTES = 2**49
"""The address space of a GPU; no copy is larger."""
_TIMES = {"start_ns", "end_ns", "time_ns"}
_FROM_0 = {"device", "source_device", "target_device", "blocks", "threads_per_block"}


def assemble(draft: Draft) -> Trace:
    """Make a `Trace` of the tables that a reader collected.

    Raises:
        UnusableTrace: no event of it can be read.
    """
    _take_modules(draft)
    _take_steps(draft)
    _complete(draft)
    _keep_possible(draft)
    _end_with_last_step(draft)
    assign_processes(draft)
    _sort(draft)
    _finish_calls(draft)
    for table in (*DEVICE_WORK, "syncs", "event_records"):
        _join(draft, table)
    _finish_syncs(draft)
    draft.tables["event_waits"] = event_waits(draft)
    names = Names(tuple(draft.pool))
    tables = {name: kind.build(names, draft.rows(name), draft.tables[name]) for name, kind in TABLES.items()}
    checks.check(draft, tables)
    part = part_of(tables, draft.selection, draft.log)
    return Trace(names=names, metadata=draft.metadata, health=draft.log.health(), **part)  # type: ignore[arg-type]


def _take_modules(draft: Draft) -> None:
    """Give calls of modules, which recordings note as ranges or operators, a table of their own."""
    numbers = {number: text.removeprefix(MODULE) for text, number in draft.pool.items() if text.startswith(MODULE)}
    tables = [table for table in ("ranges", "cpu_ops") if draft.rows(table)]
    if not numbers or not tables:
        return
    renamed = np.arange(len(draft.pool))
    for number, text in numbers.items():
        renamed[number] = draft.pool[text]
    parts = []
    for table in tables:
        columns = draft.tables[table]
        here = np.isin(columns["name_id"], list(numbers))
        parts.append(take({spec.name: columns[spec.name] for spec in Modules.columns()}, here))
        draft.tables[table] = take(columns, ~here)
    modules = concat(parts)
    draft.tables["modules"] = modules | {"name_id": renamed[modules["name_id"]].astype(np.int32)}


def _take_steps(draft: Draft) -> None:
    """Give steps of profilers before torch 1.10, which note them as operators, their place among the ranges."""
    columns = draft.tables.get("cpu_ops", {})
    steps = [number for text, number in draft.pool.items() if text.startswith(_STEP)]
    here = np.isin(columns.get("name_id", []), steps)
    if here.any():
        known = [draft.tables["ranges"]] if draft.rows("ranges") else []
        draft.tables["ranges"] = concat([take(columns, here), *known])
        draft.tables["cpu_ops"] = take(columns, ~here)


def _complete(draft: Draft) -> None:
    """Give every table all its columns."""
    for name, kind in TABLES.items():
        columns = draft.tables.setdefault(name, {})
        rows = draft.rows(name)
        if "start_ns" in columns and "time_ns" not in columns and name == "event_records":
            columns["time_ns"] = columns.pop("start_ns")
            columns.pop("end_ns", None)
        for spec in kind.columns():
            missing = spec.null if spec.null is not None else 0
            columns.setdefault(spec.name, np.full(rows, missing, spec.dtype))
    for name, extra in (("syncs", ("event_sync", "record_correlation")), ("event_records", ("event_sync", "call"))):
        for column in extra:
            draft.tables[name].setdefault(column, np.full(draft.rows(name), NO_ID, np.int64))


def _end_with_last_step(draft: Draft) -> None:
    """End what is open when a recording stops with its last step: after that, the profiler collects its events."""
    steps = [number for text, number in draft.pool.items() if text.startswith(_STEP)]
    ranges = draft.tables["ranges"]
    last = ranges["end_ns"][np.isin(ranges["name_id"], steps)]
    if draft.metadata.recording is None or not len(last):
        return
    for name, kind in TABLES.items():
        if issubclass(kind, HostWork):
            start, end = draft.tables[name]["start_ns"], draft.tables[name]["end_ns"]
            draft.tables[name]["end_ns"] = np.where(start < last.max(), np.minimum(end, last.max()), end)


def _sort(draft: Draft) -> None:
    """Sort timed tables by start; of rows that start together, the longer first, since it encloses the other."""
    for name, kind in TABLES.items():
        if issubclass(kind, Timed) and draft.rows(name):
            columns = draft.tables[name]
            start = columns["start_ns"]
            if (np.diff(start) > 0).all():
                continue
            draft.tables[name] = take(columns, np.lexsort((-columns["end_ns"], start)))


def _finish_calls(draft: Draft) -> None:
    """Classify calls by name, find calls inside others, and drop calls that were recorded twice."""
    columns = draft.tables["api_calls"]
    if not draft.process_known:
        columns["kind"] = _api_kinds(draft, columns["name_id"])
    columns["parent"] = outermost(columns)
    twice = doubled(columns)
    if twice.any():
        draft.log.add("duplicate-calls", twice)
        draft.log.events_kept -= int(twice.sum())
        columns = draft.tables["api_calls"] = take(columns, ~twice)
        columns["parent"] = outermost(columns)


def _api_kinds(draft: Draft, name_id: Int32) -> Int8:
    names, kinds = list(draft.pool), np.zeros(len(draft.pool), np.int8)
    for name in np.flatnonzero(np.bincount(name_id)).tolist():
        kinds[name] = api_kind(names[name])
    return kinds[name_id]


def _join(draft: Draft, table: str) -> None:
    columns = draft.tables[table]
    moment = columns[time_column(table)]
    joined = join(draft.tables["api_calls"], columns["process"], columns["correlation"], moment)
    columns["call"] = joined.call
    if table not in DEVICE_WORK:
        return
    total = sum(draft.rows(name) for name in DEVICE_WORK)
    draft.log.add("ambiguous-correlation", joined.ambiguous, of=total)
    draft.log.add("shared-correlation", joined.shared, of=total)


def _finish_syncs(draft: Draft) -> None:
    syncs, calls = draft.tables["syncs"], draft.tables["api_calls"]
    if not draft.rows("syncs"):
        return
    joined = syncs["call"] != NO_ID
    by_call = np.array([sync_kind("", kind) for kind in ApiKind], np.int8)[calls["kind"][syncs["call"][joined]]]
    syncs["kind"][joined] = np.where(by_call > 0, by_call, syncs["kind"][joined])
    syncs["record_call"] = join(calls, syncs["process"], syncs["record_correlation"], syncs["start_ns"]).call
    waits.resolve(syncs, draft.tables["event_records"], calls, _device_ops(draft))


def _device_ops(draft: Draft) -> waits.DeviceOps:
    call = draft.work("call")
    rows = np.flatnonzero(call != NO_ID)
    issued_ns = draft.column("api_calls", "start_ns")[call[rows]]
    columns = (draft.work(name)[rows] for name in ("start_ns", "end_ns", "process", "device", "stream"))
    ops = waits.DeviceOps(issued_ns, *columns)
    return ops.take(np.argsort(issued_ns, kind="stable"))


def _keep_possible(draft: Draft) -> None:
    """Drop rows with impossible times, and forget impossible sizes and device numbers.

    After this, times of all rows are within a week of each other and can be subtracted and added, no row ends before it
    starts, and sizes and device numbers are 0 or more, or not known. Whatever is changed is counted.

    Raises:
        UnusableTrace: no row is left of all, and some were lost.
    """
    _drop(draft, "no-time", -LATEST_NS, LATEST_NS)
    first = _densest(draft, _LONGEST_NS)
    _drop(draft, "far-off-time", first, first + _LONGEST_NS)
    if draft.selection.everything and draft.log.health().damaged and not any(map(draft.rows, draft.tables)):
        raise UnusableTrace(f"{draft.metadata.path}: a trace without a readable event; record it again")
    _forget(draft)


def _drop(draft: Draft, code: str, first: int, last: int) -> None:
    """Drop the rows of all tables that are not within a time; a time that may be unknown may stay so."""
    lost = 0
    for name, columns in draft.tables.items():
        kept = np.ones(draft.rows(name), np.bool_)
        for column in _TIMES & columns.keys():
            values = columns[column]
            kept &= ((values >= first) & (values <= last)) | ((values == NO_TIME) & (column == "time_ns"))
        if not kept.all():
            lost += int((~kept).sum())
            draft.tables[name] = take(columns, kept)
    draft.log.add(code, lost, "events", "readable time", of=draft.log.events_read)
    draft.log.events_kept -= lost


def _densest(draft: Draft, length: int) -> int:
    """The begin of the time of this length in which most rows start; of several such times, the earliest."""
    columns = [draft.column(name, column) for name in draft.tables for column in ("start_ns", "time_ns")]
    starts = np.concatenate(columns)
    starts = starts[starts != NO_TIME]
    if not len(starts):
        return 0
    if starts.max() - starts.min() <= length:  # as in all good traces
        return int(starts.min())
    starts = np.sort(starts)
    rows = np.searchsorted(starts, starts + length, "right") - np.arange(len(starts))
    return int(starts[np.argmax(rows)])


def _forget(draft: Draft) -> None:
    """Make impossible sizes and numbers unknown."""
    sizes = 0
    for columns in draft.tables.values():
        for column in _FROM_0 & columns.keys():
            columns[column] = np.where(columns[column] < 0, NO_ID, columns[column])
        if "size_bytes" in columns:
            wrong = (columns["size_bytes"] < NO_ID) | (columns["size_bytes"] > _LARGEST_BYTES)
            columns["size_bytes"] = np.where(wrong, NO_ID, columns["size_bytes"])
            sizes += int(wrong.sum())
    draft.log.add("impossible-size", sizes)
