"""The findings of a diagnosis and its plan as parts of a document."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from overlapscope.diagnosis.catalogue import rule
from overlapscope.diagnosis.finding import Diagnosis, Finding, Number, Place, Plan, Severity
from overlapscope.diagnosis.intervals import finding_intervals
from overlapscope.document import nodes
from overlapscope.document.nodes import Paragraph, Section, Tone
from overlapscope.formatting import safe, share, size, time
from overlapscope.report.headline import simulated
from overlapscope.report.tables import places, plan_table

_WIDTH = 60
_ALMOST_ALL = 0.9
_WORTH_SAYING = 0.01
_UNITS: dict[str, Callable[[float], str]] = {
    "_ns": time,
    "_bytes": lambda value: size(int(value)),
    "_gb_s": lambda value: f"{value:.3g} GB/s",
}
"""Endings of names in the evidence, and how such a number is written."""


def findings_section(diagnosis: Diagnosis, recorded: Diagnosis | None = None) -> Section:
    """Every finding, or that there is none; empty without GPU work.

    With the ``recorded`` diagnosis each has its places on the timeline of the trace.
    """
    if not diagnosis.findings:
        none = (Paragraph(diagnosis.summary, Tone.GOOD),) if diagnosis.devices else ()
        return Section("Findings", none, "findings")
    codes = [finding.code for finding in diagnosis.findings]
    shown = [
        _finding(finding, diagnosis, first=codes.index(finding.code) == number, recorded=recorded)
        for number, finding in enumerate(diagnosis.findings)
    ]
    confirm = tuple(Paragraph(line, Tone.NOTE) for line in to_confirm(diagnosis.findings))
    parts: list[tuple[nodes.Node, ...]] = [
        (Paragraph(heading(diagnosis), Tone.ABOUT),),
        *((each,) for each in shown),
        confirm,
    ]
    return Section("Findings", tuple(Section("", part) for part in parts), "findings")


def plan_section(diagnosis: Diagnosis) -> Section:
    """The fixes one after the other, with what each adds; where they were not simulated, that."""
    plan, parts = diagnosis.plan, list[nodes.Node]()
    if plan is not None and plan.steps:
        parts = [plan_table(plan), *(Paragraph(line, Tone.NOTE) for line in chain(_added(plan), _notes(plan)))]
    elif plan is None and any(finding.change is not None for finding in diagnosis.findings):
        parts = [Paragraph("Fixes were not simulated: overlapscope what-if simulates one change.", Tone.NOTE)]
    return Section("What the fixes are worth", tuple(parts), "plan")


def same_change(finding: Finding, findings: Iterable[Finding]) -> int | None:
    """The rank of the first finding with the same change and saving, such as of another GPU; None for the first."""
    alike = (each for each in findings if each.offered and each.change == finding.change)
    first = next((each.rank for each in alike if each.saving_ns == finding.saving_ns), finding.rank)
    return first if finding.saving_ns and finding.offered and first < finding.rank else None


def to_confirm(findings: Iterable[Finding]) -> list[str]:
    """What would raise the confidence of which findings, each once."""
    ranks: dict[str, list[str]] = {}
    for finding in findings:
        if finding.confirm_with:
            ranks.setdefault(finding.confirm_with, []).append(str(finding.rank))
    ends = {text: "" if text.endswith("?") else "." for text in ranks}
    return [f"To confirm {', '.join(numbers)}: {text}{ends[text]}" for text, numbers in ranks.items()]


def heading(diagnosis: Diagnosis) -> str:
    """The order of the findings, and the baseline of their savings."""
    plan = diagnosis.plan
    text = f"Findings, by time without a kernel in {time(diagnosis.window.wall_ns)}; one-time costs last"
    return f"{text}." if plan is None else f"{text}. Savings are {simulated(plan)}, against {time(plan.baseline_ns)}."


def _added(plan: Plan) -> Iterator[str]:
    """For steps that fix no finding what they edit, and the pages about their changes."""
    known = 0
    for step in plan.steps:
        names = step.changes[known:]
        known = len(step.changes)
        if not step.fixes:
            pages = ", ".join(f"overlapscope explain {name.partition('=')[0]}" for name in names)
            place = f" at {step.places[0]}" if step.places else ""
            yield f"{' + '.join(names)}{place}: {pages}"


def _notes(plan: Plan) -> Iterator[str]:
    """For the last step what it assumes of the host; if its interval is wide, that, and what would narrow it."""
    for step in plan.steps[-1:]:
        if step.conditions:
            yield f"The program allows them {', '.join(step.conditions)}."
        yield from (f"{' + '.join(step.changes)} {text}." for text in step.assumes)
        if step.narrowed_by is not None:
            yield (
                f"All of these may take {time(step.time_low_ns)} to {time(step.time_high_ns)}. "
                f"Narrower by {step.narrowed_by}."
            )


def _finding(finding: Finding, diagnosis: Diagnosis, *, first: bool, recorded: Diagnosis | None) -> nodes.Finding:
    """A finding; the ``first`` of its rule has the page of the rule."""
    entry, first_rank = rule(finding.code), same_change(finding, diagnosis.findings)
    once = (f"the same change as for {first_rank}: it saves this once",) if first_rank else ()
    page = nodes.Explanation(f"Explain {entry.code}: {entry.title}", entry.page.partition("\n")[2])
    return nodes.Finding(
        rank=finding.rank,
        code=finding.code,
        title=finding.title,
        severity=str(finding.severity),
        facts=tuple(facts(finding, diagnosis)),
        message=finding.message,
        place=place_of(finding, diagnosis),
        worth=(*worth(finding, diagnosis.plan), *once),
        fix=finding.fix if finding.offered else "",
        evidence=nodes.Terms(tuple(_evidence(finding))),
        explanation=page if first else None,
        places=None if recorded is None else places(*finding_intervals(recorded, finding)),
    )


def _evidence(finding: Finding) -> Iterator[tuple[str, str]]:
    """Where it is, and figures that its message does not have; nothing of what is zero."""
    if where := finding.where.words:
        yield "where", where
    for name, value in {"blocked_ns": finding.blocked_ns, **finding.evidence}.items():
        unit = next((unit for unit in _UNITS if name.endswith(unit)), "")
        text = _formatted(unit, value)
        if value != 0 and not re.search(rf"(?<![\w.]){re.escape(text)}(?!\w)", finding.message):
            yield name.removesuffix(unit).replace("_", " "), text


def _formatted(unit: str, value: Number) -> str:
    if value is None:
        return "?"
    if isinstance(value, str | bool):
        return str(value)
    return _UNITS[unit](value) if unit else f"{value:,}"


def facts(finding: Finding, diagnosis: Diagnosis) -> list[str]:
    """GPU idle time, severity and confidence as short texts.

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
    return [*texts, f"severity {finding.severity}", f"confidence {finding.confidence}"]


def _copying(finding: Finding) -> str:
    """The parts of idle time in which copies run, and in which nothing does."""
    idle_ns = finding.idle_ns - finding.copying_ns
    idle = f", {time(idle_ns)} idle" if idle_ns > _WORTH_SAYING * finding.idle_ns else ""
    return f"{time(finding.copying_ns)} copying{idle}"


def worth(finding: Finding, plan: Plan | None) -> list[str]:
    """What the change of a finding saves, or why it is not offered or not simulated, in at most one line."""
    if finding.change is None:
        if finding.bound is not None and finding.bound.words:
            return [f"{finding.bound.words} ({finding.bound.change})"]
        why = not_simulated(finding)
        return [f"no estimate: {why}"] if why else []
    if finding.saving_ns is None:
        return []
    saved = time(finding.saving_ns) if finding.saving_ns else "nothing"
    if not finding.offered:
        return [f"fix not offered: {finding.change} saves {saved}; {finding.not_offered}"]
    return [_offered(finding, saved, plan)]


def _offered(finding: Finding, saved: str, plan: Plan | None) -> str:
    """What a fix saves and what is left, in one line."""
    left = "" if finding.expected is None else f", leaving {finding.expected.interval}"
    text = f"fix: {finding.change} saves {saved}"
    if finding.saving_high_ns is not None:
        return f"{text}, up to {time(finding.saving_high_ns)} if nothing waits for its copies{left}"
    if finding.saves_more is not None:
        return f"{text}{left}; more than its time without a kernel: {finding.saves_more}"
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


def place_of(finding: Finding, diagnosis: Diagnosis) -> str:
    """Where a finding costs most, and how much of it costs there."""
    where = _where(finding.where, several=len(diagnosis.devices) > 1)
    return f"{where}{portion(finding)}" if where else ""


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


def _where(place: Place, *, several: bool) -> str:
    parts = [_both_ends(place.range or ""), place.source or place.op, place.api]
    shown = [safe(part, _WIDTH) for part in parts if part]
    if place.stream is not None:
        shown.append(f"stream {place.stream}")
    if several and place.device is not None:
        shown.append(f"device {place.device}")
    return ", ".join(shown)
