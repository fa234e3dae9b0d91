"""Read a budget from TOML data; whatever is wrong is named with its full key."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from overlapscope.budget.limits import ABOUT, CAUSES, Budget, Limits, Tolerance, Tolerances, Unit
from overlapscope.diagnosis.catalogue import rule
from overlapscope.errors import BudgetNotUnderstood

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_RANGES, _TOLERANCE, _NOT_MEASURED = "ranges", "tolerance", "not_measured"
_BESIDE = (_RANGES, _TOLERANCE, _NOT_MEASURED)
"""Keys of a budget that are no limits."""
_TOLERATED = tuple(entry.name for entry in fields(Tolerances))
_VERDICTS = {"fail": False, "pass": True}

Key = tuple[str, ...]


def budget_from(table: Any, key: Key = ()) -> Budget:
    """The budget in a table of TOML data, which has this key in its file.

    >>> budget_from({"hidden_share": 0.9, "ranges": {"step*": {"pageable_bytes": 0}}}).ranges["step*"].pageable_bytes
    0

    Raises:
        BudgetNotUnderstood: an unknown key, a value of a wrong type, or one out of bounds.
    """
    table = _table(table, key)
    check_names(table, (*ABOUT, *_BESIDE), key)
    ranges = _table(table.get(_RANGES, {}), (*key, _RANGES))
    if "" in ranges:
        raise BudgetNotUnderstood(f"{dotted((*key, _RANGES, ''))}: has to be the name of a range")
    tolerance = _table(table.get(_TOLERANCE, {}), (*key, _TOLERANCE))
    check_names(tolerance, _TOLERATED, (*key, _TOLERANCE))
    return Budget(
        limits=limits_from({name: value for name, value in table.items() if name not in _BESIDE}, key),
        ranges={name: limits_from(entry, (*key, _RANGES, name)) for name, entry in ranges.items()},
        tolerances=Tolerances(
            **{name: _tolerance(value, (*key, _TOLERANCE, name)) for name, value in tolerance.items()}
        ),
        pass_unmeasured=_choice(table.get(_NOT_MEASURED, "fail"), _VERDICTS, (*key, _NOT_MEASURED)),
    )


def limits_from(table: Any, key: Key = ()) -> Limits:
    """The limits in a table, likewise.

    Raises:
        BudgetNotUnderstood: an unknown key, a value of a wrong type, or one out of bounds.
    """
    table = _table(table, key)
    check_names(table, tuple(ABOUT), key)
    return Limits(**{name: _READERS[name](value, (*key, name)) for name, value in table.items()})


def understood(limits: Limits, key: Key) -> Limits:
    """Limits that were not read from a table, looked through as if they were.

    Raises:
        BudgetNotUnderstood: one is of a wrong type, or out of bounds.
    """
    return limits_from({name: value for name in ABOUT if (value := getattr(limits, name)) not in (None, {}, ())}, key)


def table_at(data: Mapping[str, Any], key: Key) -> Any:
    """The table that a file has under a key, or an empty one where nothing like it is there.

    Raises:
        BudgetNotUnderstood: there is none, but one with a similar name.
    """
    for depth, name in enumerate(key):
        if name not in _table(data, key[:depth]):
            near = difflib.get_close_matches(name, list(data), n=1)
            if near:
                raise BudgetNotUnderstood(f"{dotted((*key[:depth], *near))}: no such key; do you mean {dotted(key)}?")
            return {}
        data = data[name]
    return data


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


def _idle_shares(value: Any, key: Key) -> dict[str, float]:
    return {cause(name, key): _share(share, (*key, name)) for name, share in _table(value, key).items()}


def cause(name: str, key: Key) -> str:
    """A key of ``idle_share``: a cause, the code of a rule, or ``all``.

    Raises:
        BudgetNotUnderstood: it is none of these.
    """
    if name in CAUSES:
        return name
    try:
        return rule(name).code
    except KeyError:
        raise BudgetNotUnderstood(f"{dotted((*key, name))}: no such cause or rule{_nearest(name, CAUSES)}") from None


def _codes(value: Any, key: Key) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
        raise BudgetNotUnderstood(f"{dotted(key)}: has to be a list of rules, such as ['OVL001']")
    return tuple(dict.fromkeys(_code(entry, key) for entry in value))


def _code(name: str, key: Key) -> str:
    try:
        return rule(name).code
    except KeyError:
        raise BudgetNotUnderstood(f"{dotted(key)}: no rule {name!r}; overlapscope explain lists them") from None


def _tolerance(value: Any, key: Key) -> Tolerance:
    if isinstance(value, str):
        return Tolerance(_percentage(value, key), relative=True)
    if ABOUT[key[-1]].unit is Unit.SHARE:
        return Tolerance(_share(value, key))
    return Tolerance(_whole(value, key))


def _percentage(text: str, key: Key) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?%", text)
    if match is None:
        raise BudgetNotUnderstood(f"{dotted(key)}: {text!r} is neither a number nor a percentage such as '10%'")
    return float(match[1]) / 100


def _choice(value: Any, choices: Mapping[str, bool], key: Key) -> bool:
    if value not in list(choices):
        raise BudgetNotUnderstood(f"{dotted(key)}: is {value!r}, and has to be {' or '.join(map(repr, choices))}")
    return choices[value]


_READERS: dict[str, Callable[[Any, Key], Any]] = {
    "scalar_reads_per_step": _whole,
    "synchronisations_per_step": _whole,
    "pageable_bytes": _whole,
    "blocked_share": _share,
    "hidden_share": _share,
    "idle_share": _idle_shares,
    "saving_share": _share,
    "no_findings": _codes,
}
"""How the value of each limit is read."""
