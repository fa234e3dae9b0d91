"""Which events of a trace are wanted: those of some tables, in a window of time; and what has to be read for them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from overlapscope.model.columns import Bool, Int64
from overlapscope.model.tables import HostWork
from overlapscope.model.trace import DEVICE_WORK, TABLES

NOT_WANTED = "events outside of the window or of the categories that were asked for; left out"
_ISSUED = (*DEVICE_WORK, "event_records")
_HOST = tuple(name for name, kind in TABLES.items() if issubclass(kind, HostWork))
_NEEDS: dict[str, frozenset[str]] = {
    **dict.fromkeys(_ISSUED, frozenset({"api_calls", *DEVICE_WORK})),  # their processes and calls
    "syncs": frozenset({"api_calls", "event_records", *DEVICE_WORK}),  # their kinds and sources
    "event_waits": frozenset({"syncs"}),
    **dict.fromkeys(_HOST, frozenset({"ranges"})),  # their ends: a recording ends with its last step
}
"""For each table those of which any row can change what its rows say; they are read whole, and left out afterwards."""
_PARTS = {"modules": frozenset({"ranges", "cpu_ops"})}
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
        found: set[str] = set()
        new = set(TABLES if self.tables is None else self.tables)
        while new:
            new = set().union(*map(self._needs, new)) - found
            found |= new
        return frozenset(found)

    def _needs(self, table: str) -> frozenset[str]:
        needed = _NEEDS.get(table, frozenset())
        if self.process_known and table in _ISSUED:  # then only the numbers of their calls depend on others
            return frozenset(filter(self.takes, needed))
        return needed

    def to_json(self) -> dict[str, Any]:
        """The selection as plain data."""
        return {"tables": None if self.tables is None else sorted(self.tables), "window": self.window}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """A selection from plain data."""
        tables, window = data["tables"], data["window"]
        return cls(None if tables is None else frozenset(tables), None if window is None else tuple(window))


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
