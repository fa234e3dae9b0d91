"""The headline and the verdict of an audit: why the GPU did not compute and what fixes give; the cost of the copies."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from overlapscope.diagnosis.catalogue import rule
from overlapscope.diagnosis.causes import Cause, Lateness
from overlapscope.diagnosis.finding import Confidence, Diagnosis, Finding, Plan, Severity, Step
from overlapscope.diagnosis.gpu_time import COLLECTIVES, COPIES, KERNELS, MEMSETS, OUTSIDE
from overlapscope.formatting import counted, share, size, time
from overlapscope.measure import ceiling
from overlapscope.measure.ceiling import Ceiling
from overlapscope.measure.copies import CopyGroup
from overlapscope.model.trace import Trace
from overlapscope.report.data import DeviceAudit
from overlapscope.whatif.catalogue import parse

_NO_CAUSE = (KERNELS, MEMSETS, OUTSIDE)
_COPIES_MISSING = ("copies-not-recorded", "whole-graph-trace")
"""Health warnings that copies are not in the trace."""
_WORK_MISSING = ("kernels-not-recorded", *_COPIES_MISSING)
"""Health warnings that the GPU was busy with more than the trace has."""
_COLLECTIVES_RULE = "OVL016"
MOST_WORDS = 45
"""Words of a headline."""
_MENTIONED = 0.01
"""A time below this share of the window is not mentioned; runs scatter by about one percent."""


def simulated(plan: Plan) -> str:
    """How the times of a plan were found, with the baseline that they are on."""
    return "simulated without the profiler" if plan.baseline == "unprofiled" else "simulated"


def headline(
    devices: Sequence[DeviceAudit],
    recorded: Sequence[DeviceAudit],
    diagnosis: Diagnosis,
    blocked_ns: int,
    report_share: float,
) -> str:
    """At most 45 words: for how much of its time the GPU did not compute, why, the fix, its gain and its conditions.

    Of several GPUs it is about the one that waits most. Empty without GPU work. Where there is no room, sentences of
    less weight are left out, then the recorded share, then the conditions are counted and the changes too.
    ``recorded`` are the GPUs with the profiler's cost, where ``devices`` are without; ``blocked_ns`` is the time for
    which the copy calls blocked the host.
    """
    used = [device for device in devices if device.time.total_ns and len(device.activity.busy)]
    if not used:
        return ""
    device = max(used, key=lambda each: each.time.waiting_ns / each.time.total_ns)
    before = next((each for each in recorded if each.key == device.key and each is not device), None)
    about = _about(device, used, diagnosis, report_share)
    busy = [about.format(whole) for whole in dict.fromkeys(_whole(device, before))]
    fixes = list(_fixes(device, diagnosis, report_share))
    suspected, copies = list(_suspected(diagnosis)), list(_copies(device, diagnosis, blocked_ns, report_share))
    needed = [(first, *fix) for fix in fixes for first in busy]
    tries = [(*needed[0], *suspected, *copies), *((*each, *suspected) for each in needed), *needed, busy[-1:]]
    hazards = tuple(_hazards(diagnosis))
    fitting = (said for each in tries if len((said := " ".join((*hazards, *each))).split()) <= MOST_WORDS)
    return next(fitting, " ".join(hazards) or busy[-1])


def _hazards(diagnosis: Diagnosis) -> Iterator[str]:
    """The sentence that names hazards; it comes first, since wrong results are worth no time."""
    if said := _races(diagnosis, suspected=False):
        yield f"Results may be wrong: {', '.join(said.values())}."


def _suspected(diagnosis: Diagnosis) -> Iterator[str]:
    """The sentence that names suspected hazards, to be checked before a fix."""
    if said := _races(diagnosis, suspected=True):
        yield f"To be checked first: {', '.join(said.values())}."


def _races(diagnosis: Diagnosis, *, suspected: bool) -> dict[str, str]:
    """Findings about wrong results in words, by code."""
    races = [finding for finding in diagnosis.findings if finding.severity is Severity.HAZARD]
    return {
        finding.code: f"{finding.waited_for} ({finding.code})"
        for finding in races
        if (finding.confidence is Confidence.LOW) is suspected
    }


def _whole(device: DeviceAudit, before: DeviceAudit | None) -> Iterator[str]:
    """The time that shares are of, with the share as recorded and without it."""
    whole = time(device.time.total_ns)
    if before is not None:
        whole += " without the profiler"
        shares = [share(each.time.waiting_ns, each.time.total_ns) for each in (device, before)]
        yield whole + (f" ({shares[1]} as recorded)" if len(set(shares)) > 1 else "")
    yield whole


def _about(device: DeviceAudit, used: Sequence[DeviceAudit], diagnosis: Diagnosis, report_share: float) -> str:
    """For how much of ``{}``, its time, the GPU ran no kernel or nothing but collectives, and the largest cause."""
    spent, name = device.time, _name(device, used)
    waiting, collectives = spent.waiting_ns, spent.of(COLLECTIVES)
    alone = f"ran nothing but collectives for {share(collectives, spent.total_ns)}"
    if waiting < report_share * spent.total_ns:
        if collectives >= report_share * spent.total_ns:
            return f"{name} {alone} of {{}}."
        return f"{name} ran kernels for {share(spent.of(KERNELS), spent.total_ns)} of {{}}."
    health = diagnosis.trace.health
    most = "at most " if any(health.has(code) for code in _WORK_MISSING) else ""
    what = "ran no kernel" if spent.of(COPIES) > _MENTIONED * spent.total_ns else "was idle"
    text = f"{name} {what} for {most}{share(waiting, spent.total_ns)} of {{}}"
    cause = _cause(device, diagnosis, report_share).replace("{", "{{").replace("}", "}}")  # names of functions
    bound = _unplanned_bound(device, diagnosis, report_share)
    text += f": {cause}{f', {bound}' if bound else ''}" if cause else "; no single cause is large"
    return text + (f". It {alone}." if collectives > _MENTIONED * spent.total_ns else ".")


def _name(device: DeviceAudit, used: Sequence[DeviceAudit]) -> str:
    if len(used) == 1:
        return "The GPU"
    median = statistics.median(each.time.waiting_ns / each.time.total_ns for each in used)
    return f"{device.key.title} (the worst of {len(used)}; median {100 * median:.0f} %)"


def _cause(device: DeviceAudit, diagnosis: Diagnosis, report_share: float) -> str:
    """The longest wait of the GPU: of the findings, else of the causes of idle time."""
    spent = device.time
    finding = _costliest(device, diagnosis)
    longest, text = 0, ""
    if finding is not None:
        longest, text = finding.idle_ns, f"{finding.waited_for} ({_details(finding)}, {{}})"
    if longest < report_share * spent.total_ns:
        others = [(part.time_ns, part.label) for part in spent.parts if part.key not in _NO_CAUSE]
        longest, label = max(others, default=(0, ""))
        text = f"{label} ({{}})".replace(") (", ", ").removeprefix("idle: ")
    once = sum(finding.idle_ns for finding in diagnosis.findings if _is_setup(finding) and finding.is_about(device.key))
    if longest < report_share * spent.total_ns:
        return f"mostly one-time setup ({share(once, spent.total_ns)})" if 2 * once > spent.waiting_ns else ""
    if once > longest:
        return f"one-time setup ({share(once, spent.total_ns)}), then {text.format(share(longest, spent.total_ns))}"
    mostly = "mostly " if 2 * longest > spent.waiting_ns else "the largest cause is "
    return mostly + text.format(share(longest, spent.total_ns))


def _costliest(device: DeviceAudit, diagnosis: Diagnosis) -> Finding | None:
    """The finding that explains most idle time of a GPU; a GPU with a collective is not idle."""
    of_device = (
        finding
        for finding in diagnosis.findings
        if finding.is_about(device.key) and _costs_time(finding) and finding.code != _COLLECTIVES_RULE
    )
    return max(of_device, key=lambda finding: finding.idle_ns, default=None)


def _unplanned_bound(device: DeviceAudit, diagnosis: Diagnosis, report_share: float) -> str:
    """What any fix of the largest cause saves at most, where that is host work which no change of the plan is about."""
    finding, plan = _costliest(device, diagnosis), diagnosis.plan
    if finding is None or finding.bound is None or finding.idle_ns < report_share * device.time.total_ns:
        return ""
    planned = plan is not None and any(finding.change in step.changes for step in plan.steps)
    return "" if planned or device.time.of(COLLECTIVES) > finding.idle_ns else finding.bound.words


def _details(finding: Finding) -> str:
    """The function that ran longest, where most of the time has a name, and the code of the rule."""
    names = [each.words for each in finding.ran[:1] if 2 * each.idle_ns > finding.idle_ns]
    return "; ".join([*(name.replace("{", "{{").replace("}", "}}") for name in names), finding.code])


def _is_setup(finding: Finding) -> bool:
    return finding.kind == Lateness.FIRST_USE.label


def _costs_time(finding: Finding) -> bool:
    return finding.severity not in (Severity.HAZARD, Severity.INFO)


def _fixes(device: DeviceAudit, diagnosis: Diagnosis, report_share: float) -> Iterator[tuple[str, ...]]:
    """Sentences about the plan, from the longest to the shortest; without a plan, why there is none."""
    plan = diagnosis.plan
    if plan is not None and plan.steps:
        begin = "Elsewhere, with" if _unplanned_bound(device, diagnosis, report_share) else "With"
        settled = tuple(_settled_first(diagnosis, plan.steps[-1]))
        sentences = list(_planned(plan, begin))
        yield from ((sentence, *settled) for sentence in sentences)
        yield (sentences[-1],)
    elif plan is not None and (best := _best(diagnosis)) is not None:
        yield (f"No fix saves much: the best, {best.change}, saves {share(best.saving_ns or 0, plan.baseline_ns)}.",)
    elif _unplanned_bound(device, diagnosis, report_share):
        yield ("No simulated fix is about that.",)
    elif device.time.waiting_ns >= report_share * device.time.total_ns and any(map(_costs_time, diagnosis.findings)):
        fixable = any(finding.change is not None for finding in diagnosis.findings)
        said = "No simulated fix saves enough to be offered." if fixable else "No finding has a fix that is simulated."
        yield (said,) if plan is not None or not fixable else ()
    else:
        yield ()


def _planned(plan: Plan, begin: str) -> Iterator[str]:
    """What the whole plan gives, how that differs between steps, and its conditions; then with less and less of that.

    What is left out stands below the plan.
    """
    last = plan.steps[-1]
    gain = f"{time(last.time_ns)} ({share(last.time_ns - plan.baseline_ns, plan.baseline_ns)})"
    with_changes, spread = f"{begin} {' + '.join(last.changes)}: {gain}", ""
    conditions = last.conditions[::-1]  # later changes ask more of the program
    below = f", on {'conditions' if len(conditions) > 1 else 'a condition'} below" if conditions else ""
    if plan.unsteady:
        yield f"{with_changes}, {plan.spread}{_all(conditions)}."
        most, least = (round(100 * of(plan.step_changes)) for of in (min, max))
        spread = f", {most} to {least} % a step"
    yield f"{with_changes}{spread}{_all(conditions)}."
    for most in range(len(conditions) - 1, 0, -1):
        yield f"{with_changes}{spread}{_all(conditions[:most])} (more below)."
    yield f"{with_changes}{spread}{below}."
    yield f"{begin} {counted(len(last.changes), 'change')}: {gain}{spread}{below}."


def _all(conditions: Sequence[str]) -> str:
    return f", {' and '.join(conditions)}" if conditions else ""


def _best(diagnosis: Diagnosis) -> Finding | None:
    """The finding whose offered fix saves most."""
    offered = [finding for finding in diagnosis.findings if finding.saving_ns is not None and finding.offered]
    return max(offered, key=lambda finding: finding.saving_ns or 0, default=None)


def _settled_first(diagnosis: Diagnosis, step: Step) -> Iterator[str]:
    """The sentence that asks to settle races before changes that move copies and waits."""
    codes = [*_races(diagnosis, suspected=False), *_races(diagnosis, suspected=True)]
    needy = [name for name in step.changes if parse(name).needs_order]
    if codes and needy:
        yield f"Settle {', '.join(codes)} first."


def _copies(device: DeviceAudit, diagnosis: Diagnosis, blocked_ns: int, report_share: float) -> Iterator[str]:
    """The cost of the copies, where something else costs more and all copies are in the trace."""
    spent, least = device.time, report_share * device.time.total_ns
    if any(diagnosis.trace.health.has(code) for code in _COPIES_MISSING):
        return
    of_device = [finding for finding in diagnosis.findings if finding.is_about(device.key) and _costs_time(finding)]
    blamed = sum(finding.idle_ns for finding in of_device if rule(finding.code).about_copies)
    if spent.waiting_ns + spent.of(COLLECTIVES) >= least > max(spent.copies_ns, blamed):
        small = spent.copies_ns < _MENTIONED * spent.total_ns
        blocked = f", but their calls blocked the host for {time(blocked_ns)}" if blocked_ns >= least else ""
        yield f"Copies cost {'less than 1 %' if small else share(spent.copies_ns, spent.total_ns)}{blocked}."


def verdict(devices: Sequence[DeviceAudit], diagnosis: Diagnosis, blocked_ns: int, report_share: float) -> str:
    """Up to three sentences about the overlap and the cost of the copies; "undefined" where overlap has no meaning.

    ``blocked_ns`` is the time for which the copy calls blocked the host, each call counted once.
    """
    trace, active = diagnosis.trace, [device.activity for device in devices]
    groups = [group for device in devices for group in device.directions]
    kernels = sum(each.kernels.total_ns for each in active)
    if not (groups or kernels):
        return _nothing(diagnosis)
    if not groups:
        return f"No copies{_missing_copies(trace)}: overlap is undefined."
    moved = f"{counted(sum(group.count for group in groups), 'copy', 'copies')} moved {_size(groups)}"
    busy, total = sum(each.copies.total_ns for each in active), sum(group.total_ns for group in groups)
    moved += f" in {time(busy)}" + (f", {time(total)} one by one" if time(total) != time(busy) else "")
    if not kernels:
        return f"{moved}, and no kernel ran: overlap is undefined, nothing could hide them."
    hidden = sum(group.hidden_ns for group in groups)
    first = f"{moved}: {share(hidden, total)} hidden under kernels, {time(total - hidden)} exposed."
    if trace.health.has("wrong-device-clock"):
        return f"{first} Some device timestamps come from another clock: dependencies cannot be determined."
    delayed_ns = sum(device.kernel_gaps.sum_ns(Cause.COPY_CALL) for device in devices)
    calls = "Their calls" if sum(group.count for group in groups) > 1 else "Its call"
    blocked = _blocked(calls, blocked_ns, delayed_ns, _MENTIONED * diagnosis.window.wall_ns)
    return " ".join([first, *blocked, *_ceiling([device.ceiling for device in devices], report_share)])


def _nothing(diagnosis: Diagnosis) -> str:
    trace, window = diagnosis.trace, diagnosis.window
    if trace.health.no_device_work:
        return f"No GPU work in this trace, so overlap is undefined: {trace.health.no_device_work}."
    where = "this trace" if window.is_whole else "this window"
    where = where if window.name is None else f"the range {window.name!r}"
    return f"No GPU work in {where}: overlap is undefined."


def _missing_copies(trace: Trace) -> str:
    if trace.health.has("whole-graph-trace"):
        return " are recorded (CUDA graphs were traced as a whole, copies inside them are not in the trace)"
    if trace.health.has("copies-not-recorded"):
        return " are recorded, though copy calls are"
    return ""


def _size(groups: Sequence[CopyGroup]) -> str:
    known = [group.size_bytes for group in groups if group.size_bytes is not None]
    if not known:
        return "an unknown number of bytes"
    return size(sum(known)) + (" and more of unknown size" if any(group.unknown_size for group in groups) else "")


def _blocked(calls: str, blocked_ns: int, delayed_ns: int, least_ns: float) -> Iterator[str]:
    """How long the copy calls blocked the host: copies that look hidden can delay kernels this way."""
    if blocked_ns > least_ns:
        launches = f" and delayed kernel launches: {time(delayed_ns)} without a kernel" if delayed_ns > least_ns else ""
        yield f"{calls} blocked the host for {time(blocked_ns)}{launches}."


def _ceiling(devices: Sequence[Ceiling], report_share: float) -> list[str]:
    """The saving of perfect overlap, where it is too small to help; of the device that is busy longest."""
    most = max(devices, key=lambda each: each.bound_ns)
    if not most.at_limit(report_share):
        return []
    saved = f"{time(most.saving_ns)} of {time(most.now_ns)} ({share(most.saving_ns, most.now_ns)})"
    rest = "" if most.bound_by in (ceiling.KERNELS, ceiling.HOST) else "; only fewer bytes or faster copies help"
    return [f"Perfect overlap of copies would save at most {saved}: {most.limit}{rest}."]
