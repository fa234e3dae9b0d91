"""Lay out tables of text for a terminal of any width: no heading is cut, and no column is left out.

A table that is too wide states columns with one value in all rows above it, then cuts long texts, and then goes on
below with the columns that are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import rich.table
from rich.console import RenderableType
from rich.text import Text

from overlapscope.document.nodes import Column, Table
from overlapscope.formatting import safe

_GAP = 2  # characters between columns
_SHORTEST = 12  # characters of a text that is cut

Cells = tuple[str, ...]


def fitted(table: Table, width: int) -> list[RenderableType]:
    """The table in at most ``width`` characters, under its title where it has one; nothing without rows."""
    if not table.rows:
        return []
    columns = [
        (replace(column, heading=safe(column.heading)), tuple(map(safe, cells)))
        for column, cells in zip(table.columns, zip(*table.rows, strict=True), strict=True)
    ]
    head, shown = [Text(safe(table.title), style="bold")] if table.title else [], [_Fitted(*each) for each in columns]
    if _total(shown) > width:
        alike = [each for each in shown if len(each.cells) > 1 and len(set(each.cells)) == 1]
        shown = [each for each in shown if each not in alike]
        head += [Text(", ".join(each.stated for each in alike), style="dim")] if alike else []
    _shorten(shown, width)
    return [*head, *(_rich(part) for part in _parts(shown, width))]


class _Fitted:
    """A column with its cells, and the width that it gets."""

    def __init__(self, column: Column, cells: Cells) -> None:
        self.column = column
        self.cells = cells
        self.least = max([column.least, *(len(word) for word in column.heading.split())])
        """The width of the heading with its words below each other."""
        self.width = max(self.least, *map(len, cells))

    @property
    def stated(self) -> str:
        """The heading, with the value that is the same in all rows, and its unit."""
        name, _, unit = self.column.heading.partition(" (")
        return f"{name} {self.cells[0]} {unit.removesuffix(')')}".rstrip()

    @property
    def heading(self) -> str:
        """The heading in lines of at most the width: the unit in one of its own where both do not fit in one."""
        lines = [""]
        for word in self.column.heading.split():
            joined = f"{lines[-1]} {word}".strip()
            if len(joined) <= self.width:
                lines[-1] = joined
            else:
                lines.append(word)
        return "\n".join(lines)

    def cut(self, text: str) -> str:
        """A cell in the width."""
        if len(text) <= self.width:
            return text
        return "…" + text[1 - self.width :] if self.column.ends_matter else text[: self.width - 1] + "…"


def _shorten(shown: Sequence[_Fitted], width: int) -> None:
    """Make columns of text narrower, the widest first, where the table fits then; else none wider than ``width``."""
    least = {id(each): min(each.width, max(_SHORTEST, each.least)) for each in shown if each.column.text}
    missing = _total(shown) - width
    if sum(each.width - least.get(id(each), each.width) for each in shown) < missing:
        for each in shown:
            each.width = min(each.width, width)
        return
    for _ in range(missing):
        widest = max((each for each in shown if id(each) in least), key=lambda each: each.width - least[id(each)])
        widest.width -= 1


def _parts(shown: Sequence[_Fitted], width: int) -> list[list[_Fitted]]:
    """The columns in parts that fit."""
    parts: list[list[_Fitted]] = [[]]
    for each in shown:
        if parts[-1] and _total([*parts[-1], each]) > width:
            parts.append([])
        parts[-1].append(each)
    return parts


def _total(columns: Sequence[_Fitted]) -> int:
    return sum(each.width for each in columns) + _GAP * (len(columns) - 1)


def _rich(columns: Sequence[_Fitted]) -> rich.table.Table:
    table = rich.table.Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for each in columns:
        justify: Literal["left", "right"] = "left" if each.column.text else "right"
        heading = Text(each.heading, justify=justify)
        table.add_column(heading, justify=justify, width=each.width, no_wrap=True, header_style="dim")
    for row in zip(*(each.cells for each in columns), strict=True):
        table.add_row(*(Text(each.cut(cell)) for each, cell in zip(columns, row, strict=True)))
    return table
