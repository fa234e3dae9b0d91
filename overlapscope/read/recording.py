"""The calibration in a trace, as its key ``overlapscope`` or in NVTX marks; malformed parts count as not measured."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from overlapscope.model.columns import Int64
from overlapscope.model.recording import (
    BothWays,
    CopyTime,
    GatherTime,
    HostReads,
    IssueCost,
    Recording,
    TimedSteps,
    Touches,
)

SCHEMA = "overlapscope.recording/1"
MARK = "overlapscope.recording"
"""What marks begin with that carry a calibration; then come their number, how many there are and a piece of JSON."""

_Row = TypeVar("_Row")
_TELLING_STEPS = 4
_LARGEST = np.iinfo(np.int64).max

_NOTE = re.compile(rf"{re.escape(MARK)} ([0-9]{{1,4}})/([0-9]{{1,4}}) (.*)", re.DOTALL)


def recording_of(about: Any) -> Recording | None:
    """What a recording noted of itself; None where the trace carries nothing that is understood."""
    if not isinstance(about, dict) or about.get("schema") != SCHEMA:
        return None
    versions, issue, steps = (_object(about.get(key)) for key in ("versions", "issue", "steps"))
    touched = _columns(about.get("touches"), "op_start_ns", "tensor")
    read = _columns(about.get("reads"), "copy_start_ns", "op_start_ns")
    return Recording(
        versions=MappingProxyType({str(name): str(version) for name, version in versions.items()}),
        copies=_rows(about.get("copies"), _copy),
        gathers=_rows(about.get("gathers"), _gather),
        gather_start_ns=_count(about.get("gather_start_ns")),
        view_ns=_count(about.get("view_ns")),
        both_ways=_rows(about.get("both_ways"), _both_ways),
        touches=None if touched is None else Touches(*touched),
        reads=None if read is None else HostReads(*read),
        issue_unprofiled=_issue(issue.get("unprofiled")),
        issue_profiled=_issue(issue.get("profiled")),
        recorded=_steps(steps.get("recorded")),
        unprofiled=_steps(steps.get("unprofiled")),
    )


def noted(marks: Iterable[str]) -> Any:
    """What a recording noted in NVTX marks, for `recording_of`; None where a piece of it is missing or damaged.

    Where several did, as processes of one run do, it is the first's.
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
    """What a recording noted of the device ``number`` that the profiler does not; None where it did not."""
    entries = [_object(entry) for entry in _list(_object(about).get("devices"))]
    noted = next((entry for entry in entries if entry.get("number") == number), {})
    link = _object(noted.get("link"))
    return {
        "copy_engines": _count(noted.get("copy_engines")),
        "pcie_generation": _count(link.get("pcie_generation")),
        "pcie_width": _count(link.get("pcie_width")),
    }


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _rows(value: Any, understood: Callable[[dict[str, Any]], _Row | None]) -> tuple[_Row, ...]:
    """Those rows of a list that are understood."""
    return tuple(found for row in _list(value) if (found := understood(_object(row))) is not None)


def _count(value: Any) -> int | None:
    """A whole number from 0 on that 64 bits hold, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST else None


def _copy(row: dict[str, Any]) -> CopyTime | None:
    size, copy_ns = _count(row.get("size_bytes")), _count(row.get("copy_ns"))
    if not size or not copy_ns:
        return None
    return CopyTime(str(row.get("direction")), str(row.get("host_memory")), size, copy_ns)


def _gather(row: dict[str, Any]) -> GatherTime | None:
    size, gather_ns = _count(row.get("size_bytes")), _count(row.get("gather_ns"))
    if not size or not gather_ns:
        return None
    others = ("ragged_ns", "warm_gather_ns", "warm_ragged_ns")
    return GatherTime(size, gather_ns, *(_count(row.get(key)) for key in others))


def _both_ways(row: dict[str, Any]) -> BothWays | None:
    alone, beside = _count(row.get("alone_ns")), _count(row.get("beside_ns"))
    return BothWays(str(row.get("direction")), alone, beside) if alone and beside else None


def _columns(value: Any, *names: str) -> list[Int64] | None:
    """Columns sorted by the first; None where a part is missing: half of who reads what is worse than nothing."""
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
    return TimedSteps(count, wall_ns, _scatter(host) if len(host) >= _TELLING_STEPS else 0.0)


def _scatter(values: list[int]) -> float:
    """Of two steps together: a host that runs ahead in one of them waits in the next."""
    pairs = np.array(values[: len(values) // 2 * 2], float).reshape(-1, 2).sum(axis=1)
    quarter, middle, three_quarters = np.quantile(pairs, (0.25, 0.5, 0.75))
    return float((three_quarters - quarter) / middle)
