"""The different columns of several rows of numbers."""

from __future__ import annotations

import numpy as np

from overlapscope.model.columns import Int64


def distinct_columns(keys: Int64) -> tuple[Int64, Int64]:
    """Each different column once, in order, and for each column which of these it is.

    `numpy.unique` does the same by an axis, several times as slowly.

    >>> found, member = distinct_columns(np.array([[1, 0, 1], [5, 7, 5]]))
    >>> found.tolist(), member.tolist()
    ([[0, 1], [7, 5]], [1, 0, 1])
    """
    order = np.lexsort(keys[::-1])
    begins = np.append(True, (np.diff(keys[:, order]) != 0).any(axis=0))[: len(order)]
    member = np.empty(len(order), np.int64)
    member[order] = np.cumsum(begins) - 1
    return keys[:, order[begins]], member
