"""Results that are found once for tables, since these never change."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

_P = ParamSpec("_P")
_R = TypeVar("_R")


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
        found: _R = known[tables[-1]]
        return found

    return remembered
