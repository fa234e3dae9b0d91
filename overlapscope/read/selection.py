"""The part of a trace that is wanted: tables and a window of time; what has to be read for it, and what is left out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from overlapscope.model.columns import NO_ID, NO_TIME, Bool, Int32, Int64, Table
from overlapscope.model.tables import EventRecords, EventWaits, HostWork, Timed
from overlapscope.model.trace import DEVICE_WORK, TABLES
from overlapscope.read.log import HealthLog

_ISSUED = (*DEVICE_WORK, "event_records")
_HOST = tuple(name for name, kind in TABLES.items() if issubclass(kind, HostWork))
_NEEDS: dict[str, frozenset[str]] = {
    **dict.fromkeys(_ISSUED, frozenset({"api_calls", *DEVICE_WORK})),  # their processes and calls
    "syncs": frozenset({"api_calls", "event_records", *DEVICE_WORK}),  # their kinds and sources
    "event_waits": frozenset({"syncs"}),
    **dict.fromkeys(_HOST, frozenset({"ranges"})),  # their ends: a recording ends with its last step
    "host_events": frozenset({"ranges", "api_calls"}),  # only those between calls of their thread
}
"""For each table those of which any row can change what its rows say; they are read whole, and left out afterwards."""
_PARTS = {"modules": frozenset({"ranges", "cpu_ops"}), "ranges": frozenset({"cpu_ops"})}
"""Tables that are made of rows of others."""


@dataclass(frozen=True)
class Selection:
    """The tables to keep, all where None, and the window that events have to touch, in ns on the trace's own clock.

    ``process_known`` says whether device work names its process in the file: elsewhere, calls tell it.
    """

    tables: frozenset[str] | None = None
    window: tuple[int, int] | None = None
    process_known: bool = False

    @property
    def everything(self) -> bool:
        """Whether all of a trace is wanted."""
        return self.tables is None and self.window is None

    def takes(self, *tables: str) -> bool:
        """Whether all of these tables are wanted."""
        return self.tables is None or self.tables.issuperset(tables)

    def reads(self, table: str) -> bool:
        """Whether ``table`` has to be read: it is wanted, or a wanted one depends on it."""
        parts = (table in others and self.takes(made) for made, others in _PARTS.items())
        return self.takes(table) or table in self._whole or any(parts)

    def rows_to_read(self, table: str, start_ns: Int64, end_ns: Int64) -> Bool:
        """Which rows of ``table`` have to be read."""
        return np.ones(len(start_ns), np.bool_) if table in self._whole else self.touches(start_ns, end_ns)

    def touches(self, start_ns: Int64, end_ns: Int64) -> Bool:
        """Which intervals touch the window."""
        if self.window is None:
            return np.ones(len(start_ns), np.bool_)
        inside: Bool = (start_ns < self.window[1]) & (end_ns >= self.window[0])
        return inside

    @cached_property
    def _whole(self) -> frozenset[str]:
        """The tables on which wanted ones depend, directly or not."""
        needed: set[str] = set()
        new = set(TABLES if self.tables is None else self.tables)
        while new:
            new = set().union(*map(self._needs, new)) - needed
            needed |= new
        return frozenset(needed)

    def _needs(self, table: str) -> frozenset[str]:
        needed = _NEEDS.get(table, frozenset())
        if self.process_known and table in _ISSUED:  # then only the numbers of their calls depend on others
            return frozenset(filter(self.takes, needed))
        return needed


def selection_of(categories: Collection[str] | None, window: tuple[int, int] | None) -> Selection:
    """The selection that a caller asked for.

    Raises:
        ValueError: a category is no table of a trace, or the window ends before it begins.
    """
    if categories is not None and (strange := sorted(set(categories) - set(TABLES))):
        raise ValueError(f"categories: {', '.join(strange)}: not among {', '.join(TABLES)}")
    if window is not None and window[1] < window[0]:
        raise ValueError(f"window: ends at {window[1]} ns, before it begins at {window[0]} ns")
    return Selection(None if categories is None else frozenset(categories), window)


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
    log.add("not-wanted", left_out, of=log.events_read)
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
