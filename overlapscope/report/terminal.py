"""Render an audit for a terminal."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from overlapscope.calibration.schema import Calibration
from overlapscope.formatting import safe, time
from overlapscope.measure.windows import is_whole
from overlapscope.model.health import HealthSeverity
from overlapscope.report.data import Audit
from overlapscope.report.findings import findings
from overlapscope.report.tables import LEFT, NAME_WIDTH, Cells, tables

_HEALTH_ROWS = 8
_WIDE = 110  # columns of a terminal that shows everything
_SEVERITY_STYLE = {HealthSeverity.DAMAGE: "bold red", HealthSeverity.WARNING: "yellow", HealthSeverity.INFO: "dim"}
_ONLY_WIDE = {"process", "device", "span", "overlap", "bandwidth", "call"}


def render(audit: Audit, console: Console) -> None:
    """Print ``audit`` on ``console``."""
    console.print(Group(*_parts(audit, wide=console.width >= _WIDE)))


def _parts(audit: Audit, *, wide: bool) -> list[RenderableType]:
    several = len({device.key.process for device in audit.devices}) > 1
    devices = len({device.key.device for device in audit.devices}) > 1
    hidden = set() if wide else _ONLY_WIDE - ({"process"} if several else set()) - ({"device"} if devices else set())
    name_width = NAME_WIDTH if wide else NAME_WIDTH // 2
    shown = [_table(title, rows, hidden) for title, rows in tables(audit, name_width)]
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
    where = "whole trace" if is_whole(audit.trace, window) else "a part of the trace"
    where = where if window.name is None else f"range {window.name!r}, {len(window.start_ns)} x"
    text = Text(safe(metadata.path), style="cyan")
    about = [metadata.tool, *gpus, f"{where}, {time(window.wall_ns)}"]
    text.append("\n" + safe("  ".join(about)), style="dim")
    text.append(_profiler_cost(metadata.recording), style="dim")
    return text


def _profiler_cost(recording: Calibration | None) -> str:
    """The time of a step with and without the profiler, where the recording measured it."""
    if recording is None or recording.unprofiled is None or recording.recorded is None:
        return ""
    without, under = recording.unprofiled.step_ns, recording.recorded.step_ns
    return f"\ntime per step: {time(round(under))} with the profiler, {time(round(without))} without"


def _table(title: str, rows: list[Cells], hidden: set[str]) -> Table:
    names = [name for name in rows[0] if name not in hidden]
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in names:
        table.add_column(name, justify="left" if name in LEFT else "right", no_wrap=True, header_style="dim")
    for row in rows:
        table.add_row(*(Text(row[name]) for name in names))
    return table


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
