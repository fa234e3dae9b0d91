"""Values of foreign JSON, as far as they are what they should be."""

from __future__ import annotations

from typing import Any

_LARGEST = 1 << 50  # 13 days in ns, and beyond the memory of any machine
_LATEST = 1 << 62  # the year 2116 in ns


def mapping(value: Any) -> dict[str, Any]:
    """An object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def listing(value: Any) -> list[Any]:
    """A list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def count(value: Any) -> int | None:
    """A whole number from 0 on that can be a duration, a size or a number of things; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST else None


def moment(value: Any) -> int | None:
    """A time in ns, or a large id; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LATEST else None


def flag(value: Any) -> bool | None:
    """True or False; None for anything else."""
    return value if isinstance(value, bool) else None


def text(value: Any) -> str:
    """A text, or a number as text; an empty one for anything else."""
    return str(value) if isinstance(value, str | int | float) else ""
