"""The result of a reader: plain columns by table, before they are sorted, joined and made immutable."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from overlapscope.model.metadata import Metadata
from overlapscope.read.log import HealthLog
from overlapscope.read.selection import Selection

Arrays = dict[str, npt.NDArray[Any]]
HOST_TABLES = ("cpu_ops", "ranges", "frames")
"""Tables of host events that name a process even where it makes no call of the GPU's runtime."""


class NamePool(dict[str, int]):
    """Numbers strings in the order of first appearance; ``pool[text]`` adds a new one."""

    def __missing__(self, text: str) -> int:
        number = len(self)
        self[text] = number
        return number

    def ids(self, texts: list[str]) -> npt.NDArray[np.int32]:
        """The numbers of ``texts``."""
        return np.fromiter(map(self.__getitem__, texts), np.int32, len(texts))


@dataclass
class Draft:
    """Columns as read from the file. Device work has no process yet where the file does not name it."""

    metadata: Metadata
    log: HealthLog
    pool: NamePool = field(default_factory=NamePool)
    tables: dict[str, Arrays] = field(default_factory=dict)
    process_known: bool = False
    syncs_recorded: bool = True
    selection: Selection = Selection()
    host_processes: frozenset[int] = frozenset()
    """Processes of rows of `HOST_TABLES` that were left out."""

    def rows(self, table: str) -> int:
        """How many rows ``table`` has."""
        columns = self.tables.get(table)
        return len(next(iter(columns.values()))) if columns else 0

    def column(self, table: str, name: str) -> npt.NDArray[Any]:
        """A column of ``table``; empty where the table or the column is not there."""
        return self.tables.get(table, {}).get(name, np.empty(0, np.int64))
