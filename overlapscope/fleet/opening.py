"""`open_fleet`: the tables of a job, for notebooks and scripts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from overlapscope.errors import OutputError
from overlapscope.fleet.figures import read
from overlapscope.fleet.reduce import COLUMNS, SUMMARY
from overlapscope.fleet.schema import COLUMNS as MAPPED

if TYPE_CHECKING:
    import pandas
    import pyarrow

TABLES = (*COLUMNS, *MAPPED)
"""The tables of a job: what ranks have in common first, then the rows of all traces."""


@dataclass(frozen=True)
class Fleet:
    """The results of ``overlapscope fleet`` in a folder; tables are read when they are asked for."""

    folder: Path

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of its tables."""
        return TABLES

    @property
    def summary(self) -> str:
        """The text that the command printed."""
        return (self.folder / SUMMARY).read_text()

    def to_arrow(self, table: str) -> pyarrow.Table:
        """One of its tables.

        Raises:
            KeyError: there is no such table.
        """
        import pyarrow.parquet as pq

        return pq.read_table(self._path(table))

    def to_pandas(self, table: str) -> pandas.DataFrame:
        """One of its tables, as a frame.

        Raises:
            KeyError: there is no such table.
        """
        self._path(table)
        return read(self.folder, table)

    def _path(self, table: str) -> Path:
        if table not in TABLES:
            raise KeyError(f"no table {table!r}; there are {', '.join(TABLES)}")
        return self.folder / f"{table}.parquet"

    def __repr__(self) -> str:
        first = self.summary.splitlines()
        return f"<Fleet {self.folder}: {first[0] if first else 'empty'}>"


def open_fleet(folder: str | Path) -> Fleet:
    """Open what ``overlapscope fleet -o FOLDER`` wrote.

    Raises:
        OutputError: the folder has no results of a whole run.
    """
    path = Path(folder)
    if not (path / SUMMARY).is_file():
        raise OutputError(f"{path}: has no results of a fleet; run `overlapscope fleet TRACES -o {path}` first")
    return Fleet(path)
