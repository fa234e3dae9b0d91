"""Budgets in TOML files: tables become limits, and whatever is wrong is named with its full key."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from overlapscope.budget.limits import CAUSES, LIMIT_KINDS, Budget, Limits, Tolerance, Tolerances, Unit
from overlapscope.diagnosis.catalogue import rule
from overlapscope.errors import BudgetNotUnderstood

_PYPROJECT = "pyproject.toml"
CONFIGURATIONS = ("overlapscope.toml", _PYPROJECT)
"""The files of a folder that may have limits; the first one with limits counts."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_RANGES, _TOLERANCE, _NOT_MEASURED = "ranges", "tolerance", "not_measured"
_BESIDE = (_RANGES, _TOLERANCE, _NOT_MEASURED)
"""Keys of a budget that are no limits."""
_TOLERATED = tuple(entry.name for entry in fields(Tolerances))
_VERDICTS = {"fail": False, "pass": True}

Key = tuple[str, ...]


def read_budget(path: str | Path, *, has_baseline: bool = False) -> Budget:
    """Read limits: ``[tool.overlapscope.check]`` of a pyproject.toml, ``[check]`` of any other TOML file.

    Only to compare with a baseline (``has_baseline``) may a range be there without limits.

    Raises:
        BudgetNotUnderstood: there is no such file, or something in it is wrong; the text names the key.
    """
    path = Path(path)
    budget = _budget_in(path, has_baseline=has_baseline)
    if not budget and not budget.ranges:
        raise BudgetNotUnderstood(f"{path}: has no limits; they belong under [{dotted(_key(path))}]")
    return budget


def budget_of_folder(folder: Path, *, has_baseline: bool = False) -> Budget | None:
    """The limits in the first of `CONFIGURATIONS` of a folder that has limits; None where none has.

    Only to compare with a baseline (``has_baseline``) may a range be there without limits.

    Raises:
        BudgetNotUnderstood: something in one of them is wrong; the text names the key.
    """
    paths = (folder / name for name in CONFIGURATIONS)
    budgets = (_budget_in(path, has_baseline=has_baseline) for path in paths if path.exists())
    return next((budget for budget in budgets if budget or budget.ranges), None)


def _budget_in(path: Path, *, has_baseline: bool) -> Budget:
    try:
        budget = budget_from(_table_at(tomllib.loads(text_of(path)), _key(path)), _key(path))
        if not has_baseline:
            _refuse_empty_ranges(budget, _key(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BudgetNotUnderstood(f"{path}: is no TOML ({error})") from error
    except BudgetNotUnderstood as error:
        raise BudgetNotUnderstood(f"{path}: {error}") from error
    return budget


def _refuse_empty_ranges(budget: Budget, key: Key) -> None:
    """Raise `BudgetNotUnderstood` for a range without limits: nothing of it would be checked, and all would pass."""
    for name, limits in budget.ranges.items():
        if not list(limits):
            raise BudgetNotUnderstood(
                f"{dotted((*key, 'ranges', name))}: has no limits; without any it is only compared with a --baseline"
            )


def text_of(path: Path) -> str:
    """The text of a file.

    Raises:
        BudgetNotUnderstood: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BudgetNotUnderstood(f"cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise BudgetNotUnderstood("is no text in UTF-8") from error


def _key(path: Path) -> Key:
    return ("tool", "overlapscope", "check") if path.name == _PYPROJECT else ("check",)


def _table_at(data: Mapping[str, Any], key: Key) -> Any:
    """The table that a file has under a key; an empty one where neither the key nor a similar one is there."""
    for depth, name in enumerate(key):
        if name not in _table(data, key[:depth]):
            near = difflib.get_close_matches(name, list(data), n=1)
            if near:
                raise BudgetNotUnderstood(f"{dotted((*key[:depth], *near))}: no such key; do you mean {dotted(key)}?")
            return {}
        data = data[name]
    return data


def budget_from(table: Any, key: Key = ()) -> Budget:
    """The budget in a table of TOML data, which has this key in its file.

    >>> budget_from({"hidden_share": 0.9, "ranges": {"step*": {"pageable_bytes": 0}}}).ranges["step*"].pageable_bytes
    0

    Raises:
        BudgetNotUnderstood: an unknown key, a value of a wrong type, or one out of bounds.
    """
    table = _table(table, key)
    check_names(table, (*LIMIT_KINDS, *_BESIDE), key)
    ranges = _table(table.get(_RANGES, {}), (*key, _RANGES))
    if "" in ranges:
        raise BudgetNotUnderstood(f"{dotted((*key, _RANGES, ''))}: has to be the name of a range")
    tolerance = _table(table.get(_TOLERANCE, {}), (*key, _TOLERANCE))
    check_names(tolerance, _TOLERATED, (*key, _TOLERANCE))
    verdict = table.get(_NOT_MEASURED, "fail")
    if verdict not in list(_VERDICTS):
        raise BudgetNotUnderstood(f"{dotted((*key, _NOT_MEASURED))}: is {verdict!r}, and has to be 'fail' or 'pass'")
    return Budget(
        limits=limits_from({name: value for name, value in table.items() if name not in _BESIDE}, key),
        ranges={name: limits_from(entry, (*key, _RANGES, name)) for name, entry in ranges.items()},
        tolerances=Tolerances(
            **{name: _tolerance(value, (*key, _TOLERANCE, name)) for name, value in tolerance.items()}
        ),
        pass_unmeasured=_VERDICTS[verdict],
    )


def limits_from(table: Any, key: Key = ()) -> Limits:
    """The limits in a table of TOML data, which has this key in its file.

    Raises:
        BudgetNotUnderstood: an unknown key, a value of a wrong type, or one out of bounds.
    """
    table = _table(table, key)
    check_names(table, tuple(LIMIT_KINDS), key)
    return Limits(**{name: _READERS[name](value, (*key, name)) for name, value in table.items()})


def validated(limits: Limits, key: Key) -> Limits:
    """Limits that were made in Python, checked as if they were read from a table.

    Raises:
        BudgetNotUnderstood: one is of a wrong type, or out of bounds.
    """
    given = {name: value for name in LIMIT_KINDS if (value := getattr(limits, name)) not in (None, {}, ())}
    return limits_from(given, key)


def dotted(key: Iterable[str]) -> str:
    """A key as TOML has it.

    >>> dotted(["check", "ranges", "step*"])
    'check.ranges."step*"'
    """
    return ".".join(part if _BARE.fullmatch(part) else json.dumps(part) for part in key)


def check_names(table: Mapping[str, Any], known: Sequence[str], key: Key) -> None:
    """Raise `BudgetNotUnderstood` where a table has a key that is not known, with the nearest one that is."""
    for name in table:
        if name not in known:
            raise BudgetNotUnderstood(f"{dotted((*key, name))}: no such key{_nearest(name, known)}")


def _nearest(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; do you mean {near[0]}?" if near else f"; there are {', '.join(known)}"


def _table(value: Any, key: Key) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BudgetNotUnderstood(f"{dotted(key)}: is {_kind(value)}, and has to be a table")
    return value


def _kind(value: Any) -> str:
    kinds = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "a list", dict: "a table"}
    return kinds.get(type(value), f"a {type(value).__name__}")


def _whole(value: Any, key: Key) -> int:
    if type(value) is not int:
        raise BudgetNotUnderstood(f"{dotted(key)}: is {_kind(value)}, and has to be an integer")
    if value < 0:
        raise BudgetNotUnderstood(f"{dotted(key)}: is {value}, and has to be at least 0")
    return value


def _share(value: Any, key: Key) -> float:
    if type(value) not in (int, float):
        raise BudgetNotUnderstood(f"{dotted(key)}: is {_kind(value)}, and has to be a number from 0 to 1")
    if not 0 <= value <= 1:
        raise BudgetNotUnderstood(f"{dotted(key)}: is {value}, and has to be a share from 0 to 1")
    return float(value)


def _number(value: Any, key: Key) -> float:
    """The value of the limit that is the last part of the key."""
    return (_share if LIMIT_KINDS[key[-1]].unit is Unit.SHARE else _whole)(value, key)


def _tolerance(value: Any, key: Key) -> Tolerance:
    if not isinstance(value, str):
        return Tolerance(_number(value, key))
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?%", value)
    if match is None:
        raise BudgetNotUnderstood(f"{dotted(key)}: {value!r} is neither a number nor a percentage such as '10%'")
    return Tolerance(float(match[1]) / 100, relative=True)


def _idle_shares(value: Any, key: Key) -> dict[str, float]:
    """Shares by cause, by the code or name of a rule, or for ``all``."""
    return {_cause(name, key): _share(share, (*key, name)) for name, share in _table(value, key).items()}


def _cause(name: str, key: Key) -> str:
    unknown = f"{dotted((*key, name))}: no such cause or rule{_nearest(name, CAUSES)}"
    return name if name in CAUSES else _code(name, unknown)


def _codes(value: Any, key: Key) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
        raise BudgetNotUnderstood(f"{dotted(key)}: has to be a list of rules, such as ['OVL001']")
    unknown = f"{dotted(key)}: no rule {{!r}}; overlapscope explain lists them"
    return tuple(dict.fromkeys(_code(entry, unknown.format(entry)) for entry in value))


def _code(name: str, unknown: str) -> str:
    try:
        return rule(name).code
    except KeyError:
        raise BudgetNotUnderstood(unknown) from None


_READERS: dict[str, Callable[[Any, Key], Any]] = {
    **dict.fromkeys(LIMIT_KINDS, _number),
    "idle_share": _idle_shares,
    "no_findings": _codes,
}
"""The function that reads the value of each limit."""
