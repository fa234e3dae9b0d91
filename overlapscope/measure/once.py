"""Results that are found once for each table: tables never change."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

_T = TypeVar("_T")
_R = TypeVar("_R")


def once_for_each(function: Callable[[_T], _R]) -> Callable[[_T], _R]:
    """Let a function of a table remember what it gives, for as long as that table exists.

    What it gives must not hold the table itself.
    """
    known: WeakKeyDictionary[_T, _R] = WeakKeyDictionary()

    @wraps(function)
    def remembered(table: _T) -> _R:
        if table not in known:
            known[table] = function(table)
        return known[table]

    return remembered
