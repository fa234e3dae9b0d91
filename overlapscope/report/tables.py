"""The tables of an audit as rows of text, for a terminal and for the HTML report.

A heading names the unit of its column; all numbers of a column have that unit, and as many decimals each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.finding import Plan, Step
from overlapscope.diagnosis.gpu_time import SHOWN_SHARE
from overlapscope.formatting import numbers, safe, share, size_unit, time, time_unit
from overlapscope.measure.groups import CopyGroup
from overlapscope.measure.host import HostBlocking
from overlapscope.report.data import Audit, CostlyCopy, DeviceAudit, Occurrence

Cells = dict[str, str]
"""One row of a table: text by column heading."""
TextColumns = dict[str, Sequence[str]]
"""A table column by column: the texts of each heading."""

LEFT = frozenset({"API", "api", "call", "cause", "change", "changes", "code", "confidence", "direction", "fixes"})
LEFT |= {"first finding", "memory", "most of it", "name", "op", "range", "severity", "source", "trace", "where"}
"""Columns of text, aligned left; the others are numbers."""
NO_VALUE = "-"
"""Shown where a text is not known."""
_NAME_WIDTH = 80
"""Most characters shown of a name from the trace."""
_SAME_SHARE = 0.01  # bounds nearer than that say nothing
_OCCURRENCE_ROWS = 8
_BLOCKING_ROWS = 5


class Shown(NamedTuple):
    """A table of the audit: what it is of, its title, and its rows."""

    of: str
    title: str
    rows: list[Cells]


def tables(audit: Audit, name_width: int = _NAME_WIDTH) -> list[Shown]:
    """All tables that have rows."""
    groups = [(device, group) for device in audit.devices for group in device.memory]
    blocking = [row for row in audit.host_blocking[:_BLOCKING_ROWS] if row.blocked_ns]
    every = [
        ("occurrences", _occurrence_title(audit), _occurrences(audit)),
        ("devices", "Devices", _devices(audit.devices)),
        ("groups", "Copies", _copies(groups)),
        ("copies", _costly_title(audit), _costly(audit.costly, audit.window.first_ns, name_width)),
        ("calls", "Blocking CUDA calls", _blocking(blocking, name_width)),
    ]
    return [Shown(of, title, rows(columns)) for of, title, columns in every if rows(columns)]


def rows(columns: TextColumns) -> list[Cells]:
    """A table row by row."""
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def in_time(**columns: Sequence[float | None]) -> TextColumns:
    """Columns of times in ns, all in one unit; ``_`` in their names stands for a space."""
    length, unit = time_unit(value for values in columns.values() for value in values)
    return {f"{name.replace('_', ' ')} ({unit})": numbers(values, length) for name, values in columns.items()}


def in_bytes(heading: str, values: Sequence[float | None]) -> TextColumns:
    """A column of numbers of bytes."""
    length, unit = size_unit(values)
    return {f"{heading} ({unit})": numbers(values, length)}


def time_rows(devices: Sequence[DeviceAudit]) -> list[Cells]:
    """What the window went to on each GPU: a row for each part that is shown of one of them."""
    used = [device for device in devices if device.time.total_ns]
    parts = [
        part for device in used for part in device.time.parts if part.time_ns >= SHOWN_SHARE * device.time.total_ns
    ]
    cells = {part.key: {"GPU time": part.label} for part in parts}
    for device in used:
        for key, row in cells.items():
            spent = device.time.of(key)
            row[device.key.title] = f"{time(spent)}, {share(spent, device.time.total_ns)}" if spent else ""
    return list(cells.values())


def plan_rows(found: Plan) -> list[Cells]:
    """The time of the window on the plan's baseline, and after each step; bounds where they differ from it."""
    every = [found.baseline_ns, *(step.time_ns for step in found.steps)]
    low = [None, *(_other(step.time_low_ns, step) for step in found.steps)]
    high = [None, *(_other(step.time_high_ns, step) for step in found.steps)]
    times: dict[str, Sequence[int | None]] = {"time": every, "low": low, "high": high}
    shown = in_time(**{name: values for name, values in times.items() if any(values)})
    return rows(
        {
            "changes": ["none", *(" + ".join(step.changes) for step in found.steps)],
            "fixes": ["", *(", ".join(step.fixes) for step in found.steps)],
            **{name: ["" if text == "?" else text for text in texts] for name, texts in shown.items()},
            "change (%)": [_percent(ns - found.baseline_ns, found.baseline_ns) for ns in every],
            **_unprofiled(found),
            "where": ["", *(safe(step.places[0]) if step.places else "" for step in found.steps)],
        }
    )


def _unprofiled(found: Plan) -> TextColumns:
    """The same change without the profiler, where the times are with it."""
    times = (found.unprofiled_ns, *(step.unprofiled_ns for step in found.steps))
    known = [_percent(change, 1) for ns in times if (change := found.unprofiled_change(ns)) is not None]
    return {"without the profiler (%)": known} if known else {}


def _other(bound_ns: int, step: Step) -> int | None:
    """A bound of a step's time, unless both are almost the same."""
    return bound_ns if step.time_high_ns - step.time_low_ns > _SAME_SHARE * step.time_ns else None


def _occurrence_title(audit: Audit) -> str:
    count = len(audit.occurrences)
    return "Occurrences" if count <= _OCCURRENCE_ROWS else f"The {_OCCURRENCE_ROWS} longest of {count:,} occurrences"


def _occurrences(audit: Audit) -> TextColumns:
    several = audit.occurrences if len(audit.occurrences) > 1 else ()  # a single one is the whole window
    longest = sorted(several, key=lambda entry: -entry.wall_ns)[:_OCCURRENCE_ROWS]
    shown: list[Occurrence] = sorted(longest, key=lambda entry: entry.start_ns)
    return in_time(
        start=[entry.start_ns - audit.window.first_ns for entry in shown],
        wall=[entry.wall_ns for entry in shown],
        kernels=[entry.kernel_busy_ns for entry in shown],
        copies=[entry.copy_busy_ns for entry in shown],
        overlap=[entry.overlap_ns for entry in shown],
    )


def _devices(devices: Sequence[DeviceAudit]) -> TextColumns:
    active = [device.activity for device in devices]
    return {
        "process": [_id(device.key.process) for device in devices],
        "device": [_id(device.key.device) for device in devices],
        **in_time(
            span=[activity.span_ns for activity in active],
            kernels=[activity.kernels.total_ns for activity in active],
            copies=[activity.copies.total_ns for activity in active],
            overlap=[activity.overlap.total_ns for activity in active],
            no_work=[activity.idle.total_ns for activity in active],
            no_kernel=[device.kernel_gaps.total_ns for device in devices],
            in_copy_call=[device.kernel_gaps.sum_ns(Cause.COPY_CALL) for device in devices],
        ),
    }


def _copies(groups: Sequence[tuple[DeviceAudit, CopyGroup]]) -> TextColumns:
    some = [group for _, group in groups]
    return {
        "process": [_id(device.key.process) for device, _ in groups],
        "device": [_id(device.key.device) for device, _ in groups],
        "direction": [group.key["direction"] for group in some],
        "memory": [_memory(group.key["memory"]) for group in some],
        "copies": [f"{group.count:,}" for group in some],
        **in_bytes("size", [group.size_bytes for group in some]),
        **in_time(
            time=[group.total_ns for group in some],
            exposed=[group.exposed_ns for group in some],
            host_blocked=[group.blocked_ns for group in some],
        ),
        "hidden (%)": [_hidden(device, group) for device, group in groups],
        "bandwidth (GB/s)": numbers([_bandwidth(group) for group in some]),
    }


def _hidden(device: DeviceAudit, group: CopyGroup) -> str:
    return _percent(group.hidden_ns, group.total_ns) if device.activity.kernels.total_ns else "undefined"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f}" if whole else "undefined"


def _bandwidth(group: CopyGroup) -> float | None:
    return group.size_bytes / group.unclipped_ns if group.size_bytes and group.unclipped_ns else None


def _costly_title(audit: Audit) -> str:
    count, total = len(audit.costly), audit.counts["copies"]
    return "Copies by cost" if count == total else f"The {count} most expensive of {total:,} copies"


def _costly(copies: Sequence[CostlyCopy], first_ns: int, name_width: int) -> TextColumns:
    return {
        **in_time(start=[copy.start_ns - first_ns for copy in copies]),
        "process": [_id(copy.process) for copy in copies],
        "device": [_id(copy.device) for copy in copies],
        "stream": [_id(copy.stream) for copy in copies],
        "direction": [copy.direction for copy in copies],
        "memory": [_memory(copy.memory) for copy in copies],
        **in_bytes("size", [copy.size_bytes for copy in copies]),
        **in_time(exposed=[copy.exposed_ns for copy in copies], host_blocked=[copy.blocked_ns for copy in copies]),
        "call": [safe(copy.call or "?", name_width) for copy in copies],
        "range": [safe(copy.range or NO_VALUE, name_width) for copy in copies],
    }


def _blocking(blocking: Sequence[HostBlocking], name_width: int) -> TextColumns:
    return {
        "process": [_id(row.process) for row in blocking],
        "thread": [_id(row.thread) for row in blocking],
        "API": [safe(row.api, name_width) for row in blocking],
        "calls": [f"{row.calls:,}" for row in blocking],
        **in_time(total=[row.total_ns for row in blocking], blocked=[row.blocked_ns for row in blocking]),
    }


def _memory(label: str) -> str:
    return label.upper() if label == "pageable" else label


def _id(value: int | None) -> str:
    return "?" if value is None or value < 0 else str(value)
