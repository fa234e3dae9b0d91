"""Lists of loosely typed JSON values as exact integer arrays.

Profilers write ids as numbers, as strings (``"stream 7"``), or not at all, and times in microseconds
with up to three decimals; a file can mix them. The fast paths hold where a list is uniform.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt

from overlapscope.model.columns import NO_ID, NO_TIME, Bool, Int64

FLOAT_EXACT_US = float(2**43)
"""Below this, a float of microseconds with three decimals is exact to the nanosecond when split."""
_INT64 = 2**63
_MAX_US = _INT64 // 1000 - 1
_TRAILING_INTEGER = re.compile(r"(-?\d+)\s*$")
_GRID_NDIM, _GRID_AXES = 2, 3
_SMALL = 2**20  # as many factors below this as a grid has axes stay within int64
_HEX = re.compile(r"\s*0x([0-9a-fA-F]+)\s*$")


class NeedsExact(Exception):
    """Times this large were decoded as floats: decode the chunk again from its decimal text."""


def integers(values: list[Any], null: int = NO_ID) -> Int64:
    """Ids and sizes as int64; ``null`` where a value is missing or no integer."""
    if values.count(None) == len(values):  # an argument that no event of the chunk has, or no events
        return np.full(len(values), null, np.int64)
    try:
        return np.fromiter(values, np.int64, len(values))
    except (TypeError, ValueError, OverflowError):
        return np.fromiter((_integer(value, null) for value in values), np.int64, len(values))


def _array(values: list[Any]) -> npt.NDArray[Any]:
    """The values as numpy sees them; of dtype object where they are not uniform."""
    try:
        return np.array(values)
    except (ValueError, OverflowError):
        return np.array([None])


def _integer(value: Any, null: int) -> int:
    if isinstance(value, str):
        if found := _HEX.match(value):
            return _wrap(int(found[1], 16))
        found = _TRAILING_INTEGER.search(value)
        return _wrap(int(found[1])) if found else null
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return null
    if not isinstance(value, int) and not math.isfinite(value):
        return null
    return _wrap(int(value))


def _wrap(value: int) -> int:
    """Ids beyond int64 keep their identity as the same 64 bits, signed."""
    return value if -_INT64 <= value < _INT64 else (value + _INT64) % (2 * _INT64) - _INT64


def nanoseconds(values: list[Any]) -> Int64:
    """Microseconds as integer nanoseconds, exact for up to three decimals; `NO_TIME` where unreadable.

    Raises:
        NeedsExact: a float is too large to hold its nanoseconds.
    """
    if not values:
        return np.empty(0, np.int64)
    array = _array(values)
    if array.shape == (len(values),):
        if array.dtype.kind == "i" and _within(array):
            return array.astype(np.int64) * 1000
        if array.dtype.kind == "f" and _within(array):
            if float(np.abs(array).max()) >= FLOAT_EXACT_US:
                if all(
                    isinstance(value, int) or (value.is_integer() and abs(value) < FLOAT_EXACT_US) for value in values
                ):
                    return np.array([int(value) for value in values], np.int64) * 1000
                raise NeedsExact
            whole = np.floor(array)
            exact: Int64 = (whole * 1000 + np.rint((array - whole) * 1000)).astype(np.int64)
            return exact
    return np.fromiter((_nanosecond(value) for value in values), np.int64, len(values))


def _within(array: npt.NDArray[Any]) -> bool:
    return bool(np.isfinite(array).all() and np.abs(array).max() <= _MAX_US)


def _nanosecond(value: Any) -> int:
    if isinstance(value, float) and FLOAT_EXACT_US <= abs(value) <= _MAX_US:
        raise NeedsExact
    try:
        exact = Decimal(value) if isinstance(value, str | int | Decimal) else Decimal(repr(value))
        scaled = int((exact * 1000).to_integral_value())
    except (InvalidOperation, ValueError, OverflowError, TypeError):
        return NO_TIME
    return scaled if abs(scaled) <= _MAX_US * 1000 else NO_TIME


def products(values: list[Any]) -> Int64:
    """The product of each list of integers (a grid or block), `NO_ID` where it is no such list."""
    array = _array(values)
    whole = array.dtype.kind == "i" and array.ndim == _GRID_NDIM and array.shape[1] <= _GRID_AXES
    if whole and array.min() >= 0 and array.max() < _SMALL:
        result: Int64 = array.astype(np.int64).prod(axis=1)
        return result
    return np.fromiter((_product(value) for value in values), np.int64, len(values))


def _product(value: Any) -> int:
    if not isinstance(value, list) or not value or not all(isinstance(part, int) and part >= 0 for part in value):
        return NO_ID
    result = 1
    for part in value:
        result *= part
    return result if result < _INT64 else NO_ID


def first_known(*columns: Int64) -> Int64:
    """For each row, the first value that is known."""
    result = columns[0].copy()
    for column in columns[1:]:
        missing = result == NO_ID
        result[missing] = column[missing]
    return result


def usable_times(start: Int64, duration: Int64) -> tuple[Bool, int, int]:
    """Which rows have a time and a duration of at least 0; and how many lack a time, or run backwards."""
    readable = (start != NO_TIME) & (duration != NO_TIME)
    backwards = readable & (duration < 0)
    # An end beyond int64 is as unusable as no time at all.
    overflow = readable & ~backwards & (start > np.iinfo(np.int64).max - np.maximum(duration, 0))
    usable = readable & ~backwards & ~overflow
    return usable, int((~readable | overflow).sum()), int(backwards.sum())
