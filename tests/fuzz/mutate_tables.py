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
    kept = ", ".join(f'"{name}"' for name in _columns(database, table) if name != column)
    if kept:
        _replaced(database, table, f'SELECT {kept} FROM "{table}"')


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


def column_retyped(rng: random.Random, database: Connection) -> None:
    """All of a column is text, or bytes, or floats."""
    table, column = _column(rng, database)
    kind = rng.choice(("TEXT", "BLOB", "REAL", "INTEGER"))
    others = [f'"{name}"' for name in _columns(database, table) if name != column]
    cells = ", ".join([f'CAST("{column}" AS {kind}) AS "{column}"', *others])
    _replaced(database, table, f'SELECT {cells} FROM "{table}"')


def ids_doubled(rng: random.Random, database: Connection) -> None:
    """Some rows have one id for all."""
    table = rng.choice(_tables(database))
    ids = [name for name in _columns(database, table) if name.lower().endswith("id")]
    if ids:
        _replaced(database, table, f'SELECT * FROM "{table}"')
        database.execute(f'UPDATE "{table}" SET "{rng.choice(ids)}" = {rng.choice((0, 1, 7, -1))} WHERE {_rows(rng)}')


def bad_text(rng: random.Random, database: Connection) -> None:
    """Some texts are no UTF-8, or hostile."""
    table, column = _column(rng, database)
    text = rng.choice(("CAST(x'ff41fe' AS TEXT)", "CAST(x'00' AS TEXT)", "CAST(x'eda080' AS TEXT)", "?1"))
    if text == "?1":
        database.execute(f'UPDATE "{table}" SET "{column}" = ?1 WHERE {_rows(rng)}', [rng.choice(odd.HOSTILE)])
    else:
        database.execute(f'UPDATE "{table}" SET "{column}" = {text} WHERE {_rows(rng)}')


def view_instead(rng: random.Random, database: Connection) -> None:
    """A table is a view of another one, or of one that never ends."""
    table = rng.choice(_tables(database))
    database.execute(f'ALTER TABLE "{table}" RENAME TO "{table}_kept"')
    source = f'SELECT * FROM "{table}_kept"'
    endless = (
        "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id, id AS value, id AS start FROM n"
    )
    database.execute(f'CREATE VIEW "{table}" AS {rng.choice((source, source, endless))}')


def in_utf_16(database: Connection) -> Connection:
    """The same database, whose texts have another encoding."""
    other = sqlite3.connect(":memory:")
    other.execute("PRAGMA encoding = 'UTF-16le'")
    other.executescript("\n".join(line for line in database.iterdump() if not line.startswith("CREATE VIEW")))
    return other


def page_damaged(rng: random.Random, content: bytes) -> bytes:
    """A page of the file is empty, noise or another one, or the texts of the header say something else."""
    size = 4096
    pages = [content[start : start + size] for start in range(0, len(content), size)]
    chosen = rng.randrange(len(pages))
    if rng.random() < 0.3:
        place = rng.choice((16, 18, 20, 28, 32, 36, 40, 44, 52, 56, 60, 100, 103, 105))
        return content[:place] + rng.randbytes(rng.choice((1, 2, 4))) + content[place + 4 :]
    pages[chosen] = rng.choice((bytes(size), rng.randbytes(size), rng.choice(pages), pages[chosen][: size // 2]))
    return b"".join(pages)


MUTATIONS: tuple[Callable[[random.Random, Connection], None], ...] = (
    cells_changed, cells_changed, cells_changed, cells_changed, times_shifted, times_shifted, column_renamed,
    column_dropped, table_dropped, rows_dropped, rows_doubled, column_retyped, ids_doubled, bad_text, view_instead,
)  # fmt: skip


def _replaced(database: Connection, table: str, query: str) -> None:
    """Put the result of a query into the place of a table, without its keys and types."""
    database.execute(f"CREATE TABLE instead AS {query}")
    database.execute(f'DROP TABLE "{table}"')
    database.execute(f'ALTER TABLE instead RENAME TO "{table}"')


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
