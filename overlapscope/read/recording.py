"""The calibration under the key ``overlapscope`` of a trace; malformed parts count as not measured."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from overlapscope.model.recording import CopyTime, IssueCost, Recording, TimedSteps

SCHEMA = "overlapscope.recording/1"


def recording_of(about: Any) -> Recording | None:
    """What a recording noted of itself; None where the trace carries nothing that is understood."""
    if not isinstance(about, dict) or about.get("schema") != SCHEMA:
        return None
    versions, issue, steps = (_object(about.get(key)) for key in ("versions", "issue", "steps"))
    listed = about.get("copies")
    copies = [_copy(_object(row)) for row in listed] if isinstance(listed, list) else []
    return Recording(
        versions=MappingProxyType({str(name): str(version) for name, version in versions.items()}),
        copies=tuple(copy for copy in copies if copy is not None),
        issue_unprofiled=_issue(issue.get("unprofiled")),
        issue_profiled=_issue(issue.get("profiled")),
        recorded=_steps(steps.get("recorded")),
        unprofiled=_steps(steps.get("unprofiled")),
    )


def device_facts(about: Any, number: int) -> dict[str, int | None]:
    """What a recording noted of the device ``number`` that the profiler does not; None where it did not."""
    listed = _object(about).get("devices")
    entries = [_object(entry) for entry in listed] if isinstance(listed, list) else []
    noted = next((entry for entry in entries if entry.get("number") == number), {})
    link = _object(noted.get("link"))
    return {
        "copy_engines": _count(noted.get("copy_engines")),
        "pcie_generation": _count(link.get("pcie_generation")),
        "pcie_width": _count(link.get("pcie_width")),
    }


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int | None:
    """A whole number from 0 on, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _copy(row: dict[str, Any]) -> CopyTime | None:
    size, copy_ns = _count(row.get("size_bytes")), _count(row.get("copy_ns"))
    if not size or not copy_ns:
        return None
    return CopyTime(str(row.get("direction")), str(row.get("host_memory")), size, copy_ns)


def _issue(value: Any) -> IssueCost | None:
    costs = _object(value)
    return IssueCost(_count(costs.get("kernel_ns")), _count(costs.get("copy_ns"))) if costs else None


def _steps(value: Any) -> TimedSteps | None:
    steps = _object(value)
    count, wall_ns = _count(steps.get("steps")), _count(steps.get("wall_ns"))
    return TimedSteps(count, wall_ns) if count and wall_ns else None
