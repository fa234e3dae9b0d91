"""The tables of an audit as rows of text, for a terminal and for the HTML report."""

from __future__ import annotations

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.finding import Plan
from overlapscope.formatting import safe, share, size, time
from overlapscope.measure.groups import CopyGroup
from overlapscope.measure.host import HostBlocking
from overlapscope.report.data import Audit, CostlyCopy, DeviceAudit

Cells = dict[str, str]
"""One row of a table: text by column heading."""

NAME_WIDTH = 24
"""Most characters shown of a name from the trace."""
LEFT = frozenset({"API", "call", "range", "direction", "memory", "changes", "fixes"})
"""Columns of text, aligned left; the others are numbers."""
_OCCURRENCE_ROWS = 8
_BLOCKING_ROWS = 5


def tables(audit: Audit, name_width: int = NAME_WIDTH) -> list[tuple[str, list[Cells]]]:
    """All tables that have rows, each with its title."""
    every = [
        (_occurrence_title(audit), _occurrence_cells(audit)),
        ("Devices", [_device_cells(device) for device in audit.devices]),
        ("Copies", [_copy_cells(device, group) for device in audit.devices for group in device.memory]),
        ("Most expensive copies", _costly_cells(audit.costly, audit.window.first_ns, name_width)),
        ("Blocking CUDA calls", _blocking_cells(audit.host_blocking)),
    ]
    return [(title, rows) for title, rows in every if rows]


def plan_rows(found: Plan) -> list[Cells]:
    """The simulated time of the window without changes, and after each step of a plan."""
    rows = [_plan_row(found, "none", "", found.simulated_ns, "", found.unprofiled_ns)]
    for step in found.steps:
        bounds = f"{time(step.low_ns)} to {time(step.high_ns)}" if step.low_ns < step.high_ns else ""
        changes, fixes = " + ".join(step.changes), ", ".join(step.fixes)
        rows.append(_plan_row(found, changes, fixes, step.predicted_ns, bounds, step.unprofiled_ns))
    return rows


def _plan_row(found: Plan, changes: str, fixes: str, ns: int, bounds: str, unprofiled_ns: int | None) -> Cells:
    part = share(ns, found.simulated_ns)
    row = {"changes": changes, "fixes": fixes, "time": time(ns), "relative": part, "bounds": bounds}
    return row | ({} if found.unprofiled_ns is None else {"without profiler": time(unprofiled_ns)})


def _occurrence_title(audit: Audit) -> str:
    count = len(audit.occurrences)
    return "Occurrences" if count <= _OCCURRENCE_ROWS else f"The {_OCCURRENCE_ROWS} longest of {count:,} occurrences"


def _occurrence_cells(audit: Audit) -> list[Cells]:
    if len(audit.occurrences) < 2:  # noqa: PLR2004 - a single occurrence is the whole window
        return []
    longest = sorted(audit.occurrences, key=lambda entry: -entry.wall_ns)[:_OCCURRENCE_ROWS]
    return [
        {
            "start": time(entry.start_ns - audit.window.first_ns),
            "wall": time(entry.wall_ns),
            "kernels": time(entry.kernel_busy_ns),
            "copies": time(entry.copy_busy_ns),
            "overlap": time(entry.overlap_ns),
        }
        for entry in sorted(longest, key=lambda entry: entry.start_ns)
    ]


def _device_cells(device: DeviceAudit) -> Cells:
    activity = device.activity
    return {
        "process": _id(device.key.process),
        "device": _id(device.key.device),
        "span": time(activity.span_ns),
        "kernels": time(activity.kernels.total_ns),
        "copies": time(activity.copies.total_ns),
        "overlap": time(activity.overlap.total_ns),
        "no work": time(activity.idle.total_ns),
        "no kernel": time(device.kernel_gaps.total_ns),
        "in copy call": time(device.kernel_gaps.sum_ns(Cause.COPY_CALL)),
    }


def _copy_cells(device: DeviceAudit, group: CopyGroup) -> Cells:
    undefined = not device.activity.kernels.total_ns
    return {
        "process": _id(device.key.process),
        "device": _id(device.key.device),
        "direction": group.key["direction"],
        "memory": _memory(group.key["memory"]),
        "copies": f"{group.count:,}",
        "size": _size(group.size_bytes),
        "time": time(group.total_ns),
        "hidden": "undefined" if undefined else share(group.hidden_ns, group.total_ns),
        "exposed": time(group.exposed_ns),
        "bandwidth": _bandwidth(group),
        "host blocked": time(group.blocked_ns),
    }


def _bandwidth(group: CopyGroup) -> str:
    if not group.size_bytes or not group.unclipped_ns:
        return "?"
    return f"{group.size_bytes / group.unclipped_ns:.3g} GB/s"


def _costly_cells(copies: tuple[CostlyCopy, ...], first_ns: int, name_width: int) -> list[Cells]:
    return [
        {
            "start": time(copy.start_ns - first_ns),
            "process": _id(copy.process),
            "device": _id(copy.device),
            "stream": _id(copy.stream),
            "direction": copy.direction,
            "memory": _memory(copy.memory),
            "size": _size(copy.size_bytes),
            "exposed": time(copy.exposed_ns),
            "host blocked": time(copy.blocked_ns),
            "call": safe(copy.call or "?", NAME_WIDTH),
            "range": safe(copy.range or "-", name_width),
        }
        for copy in copies
    ]


def _blocking_cells(blocking: tuple[HostBlocking, ...]) -> list[Cells]:
    return [
        {
            "process": _id(row.process),
            "thread": _id(row.thread),
            "API": safe(row.api, NAME_WIDTH),
            "calls": f"{row.calls:,}",
            "total": time(row.total_ns),
            "blocked": time(row.blocked_ns),
        }
        for row in blocking[:_BLOCKING_ROWS]
        if row.blocked_ns
    ]


def _size(count: int | None) -> str:
    return "?" if count is None else size(count)


def _memory(label: str) -> str:
    return label.upper() if label == "pageable" else label


def _id(value: int | None) -> str:
    return "?" if value is None or value < 0 else str(value)
