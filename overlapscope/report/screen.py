"""The first screen of an audit: the headline, the GPU's time, three findings and the plan, in thirty lines.

Every time on it is on one basis: without the profiler where its cost is known, else as recorded.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from shlex import quote

from overlapscope.diagnosis.finding import Diagnosis, Finding, Plan, Severity, Step
from overlapscope.diagnosis.loaders import workers_fix
from overlapscope.document.nodes import Bars, Code, Column, Document, Facts, Node, Paragraph, Section, Table, Tone
from overlapscope.document.text import plain_text
from overlapscope.fitness.answer import Verdict
from overlapscope.formatting import counted, share, time
from overlapscope.measure.places import steps
from overlapscope.measure.ranges import waited_for_batches_ns
from overlapscope.measure.windows import window_title
from overlapscope.model.trace import Trace
from overlapscope.report.data import Audit
from overlapscope.report.document import time_bar, time_table
from overlapscope.report.findings import place_of

LINES = ((100, 30), (80, 36))
"""Columns of a terminal, and the most lines that the screen takes there."""
_LINES_OF_FINDING = 5
_MOST_GPUS = 4
_INDENT = "   "
_NAMES = 34
"""Characters of the changes in a row of the plan."""


@dataclass(frozen=True)
class _Room:
    """How much is shown: findings, parts of a bar, steps of the plan, and what limits the program after it."""

    findings: int
    bar_parts: int
    steps: int
    limit: bool = True


_ROOMS = (
    _Room(3, 5, 3),
    _Room(3, 4, 3),
    _Room(2, 5, 3),
    _Room(2, 4, 3),
    _Room(1, 5, 3),
    _Room(1, 4, 3),
    _Room(1, 3, 2),
    _Room(1, 3, 2, limit=False),
)
"""From the most to the least that a screen shows."""


def first_screen(audit: Audit, width: int, command: str = "") -> Document:
    """What a terminal of this width shows of an audit without being asked for more.

    Args:
        audit: the audit.
        width: columns of the terminal.
        command: the options that select the audited window, for the command that reproduces the plan.
    """
    most = next((lines for columns, lines in LINES if width >= columns), LINES[-1][1] * LINES[-1][0] // max(width, 20))
    for room in _ROOMS:
        shown = _screen(audit, width, room, command)
        if plain_text(shown.parts, width).count("\n") <= most:
            break
    return shown


def _screen(audit: Audit, width: int, room: _Room, command: str) -> Document:
    diagnosis = audit.conclusion
    shown = [finding for finding in diagnosis.findings if finding.severity is not Severity.INFO][: room.findings]
    findings = [node for finding in shown for node in _finding(finding, diagnosis, width)]
    parts = [
        Section("", tuple(_about(audit))),
        Section("", (Paragraph(audit.headline or audit.verdict, Tone.HEADLINE),)),
        Section("", tuple(_times(audit, room.bar_parts)) or tuple(_batches(audit.trace, width))),
        Section("", tuple(findings) or _nothing(diagnosis)),
        Section("", (*_plan(audit, room, command, width), _more(audit, len(shown)))),
    ]
    return Document("", tuple(part for part in parts if part.parts))


def _about(audit: Audit) -> Iterator[Node]:
    """The trace, its GPUs, the window and its steps; what is missing from the trace, where that changes the answer."""
    trace, window = audit.trace, audit.window
    gpus = sorted({device.name for device in audit.devices if device.name})
    works = window.is_whole and window.device is None and not trace.health.no_device_work
    title = "first to last GPU work" if works else window_title(window)
    recorded = "" if audit.analysis.stated is audit.analysis else " as recorded"
    facts = [PurePath(trace.metadata.path).name, *gpus, f"{time(window.wall_ns)}{recorded}, {title}"]
    inside = steps(trace)
    count = int(window.touches(inside.process, inside.start_ns, inside.end_ns).sum()) if window.name is None else 0
    facts += [counted(count, "step")] if count else []
    yield Facts(tuple(facts))
    missing = [each.check.topic for each in audit.fit.limits if each.answer.verdict is Verdict.NO]
    remarks = [each.answer.remark for each in audit.fit.limits if each.answer.remark]
    said = [f"Not in this trace: {', '.join(missing)}."] if missing else []
    if said or remarks:
        yield Paragraph(" ".join([*said, *remarks[:1]]), Tone.WARNING)


def _times(audit: Audit, most: int) -> Iterator[Node]:
    """The time of the GPU as a bar, or of each of several GPUs in a row."""
    used = [device for device in audit.stated if device.time.total_ns and len(device.activity.busy)]
    if len(used) == 1:
        bar = time_bar(used[0], most)
        yield Bars((bar,), bar.table)
    elif used:
        worst = sorted(used, key=lambda device: -device.time.waiting_ns)[:_MOST_GPUS]
        yield time_table([device for device in used if device in worst])


def _batches(trace: Trace, width: int) -> Iterator[Node]:
    """For how long a program without GPU work waited for its DataLoader, and how that makes batches ahead."""
    waited_ns = waited_for_batches_ns(trace)
    if not waited_ns:
        return
    whole = f"{time(waited_ns)} of {time(trace.end_ns - trace.start_ns)}"
    yield Paragraph(f"The loop waited for batches of its DataLoader for {whole}.", Tone.WARNING)
    yield from map(Code, code_lines(workers_fix(trace) or "", width))


def _nothing(diagnosis: Diagnosis) -> tuple[Node, ...]:
    return (Paragraph(diagnosis.summary, Tone.GOOD),) if diagnosis.devices else ()


def _finding(finding: Finding, diagnosis: Diagnosis, width: int) -> Iterator[Node]:
    """The cause and its cost, the place with what the fix saves, and the fix, in at most five lines.

    A fix is there as a whole or not at all: a part of it may be wrong by itself.
    """
    device = diagnosis.device_of(finding)
    whole_ns = diagnosis.window.wall_ns if device is None else device.span_ns
    cost = share(finding.idle_ns, whole_ns) if finding.idle_ns else str(finding.severity)
    recorded = finding.recorded_idle_ns
    was = f"; {time(recorded)} as recorded" if recorded and time(recorded) != time(finding.idle_ns) else ""
    message = finding.message.removesuffix(".")
    said = dict.fromkeys(((message, was), (message, ""), (re.split("[;:] ", message)[0], "")))
    causes = [
        Paragraph(f"{text} ({finding.code}{more}).", Tone(_TONES[finding.severity]), f"{finding.rank}. {cost}")
        for text, more in said
    ]
    place = "; ".join(filter(None, [_worth(finding, diagnosis.plan), place_of(finding, diagnosis)]))
    about: list[Node] = [Paragraph(_INDENT + place, Tone.LINE)] if place else []
    fixes = dict.fromkeys((finding.fix, _TO_CHECK.sub("", finding.fix))) if finding.offered else [""]
    tries: list[list[Node]] = [
        [cause, *rest, *map(Code, code_lines(fix, width, _INDENT))]
        for some in (causes[:-1], causes[-1:])  # what comes after the first clause often names the cause
        for rest in (about, [])
        for fix in fixes
        for cause in some
    ]
    tries.append([causes[-1], *about, Paragraph(f"{_INDENT}its fix: --all", Tone.LINE)])
    yield from next((each for each in tries if plain_text(each, width).count("\n") <= _LINES_OF_FINDING), tries[-1])


_TO_CHECK = re.compile(r" *(#|//) to check: .*")
_COMMENT = re.compile(r"^(?P<indent>\s*)(?P<code>.*?)\s*(?P<sign>#|//) (?P<text>.*)$")


def code_lines(code: str, width: int, indent: str = "") -> Iterator[str]:
    """The lines of code, with comments that are too long for a line in lines of their own above it.

    >>> list(code_lines("x = x.pin_memory()  # once, before the loop", 30))
    ['# once, before the loop', 'x = x.pin_memory()']
    """
    for line in map(indent.__add__, code.splitlines()):
        comment = _COMMENT.match(line) if len(line) > width else None
        if comment is None:
            yield line
            continue
        begin = f"{comment['indent']}{comment['sign']} "
        yield from textwrap.wrap(comment["text"], width, initial_indent=begin, subsequent_indent=begin)
        if comment["code"]:
            yield comment["indent"] + comment["code"]


_TONES = {
    Severity.HAZARD: Tone.DAMAGE,
    Severity.HIGH: Tone.DAMAGE,
    Severity.MEDIUM: Tone.WARNING,
    Severity.LOW: Tone.PLAIN,
    Severity.INFO: Tone.INFO,
}


def _worth(finding: Finding, plan: Plan | None) -> str:
    """What the fix of a finding saves, or that it is not worth trying."""
    if finding.change is None:
        return finding.bound.words if finding.bound is not None else ""
    if finding.saving_ns is None:
        return ""
    if not finding.offered:
        return f"{finding.change} is not offered: {finding.not_offered}"
    planned = plan is not None and any(finding.change in step.changes for step in plan.steps)
    return "" if planned or not finding.saving_ns else f"{finding.change} saves {time(finding.saving_ns)}"


_TIMES = {"time": "time_ns", "low": "time_low_ns", "high": "time_high_ns"}


def _plan(audit: Audit, room: _Room, command: str, width: int) -> Iterator[Node]:
    """The changes one after the other, a row each, what they ask for, and the command that gives the last row's times.

    Changes that save something only together have the times in the last of their rows.
    """
    plan = audit.conclusion.plan
    if plan is None or not plan.steps:
        return
    every = plan.steps if len(plan.steps) <= room.steps else (*plan.steps[: room.steps - 1], plan.steps[-1])
    heads = (Column(f"plan from {time(plan.baseline_ns)}", text=True, least=_NAMES), *map(Column, (*_TIMES, "change")))
    yield Table("", heads, tuple(_rows(every, plan.baseline_ns)))
    last = every[-1]
    if last.conditions:
        yield Paragraph(f"{'; '.join(last.conditions).capitalize()}.", Tone.NOTE)
    if plan.unsteady:
        yield Paragraph(f"By step: {plan.spread}.", Tone.NOTE)
    if plan.limit is not None and room.limit:
        work = f"{time(plan.limit.kernels_ns)} of kernels"
        if plan.limit.copies_ns:
            work += f" and {time(plan.limit.copies_ns)} of copies"
            work += f", more overlap saves at most {time(plan.limit.overlap_ns)}"
        yield Paragraph(f"Then limited by {plan.limit.limited_by}: {work}.", Tone.NOTE)
    path, changes = quote(audit.trace.metadata.path), quote(last.command)
    lines = ["overlapscope what-if"]
    for word in (f" {path}", f"{command} --change {changes}"):
        if len(lines[-1] + word) > width - len(" \\"):
            lines.append("   ")
        lines[-1] += word
    yield Code(" \\\n".join(lines), breaks=False)


def _rows(plan_steps: tuple[Step, ...], baseline_ns: int) -> Iterator[tuple[str, ...]]:
    """The rows of the steps: their new changes, as many to a row as fit, and the times beside the last of them."""
    known: tuple[str, ...] = ()
    for step in plan_steps:
        *before, last = _in_rows(step.changes, len(known))
        times = [time(getattr(step, name)) for name in _TIMES.values()]
        yield from ((part, "", "", "", "") for part in before)
        yield (last, *times, share(step.time_ns - baseline_ns, baseline_ns))
        known = step.changes


def _in_rows(changes: tuple[str, ...], known: int) -> list[str]:
    """Changes but for the known ones, as many to a row as fit; all but the first of all begin with a plus."""
    rows: list[str] = []
    for number, change in enumerate(changes[known:], known):
        name = f"+ {change}" if number else change
        if number > known and len(rows[-1]) + 1 + len(name) <= _NAMES:
            rows[-1] += f" {name}"
        else:
            rows.append(name)
    return rows


def _more(audit: Audit, shown: int) -> Node:
    """The line that names what else there is."""
    left = len(audit.conclusion.findings) - shown
    codes = [finding.code for finding in audit.conclusion.findings[:1]]
    what = [f"--all ({counted(left, 'more finding')})" if left > 0 else "--all", "--tables", "overlapscope report"]
    return Paragraph(f"More: {', '.join([*what, *(f'overlapscope explain {code}' for code in codes)])}", Tone.NOTE)
