"""The draft of a trace that a reader makes: plain columns by table, before they are sorted, joined and immutable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from overlapscope.model.columns import Bool, Int64
from overlapscope.model.trace import DEVICE_WORK, Metadata
from overlapscope.read.log import HealthLog
from overlapscope.read.selection import Selection

Arrays = dict[str, npt.NDArray[Any]]
HOST_TABLES = ("cpu_ops", "ranges", "frames")
"""Tables of host events that name a process even where it makes no call of the GPU's runtime."""


def take(columns: Arrays, rows: Int64 | Bool) -> Arrays:
    """The given rows of a table."""
    return {name: values[rows] for name, values in columns.items()}


def concat(parts: Sequence[Arrays]) -> Arrays:
    """The rows of several parts of a table, which have the same columns."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


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
        """The number of rows of ``table``."""
        columns = self.tables.get(table)
        return len(next(iter(columns.values()))) if columns else 0

    def column(self, table: str, name: str) -> npt.NDArray[Any]:
        """A column of ``table``; empty where the table or the column is not there."""
        return self.tables.get(table, {}).get(name, np.empty(0, np.int64))

    def work(self, name: str) -> Int64:
        """A column of all kernels, copies and memsets, in this order."""
        return np.concatenate([self.column(table, name).astype(np.int64) for table in DEVICE_WORK])
