"""Look up and group columns: rows by value or thread, rows before or after a time, results computed once for tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar, overload
from weakref import WeakKeyDictionary

import numpy as np

from overlapscope.model.columns import NO_ID, Bool, Int8, Int32, Int64, Table

NEVER = np.iinfo(np.int64).max
"""Later than every time in a trace."""
_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T", bound=Table)


def once_for_each(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let a function of tables remember what it gives, for as long as all of those tables exist.

    What it gives must not hold any of the tables itself.
    """
    results: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    @wraps(function)
    def remembered(*tables: _P.args, **_: _P.kwargs) -> _R:
        known = results
        for table in tables[:-1]:
            known = known.setdefault(table, WeakKeyDictionary())
        if tables[-1] not in known:
            known[tables[-1]] = function(*tables)  # type: ignore[call-arg]
        result: _R = known[tables[-1]]
        return result

    return remembered


def outermost(parent: Int32) -> Int64:
    """For each row the outermost row around it: itself where it has no parent.

    >>> outermost(np.array([-1, 0, 1, -1], np.int32)).tolist()
    [0, 0, 0, 3]
    """
    outer = np.where(parent == NO_ID, np.arange(len(parent)), parent)
    while not (outer == (further := outer[outer])).all():
        outer = further
    return outer


def with_columns(table: _T, **columns: Int64 | Int32 | Int8) -> _T:
    """The table with other values in columns, in the declared types of these."""
    typed: dict[str, Any] = {name: values.astype(getattr(table, name).dtype) for name, values in columns.items()}
    return replace(table, **typed)


@overload
def at(values: Bool, rows: Int64 | Int32, default: bool) -> Bool: ...
@overload
def at(values: Int64 | Int32 | Int8, rows: Int64 | Int32, default: int = NO_ID) -> Int64: ...
def at(values: Any, rows: Int64 | Int32, default: int = NO_ID) -> Any:
    """The values of rows; the default for the row `NO_ID` and for the one after the last.

    >>> at(np.array([7, 8, 9]), np.array([2, NO_ID, 0, 3])).tolist()
    [9, -1, 7, -1]
    """
    return np.append(values, default)[rows]


def last_before(rows: Int64, time_ns: Int64, moment_ns: Int64, side: Literal["left", "right"] = "left") -> Int64:
    """For each moment the last row, of rows sorted by these times, before it (``right``: or at it); `NO_ID` for none.

    >>> last_before(np.array([4, 2]), np.array([10, 20]), np.array([5, 11, 20])).tolist()
    [-1, 4, 4]
    """
    return at(rows, np.searchsorted(time_ns, moment_ns, side) - 1)


def first_from(rows: Int64, time_ns: Int64, moment_ns: Int64, side: Literal["left", "right"] = "left") -> Int64:
    """For each moment the first row, of rows sorted by these times, at or after it (``right``: after it), or `NO_ID`.

    >>> first_from(np.array([4, 2]), np.array([10, 20]), np.array([5, 11, 21])).tolist()
    [4, 2, -1]
    """
    return at(rows, np.searchsorted(time_ns, moment_ns, side))


def each_value(values: Int64 | Int32) -> Iterator[tuple[int, Int64]]:
    """Each different value, in order, with its rows.

    >>> [(value, rows.tolist()) for value, rows in each_value(np.array([5, 3, 5]))]
    [(3, [1]), (5, [0, 2])]
    """
    return ((value, np.flatnonzero(values == value)) for value in np.unique(values).tolist())


def neighbours(order: Int64, *keys: Int64 | Int32) -> tuple[Int64, Int64]:
    """Pairs of rows that follow each other in an order and have the same keys.

    >>> [rows.tolist() for rows in neighbours(np.array([2, 0, 1]), np.array([5, 5, 6]))]
    [[0], [1]]
    """
    one, other = order[:-1], order[1:]
    same = np.logical_and.reduce([key[one] == key[other] for key in keys])
    return one[same], other[same]


def distinct_columns(keys: Int64) -> tuple[Int64, Int64]:
    """Each different column once, in order, and for each column which of these it is.

    `numpy.unique` does the same by an axis, several times as slowly.

    >>> columns, member = distinct_columns(np.array([[1, 0, 1], [5, 7, 5]]))
    >>> columns.tolist(), member.tolist()
    ([[0, 1], [7, 5]], [1, 0, 1])
    """
    order = np.lexsort(keys[::-1])
    begins = np.append(True, (np.diff(keys[:, order]) != 0).any(axis=0))[: len(order)]
    member = np.empty(len(order), np.int64)
    member[order] = np.cumsum(begins) - 1
    return keys[:, order[begins]], member


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


def sums_by(member: Int64, values: Int64, groups: int) -> Int64:
    """Exact integer sums by group (a float would lose nanoseconds of long traces)."""
    totals = np.zeros(groups, np.int64)
    np.add.at(totals, member, values)
    return totals


def any_between(time_ns: Int64, group: Int64 | Int8, wanted: Int64, since: Int64, until: Int64) -> Bool:
    """Whether there is a moment of the wanted group in each interval [since, until)."""
    result = np.zeros(len(wanted), np.bool_)
    for number, rows in each_value(wanted):
        moments = np.sort(time_ns[group == number])
        result[rows] = np.searchsorted(moments, until[rows]) > np.searchsorted(moments, since[rows])
    return result
