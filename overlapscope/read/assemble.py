"""Assemble a trace from a draft: sort, join with calls, resolve waits, check, and make it immutable."""

from __future__ import annotations

import numpy as np

from overlapscope.calibration.schema import MODULE
from overlapscope.model.columns import NO_ID, Int32, Names
from overlapscope.model.enums import ApiKind
from overlapscope.model.tables import HostWork, Modules, Timed
from overlapscope.model.trace import DEVICE_WORK, TABLES, Trace
from overlapscope.read import checks, waits
from overlapscope.read.correlate import Calls, doubled, join, outermost
from overlapscope.read.draft import Arrays, Draft
from overlapscope.read.event_waits import event_waits
from overlapscope.read.labels import api_kind, sync_kind
from overlapscope.read.part import part_of
from overlapscope.read.plausible import keep_possible
from overlapscope.read.processes import assign_processes

_STEP = "ProfilerStep#"


def assemble(draft: Draft) -> Trace:
    """Make a `Trace` of the tables that a reader collected.

    Raises:
        UnusableTrace: no event of it can be read.
    """
    _take_modules(draft)
    _complete(draft)
    keep_possible(draft)
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
        parts.append({spec.name: columns[spec.name][here] for spec in Modules.columns()})
        draft.tables[table] = {name: values[~here] for name, values in columns.items()}
    modules = {spec.name: np.concatenate([part[spec.name] for part in parts]) for spec in Modules.columns()}
    draft.tables["modules"] = modules | {"name_id": renamed[modules["name_id"]].astype(np.int32)}


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
            order = np.lexsort((-columns["end_ns"], start))
            for column in columns:
                columns[column] = columns[column][order]


def _finish_calls(draft: Draft) -> None:
    """Classify calls by name, find calls inside others, and drop calls that were recorded twice."""
    columns = draft.tables["api_calls"]
    if not draft.process_known:
        columns["kind"] = _api_kinds(draft, columns["name_id"])
    columns["parent"] = _outer(columns)
    twice = doubled(_calls(columns), columns["name_id"])
    if twice.any():
        count = int(twice.sum())
        draft.log.note("duplicate-calls", count, "calls recorded twice (wrapper and runtime); counted once", len(twice))
        draft.log.events_kept -= count
        for column in list(columns):
            columns[column] = columns[column][~twice]
        columns["parent"] = _outer(columns)


def _api_kinds(draft: Draft, name_id: Int32) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    names, kinds = list(draft.pool), np.zeros(len(draft.pool), np.int8)
    for name in np.flatnonzero(np.bincount(name_id)).tolist():
        kinds[name] = api_kind(names[name])
    return kinds[name_id]


def _outer(columns: Arrays) -> Int32:
    return outermost(columns["process"], columns["thread"], columns["start_ns"], columns["end_ns"])


def _calls(columns: Arrays) -> Calls:
    return Calls(columns["start_ns"], columns["process"], columns["correlation"], columns["kind"], columns["parent"])


def _join(draft: Draft, table: str) -> None:
    columns = draft.tables[table]
    moment = columns["time_ns" if table == "event_records" else "start_ns"]
    joined = join(_calls(draft.tables["api_calls"]), columns["process"], columns["correlation"], moment)
    columns["call"] = joined.call
    if table not in DEVICE_WORK:
        return
    total = sum(draft.rows(name) for name in DEVICE_WORK)
    draft.log.warn(
        "ambiguous-correlation",
        joined.ambiguous,
        "kernels, copies or memsets whose correlation id several calls share; matched by time",
        total,
    )
    draft.log.warn(
        "shared-correlation",
        joined.shared,
        "kernels whose launch call belongs to another kernel already; left without a call",
        total,
    )


def _finish_syncs(draft: Draft) -> None:
    syncs, calls = draft.tables["syncs"], draft.tables["api_calls"]
    if not draft.rows("syncs"):
        return
    joined = syncs["call"] != NO_ID
    by_call = np.array([sync_kind("", kind) for kind in ApiKind], np.int8)[calls["kind"][syncs["call"][joined]]]
    syncs["kind"][joined] = np.where(by_call > 0, by_call, syncs["kind"][joined])
    recorded = join(_calls(calls), syncs["process"], syncs["record_correlation"], syncs["start_ns"])
    syncs["record_call"] = recorded.call
    waits.resolve(syncs, draft.tables["event_records"], calls, _device_ops(draft))


def _device_ops(draft: Draft) -> waits.DeviceOps:
    def every(column: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.concatenate([draft.column(table, column).astype(np.int64) for table in DEVICE_WORK])

    call = every("call")
    has_call = np.flatnonzero(call != NO_ID)
    issued = draft.column("api_calls", "start_ns")[call[has_call]]
    order = has_call[np.argsort(issued, kind="stable")]
    return waits.DeviceOps(
        issued_ns=np.sort(issued, kind="stable"),
        start_ns=every("start_ns")[order],
        end_ns=every("end_ns")[order],
        process=every("process")[order],
        device=every("device")[order],
        stream=every("stream")[order],
    )
