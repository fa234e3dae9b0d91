"""Leave of the assembled tables what was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from overlapscope.model.columns import NO_ID, NO_TIME, Bool, Int32, Table
from overlapscope.model.tables import EventRecords, EventWaits, Timed
from overlapscope.read.log import HealthLog
from overlapscope.read.selection import NOT_WANTED, Selection

AnyTable = TypeVar("AnyTable", bound=Table)
_CALLS = ("call", "record_call", "parent")
"""Columns with rows of api_calls."""


def asked_for(tables: Mapping[str, Table], selection: Selection) -> dict[str, Table]:
    """The rows that were asked for. Row numbers in their columns still refer to the rows of the whole tables."""
    return {name: _taken(table, _wanted(name, table, selection)) for name, table in tables.items()}


def part_of(tables: Mapping[str, Table], selection: Selection, log: HealthLog) -> dict[str, Table]:
    """The rows that were asked for; the calls of which only some were, are numbered anew."""
    if selection.everything:
        return dict(tables)
    part = asked_for(tables, selection)
    events = set(tables) - {"event_waits"}  # these are made of others
    left_out = sum(len(tables[name]) - len(part[name]) for name in events)
    log.note("not-wanted", left_out, NOT_WANTED, log.events_read)
    log.events_kept -= left_out
    kept = _wanted("api_calls", tables["api_calls"], selection)
    numbers = np.full(len(kept) + 1, NO_ID, np.int32)
    numbers[np.flatnonzero(kept)] = np.arange(int(kept.sum()))
    return {name: _renumbered(table, numbers) for name, table in part.items()}


def _wanted(name: str, table: Table, selection: Selection) -> Bool:
    """Which rows were asked for; what has no time is in every window."""
    if not selection.takes(name):
        return np.zeros(len(table), np.bool_)
    if isinstance(table, Timed):
        return selection.touches(table.start_ns, table.end_ns)
    if isinstance(table, EventRecords | EventWaits):
        in_window: Bool = selection.touches(table.time_ns, table.time_ns) | (table.time_ns == NO_TIME)
        return in_window
    return np.ones(len(table), np.bool_)


def _taken(table: AnyTable, rows: Bool) -> AnyTable:
    return table if rows.all() else table.take(rows)


def _renumbered(table: AnyTable, numbers: Int32) -> AnyTable:
    columns = {spec.name for spec in table.columns()} & set(_CALLS)
    return replace(table, **{name: numbers[getattr(table, name)] for name in columns}) if columns else table
