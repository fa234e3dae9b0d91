"""Read budgets and baselines from files, and write baselines."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from overlapscope.atomic_files import writing
from overlapscope.budget.baseline import Baseline
from overlapscope.budget.configuration import budget_from, dotted, table_at
from overlapscope.budget.limits import Budget
from overlapscope.errors import BudgetNotUnderstood

_PYPROJECT = "pyproject.toml"
CONFIGURATIONS = ("overlapscope.toml", _PYPROJECT)
"""Where limits are looked for, the first one that has some."""


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


def found_budget(folder: Path, *, has_baseline: bool = False) -> Budget | None:
    """The limits in the first of `CONFIGURATIONS` of a folder that has some; None where none has.

    Only to compare with a baseline (``has_baseline``) may a range be there without limits.

    Raises:
        BudgetNotUnderstood: something in one of them is wrong; the text names the key.
    """
    paths = (folder / name for name in CONFIGURATIONS)
    found = (_budget_in(path, has_baseline=has_baseline) for path in paths if path.exists())
    return next((budget for budget in found if budget or budget.ranges), None)


def _budget_in(path: Path, *, has_baseline: bool) -> Budget:
    try:
        budget = budget_from(table_at(tomllib.loads(_text(path)), _key(path)), _key(path))
        if not has_baseline:
            _refuse_empty_ranges(budget, _key(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BudgetNotUnderstood(f"{path}: is no TOML ({error})") from error
    except BudgetNotUnderstood as error:
        raise BudgetNotUnderstood(f"{path}: {error}") from error
    return budget


def _refuse_empty_ranges(budget: Budget, key: tuple[str, ...]) -> None:
    """Raise `BudgetNotUnderstood` for a range without limits: nothing of it would be checked, and all would pass."""
    for name, limits in budget.ranges.items():
        if not list(limits):
            raise BudgetNotUnderstood(
                f"{dotted((*key, 'ranges', name))}: has no limits; without any it is only compared with a --baseline"
            )


def _key(path: Path) -> tuple[str, ...]:
    return ("tool", "overlapscope", "check") if path.name == _PYPROJECT else ("check",)


def read_baseline(path: str | Path) -> Baseline:
    """Read a baseline.

    Raises:
        BudgetNotUnderstood: there is no such file, or it is no baseline; the text names the key.
    """
    path = Path(path)
    try:
        return Baseline.from_dict(_json(path))
    except BudgetNotUnderstood as error:
        raise BudgetNotUnderstood(f"{path}: {error}") from error


def write_baseline(baseline: Baseline, path: str | Path) -> None:
    """Write a baseline, for people and version control to read: sorted, one figure a line.

    Raises:
        OutputError: the file cannot be written.
    """
    text = json.dumps(baseline.to_dict(), indent=2, sort_keys=True, allow_nan=False)
    with writing(Path(path)) as file:
        file.write(f"{text}\n".encode())


def _json(path: Path) -> Any:
    text = _text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BudgetNotUnderstood(f"is no JSON ({error})") from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BudgetNotUnderstood(f"cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise BudgetNotUnderstood("is no text in UTF-8") from error
