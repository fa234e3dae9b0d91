"""The audit on one terminal screen."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from overlapscope.measure.groups import CopyGroup
from overlapscope.model.health import Severity
from overlapscope.report.content import Audit, CostlyCopy, DeviceAudit
from overlapscope.words import safe, share, size, time

_BLOCKING_ROWS = 5
_HEALTH_ROWS = 8
_NAME_WIDTH = 28
_SEVERITY_STYLE = {Severity.DAMAGE: "bold red", Severity.WARNING: "yellow", Severity.INFO: "dim"}


def render(audit: Audit, console: Console) -> None:
    """Print ``audit`` on ``console``."""
    console.print(Group(*_parts(audit)))


def _parts(audit: Audit) -> list[RenderableType]:
    parts: list[RenderableType] = [_heading(audit), Padding(Text(audit.verdict, style="bold"), (1, 0))]
    if audit.devices:
        parts.append(_device_table(audit.devices))
    if any(device.memory for device in audit.devices):
        parts.append(_copy_table(audit.devices))
    if audit.costly:
        parts.append(_costly_table(audit.costly))
    blocking = [row for row in audit.host_blocking if row.held_ns][:_BLOCKING_ROWS]
    if blocking:
        table = _table("Calls that held their thread", "process", "thread", "API", "calls", "inside", "held")
        for row in blocking:
            name = safe(row.api, _NAME_WIDTH)
            table.add_row(
                _id(row.process), _id(row.thread), name, f"{row.calls:,}", time(row.span_ns), time(row.held_ns)
            )
        parts.append(table)
    parts += _health(audit)
    return parts


def _heading(audit: Audit) -> Text:
    metadata, window = audit.trace.metadata, audit.window
    gpus = sorted({device.name for device in audit.devices if device.name})
    where = "whole trace" if window.name is None else f"range {window.name!r}, {len(window.start_ns)} x"
    text = Text(safe(metadata.path), style="cyan")
    text.append(f"  {safe(metadata.tool)}", style="dim")
    if gpus:
        text.append(f"  {safe(', '.join(gpus))}", style="dim")
    text.append(f"\n{safe(where)}, {time(window.wall_ns)}", style="dim")
    return text


def _table(
    title: str, *columns: str, left: tuple[str, ...] = ("API", "call", "range", "direction", "memory", "GPU")
) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=True, header_style="dim")
    return table


def _device_table(devices: tuple[DeviceAudit, ...]) -> Table:
    table = _table(
        "Devices", "process", "device", "span", "kernels", "copies", "both", "idle", "no kernel", "held in copy"
    )
    for device in devices:
        activity = device.activity
        table.add_row(
            _id(device.key.process),
            _id(device.key.device),
            time(activity.span_ns),
            time(activity.kernels.total_ns),
            time(activity.copies.total_ns),
            time(activity.overlap.total_ns),
            time(activity.idle.total_ns),
            time(device.kernel_gaps.total_ns),
            time(device.kernel_gaps.held_in_copy_ns),
        )
    return table


def _copy_table(devices: tuple[DeviceAudit, ...]) -> Table:
    table = _table(
        "Copies", "device", "direction", "memory", "copies", "size", "time", "hidden", "exposed", "rate", "held host"
    )
    for device in devices:
        for group in device.memory:
            table.add_row(_id(device.key.device), *_group_cells(group, undefined=not device.activity.kernels.total_ns))
    return table


def _group_cells(group: CopyGroup, *, undefined: bool) -> tuple[str, ...]:
    rate = f"{group.size_bytes / group.total_ns:.3g} GB/s" if group.total_ns else "?"
    memory = group.key["memory"]
    return (
        group.key["direction"],
        memory.upper() if memory == "pageable" else memory,
        f"{group.count:,}",
        size(group.size_bytes),
        time(group.total_ns),
        "undefined" if undefined else share(group.hidden_ns, group.total_ns),
        time(group.exposed_ns),
        rate,
        time(group.held_ns),
    )


def _costly_table(copies: tuple[CostlyCopy, ...]) -> Table:
    table = _table(
        "Most expensive copies",
        "at",
        "device",
        "stream",
        "direction",
        "memory",
        "size",
        "exposed",
        "held",
        "call",
        "range",
    )
    first = min(copy.start_ns for copy in copies)
    for copy in copies:
        table.add_row(
            f"+{time(copy.start_ns - first)}",
            _id(copy.device),
            _id(copy.stream),
            copy.direction,
            copy.memory.upper() if copy.memory == "pageable" else copy.memory,
            size(copy.size_bytes) if copy.size_bytes is not None else "?",
            time(copy.exposed_ns),
            time(copy.held_ns),
            safe(copy.call or "?", _NAME_WIDTH),
            safe(copy.range or "-", _NAME_WIDTH),
        )
    return table


def _health(audit: Audit) -> list[RenderableType]:
    warnings = list(audit.trace.health)
    lines = Text()
    for warning in warnings[:_HEALTH_ROWS]:
        portion = f" ({100 * warning.share:.2g} %)" if warning.share is not None else ""
        lines.append(f"{warning.severity}: ", style=_SEVERITY_STYLE[warning.severity])
        lines.append(f"{warning.count:,}{portion} {safe(warning.message)}\n")
    if len(warnings) > _HEALTH_ROWS:
        lines.append(f"... and {len(warnings) - _HEALTH_ROWS} more; --format json lists all\n", style="dim")
    return [Padding(lines, (1, 0, 0, 0))] if warnings else []


def _id(value: int | None) -> str:
    return "?" if value is None or value < 0 else str(value)
