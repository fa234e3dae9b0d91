"""`Baseline`: stored figures of an earlier trace in a JSON file, and the limits that follow from them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlapscope.atomic_files import writing
from overlapscope.budget.configuration import text_of
from overlapscope.budget.limits import CAUSES, LIMIT_KINDS, Limit, Tolerances, Unit
from overlapscope.diagnosis.catalogue import MOVED, RULES
from overlapscope.errors import BudgetNotUnderstood

SCHEMA = "overlapscope.baseline/1"
FINDINGS = "findings"
_BEYOND = 2**63  # no figure is as large
Figures = Mapping[str, Any]
"""Figures by the names of their limits, None for what the trace did not have, and the codes of its findings."""


@dataclass(frozen=True)
class Baseline:
    """The figures of a trace and of its ranges by the name of the range; those of the whole trace are under None."""

    scopes: Mapping[str | None, Figures]

    def of(self, name: str | None) -> Figures:
        """The figures of a range.

        Raises:
            BudgetNotUnderstood: there are none.
        """
        if name not in self.scopes:
            raise BudgetNotUnderstood(f"the baseline has no range {name!r}: write it again with --update-baseline")
        return self.scopes[name]

    def to_dict(self) -> dict[str, Any]:
        """The baseline as JSON-ready data."""
        ranges = {name: figures for name, figures in self.scopes.items() if name is not None}
        return {"schema": SCHEMA, "trace": self.scopes[None], "ranges": ranges}

    @classmethod
    def from_dict(cls, data: Any) -> Baseline:
        """The baseline in JSON data.

        Raises:
            BudgetNotUnderstood: it is of another schema, or malformed; the text names the key.
        """
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            schema = data.get("schema") if isinstance(data, dict) else None
            raise BudgetNotUnderstood(f"schema: is {schema!r}, and has to be {SCHEMA!r}")
        ranges = data.get("ranges", {})
        if not isinstance(ranges, dict):
            raise BudgetNotUnderstood("ranges: has to be an object")
        named = {name: _figures(figures, f"ranges.{name}") for name, figures in ranges.items()}
        return cls({None: _figures(data.get("trace"), "trace"), **named})


def read_baseline(path: str | Path) -> Baseline:
    """Read a baseline.

    Raises:
        BudgetNotUnderstood: there is no such file, or it is no baseline; the text names the key.
    """
    path = Path(path)
    try:
        return Baseline.from_dict(json.loads(text_of(path)))
    except BudgetNotUnderstood as error:
        raise BudgetNotUnderstood(f"{path}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise BudgetNotUnderstood(f"{path}: is no JSON ({error})") from error


def write_baseline(baseline: Baseline, path: str | Path) -> None:
    """Write a baseline, for people and version control to read: sorted, one figure a line.

    Raises:
        OutputError: the file cannot be written.
    """
    text = json.dumps(baseline.to_dict(), indent=2, sort_keys=True, allow_nan=False)
    with writing(Path(path)) as file:
        file.write(f"{text}\n".encode())


def limits_of(before: Figures, tolerances: Tolerances, findings: Iterable[str]) -> Iterator[Limit]:
    """The limits that follow from a baseline: each figure with its tolerance, and no finding that it does not have."""
    for name, value in before.items():
        parts = {**dict.fromkeys(CAUSES, 0), **value} if isinstance(value, Mapping) else {None: value}
        for part, number in parts.items() if name != FINDINGS else ():
            if number is not None:
                allowed = getattr(tolerances, name).allowed(number, at_least=LIMIT_KINDS[name].at_least)
                yield Limit(name, _possible(allowed, LIMIT_KINDS[name].unit), LIMIT_KINDS[name], part)
    for code in sorted(set(findings) - set(before[FINDINGS])):
        yield Limit("no_findings", 0, LIMIT_KINDS["no_findings"], code)


def _possible(allowed: float, unit: Unit) -> float:
    """The nearest figure that can be: no share is below 0 or above 1."""
    return max(0, min(allowed, 1) if unit is Unit.SHARE else allowed)


def _figures(data: Any, key: str) -> Figures:
    if not isinstance(data, dict):
        raise BudgetNotUnderstood(f"{key}: has to be an object")
    known = {name for name in LIMIT_KINDS if hasattr(Tolerances(), name)} | {FINDINGS}
    for name in sorted(known ^ set(data)):
        raise BudgetNotUnderstood(f"{key}.{name}: {'no such figure' if name in data else 'is missing'}")
    for name, value in data.items():
        _check(name, value, f"{key}.{name}")
    return data | {FINDINGS: [MOVED.get(code, code) for code in data[FINDINGS]]}


def _check(name: str, value: Any, key: str) -> None:
    """Raise where a figure is not what a baseline has under that name."""
    if name == FINDINGS:
        codes = {rule.code for rule in RULES} | MOVED.keys()
        if not isinstance(value, list) or not set(map(str, value)) <= codes:
            raise BudgetNotUnderstood(f"{key}: has to be a list of rules, such as ['OVL001']")
    elif name == "idle_share" and value is not None:
        if not isinstance(value, dict):
            raise BudgetNotUnderstood(f"{key}: has to be an object of shares by cause, or null")
        for cause, share in value.items():
            if cause not in CAUSES:
                raise BudgetNotUnderstood(f"{key}.{cause}: no such cause")
            _check("", share, f"{key}.{cause}")
    elif value is not None and (type(value) not in (int, float) or not 0 <= value < _BEYOND):
        raise BudgetNotUnderstood(f"{key}: is {value!r}, and has to be a number that is not negative, or null")
