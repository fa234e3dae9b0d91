"""Render findings and plan for a terminal."""

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
    "Fixes are not simulated for a time interval or a very large trace: --within and --step analyse a range, "
    "overlapscope what-if simulates one change."
)
"""Shown instead of a plan."""


def findings(diagnosis: Diagnosis) -> list[RenderableType]:
    """Render every finding and the plan, or that there is no finding."""
    if not diagnosis.findings:
        return [Padding(Text(safe(diagnosis.summary), style="green"), (0, 0, 1, 0))] if diagnosis.devices else []
    several = len(diagnosis.devices) > 1
    parts = [part for finding in diagnosis.findings for part in _finding(finding, diagnosis.window.wall_ns, several)]
    if diagnosis.plan is not None:
        return parts + _plan(diagnosis.plan)
    fixable = any(finding.change is not None for finding in diagnosis.findings)
    return parts + ([Text(TOO_LARGE, style="dim"), Text("")] if fixable else [])


def _plan(plan: Plan) -> list[RenderableType]:
    """The steps of a plan, each with the simulated time after it."""
    if not plan.steps:
        return []
    head = Text("After fixes (simulated)", style="bold")
    head.append(f"  now {time(plan.simulated_ns)}{_without(plan.unprofiled_ns)}", style="not bold dim")
    return [head, *map(_step, plan.steps), Text("")]


def _step(step: Step) -> Text:
    span = f" ({time(step.low_ns)} to {time(step.high_ns)})" if step.low_ns < step.high_ns else ""
    line = Text(f"   {' + '.join(step.changes)}: {time(step.predicted_ns)}{span}{_without(step.unprofiled_ns)}")
    return line.append(f"  fixes {', '.join(step.fixes)}", style="dim") if step.fixes else line


def _without(unprofiled_ns: int | None) -> str:
    return "" if unprofiled_ns is None else f" ({time(unprofiled_ns)} without profiler)"


def _finding(finding: Finding, wall_ns: int, several: bool) -> list[RenderableType]:
    head = Text(f"{finding.rank}. {finding.title}", style=_STYLE[finding.severity])
    head.append("  " + ", ".join(facts(finding, wall_ns)), style="not bold dim")
    where = _where(finding.where, several)
    lines = [Text(safe(finding.message)), *([Text(f"at {where}", style="dim")] if where else [])]
    if finding.confirm_with:
        lines.append(Text(f"to confirm: {safe(finding.confirm_with)}", style="dim"))
    lines += [Text(safe(line), style="cyan") for line in finding.fix.splitlines()]
    return [head, *(Padding(line, (0, 0, 0, 3)) for line in lines), Text("")]


def facts(finding: Finding, wall_ns: int, *, blocked: bool = False) -> list[str]:
    """Severity, GPU idle time, saving and confidence as short texts; with ``blocked``, the blocked host time too."""
    texts = [str(finding.severity)]
    if finding.idle_ns:
        texts.append(f"GPU idle {time(finding.idle_ns)} ({share(finding.idle_ns, wall_ns)})")
    if blocked and finding.blocked_ns:
        texts.append(f"host blocked for {time(finding.blocked_ns)}")
    if finding.saving_ns is not None:
        high = f" to {time(finding.saving_high_ns)}" if finding.saving_high_ns is not None else ""
        texts.append(f"{finding.change} saves {time(finding.saving_ns)}{high}")
    if finding.confidence is not Confidence.HIGH:
        texts.append(f"{finding.confidence} confidence")
    return texts


def _where(place: Place, several: bool) -> str:
    parts = [place.range, place.source or place.op, place.api]
    shown = [safe(part, _WIDTH) for part in parts if part]
    if place.stream is not None:
        shown.append(f"stream {place.stream}")
    if several and place.device is not None:
        shown.append(f"device {place.device}")
    return ", ".join(shown)
