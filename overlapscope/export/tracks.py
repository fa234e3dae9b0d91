"""Tracks of slices, counters and arrows between slices: what a trace viewer shows, before it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from overlapscope.model.columns import Int64


@dataclass(frozen=True, eq=False)
class Track:
    """Slices of one thread, stream or kind. ``group`` is what the viewer folds together.

    ``arguments`` has for each name as many values as there are slices; None is left out.
    """

    group: str
    title: str
    start_ns: Int64
    end_ns: Int64
    names: Sequence[str]
    arguments: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, eq=False)
class Counter:
    """A number over time: each value holds until the next."""

    group: str
    title: str
    time_ns: Int64
    value: Int64


@dataclass(frozen=True, eq=False)
class Links:
    """Arrows from slices of one track to slices of another, by their index in each."""

    source: Track
    source_row: Int64
    target: Track
    target_row: Int64


def levels(start_ns: Int64, end_ns: Int64) -> Int64:
    """For each slice the first row, from 0, on which it nests with those before it: they hold it whole, or have ended.

    >>> levels(np.array([0, 1, 2]), np.array([10, 5, 7])).tolist()
    [0, 0, 1]
    """
    rows: list[list[int]] = []
    result = np.zeros(len(start_ns), np.int64)
    order = np.lexsort((-end_ns, start_ns))
    for index, start, end in zip(order.tolist(), start_ns[order].tolist(), end_ns[order].tolist(), strict=True):
        level = next((number for number, ends in enumerate(rows) if _nests(ends, start, end)), len(rows))
        if level == len(rows):
            rows.append([])
        rows[level].append(end)
        result[index] = level
    return result


def _nests(ends: list[int], start: int, end: int) -> bool:
    """Whether a slice fits into a row; ``ends``, those of the slices that are open there, loses what has ended."""
    while ends and ends[-1] <= start:
        ends.pop()
    return not ends or end <= ends[-1]
