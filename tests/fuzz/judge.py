"""What has to hold of figures, whatever the trace is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from overlapscope.model.columns import NO_ID, NO_TIME
from overlapscope.model.tables import Timed
from overlapscope.model.trace import Trace

_SIGNED = {
    "start_ns", "end_ns", "first_ns", "last_ns", "time_ns", "difference_ns", "change", "share_of_difference", "process",
    "thread", "stream", "correlation", "context",
}  # fmt: skip
"""Keys of moments, differences and ids, which may be negative."""
_DIFFERENCES = (".change.", ".why.")
"""Where figures are differences of two sides, none of which is the whole of another."""
_SHARES = ("share", "fraction")
_WHOLES = (
    ("hidden_ns", "total_ns"), ("exposed_ns", "total_ns"), ("busy_ns", "span_ns"), ("idle_ns", "span_ns"),
    ("overlap_ns", "copy_busy_ns"), ("overlap_ns", "kernel_busy_ns"), ("kernel_busy_ns", "busy_ns"),
    ("copy_busy_ns", "busy_ns"), ("exposed_copy_ns", "copy_busy_ns"), ("start_ns", "end_ns"),
)  # fmt: skip
"""Pairs of keys of one object; the first is no more than the second."""


def complaints(figures: Any) -> list[str]:
    """What is wrong with a result, as it is written to JSON."""
    return list(_of(figures, ""))


def _of(value: Any, where: str) -> Iterator[str]:
    if isinstance(value, dict):
        if not where.startswith(_DIFFERENCES):
            yield from _of_object(value, where)
        for key, each in value.items():
            yield from _of(each, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _of(each, where)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _of_number(value, where)


def _of_number(value: float, where: str) -> Iterator[str]:
    key = where.rsplit(".", 1)[-1]
    signed = key in _SIGNED or where.startswith(_DIFFERENCES)
    if not math.isfinite(value):
        yield f"{where} is {value}"
    if value < 0 and not signed:
        yield f"{where} is negative: {value}"
    if key.endswith(_SHARES) and value > 1 + 1e-9:
        yield f"{where} is beyond its whole: {value}"


def _of_object(found: dict[str, Any], where: str) -> Iterator[str]:
    for part, whole in _WHOLES:
        less, more = found.get(part), found.get(whole)
        if isinstance(less, int) and isinstance(more, int) and less > more:
            yield f"{where}.{part} is more than {whole}: {less}, {more}"
    causes, idle = found.get("idle_causes"), found.get("idle_ns")
    if isinstance(causes, dict) and isinstance(idle, int) and sum(causes.values()) != idle:
        yield f"{where}.idle_causes do not add up to {idle}"
    parts, total = found.get("parts"), found.get("total_ns")
    if isinstance(parts, list) and isinstance(total, int) and sum(part["time_ns"] for part in parts) != total:
        yield f"{where}.parts do not add up to {total}"


def of_tables(trace: Trace) -> list[str]:
    """What is wrong with the tables of a trace."""
    wrong = []
    for name, table in trace.tables():
        for spec in table.columns():
            values = getattr(table, spec.name)
            if spec.unit == "bytes" and (values < NO_ID).any():
                wrong.append(f"{name}.{spec.name} is negative")
            if spec.unit == "ns" and len(values) and spec.null is None and (values == NO_TIME).any():
                wrong.append(f"{name}.{spec.name} has no time")
        if isinstance(table, Timed) and len(table):
            if (table.end_ns < table.start_ns).any() or (np.diff(table.start_ns) < 0).any():
                wrong.append(f"{name} has no order")
            if (table.duration_ns < 0).any():
                wrong.append(f"{name} has a duration below 0")
    return wrong


def difference(one: Trace, other: Trace) -> str:
    """Which column of the tables differs, names aside; empty where none does."""
    for (name, left), (_, right) in zip(one.tables(), other.tables(), strict=True):
        if len(left) != len(right):
            return f"the number of {name}: {len(left)}, {len(right)}"
        for spec in left.columns():
            if not spec.text and not np.array_equal(getattr(left, spec.name), getattr(right, spec.name)):
                return f"{name}.{spec.name}"
    return ""
