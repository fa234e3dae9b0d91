"""Format times, sizes, shares and counts for people, and text from traces safely."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, fields
from statistics import median
from typing import Any

_WHOLE = 100  # from here on without decimals
_SCALES = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
_SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_LONGEST = 100_000  # of a column's numbers; from here on its unit is a larger one
_MOST_DECIMALS = 3
_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def changed(config: Any) -> str:
    """Settings as text, by those that differ from their defaults: the ``repr`` of configs.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Config:
    ...     share: float = 0.05
    ...     count: int = 3
    ...     __repr__ = changed
    >>> Config(), Config(count=4)
    (Config(), Config(count=4))
    """
    values = {entry.name: (getattr(config, entry.name), _default(entry)) for entry in fields(config) if entry.repr}
    said = ", ".join(f"{name}={value!r}" for name, (value, usual) in values.items() if value != usual)
    return f"{type(config).__name__}({said})"


def _default(entry: Any) -> Any:
    return entry.default if entry.default_factory is MISSING else entry.default_factory()


def time(ns: float | None) -> str:
    """A time in ns as text with a unit, to three or four figures.

    >>> time(39_660_000), time(950), time(None)
    ('39.7 ms', '950 ns', '?')
    """
    if ns is None:
        return "?"
    for scale, unit in _SCALES:
        if abs(ns) >= scale or unit == "ns":
            value = ns / scale
            return f"{value:.0f} {unit}" if unit == "ns" or abs(value) >= _WHOLE else f"{value:.3g} {unit}"
    raise AssertionError("the last scale takes everything")


def interval(low_ns: float, high_ns: float, likely_ns: float) -> str:
    """A time that is not exactly known, in ns, in one unit; a single time where both ends read the same.

    >>> interval(112_000_000, 121_400_000, 115_000_000)
    '112 to 121 ms, most likely 115'
    >>> interval(900_000, 1_200_000, 1_000_000), interval(950, 950, 950)
    ('0.9 to 1.2 ms, most likely 1', '950 ns')
    """
    length, unit = next(scale for scale in _SCALES if abs(likely_ns) >= scale[0] or scale[1] == "ns")
    low, high, likely = (_figures(ns / length) for ns in (low_ns, high_ns, likely_ns))
    return time(likely_ns) if low == high else f"{low} to {high} {unit}, most likely {likely}"


def _figures(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= _WHOLE else f"{value:.3g}"


def size(count: int) -> str:
    """A number of bytes as text with a binary unit.

    >>> size(67_108_864), size(12)
    ('64 MiB', '12 B')
    """
    for scale, unit in _SIZES:
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} B"


def time_unit(values: Iterable[float | None]) -> tuple[float, str]:
    """The unit for a table of times in ns, as its length and its name.

    It suits the time in the middle, unless the longest becomes too long in it.

    >>> time_unit([39_660_000, 161_000, 12_000_000, None])
    (1000000.0, 'ms')
    """
    return _unit(values, _SCALES)


def size_unit(values: Iterable[float | None]) -> tuple[float, str]:
    """The unit for a table of numbers of bytes, likewise.

    >>> size_unit([67_108_864, 12_582_912])
    (1048576, 'MiB')
    """
    return _unit(values, (*_SIZES, (1, "B")))


def numbers(values: Sequence[float | None], unit: float = 1) -> list[str]:
    """Numbers in a unit as texts with as many decimals each: three figures of the largest, two of the smallest.

    >>> numbers([39_660_000, 161_000, None], 1e6)
    ['39.66', '0.16', '?']
    """
    scaled = [None if value is None else value / unit for value in values]
    known = [abs(value) for value in scaled if value]
    decimals = 0
    if any(value != round(value) for value in known):
        first, last = (math.floor(math.log10(value)) for value in (max(known), min(known)))
        decimals = min(max(2 - first, 1 - last, 0), _MOST_DECIMALS)
    return ["?" if value is None else f"{value:,.{decimals}f}" for value in scaled]


def _unit(values: Iterable[float | None], scales: Sequence[tuple[float, str]]) -> tuple[float, str]:
    known = [abs(value) for value in values if value]
    middle, largest = (median(known), max(known)) if known else (0, 0)
    fitting = [entry for entry in scales if largest < _LONGEST * entry[0]] or [scales[0]]
    return next((entry for entry in fitting if middle >= entry[0]), fitting[-1])


def share(part: float, whole: float) -> str:
    """A share as a percentage without decimals; "undefined" where the whole is 0.

    >>> share(1, 3), share(0, 0)
    ('33 %', 'undefined')
    """
    return f"{100 * part / whole:.0f} %" if whole else "undefined"


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun, in the singular or the plural.

    >>> counted(1, "copy", "copies"), counted(1200, "copy", "copies")
    ('1 copy', '1,200 copies')
    """
    return f"1 {one}" if number == 1 else f"{number:,} {many or one + 's'}"


def safe(text: str, width: int | None = None) -> str:
    r"""Text from a trace made safe for a terminal or a figure: no control characters, cut to ``width``.

    >>> safe("a\x1b[31mb\nc")
    'a?[31mb?c'
    """
    clean = "".join("?" if unicodedata.category(char) in _UNSAFE else char for char in text)
    return clean if width is None or len(clean) <= width else clean[: width - 1] + "…"


def encodable(text: str) -> str:
    r"""Text with a path, as UTF-8 can write it: bytes of a file name that are no UTF-8 are replaced.

    >>> encodable("a\udcff.json")
    'a?.json'
    """
    return text.encode("utf-8", "replace").decode()
