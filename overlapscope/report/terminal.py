"""Render an audit for a terminal."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from overlapscope.calibration.schema import Calibration
from overlapscope.formatting import safe, time
from overlapscope.measure.windows import is_whole
from overlapscope.model.health import HealthSeverity
from overlapscope.report.data import Audit
from overlapscope.report.findings import findings
from overlapscope.report.layout import fitted
from overlapscope.report.tables import tables
from overlapscope.report.time_bars import time_bars

_HEALTH_ROWS = 8
_SEVERITY_STYLE = {HealthSeverity.DAMAGE: "bold red", HealthSeverity.WARNING: "yellow", HealthSeverity.INFO: "dim"}


def render(audit: Audit, console: Console) -> None:
    """Print ``audit`` on ``console``."""
    console.print(Group(*_parts(audit, console.width)))


def _parts(audit: Audit, width: int) -> list[RenderableType]:
    shown = [part for table in tables(audit) for part in (*fitted(table.title, table.rows, width), Text(""))]
    return [
        _heading(audit),
        Text(safe(audit.fit.statement), style="yellow" if audit.fit.limits else "dim"),
        *([Text(""), Text(safe(audit.headline), style="bold")] if audit.headline else []),
        Padding(Text(audit.verdict), (0 if audit.headline else 1, 0, 1, 0)),
        *time_bars(audit.devices, width),
        *findings(audit.diagnosis, width),
        *shown,
        *_health(audit),
    ]


def _heading(audit: Audit) -> Text:
    metadata, window = audit.trace.metadata, audit.window
    gpus = sorted({device.name for device in audit.devices if device.name})
    where = "whole trace" if is_whole(audit.trace, window) else "a part of the trace"
    where = where if window.name is None else f"range {window.name!r}, {len(window.start_ns)} x"
    where += "" if window.device is None else f", device {window.device}"
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


def _health(audit: Audit) -> list[RenderableType]:
    health = audit.trace.health
    told = audit.fit.told_health
    warnings = [each for each in health if each.message != health.no_device_work and each.code not in told]
    lines = Text()
    for warning in warnings[:_HEALTH_ROWS]:
        portion = f" ({100 * warning.share:.3g} %)" if warning.share is not None else ""
        lines.append(f"{warning.severity}: ", style=_SEVERITY_STYLE[warning.severity])
        lines.append(f"{warning.count:,}{portion} {safe(warning.message)}\n")
    if len(warnings) > _HEALTH_ROWS:
        lines.append(f"... and {len(warnings) - _HEALTH_ROWS} more; --format json lists all\n", style="dim")
    return [lines] if warnings else []
