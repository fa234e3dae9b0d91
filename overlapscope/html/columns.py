"""Columns of whole numbers, packed so that a page stays small.

The bytes of a column are stored by significance: all lowest ones, then all second ones. Most of the higher ones are
zero, which compresses well. Columns that rise are stored as differences.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from overlapscope.model.columns import Int64


@dataclass(frozen=True, eq=False)
class Column:
    """Whole numbers; those that may be negative, or mostly rise, are stored as differences."""

    name: str
    values: Int64
    differences: bool = False


def packed_columns(columns: Sequence[Column]) -> tuple[list[dict[str, Any]], str]:
    """How each column is stored, and their bytes one after the other, as text."""
    described, parts = [], []
    for column in columns:
        numbers = _differences(column.values) if column.differences else column.values
        width = (int(numbers.max(initial=0)).bit_length() + 7) // 8
        planes = numbers.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]
        parts.append(planes.T.tobytes())
        described.append({"name": column.name, "rows": len(numbers), "bytes": width, "differences": column.differences})
    return described, packed_bytes(b"".join(parts))


def packed_bytes(raw: bytes) -> str:
    """Bytes as base64 of gzip, the same each time."""
    return base64.b64encode(gzip.compress(raw, 6, mtime=0)).decode()


def _differences(values: Int64) -> Int64:
    """Differences of neighbours, the sign in the lowest bit.

    >>> _differences(np.array([5, 7, 4])).tolist()
    [10, 4, 5]
    """
    change = np.diff(values, prepend=0)
    result: Int64 = (change << 1) ^ (change >> 63)
    return result
