"""The headline of an audit: how busy the GPU was, what it waited for most, and what the best fix gives."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from overlapscope.diagnosis.catalogue import rule
from overlapscope.diagnosis.config import DEFAULT as DIAGNOSIS
from overlapscope.diagnosis.finding import Confidence, Diagnosis, Finding, Plan, Severity, Step
from overlapscope.diagnosis.gpu_time import COLLECTIVES, COPIES, KERNELS, MEMSETS, OUTSIDE
from overlapscope.diagnosis.lateness import Lateness
from overlapscope.formatting import share, time
from overlapscope.report.data import DeviceAudit
from overlapscope.whatif.catalogue import parse

_NO_CAUSE = (KERNELS, MEMSETS, OUTSIDE)
_COPIES_MISSING = ("copies-not-recorded", "whole-graph-trace")
"""Health warnings that copies are not in the trace."""
_WORK_MISSING = ("kernels-not-recorded", *_COPIES_MISSING)
"""Health warnings that the GPU was busy with more than the trace has."""
SIMULATED = {
    "recorded": "simulated",
    "unprofiled": "simulated without the profiler",
}
"""How to say on which baseline a plan is."""


@dataclass(frozen=True)
class HeadlineConfig:
    """Thresholds of the headline, as shares of the window.

    ``mentioned``: less is not mentioned; runs scatter by about one percent.
    ``report_share``: a GPU that waits less than this is busy, and copies that cost less are not the problem, as in a
    diagnosis.
    """

    mentioned: float = 0.01
    report_share: float = DIAGNOSIS.report_share


def headline(
    devices: Sequence[DeviceAudit], diagnosis: Diagnosis, blocked_ns: int, config: HeadlineConfig = HeadlineConfig()
) -> str:
    """Two to seven sentences: results that may be wrong, then the GPU that waits most, if there are several.

    Empty without GPU work. Nothing is said of copies that are not in the trace. ``blocked_ns`` is the time for which
    the copy calls blocked the host.
    """
    used = [device for device in devices if device.time.total_ns and len(device.activity.busy)]
    if not used:
        return ""
    health, device = diagnosis.trace.health, max(used, key=lambda each: each.time.waiting_ns / each.time.total_ns)
    most = "at most " if any(health.has(code) for code in _WORK_MISSING) else ""
    sentences = [*_hazards(diagnosis), _busy(device, used, config, most), *_cause(device, diagnosis, config)]
    sentences += [*_suspected(diagnosis), *_fix(diagnosis)]
    if not any(health.has(code) for code in _COPIES_MISSING):
        sentences += _copies(device, diagnosis, blocked_ns, config)
    return " ".join(sentences)


def _hazards(diagnosis: Diagnosis) -> Iterator[str]:
    """That results may be wrong, which no time is worth."""
    if said := _races(diagnosis, suspected=False):
        yield f"Results may be wrong: {', '.join(said.values())}."


def _suspected(diagnosis: Diagnosis) -> Iterator[str]:
    """Weak signs of wrong results: nothing to begin with, but to be known before a fix."""
    if said := _races(diagnosis, suspected=True):
        yield f"Suspected, to be checked: {', '.join(said.values())}."


def _races(diagnosis: Diagnosis, *, suspected: bool) -> dict[str, str]:
    """Findings about wrong results in words, by code."""
    races = [finding for finding in diagnosis.findings if finding.severity is Severity.HAZARD]
    some = [finding for finding in races if (finding.confidence is Confidence.LOW) is suspected]
    return {finding.code: f"{finding.waited_for} ({finding.code})" for finding in some}


def _busy(device: DeviceAudit, used: Sequence[DeviceAudit], config: HeadlineConfig, most: str) -> str:
    """How long the GPU was idle or only copying, and in exposed collectives; ``most`` where that is an upper bound."""
    name, spent = _name(device, used), device.time
    least, whole = config.mentioned * spent.total_ns, time(spent.total_ns)
    collectives, copies = spent.of(COLLECTIVES), spent.of(COPIES)
    waiting = spent.waiting_ns
    if max(waiting, collectives) < config.report_share * spent.total_ns:
        return f"{name} busy with kernels for {share(spent.of(KERNELS), spent.total_ns)} of {whole}."
    what = "idle or only copying" if copies > least else "idle"
    text = f"{name} {what} for {most}{share(waiting, spent.total_ns)} of {whole}"
    if collectives > least:
        text += f", and in exposed collectives for {share(collectives, spent.total_ns)}"
    return text + "."


def _name(device: DeviceAudit, used: Sequence[DeviceAudit]) -> str:
    if len(used) == 1:
        return "GPU"
    usual = statistics.median(each.time.waiting_ns / each.time.total_ns for each in used)
    return f"{device.key.title} (the worst of {len(used)}; median {100 * usual:.0f} %)"


def _cause(device: DeviceAudit, diagnosis: Diagnosis, config: HeadlineConfig) -> Iterator[str]:
    """What the GPU waited for most: of the findings and the exposed collectives, else of the causes of idle time."""
    spent = device.time
    outside = spent.of(OUTSIDE)
    least = config.report_share * (spent.total_ns - outside)
    mine = [finding for finding in diagnosis.findings if finding.is_about(device.key)]
    once = sum(finding.idle_ns for finding in mine if finding.kind == Lateness.FIRST_USE.label)
    found = [(finding.idle_ns, _said(finding)) for finding in diagnosis.findings if _costs(finding, device)]
    found.append((spent.of(COLLECTIVES), f"exposed collectives ({time(spent.of(COLLECTIVES))})"))
    longest, text = max(found)
    before = f"{time(outside)} are before the first or after the last GPU work."
    if 2 * outside > spent.total_ns:
        yield before
    if once >= max(least, longest):
        yield f"Mostly setup (context, module load), one time ({time(once)})."
    elif longest < least:
        longest, text = max((part.time_ns, part.label) for part in spent.parts if part.key not in _NO_CAUSE)
        text = f"{text} ({time(longest)})".replace(") (", ", ").removeprefix("idle: ")
    if longest >= least:
        yield f"Largest cause{' after that' if once >= longest else ''}: {text}."
    elif once < least and spent.waiting_ns - outside >= least:
        yield "No single cause is large."
    if spent.total_ns >= 2 * outside >= 2 * config.report_share * spent.total_ns:
        yield before


def _said(finding: Finding) -> str:
    return f"{finding.waited_for} ({finding.code}, {time(finding.idle_ns)})"


def _costs(finding: Finding, device: DeviceAudit) -> bool:
    return finding.is_about(device.key) and finding.severity not in (Severity.HAZARD, Severity.INFO)


def _fix(diagnosis: Diagnosis) -> Iterator[str]:
    """The change that saves most, and all of the plan; without one, the best that is offered, or that there is none."""
    plan = diagnosis.plan
    if plan is None:
        costly = [finding for finding in diagnosis.findings if finding.severity not in (Severity.HAZARD, Severity.INFO)]
        if costly and not any(finding.change for finding in diagnosis.findings):
            yield "No finding has a fix that is simulated."
        return
    if plan.steps:
        first, last = plan.steps[0], plan.steps[-1]
        more = (
            ""
            if first is last
            else f", with {' + '.join(last.changes[len(first.changes) :])} too: {_saving(last, plan)}"
        )
        change = f"{time(plan.baseline_ns)} -> {_saving(first, plan)}{more}"
        yield f"With {' + '.join(first.changes)}: {change}; {SIMULATED[plan.baseline]}."
        yield from _settled_first(diagnosis, last)
        return
    yield from _small(diagnosis, plan)


def _small(diagnosis: Diagnosis, plan: Plan) -> Iterator[str]:
    """That no fix saves enough for a plan, and what the best that is offered saves."""
    offered = [finding for finding in diagnosis.findings if finding.saving_ns is not None and finding.offered]
    best = max(offered, key=lambda finding: finding.saving_high_ns or finding.saving_ns or 0, default=None)
    if best is not None:
        yield f"No fix saves much: the best, {best.change}, saves {_share(best, plan)}; {SIMULATED[plan.baseline]}."
    elif any(finding.change is not None for finding in diagnosis.findings):
        yield "No simulated fix saves enough to be offered."


def _share(finding: Finding, plan: Plan) -> str:
    """Which share of the time the fix of a finding saves, without the profiler first."""
    saved = share(finding.saving_ns or 0, plan.baseline_ns)
    saved += "" if finding.saving_high_ns is None else f" to {share(finding.saving_high_ns, plan.baseline_ns)}"
    without = share(finding.unprofiled_saving_ns or 0, plan.unprofiled_ns)
    if not plan.estimated or without == saved:
        return saved
    return f"about {without} without the profiler, {saved} with it"


def _settled_first(diagnosis: Diagnosis, step: Step) -> Iterator[str]:
    """That findings about races come before changes that move copies and waits."""
    codes = [*_races(diagnosis, suspected=False), *_races(diagnosis, suspected=True)]
    needy = [name for name in step.changes if parse(name).needs_order]
    if codes and needy:
        yield f"Settle {', '.join(codes)} first: {' + '.join(needy)} may make wrong results more frequent."


def _saving(step: Step, plan: Plan) -> str:
    """The time after a step of a plan, and its change from the baseline."""
    change, without = (
        share(step.time_ns - plan.baseline_ns, plan.baseline_ns),
        plan.unprofiled_change(step.unprofiled_ns),
    )
    estimate = "" if without is None else share(without, 1)
    about = f", about {estimate} without the profiler" if estimate not in ("", change) else ""
    return f"{step.interval} ({change}{about})"


def _copies(device: DeviceAudit, diagnosis: Diagnosis, blocked_ns: int, config: HeadlineConfig) -> Iterator[str]:
    """That copies are not the problem, where something else is; or only that their calls blocked the host."""
    spent, least = device.time, config.report_share * device.time.total_ns
    costly = [finding for finding in diagnosis.findings if _costs(finding, device)]
    blamed = sum(finding.idle_ns for finding in costly if rule(finding.code).about_copies)
    if spent.waiting_ns + spent.of(COLLECTIVES) >= least > max(spent.copies_ns, blamed):
        small = spent.copies_ns < config.mentioned * spent.total_ns
        cost = "less than 1 %" if small else share(spent.copies_ns, spent.total_ns)
        if blocked_ns >= least:
            yield f"Transfers cost {cost} of the time, but copy calls blocked the host for {time(blocked_ns)}."
        else:
            yield f"Copies are not the problem: they cost {cost} of the time."
