"""Read the calibration that `overlapscope.record` left in a trace: its key ``overlapscope``, or NVTX marks.

Parts that are malformed count as not measured.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from overlapscope.model.columns import Int64
from overlapscope.model.recording import (
    Bidirectional,
    CopyConsumers,
    CopyTime,
    D2HConsumers,
    IssueCost,
    PackTime,
    PostStaging,
    Recording,
    TimedSteps,
)

SCHEMA = "overlapscope.recording/2"
SCHEMA_1 = "overlapscope.recording/1"
KEYS_OF_1 = {
    "touches": "copy_consumers",
    "reads": "d2h_consumers",
    "gathers": "packing",
    "gather_ns": "pack_ns",
    "ragged_ns": "ragged_pack_ns",
    "warm_gather_ns": "warm_pack_ns",
    "warm_ragged_ns": "warm_ragged_pack_ns",
    "gather_start_ns": "pack_overhead_ns",
    "after_copies": "post_staging",
    "usual_ns": "baseline_ns",
    "both_ways": "bidirectional",
    "beside_ns": "bidirectional_ns",
}
"""Keys of version 1 of the schema that have another name in version 2."""
MARK = "overlapscope.recording"
"""Prefix of the NVTX marks that carry a calibration; then come their number, how many there are and a piece of JSON."""

_Row = TypeVar("_Row")
_FEWEST_STEPS = 4
_LARGEST = np.iinfo(np.int64).max

_NOTE = re.compile(rf"{re.escape(MARK)} ([0-9]{{1,4}})/([0-9]{{1,4}}) (.*)", re.DOTALL)


def recording_of(about: Any) -> Recording | None:
    """The calibration in ``about``, of either version of the schema; None where ``about`` is none."""
    if not isinstance(about, dict) or about.get("schema") not in (SCHEMA, SCHEMA_1):
        return None
    about = _renamed(about)
    versions, issue, steps = (_object(about.get(key)) for key in ("versions", "issue", "steps"))
    consumers = _columns(about.get("copy_consumers"), "op_start_ns", "tensor")
    d2h_consumers = _columns(about.get("d2h_consumers"), "copy_start_ns", "op_start_ns")
    return Recording(
        versions=MappingProxyType({str(name): str(version) for name, version in versions.items()}),
        copies=_rows(about.get("copies"), _copy),
        packing=_rows(about.get("packing"), _pack_time),
        pack_overhead_ns=_count(about.get("pack_overhead_ns")),
        view_ns=_count(about.get("view_ns")),
        post_staging=_rows(about.get("post_staging"), _post_staging),
        bidirectional=_rows(about.get("bidirectional"), _bidirectional),
        copy_consumers=None if consumers is None else CopyConsumers(*consumers),
        d2h_consumers=None if d2h_consumers is None else D2HConsumers(*d2h_consumers),
        issue_unprofiled=_issue(issue.get("unprofiled")),
        issue_profiled=_issue(issue.get("profiled")),
        recorded=_steps(steps.get("recorded")),
        unprofiled=_steps(steps.get("unprofiled")),
    )


def _renamed(about: dict[str, Any]) -> dict[str, Any]:
    """The same with the keys of version 2, where it is of version 1."""
    if about.get("schema") != SCHEMA_1:
        return about

    def renamed(value: Any) -> Any:
        return {KEYS_OF_1.get(key, key): entry for key, entry in value.items()} if isinstance(value, dict) else value

    return {
        key: [renamed(row) for row in value] if isinstance(value, list) else value
        for key, value in renamed(about).items()
    }


def noted(marks: Iterable[str]) -> Any:
    """Join the pieces of a calibration in NVTX marks, for `recording_of`; None where one is missing or damaged.

    Where several processes of a run left one, the first counts.
    """
    found = [match for text in marks if (match := _NOTE.fullmatch(text))]
    expected = int(found[0][2]) if found else 0
    pieces: dict[int, str] = {}
    for match in found:
        pieces.setdefault(int(match[1]), match[3])
    if not expected or sorted(pieces) != list(range(1, expected + 1)):
        return None
    try:
        return json.loads("".join(pieces[number] for number in sorted(pieces)))
    except (ValueError, RecursionError):
        return None


def device_facts(about: Any, number: int) -> dict[str, int | None]:
    """Facts of the device ``number`` that only the calibration knows; None where it does not."""
    entries = [_object(entry) for entry in _list(_object(about).get("devices"))]
    found = next((entry for entry in entries if entry.get("number") == number), {})
    link = _object(found.get("link"))
    return {
        "copy_engines": _count(found.get("copy_engines")),
        "pcie_generation": _count(link.get("pcie_generation")),
        "pcie_width": _count(link.get("pcie_width")),
    }


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _rows(value: Any, parse: Callable[[dict[str, Any]], _Row | None]) -> tuple[_Row, ...]:
    """Those rows of a list that are well-formed."""
    return tuple(found for row in _list(value) if (found := parse(_object(row))) is not None)


def _count(value: Any) -> int | None:
    """A whole number from 0 on that 64 bits hold, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST else None


def _copy(row: dict[str, Any]) -> CopyTime | None:
    size, copy_ns = _count(row.get("size_bytes")), _count(row.get("copy_ns"))
    if not size or not copy_ns:
        return None
    return CopyTime(str(row.get("direction")), str(row.get("host_memory")), size, copy_ns)


def _pack_time(row: dict[str, Any]) -> PackTime | None:
    size, pack_ns = _count(row.get("size_bytes")), _count(row.get("pack_ns"))
    if not size or not pack_ns:
        return None
    others = ("ragged_pack_ns", "warm_pack_ns", "warm_ragged_pack_ns")
    return PackTime(size, pack_ns, *(_count(row.get(key)) for key in others))


def _post_staging(row: dict[str, Any]) -> PostStaging | None:
    size, issue_ns, baseline_ns = (
        _count(row.get("size_bytes")),
        _rising(row.get("issue_ns")),
        _rising(row.get("baseline_ns")),
    )
    return PostStaging(size, issue_ns, baseline_ns) if size and issue_ns and len(issue_ns) == len(baseline_ns) else None


def _rising(value: Any) -> tuple[int, ...]:
    """Cumulative times, or a single one; empty where one is malformed or does not exceed the one before."""
    times = tuple(_count(each) or 0 for each in (value if isinstance(value, list) else [value]))
    return times if all(before < after for before, after in pairwise((0, *times))) else ()


def _bidirectional(row: dict[str, Any]) -> Bidirectional | None:
    alone, both = _count(row.get("alone_ns")), _count(row.get("bidirectional_ns"))
    return Bidirectional(str(row.get("direction")), alone, both) if alone and both else None


def _columns(value: Any, *names: str) -> list[Int64] | None:
    """Columns sorted by the first; None where any part is missing, since an incomplete list would mislead."""
    found = [_object(value).get(name) for name in names]
    columns = [column for column in found if isinstance(column, list)]
    if len(columns) < len(names) or len({len(column) for column in columns}) != 1:
        return None
    if any(_count(number) is None for column in columns for number in column):
        return None
    table = np.array(columns, np.int64).reshape(len(names), -1)
    return list(table[:, np.argsort(table[0], kind="stable")])


def _issue(value: Any) -> IssueCost | None:
    costs = _object(value)
    return IssueCost(*(_count(costs.get(key)) for key in ("kernel_ns", "copy_ns", "call_ns"))) if costs else None


def _steps(value: Any) -> TimedSteps | None:
    steps = _object(value)
    count, wall_ns = _count(steps.get("steps")), _count(steps.get("wall_ns"))
    if not count or not wall_ns:
        return None
    host = [each for entry in _list(steps.get("host_ns")) if (each := _count(entry))]
    return TimedSteps(count, wall_ns, _scatter(host) if len(host) >= _FEWEST_STEPS else 0.0)


def _scatter(values: list[int]) -> float:
    """Interquartile range over median of step pairs: a host that runs ahead in one step waits in the next."""
    pairs = np.array(values[: len(values) // 2 * 2], float).reshape(-1, 2).sum(axis=1)
    quarter, middle, three_quarters = np.quantile(pairs, (0.25, 0.5, 0.75))
    return float((three_quarters - quarter) / middle)
