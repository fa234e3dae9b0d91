"""Render findings and plan for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from overlapscope.diagnosis.catalogue import rule
from overlapscope.diagnosis.finding import Diagnosis, Finding, Place, Plan, Severity
from overlapscope.formatting import safe, share, time
from overlapscope.report.headline import SIMULATED
from overlapscope.report.layout import fitted
from overlapscope.report.tables import plan_rows

_STYLE = {
    Severity.HAZARD: "bold red",
    Severity.HIGH: "bold red",
    Severity.MEDIUM: "bold yellow",
    Severity.LOW: "bold",
    Severity.INFO: "bold dim",
}
_WIDTH = 60
_ALMOST_ALL = 0.9
_WORTH_SAYING = 0.01
NOT_SIMULATED = "Fixes were not simulated: overlapscope what-if simulates one change."
"""Shown instead of a plan."""


def findings(diagnosis: Diagnosis, width: int) -> list[RenderableType]:
    """Render every finding and the plan, or that there is no finding."""
    if not diagnosis.findings:
        return [Padding(Text(safe(diagnosis.summary), style="green"), (0, 0, 1, 0))] if diagnosis.devices else []
    several = len(diagnosis.devices) > 1
    parts = [part for finding in diagnosis.findings for part in _finding(finding, diagnosis, several)]
    confirm = [Text(safe(line), style="dim") for line in to_confirm(diagnosis.findings)]
    parts += [*confirm, Text("")] if confirm else []
    head = [Text(heading(diagnosis), style="dim"), Text("")]
    if diagnosis.plan is not None:
        plan = diagnosis.plan
        table = fitted(plan_title(plan), plan_rows(plan), width) if plan.steps else []
        below = [*table, *(Text(line, style="dim") for line in (*added(plan), *notes(plan)))]
        return [*head, *parts, *below, *([Text("")] if below else [])]
    fixable = any(finding.change is not None for finding in diagnosis.findings)
    return [*head, *parts, *([Text(NOT_SIMULATED, style="dim"), Text("")] if fixable else [])]


def same_change(finding: Finding, found: Iterable[Finding]) -> int | None:
    """The rank of the first finding with the same change and saving, such as of another GPU; None for the first."""
    same = (each for each in found if each.offered and each.change == finding.change)
    first = next((each.rank for each in same if each.saving_ns == finding.saving_ns), finding.rank)
    return first if finding.saving_ns and finding.offered and first < finding.rank else None


def to_confirm(found: Iterable[Finding]) -> list[str]:
    """What would raise the confidence of which findings, each once."""
    ranks: dict[str, list[str]] = {}
    for finding in found:
        if finding.confirm_with:
            ranks.setdefault(finding.confirm_with, []).append(str(finding.rank))
    return [f"To confirm {', '.join(numbers)}: {text}." for text, numbers in ranks.items()]


def heading(diagnosis: Diagnosis) -> str:
    """The order of the findings, and the baseline of their savings."""
    plan = diagnosis.plan
    text = f"Findings, by GPU idle time in the recorded {time(diagnosis.window.wall_ns)}; one-time costs last"
    return (
        f"{text}."
        if plan is None
        else f"{text}. Savings are {SIMULATED[plan.baseline]}, against {time(plan.baseline_ns)}."
    )


def added(plan: Plan) -> Iterator[str]:
    """For steps that fix no finding what they edit, and the pages about their changes."""
    known = 0
    for step in plan.steps:
        names = step.changes[known:]
        known = len(step.changes)
        if not step.fixes:
            pages = ", ".join(f"overlapscope explain {name.partition('=')[0]}" for name in names)
            place = f" at {safe(step.places[0])}" if step.places else ""
            yield f"{' + '.join(names)}{place}: {pages}"


def notes(plan: Plan) -> Iterator[str]:
    """For the last step what it assumes of the host; if its interval is wide, that, and what would narrow it."""
    for step in plan.steps[-1:]:
        yield from (f"{' + '.join(step.changes)} {text}." for text in step.assumes)
        if step.narrowed_by is not None:
            recorded, own = (
                f"{time(low)} to {time(high)}"
                for low, high in (
                    (step.predicted_low_ns, step.predicted_high_ns),
                    (step.unprofiled_low_ns, step.unprofiled_high_ns),
                )
            )
            yield f"All of these may take {recorded} under the profiler, {own} without. Narrower by {step.narrowed_by}."


def plan_title(plan: Plan) -> str:
    """The title of a plan's table, with the baseline of its times."""
    return f"Fixes one after the other, {SIMULATED[plan.baseline]}"


def _finding(finding: Finding, diagnosis: Diagnosis, several: bool) -> list[RenderableType]:
    head = Text(f"{finding.rank}. {finding.title}", style=_STYLE[finding.severity])
    head.append("  " + ", ".join(facts(finding, diagnosis)), style="not bold dim")
    where = _where(finding.where, several)
    lines = [Text(safe(finding.message)), *([Text(f"at {where}{portion(finding)}", style="dim")] if where else [])]
    lines += [Text(line) for line in worth(finding, diagnosis.plan)]
    first = same_change(finding, diagnosis.findings)
    lines += [Text(f"the same change as for {first}: it saves this once")] if first else []
    lines += [Text(safe(line), style="cyan") for line in finding.fix.splitlines() if finding.offered]
    return [head, *(Padding(line, (0, 0, 0, 3)) for line in lines), Text("")]


def facts(finding: Finding, diagnosis: Diagnosis, *, blocked: bool = False) -> list[str]:
    """GPU idle time, severity and confidence as short texts; with ``blocked``, the blocked host time too.

    The share is of the analysed time, which its text names where it is not the window.
    """
    device, texts = diagnosis.device_of(finding), list[str]()
    whole_ns = diagnosis.window.wall_ns if device is None else device.span_ns
    if finding.idle_ns:
        what = "GPU idle" if finding.idle_rows else "exposed for"
        part = share(finding.idle_ns, whole_ns)
        of = "" if time(whole_ns) == time(diagnosis.window.wall_ns) else f" of {time(whole_ns)}"
        copying = finding.copying_ns > _WORTH_SAYING * finding.idle_ns
        texts.append(f"{'no kernel for' if copying else what} {time(finding.idle_ns)} ({part}{of})")
        if copying:
            texts[-1] += f": {_copying(finding)}"
    if blocked and finding.blocked_ns:
        texts.append(f"host blocked {time(finding.blocked_ns)}")
    return [*texts, f"severity {finding.severity}", f"confidence {finding.confidence}"]


def _copying(finding: Finding) -> str:
    """The parts of idle time in which copies run, and in which nothing does."""
    idle_ns = finding.idle_ns - finding.copying_ns
    idle = f", {time(idle_ns)} idle" if idle_ns > _WORTH_SAYING * finding.idle_ns else ""
    return f"{time(finding.copying_ns)} copying{idle}"


def worth(finding: Finding, plan: Plan | None) -> list[str]:
    """What the change of a finding saves, or why it is not offered or not simulated, in at most one line."""
    if finding.change is None:
        why = not_simulated(finding)
        return [f"no estimate: {why}"] if why else []
    if finding.saving_ns is None:
        return []
    saved = saving_of(finding, plan)
    if not finding.offered:
        text = f"fix not offered: {finding.change} saves {saved}"
        if finding.waits_instead:
            return [f"{text}; the GPU would then wait: {finding.waits_instead}"]
        least = finding.unprofiled_saving_ns if plan is not None and plan.estimated else finding.saving_ns
        return [text + (", less than two runs of a program differ by" if least else "")]
    return [_offered(finding, saved, plan)]


def saving_of(finding: Finding, plan: Plan | None) -> str:
    """What the change of a finding saves, and how much of it without the profiler, where that is only estimated."""
    saved = time(finding.saving_ns) if finding.saving_ns else "nothing"
    if plan is None or not plan.estimated or not finding.saving_ns or finding.unprofiled_saving_ns is None:
        return saved
    without = time(finding.unprofiled_saving_ns) if finding.unprofiled_saving_ns else "nothing"
    return saved if without == saved else f"{saved} ({without} without the profiler, estimated)"


def _offered(finding: Finding, saved: str, plan: Plan | None) -> str:
    """What a fix saves and what is left, in one line."""
    left = "" if finding.expected is None else f", leaving {finding.expected.interval}"
    text = f"fix: {finding.change} saves {saved}"
    if finding.saving_high_ns is not None:
        return f"{text}, up to {time(finding.saving_high_ns)} if nothing waits for its copies{left}"
    if finding.saves_more is not None:
        return f"{text}{left}; more than its GPU idle time: {finding.saves_more}"
    if plan is not None and not _alone(finding, plan):
        return f"{text} alone{left}; see below what it saves with others"
    return text + left


def not_simulated(finding: Finding) -> str | None:
    """Why no change stands for the fix of a finding that has none; None where there is nothing to save."""
    if finding.severity is Severity.HAZARD:
        return "it is about right values, not about time"
    return rule(finding.code).not_simulated if finding.idle_ns and finding.severity is not Severity.INFO else None


def _alone(finding: Finding, plan: Plan) -> bool:
    """Whether a change saves something by itself, or is not in the plan."""
    later = any(finding.change in step.changes for step in plan.steps)
    return not later or 20 * (finding.saving_ns or 0) >= plan.baseline_ns


def portion(finding: Finding) -> str:
    """The share of a finding's first place, where there is more than that."""
    largest = finding.places[0].idle_ns if finding.places else 0
    if not largest or not finding.idle_ns or largest >= _ALMOST_ALL * finding.idle_ns:
        return ""
    return f" ({share(largest, finding.idle_ns)} of it)"


def _both_ends(path: str) -> str:
    """A path of ranges; where it is long, its outermost and its innermost one."""
    outermost, *_, innermost = path.split(" / ") if path.count(" / ") else ("", path)
    if len(path) <= _WIDTH or not outermost:
        return path
    short = f"{outermost} / … / {innermost}"
    return short if len(short) <= _WIDTH else f"… / {innermost}"


def _where(place: Place, several: bool) -> str:
    parts = [_both_ends(place.range or ""), place.source or place.op, place.api]
    shown = [safe(part, _WIDTH) for part in parts if part]
    if place.stream is not None:
        shown.append(f"stream {place.stream}")
    if several and place.device is not None:
        shown.append(f"device {place.device}")
    return ", ".join(shown)
