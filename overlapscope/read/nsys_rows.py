"""The rows of a database table as columns of whole numbers, a batch of rows at a time.

Nearly all cells are integers. What is neither an integer nor NULL, such as text, is kept beside them by its row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from overlapscope.model.columns import Bool, Int64
from overlapscope.read.values import whole_numbers

_BATCH = 1 << 12
_NOTHING = type(None)


@dataclass(frozen=True)
class Cells:
    """One column: its whole numbers where they are ``known``, and its other cells by row."""

    numbers: Int64
    known: Bool
    others: dict[int, Any]

    @property
    def given(self) -> Bool:
        """Which cells are not NULL."""
        result = self.known.copy()
        result[list(self.others)] = True
        return result

    def whole(self, null: int) -> Int64:
        """The column as integers; ``null`` where there is none."""
        result = np.where(self.known, self.numbers, null)
        result[list(self.others)] = whole_numbers(list(self.others.values()), null)
        return result

    def mapped(self, table: Mapping[Any, Any], default: Any) -> list[Any]:
        """What ``table`` has for each cell."""
        used, codes = np.unique(self.numbers, return_inverse=True)
        found = np.empty(len(used) + 1, object)
        found[:] = [*(table.get(number, default) for number in used.tolist()), default]
        result: list[Any] = found[np.where(self.known, codes, len(used))].tolist()
        for row, cell in self.others.items():
            result[row] = table.get(cell, default)
        return result


@dataclass
class Rows:
    """Some columns of a table, by name."""

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
                    self._parts.append([_cells(cells, self.count) for cells in zip(*batch, strict=True)])
                    self.count += len(batch)
            if not batch:
                return

    def cells(self, name: str) -> Cells | None:
        """A column; None where the table does not have it."""
        if name not in self.names:
            return None
        place = self.names.index(name)
        parts = [part[place] for part in self._parts]
        return Cells(
            np.concatenate([part.numbers for part in parts] or [np.empty(0, np.int64)]),
            np.concatenate([part.known for part in parts] or [np.empty(0, np.bool_)]),
            {row: cell for part in parts for row, cell in part.others.items()},
        )


def _cells(cells: Sequence[Any], first: int) -> Cells:
    kinds = set(map(type, cells))
    if kinds == {int}:
        return Cells(np.fromiter(cells, np.int64, len(cells)), np.ones(len(cells), np.bool_), {})
    if kinds == {_NOTHING}:
        return Cells(np.zeros(len(cells), np.int64), np.zeros(len(cells), np.bool_), {})
    known = np.array([type(cell) is int for cell in cells])
    numbers = np.array([cell if type(cell) is int else 0 for cell in cells], np.int64)
    if kinds <= {int, _NOTHING}:
        return Cells(numbers, known, {})
    others = {first + row: cell for row, cell in enumerate(cells) if cell is not None and type(cell) is not int}
    return Cells(numbers, known, others)
