"""Which events of a trace are wanted: those of some tables, within a window of time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from overlapscope.model.columns import Bool
from overlapscope.model.trace import TABLES
from overlapscope.read.draft import Arrays

NOT_WANTED = "events outside of the window or of the categories that were asked for; left out"


@dataclass(frozen=True)
class Selection:
    """The tables to read, all where None, and the window that events have to touch, in ns on the trace's own clock."""

    tables: frozenset[str] | None = None
    window: tuple[int, int] | None = None

    def takes(self, table: str) -> bool:
        """Whether the rows of ``table`` are wanted."""
        return self.tables is None or table in self.tables

    def rows(self, columns: Arrays) -> Bool:
        """Which rows touch the window."""
        start, end = columns["start_ns"], columns["end_ns"]
        if self.window is None:
            return np.ones(len(start), np.bool_)
        inside: Bool = (start < self.window[1]) & (end >= self.window[0])
        return inside

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
