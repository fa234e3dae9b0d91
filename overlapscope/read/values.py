"""Convert lists of loosely typed JSON values to exact integer arrays.

Profilers write ids as numbers, as strings (``"stream 7"``), or not at all, and times in microseconds with up to three
decimals. A file can mix them. Uniform lists take a fast path. What a value becomes does not depend on its neighbours.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from overlapscope.model.columns import NO_ID, NO_TIME, Bool, Float64, Int64

FLOAT_EXACT_US = float(2**43)
"""Below this, a float of microseconds with three decimals is exact to the nanosecond when split."""
_INT64 = 2**63
_MODULUS = 2**64
_MAX_US = 4 * 10**15
LATEST_NS = _MAX_US * 1000
"""The year 2096 on an epoch clock; no time is later, and the difference of two such times fits int64."""
_LONGEST_NUMBER = 64  # digits; no id or time is longer
_DECIMALS = 3  # of a microsecond down to the nanosecond
_PLAIN_CHARACTERS = b"0123456789.-,"
_TRAILING_INTEGER = re.compile(r"(-?\d+)\s*$")
_GRID_AXES = 3
_SMALL = 2**20  # as many factors below this as a grid has axes stay within int64
_WHOLE_NUMBER = re.compile(r"\s*-?\d+\s*\Z")
_HEX = re.compile(r"\s*0x([0-9a-fA-F]+)\s*$")


class NeedsExact(Exception):
    """Raised for times that are too large for floats: the chunk has to be decoded again from its decimal text."""


def integers(values: list[Any], null: int = NO_ID) -> Int64:
    """Ids and sizes as int64; ``null`` where a value is missing or no integer."""
    with suppress(struct.error):
        return _packed("q", values)
    if values.count(None) == len(values):  # an argument that no event of the chunk has
        return np.full(len(values), null, np.int64)
    return np.fromiter((null if value is None else _integer(value, null) for value in values), np.int64, len(values))


def _packed(code: str, values: Sequence[Any]) -> npt.NDArray[Any]:
    """Values as `struct` packs them, twice as fast as numpy does; raises ``struct.error`` for one of another type."""
    return np.frombuffer(struct.pack(f"{len(values)}{code}", *values), code)


def _integer(value: Any, null: int) -> int:
    if isinstance(value, str):
        value = value[-_LONGEST_NUMBER:]
        if match := _HEX.match(value):
            return _wrap(int(match[1], 16))
        match = _TRAILING_INTEGER.search(value)
        return _wrap(int(match[1])) if match else null
    if isinstance(value, float | Decimal):
        return int(value) if math.isfinite(value) and -_INT64 <= value < _INT64 else null
    return _wrap(value) if isinstance(value, int) and not isinstance(value, bool) else null


def _wrap(value: int) -> int:
    """Map an id beyond int64 to the signed integer with the same 64 bits."""
    return value if -_INT64 <= value < _INT64 else (value + _INT64) % _MODULUS - _INT64


def whole_numbers(values: list[Any], null: int) -> Int64:
    """Integers of a database column, stored as numbers or as text; anything else becomes ``null``."""
    if all(type(value) is int for value in values):
        return integers(values, null)
    strict = [value if isinstance(value, int) or _is_number(value) else None for value in values]
    return integers(strict, null)


def _is_number(value: Any) -> bool:
    return isinstance(value, str) and len(value) < _LONGEST_NUMBER and _WHOLE_NUMBER.match(value) is not None


def nanoseconds(values: list[Any]) -> Int64:
    """Microseconds as integer nanoseconds, exact for up to three decimals; `NO_TIME` where unreadable.

    Raises:
        NeedsExact: a float is too large to hold its nanoseconds.
    """
    with suppress(struct.error):
        whole = _packed("q", values)
        if whole.min(initial=0) >= -_MAX_US and whole.max(initial=0) <= _MAX_US:
            return whole * 1000
    with suppress(struct.error, OverflowError):
        parts = _packed("d", values)
        if parts.min(initial=0.0) > -FLOAT_EXACT_US and parts.max(initial=0.0) < FLOAT_EXACT_US:  # false for NaN
            return _split(parts)
    return np.fromiter((_nanosecond(value) for value in values), np.int64, len(values))


def _split(us: Float64) -> Int64:
    whole = np.floor(us)
    exact: Int64 = (whole * 1000 + np.rint((us - whole) * 1000)).astype(np.int64)
    return exact


def _nanosecond(value: Any) -> int:
    if isinstance(value, float) and FLOAT_EXACT_US <= abs(value) <= _MAX_US:
        raise NeedsExact
    if isinstance(value, str) and len(value) > _LONGEST_NUMBER:
        return NO_TIME
    try:
        if isinstance(value, float | Decimal) and abs(float(value)) < FLOAT_EXACT_US:
            return int(_split(np.array([value], np.float64))[0])
        exact = Decimal(value) if isinstance(value, str | int | Decimal) else Decimal(repr(value))
        if not exact.is_finite() or abs(exact) > _MAX_US:
            return NO_TIME
        return int((exact * 1000).to_integral_value())
    except (ArithmeticError, ValueError, TypeError):
        return NO_TIME


def nanoseconds_of(texts: Sequence[bytes]) -> Int64:
    """Microseconds as JSON text, as integer nanoseconds: exact at any size; `NO_TIME` where unreadable."""
    plain = _plain_nanoseconds(b",".join(texts) + b",")
    return np.fromiter(map(_nanosecond_of, texts), np.int64, len(texts)) if plain is None else plain


def _plain_nanoseconds(joined: bytes) -> Int64 | None:
    """The digits of all numbers at once; None where one has an exponent, more than three decimals, or is none."""
    if joined.translate(None, _PLAIN_CHARACTERS):
        return None
    characters = np.frombuffer(joined, np.uint8)
    ends, points = np.flatnonzero(characters == ord(",")), np.flatnonzero(characters == ord("."))
    missing = np.full(len(ends), _DECIMALS)  # how many decimals each lacks
    pointed = np.searchsorted(ends, points)
    missing[pointed] -= ends[pointed] - points - 1
    if missing.min() < 0 or np.diff(ends, prepend=-1).min() == 1:
        return None
    scale = 10**missing
    digits: Int64 = np.fromstring(joined.replace(b".", b""), np.int64, sep=",")  # beyond int64 it saturates
    most = _MAX_US * 1000 // scale
    return digits * scale if (digits <= most).all() and (digits >= -most).all() else None


def _nanosecond_of(text: bytes) -> int:
    try:
        return _nanosecond(json.loads(bytes(text), parse_float=Decimal))
    except (ValueError, ArithmeticError, RecursionError):
        return NO_TIME


def products(values: list[Any]) -> Int64:
    """The product of each list of integers (a grid or block), `NO_ID` where it is no such list."""
    if values.count(None) == len(values):
        return np.full(len(values), NO_ID, np.int64)
    with suppress(TypeError, struct.error):
        if set(map(len, values)) == {_GRID_AXES}:
            flat = _packed("q", [*chain.from_iterable(values)]).reshape(-1, _GRID_AXES)
            if flat.min() >= 0 and flat.max() < _SMALL:
                result: Int64 = flat.prod(axis=1)
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
    # An end so late that times could no longer be subtracted is as unusable as no time at all.
    overflow = readable & ~backwards & (start > _MAX_US * 1000 - np.maximum(duration, 0))
    usable = readable & ~backwards & ~overflow
    return usable, int((~readable | overflow).sum()), int(backwards.sum())
