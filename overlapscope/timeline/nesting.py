"""How bars that share a place nest, and on which levels they are drawn for it."""

from __future__ import annotations

import numpy as np

from overlapscope.model.columns import Int64


def depths(start_ns: Int64, end_ns: Int64) -> Int64:
    """How deep each bar lies in those that enclose it, 0 outermost; bars come by their begin, and nest.

    >>> depths(np.array([0, 1, 2, 6]), np.array([10, 5, 4, 8])).tolist()
    [0, 1, 2, 1]
    """
    result = np.zeros(len(start_ns), np.int64)
    ends: list[int] = []
    for row, (start, end) in enumerate(zip(start_ns.tolist(), end_ns.tolist(), strict=True)):
        while ends and ends[-1] <= start:
            ends.pop()
        result[row] = len(ends)
        ends.append(end)
    return result


def nesting_levels(start_ns: Int64, end_ns: Int64) -> Int64:
    """The first level for each bar, from 0, on which it nests: those before it there enclose it, or have ended.

    >>> nesting_levels(np.array([0, 1, 2]), np.array([10, 5, 7])).tolist()
    [0, 0, 1]
    """
    levels: list[list[int]] = []
    result = np.zeros(len(start_ns), np.int64)
    order = np.lexsort((-end_ns, start_ns))
    for index, start, end in zip(order.tolist(), start_ns[order].tolist(), end_ns[order].tolist(), strict=True):
        level = next((number for number, ends in enumerate(levels) if _nests(ends, start, end)), len(levels))
        if level == len(levels):
            levels.append([])
        levels[level].append(end)
        result[index] = level
    return result


def _nests(ends: list[int], start: int, end: int) -> bool:
    """Whether a bar fits into a level; ``ends``, those of the bars that are open there, loses what has ended."""
    while ends and ends[-1] <= start:
        ends.pop()
    return not ends or end <= ends[-1]
