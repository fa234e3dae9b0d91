"""A calibration as NVTX marks, by which a trace of Nsight Systems carries it.

A mark's text is `MARK`, the number of the piece, how many there are, and a piece of JSON, since tools cut long texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

MARK = "overlapscope.recording"
"""What the text of such a mark begins with."""
_PIECE_LENGTH = 500  # characters
_PATTERN = re.compile(rf"{re.escape(MARK)} ([0-9]{{1,4}})/([0-9]{{1,4}}) (.*)", re.DOTALL)


def pieces(data: Mapping[str, Any]) -> list[str]:
    """The texts of the marks that carry some JSON-ready ``data``."""
    text = json.dumps(data, separators=(",", ":"))
    parts = [text[begin : begin + _PIECE_LENGTH] for begin in range(0, len(text), _PIECE_LENGTH)]
    return [f"{MARK} {number}/{len(parts)} {part}" for number, part in enumerate(parts, 1)]


def joined(marks: Iterable[str]) -> Any:
    """The data that some texts carry, among others; None where there is none, or a piece of it is missing or damaged.

    Where several recordings left marks, as processes of one run do, it is the first's.
    """
    found = [match for text in marks if (match := _PATTERN.fullmatch(text))]
    expected = int(found[0][2]) if found else 0
    parts: dict[int, str] = {}
    for match in found:
        parts.setdefault(int(match[1]), match[3])
    if not expected or sorted(parts) != list(range(1, expected + 1)):
        return None
    try:
        return json.loads("".join(parts[number] for number in sorted(parts)))
    except (ValueError, RecursionError):
        return None
