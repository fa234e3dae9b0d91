"""Lay out tables of text for a terminal of any width: no heading is cut, and no column is left out.

A table that is too wide states columns with one value in all rows above it, then cuts long texts, and then goes on
below with the columns that are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from overlapscope.report.tables import LEFT, Cells

_ENDS_MATTER = {"range", "source", "where"}  # paths: the end says more than the begin

_GAP = 2  # characters between columns
_SHORTEST = 12  # characters of a text that is cut


def fitted(title: str, rows: Sequence[Cells], width: int) -> list[RenderableType]:
    """The table in at most ``width`` characters, under its title."""
    widths = {name: max(_heading_width(name), *(len(row[name]) for row in rows)) for name in rows[0]}
    head, shown = [Text(title, style="bold")], list(widths)
    if _total(widths, shown) > width:
        shown, alike = _without_constants(rows)
        head += [Text(alike, style="dim")] if alike else []
    widths = _shortened(widths, shown, width)
    return [*head, *(_table(rows, {name: widths[name] for name in part}) for part in _parts(widths, shown, width))]


def _without_constants(rows: Sequence[Cells]) -> tuple[list[str], str]:
    """The columns with different values, and the others as text; all columns where there is one row."""
    same = [name for name in rows[0] if len(rows) > 1 and len({row[name] for row in rows}) == 1]
    return [name for name in rows[0] if name not in same], ", ".join(_stated(name, rows[0][name]) for name in same)


def _stated(heading: str, value: str) -> str:
    name, _, unit = heading.partition(" (")
    return f"{name} {value} {unit.removesuffix(')')}".rstrip()


def _shortened(widths: dict[str, int], shown: Sequence[str], width: int) -> dict[str, int]:
    """The widths with texts cut, the longest first, where the table fits then; else no wider than ``width``."""
    result = dict(widths)
    least = {name: min(widths[name], max(_SHORTEST, _heading_width(name))) for name in shown if name in LEFT}
    if _total(widths | least, shown) > width:
        return {name: min(size, width) for name, size in widths.items()}
    while _total(result, shown) > width:
        longest = max(least, key=lambda name: result[name] - least[name])
        result[longest] -= 1
    return result


def _parts(widths: dict[str, int], shown: Sequence[str], width: int) -> list[list[str]]:
    """The columns in parts that fit."""
    parts: list[list[str]] = [[]]
    for name in shown:
        if parts[-1] and _total(widths, [*parts[-1], name]) > width:
            parts.append([])
        parts[-1].append(name)
    return parts


def _total(widths: dict[str, int], names: Sequence[str]) -> int:
    return sum(widths[name] for name in names) + _GAP * (len(names) - 1)


def _table(rows: Sequence[Cells], widths: dict[str, int]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for name, width in widths.items():
        justify: Literal["left", "right"] = "left" if name in LEFT else "right"
        heading = Text("\n".join(_lines(name, width)), justify=justify)
        table.add_column(heading, justify=justify, width=width, no_wrap=True, header_style="dim")
    for row in rows:
        table.add_row(*(Text(_cut(name, row[name], width)) for name, width in widths.items()))
    return table


def _cut(heading: str, text: str, width: int) -> str:
    if len(text) <= width:
        return text
    return "…" + text[1 - width :] if heading in _ENDS_MATTER else text[: width - 1] + "…"


def _lines(heading: str, width: int) -> list[str]:
    """A heading in lines of at most this width: the unit in one of its own where both do not fit in one."""
    lines = [""]
    for word in heading.split():
        joined = f"{lines[-1]} {word}".strip()
        if len(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(word)
    return lines


def _heading_width(heading: str) -> int:
    """The width of a heading whose words stand below each other."""
    return max(len(word) for word in heading.split())
