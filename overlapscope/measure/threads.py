"""Rows of tables thread by thread."""

from __future__ import annotations

import numpy as np

from overlapscope.model.columns import Int64

Thread = tuple[int, int]
"""Process and thread."""


def rows_by_thread(process: Int64, thread: Int64) -> dict[Thread, Int64]:
    """The rows of each thread, in their order; the threads are sorted.

    >>> {place: rows.tolist() for place, rows in rows_by_thread(np.array([1, 1, 1]), np.array([5, 3, 5])).items()}
    {(1, 3): [1], (1, 5): [0, 2]}
    """
    order = np.lexsort((thread, process))
    changes = (np.diff(process[order]) != 0) | (np.diff(thread[order]) != 0)
    parts = np.split(order, np.flatnonzero(changes) + 1) if len(order) else []
    return {(int(process[rows[0]]), int(thread[rows[0]])): rows for rows in parts}
