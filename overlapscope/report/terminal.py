"""The audit on one terminal screen."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from overlapscope.measure.groups import CopyGroup
from overlapscope.measure.host import HostBlocking
from overlapscope.model.health import Severity
from overlapscope.model.recording import Recording
from overlapscope.report.data import Audit, CostlyCopy, DeviceAudit
from overlapscope.report.findings import findings
from overlapscope.words import safe, share, size, time

Cells = dict[str, str]
"""A table's row, by column heading."""

_OCCURRENCE_ROWS = 8
_BLOCKING_ROWS = 5
_HEALTH_ROWS = 8
_NAME_WIDTH = 24
_WIDE = 110  # columns of a terminal from which on everything is shown
_SEVERITY_STYLE = {Severity.DAMAGE: "bold red", Severity.WARNING: "yellow", Severity.INFO: "dim"}
_LEFT = {"API", "call", "range", "direction", "memory"}
_ONLY_WIDE = {"process", "device", "span", "both", "rate", "call"}


def render(audit: Audit, console: Console) -> None:
    """Print ``audit`` on ``console``."""
    console.print(Group(*_parts(audit, wide=console.width >= _WIDE)))


def _parts(audit: Audit, *, wide: bool) -> list[RenderableType]:
    several = len({device.key.process for device in audit.devices}) > 1
    devices = len({device.key.device for device in audit.devices}) > 1
    hidden = set() if wide else _ONLY_WIDE - ({"process"} if several else set()) - ({"device"} if devices else set())
    name_width = _NAME_WIDTH if wide else _NAME_WIDTH // 2
    tables = [
        (_occurrence_title(audit), _occurrence_cells(audit)),
        ("Devices", [_device_cells(device) for device in audit.devices]),
        ("Copies", [_copy_cells(device, group) for device in audit.devices for group in device.memory]),
        ("Most expensive copies", _costly_cells(audit.costly, audit.window.first_ns, name_width)),
        ("Calls that held their thread", _blocking_cells(audit.host_blocking)),
    ]
    shown = [_table(title, rows, hidden) for title, rows in tables if rows]
    return [
        _heading(audit),
        Padding(Text(audit.verdict, style="bold"), (1, 0)),
        *findings(audit.diagnosis),
        *shown,
        *_health(audit),
    ]


def _heading(audit: Audit) -> Text:
    metadata, window = audit.trace.metadata, audit.window
    gpus = sorted({device.name for device in audit.devices if device.name})
    where = "whole trace" if window.name is None else f"range {window.name!r}, {len(window.start_ns)} x"
    text = Text(safe(metadata.path), style="cyan")
    about = [metadata.tool, *gpus, f"{where}, {time(window.wall_ns)}"]
    text.append("\n" + safe("  ".join(about)), style="dim")
    text.append(_profiler_cost(metadata.recording), style="dim")
    return text


def _profiler_cost(recording: Recording | None) -> str:
    """What the recording knows of its own cost."""
    if recording is None or recording.unprofiled is None or recording.recorded is None:
        return ""
    without, under = recording.unprofiled.step_ns, recording.recorded.step_ns
    return f"\na step took {time(round(under))} under the profiler, {time(round(without))} without it"


def _table(title: str, rows: list[Cells], hidden: set[str]) -> Table:
    names = [name for name in rows[0] if name not in hidden]
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in names:
        table.add_column(name, justify="left" if name in _LEFT else "right", no_wrap=True, header_style="dim")
    for row in rows:
        table.add_row(*(Text(row[name]) for name in names))
    return table


def _occurrence_title(audit: Audit) -> str:
    count = len(audit.occurrences)
    return "Occurrences" if count <= _OCCURRENCE_ROWS else f"The {_OCCURRENCE_ROWS} longest of {count:,} occurrences"


def _occurrence_cells(audit: Audit) -> list[Cells]:
    if len(audit.occurrences) < 2:  # noqa: PLR2004 - one is the whole
        return []
    longest = sorted(audit.occurrences, key=lambda entry: -entry.wall_ns)[:_OCCURRENCE_ROWS]
    return [
        {
            "at": time(entry.start_ns - audit.window.first_ns),
            "wall": time(entry.wall_ns),
            "kernels": time(entry.kernel_busy_ns),
            "copies": time(entry.copy_busy_ns),
            "both": time(entry.overlap_ns),
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
        "both": time(activity.overlap.total_ns),
        "idle": time(activity.idle.total_ns),
        "no kernel": time(device.kernel_gaps.total_ns),
        "held in copy": time(device.kernel_gaps.held_in_copy_ns),
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
        "rate": f"{group.size_bytes / group.whole_ns:.3g} GB/s" if group.size_bytes and group.whole_ns else "?",
        "held host": time(group.held_ns),
    }


def _costly_cells(copies: tuple[CostlyCopy, ...], first_ns: int, name_width: int) -> list[Cells]:
    return [
        {
            "at": time(copy.start_ns - first_ns),
            "process": _id(copy.process),
            "device": _id(copy.device),
            "stream": _id(copy.stream),
            "direction": copy.direction,
            "memory": _memory(copy.memory),
            "size": _size(copy.size_bytes),
            "exposed": time(copy.exposed_ns),
            "held": time(copy.held_ns),
            "call": safe(copy.call or "?", _NAME_WIDTH),
            "range": safe(copy.range or "-", name_width),
        }
        for copy in copies
    ]


def _blocking_cells(blocking: tuple[HostBlocking, ...]) -> list[Cells]:
    return [
        {
            "process": _id(row.process),
            "thread": _id(row.thread),
            "API": safe(row.api, _NAME_WIDTH),
            "calls": f"{row.calls:,}",
            "inside": time(row.span_ns),
            "held": time(row.held_ns),
        }
        for row in blocking[:_BLOCKING_ROWS]
        if row.held_ns
    ]


def _size(count: int | None) -> str:
    return "?" if count is None else size(count)


def _memory(label: str) -> str:
    return label.upper() if label == "pageable" else label


def _health(audit: Audit) -> list[RenderableType]:
    warnings = list(audit.trace.health)
    lines = Text()
    for warning in warnings[:_HEALTH_ROWS]:
        portion = f" ({100 * warning.share:.3g} %)" if warning.share is not None else ""
        lines.append(f"{warning.severity}: ", style=_SEVERITY_STYLE[warning.severity])
        lines.append(f"{warning.count:,}{portion} {safe(warning.message)}\n")
    if len(warnings) > _HEALTH_ROWS:
        lines.append(f"... and {len(warnings) - _HEALTH_ROWS} more; --format json lists all\n", style="dim")
    return [Padding(lines, (1, 0, 0, 0))] if warnings else []


def _id(value: int | None) -> str:
    return "?" if value is None or value < 0 else str(value)
