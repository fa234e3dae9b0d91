"""Render an audit for a terminal."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

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
    text.append(_profiler_cost(audit), style="dim")
    return text


def _profiler_cost(audit: Audit) -> str:
    """The time of a step with and without the profiler, where the recording measured it.

    Savings start from the recorded step as it would be without the profiler, which is another one than those timed.
    """
    recording, plan = audit.trace.metadata.recording, audit.diagnosis.plan
    if recording is None or recording.unprofiled is None or recording.recorded is None:
        return ""
    without, under = time(round(recording.unprofiled.step_ns)), time(round(recording.recorded.step_ns))
    text = f"\ntime per step: {under} with the profiler, {without} without"
    alone = plan is not None and plan.baseline == "unprofiled" and recording.recorded.count == 1
    if plan is None or not alone or not is_whole(audit.trace, audit.window) or time(plan.baseline_ns) == without:
        return text
    return f"{text}; savings start from {time(plan.baseline_ns)}: the recorded step, simulated without the profiler"


def _health(audit: Audit) -> list[RenderableType]:
    health = audit.trace.health
    told = audit.fit.told_health
    warnings = [each for each in health if each.message != health.no_device_work and each.code not in told]
    lines = Text()
    for warning in warnings[:_HEALTH_ROWS]:
        lines.append(f"{warning.severity}: ", style=_SEVERITY_STYLE[warning.severity])
        lines.append(f"{safe(warning.text)}\n")
    if len(warnings) > _HEALTH_ROWS:
        lines.append(f"... and {len(warnings) - _HEALTH_ROWS} more; --format json lists all\n", style="dim")
    return [lines] if warnings else []
