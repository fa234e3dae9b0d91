"""Findings on a terminal: what, how much, where, and what to change."""

from __future__ import annotations

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from overlapscope.diagnosis.finding import Confidence, Diagnosis, Finding, Place, Plan, Severity, Step
from overlapscope.formatting import safe, share, time

_STYLE = {
    Severity.HAZARD: "bold red",
    Severity.HIGH: "bold red",
    Severity.MEDIUM: "bold yellow",
    Severity.LOW: "bold",
    Severity.INFO: "bold dim",
}
_WIDTH = 60
TOO_LARGE = (
    "Too large to replay every change here: overlapscope what-if predicts one at a time, --range makes it smaller."
)
"""Said instead of a plan."""


def findings(diagnosis: Diagnosis) -> list[RenderableType]:
    """Every finding, or that there is none."""
    if not diagnosis.findings:
        return [Padding(Text(safe(diagnosis.summary), style="green"), (0, 0, 1, 0))] if diagnosis.devices else []
    several = len(diagnosis.devices) > 1
    parts = [part for finding in diagnosis.findings for part in _finding(finding, diagnosis.window.wall_ns, several)]
    if diagnosis.plan is not None:
        return parts + _plan(diagnosis.plan)
    mendable = any(finding.change is not None for finding in diagnosis.findings)
    return parts + ([Text(TOO_LARGE, style="dim"), Text("")] if mendable else [])


def _plan(plan: Plan) -> list[RenderableType]:
    """What to mend in which order, with the time after each step."""
    if not plan.steps:
        return []
    lines = [Text("Mended and replayed", style="bold")]
    as_it_is = f"  {time(plan.simulated_ns)}{_without(plan.unprofiled_ns)} as it is"
    lines[0].append(as_it_is, style="not bold dim")
    return [*lines, *map(_step, plan.steps), Text("")]


def _step(step: Step) -> Text:
    span = f" ({time(step.low_ns)} to {time(step.high_ns)})" if step.low_ns < step.high_ns else ""
    line = Text(f"   {' + '.join(step.changes)}: {time(step.predicted_ns)}{span}{_without(step.unprofiled_ns)}")
    return line.append(f"  for {', '.join(step.fixes)}", style="dim") if step.fixes else line


def _without(unprofiled_ns: int | None) -> str:
    return "" if unprofiled_ns is None else f" (unprofiled {time(unprofiled_ns)})"


def _finding(finding: Finding, wall_ns: int, several: bool) -> list[RenderableType]:
    head = Text(f"{finding.rank}. {finding.code} {finding.name}", style=_STYLE[finding.severity])
    head.append("  " + ", ".join(facts(finding, wall_ns)), style="not bold dim")
    where = _where(finding.where, several)
    lines = [Text(safe(finding.message)), *([Text(f"at {where}", style="dim")] if where else [])]
    if finding.doubt:
        lines.append(Text(f"to be surer: {safe(finding.doubt)}", style="dim"))
    lines += [Text(safe(line), style="cyan") for line in finding.fix.splitlines()]
    return [head, *(Padding(line, (0, 0, 0, 3)) for line in lines), Text("")]


def facts(finding: Finding, wall_ns: int, *, held: bool = False) -> list[str]:
    """How much it matters, what was lost, what mending it saves; with ``held``, for how long the host was."""
    told = [str(finding.severity)]
    if finding.idle_ns:
        told.append(f"{time(finding.idle_ns)} of device time lost ({share(finding.idle_ns, wall_ns)})")
    if held and finding.blocked_ns:
        told.append(f"host held for {time(finding.blocked_ns)}")
    if finding.saving_ns is not None:
        most = f" to {time(finding.saving_high_ns)}" if finding.saving_high_ns is not None else ""
        told.append(f"{finding.change} saves {time(finding.saving_ns)}{most}")
    if finding.confidence is not Confidence.HIGH:
        told.append(f"confidence {finding.confidence}")
    return told


def _where(place: Place, several: bool) -> str:
    parts = [place.range, place.source or place.op, place.api]
    shown = [safe(part, _WIDTH) for part in parts if part]
    if place.stream is not None:
        shown.append(f"stream {place.stream}")
    if several and place.device is not None:
        shown.append(f"device {place.device}")
    return ", ".join(shown)
