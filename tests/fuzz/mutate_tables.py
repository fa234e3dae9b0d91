"""Mutations of the cells, columns and tables of an Nsight Systems export."""

from __future__ import annotations

import math
import random
import sqlite3
from collections.abc import Callable
from typing import Any

from tests.fuzz import odd

Connection = sqlite3.Connection


def cells_changed(rng: random.Random, database: Connection) -> None:
    """Some cells of a column have an odd value."""
    table, column = _column(rng, database)
    database.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {_rows(rng)}', [_cell(rng)])


def times_shifted(rng: random.Random, database: Connection) -> None:
    """Some times of a table are others."""
    table = _table(rng, database, ("start", "end", "timestamp"))
    if table is None:
        return
    there = [name for name in _columns(database, table) if name in {"start", "end", "timestamp"}]
    chosen = rng.choice((there, there, [rng.choice(there)]))
    shifts = ", ".join(f'"{name}" = "{name}" + {odd.time_shift(rng)}' for name in chosen)
    database.execute(f'UPDATE "{table}" SET {shifts} WHERE {_rows(rng)}')


def column_renamed(rng: random.Random, database: Connection) -> None:
    """A column has another name."""
    table, column = _column(rng, database)
    database.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "was_{column}"')


def column_dropped(rng: random.Random, database: Connection) -> None:
    """A column is missing."""
    table, column = _column(rng, database)
    if len(_columns(database, table)) > 1:
        database.execute(f'CREATE TABLE kept AS SELECT * FROM "{table}"')
        database.execute(f'ALTER TABLE kept DROP COLUMN "{column}"')
        database.execute(f'DROP TABLE "{table}"')
        database.execute(f'ALTER TABLE kept RENAME TO "{table}"')


def table_dropped(rng: random.Random, database: Connection) -> None:
    """A table is missing, or has another name."""
    table = rng.choice(_tables(database))
    database.execute(rng.choice((f'DROP TABLE "{table}"', f'ALTER TABLE "{table}" RENAME TO "was_{table}"')))


def rows_dropped(rng: random.Random, database: Connection) -> None:
    """Some rows are missing."""
    database.execute(f'DELETE FROM "{rng.choice(_tables(database))}" WHERE {_rows(rng)}')


def rows_doubled(rng: random.Random, database: Connection) -> None:
    """Some rows are there twice."""
    table = rng.choice(_tables(database))
    database.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}" WHERE {_rows(rng)} LIMIT 500')


MUTATIONS: tuple[Callable[[random.Random, Connection], None], ...] = (
    cells_changed, cells_changed, cells_changed, cells_changed, times_shifted, times_shifted, column_renamed,
    column_dropped, table_dropped, rows_dropped, rows_doubled,
)  # fmt: skip


def _tables(database: Connection) -> list[str]:
    found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    return sorted(name for (name,) in found)


def _columns(database: Connection, table: str) -> list[str]:
    return [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]


def _table(rng: random.Random, database: Connection, columns: tuple[str, ...]) -> str | None:
    """A table with one of the columns."""
    having = [name for name in _tables(database) if set(_columns(database, name)) & set(columns)]
    return rng.choice(having) if having else None


def _column(rng: random.Random, database: Connection) -> tuple[str, str]:
    table = rng.choice(_tables(database))
    return table, rng.choice(_columns(database, table))


def _rows(rng: random.Random) -> str:
    return rng.choice(("1", f"rowid % {rng.randint(2, 50)} = 0", f"rowid = {rng.randint(1, 100)}"))


def _cell(rng: random.Random) -> Any:
    """An odd value that a cell can hold."""
    found = odd.value(rng)
    if isinstance(found, list | dict):
        return rng.randbytes(8)
    if isinstance(found, int) and not -(2**63) <= found < 2**63:
        return float(found)
    if isinstance(found, str):
        return found.encode("utf-8", "replace").decode()
    return None if isinstance(found, float) and math.isnan(found) else found
