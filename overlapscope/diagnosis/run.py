"""One rule for every idle interval and every copy of a window, and findings of the rules with enough idle time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from overlapscope.diagnosis.attribution import Attribution
from overlapscope.diagnosis.catalogue import CLAIMING, CODES, RULES
from overlapscope.diagnosis.device_context import HIDEABLE_SHARE, DeviceContext, unique
from overlapscope.diagnosis.finding import Confidence, DeviceDiagnosis, Diagnosis, Finding, Place, Severity, Share
from overlapscope.diagnosis.places import Moments, shares
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.measure.copies import CopyFacts
from overlapscope.measure.devices import Activity
from overlapscope.measure.grouping import distinct_columns
from overlapscope.measure.spans import meeting
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import LINK
from overlapscope.model.trace import Trace

if TYPE_CHECKING:
    from overlapscope.analysis.config import Config

_FIXED_BY_OVERLAP = ("OVL002", "OVL004", "OVL006")
"""Rules whose fix lets copies overlap kernels."""
DiagnosedDevice = tuple[DeviceContext, DeviceDiagnosis]
"""A GPU with the facts that rules ask for, and with its idle intervals by rule."""
_USED_SHARE = 0.01
"""A GPU that is busy for less than this share of the busiest GPU's time in its process is not used.

Libraries initialise every GPU that they see.
"""
_INFERRED = "what the launching thread, or the work after the copy, waited for: it is inferred from times"


def attributed(
    attribution: Attribution, window: Window, activities: Iterable[Activity], facts: CopyFacts, config: Config
) -> list[DiagnosedDevice]:
    """The used GPUs of a window, each with the rules of its idle intervals."""
    used = _used([active for active in activities if len(active.busy)])
    graph, loops = attribution.graph, attribution.read_loops
    contexts = [
        DeviceContext(graph, window, active, attribution.findings(active, window), facts, config, loops)
        for active in used
    ]
    return [(context, _diagnosed(context)) for context in contexts]


def _diagnosed(context: DeviceContext) -> DeviceDiagnosis:
    span_ns = context.window.of(context.key.process).total_ns
    return DeviceDiagnosis(context.key, span_ns, context.idle, reason_of(context), context.lateness, CODES)


def _used(activities: list[Activity]) -> list[Activity]:
    """The activities without GPUs that are almost never busy compared with others of their process."""
    most: dict[int, int] = {}
    for active in activities:
        most[active.key.process] = max(most.get(active.key.process, 0), active.busy.total_ns)
    return [active for active in activities if active.busy.total_ns >= _USED_SHARE * most[active.key.process]]


def reason_of(context: DeviceContext) -> Int64:
    """For each idle interval the index of its rule in the catalogue; `NO_ID` for the start-up of the window."""
    reason = np.full(len(context.idle), NO_ID, np.int64)
    for rule in CLAIMING:
        reason[(reason == NO_ID) & rule.claims(context)] = CODES.index(rule.code)
    reason[(reason == NO_ID) & ~context.startup] = CODES.index("OVL000")
    return _with_nothing_to_hide_behind(context, reason)


def _with_nothing_to_hide_behind(context: DeviceContext, reason: Int64) -> Int64:
    """Attribute exposed copies to OVL011 where there is not enough kernel time that they could overlap.

    The same holds for an upload that ends before the first kernel and takes longer than all kernels together.
    """
    fixable = np.isin(reason, [CODES.index(code) for code in _FIXED_BY_OVERLAP])
    exposed = fixable & (2 * context.link_copy_ns > context.idle.duration_ns)
    kernels = context.activity.kernels
    upload = exposed & (context.idle.end_ns <= (kernels.start_ns[0] if len(kernels) else 0))
    total, before = (int(context.idle.duration_ns[rows].sum()) for rows in (exposed, upload))
    nothing = context.kernel_only_ns < HIDEABLE_SHARE * total
    first = before > (1 - HIDEABLE_SHARE) * total and before > context.kernel_only_ns
    return np.where(exposed & (nothing or first), CODES.index("OVL011"), reason)


def reason_of_copies(context: DeviceContext, reason: Int64) -> Int64:
    """For each copy the rule with most of its cost; `NO_ID` for copies that cost nothing.

    The cost of a copy is the idle intervals that are attributed to it. Where there are none, it is those in which it
    ran: the reason for which the device was idle then also exposed the copy.
    """
    copies, idle = context.trace.copies, context.idle
    known = reason != NO_ID
    of_copy = known & (context.copy != NO_ID) & np.isin(context.direction, LINK)
    result = _costliest(len(copies), context.copy[of_copy], reason[of_copy], idle.duration_ns[of_copy])
    rows = np.flatnonzero(context.key.rows(copies) & np.isin(copies.direction, LINK) & (result == NO_ID))
    which, interval = meeting(copies.start_ns[rows], copies.end_ns[rows], idle.start_ns, idle.end_ns)
    which, interval = which[known[interval]], interval[known[interval]]
    shared = np.minimum(copies.end_ns[rows[which]], idle.end_ns[interval])
    shared -= np.maximum(copies.start_ns[rows[which]], idle.start_ns[interval])
    exposed = _costliest(len(copies), rows[which], reason[interval], shared)
    return np.where(result == NO_ID, exposed, result)


def _costliest(count: int, copy: Int64, reason: Int64, idle_ns: Int64) -> Int64:
    """For each copy the reason with the largest sum."""
    result = np.full(count, NO_ID, np.int64)
    pairs, member = distinct_columns(np.stack([copy, reason]))
    totals = np.zeros(pairs.shape[1], np.int64)
    np.add.at(totals, member, idle_ns)
    order = np.argsort(totals, kind="stable")  # the largest is written last
    result[pairs[0][order]] = pairs[1][order]
    return result


def diagnosed(window: Window, pairs: Sequence[DiagnosedDevice], trace: Trace, report_share: float) -> Diagnosis:
    """The findings of a window, ranked by the GPU idle time that they explain; nothing is simulated.

    Every nanosecond in which a GPU ran no kernel, memset or copy within the device has one reason. Reasons with enough
    idle time become findings, each with its evidence and a fix.
    """
    contexts = [context for context, _ in pairs]
    findings = (finding for context, device in pairs for finding in _findings(context, device.reason))
    return Diagnosis(
        trace=trace,
        window=window,
        devices=tuple(device for _, device in pairs),
        findings=_ranked(findings),
        plan=None,
        copy_reasons=_by_copy(trace, pairs),
        hidden_ns=sum(context.copies_ns(context.facts.hidden_ns) for context in contexts),
        copy_ns=sum(context.copies_ns(context.facts.total_ns) for context in contexts),
        report_threshold_ns=max((round(report_share * context.activity.span_ns) for context in contexts), default=0),
    )


def _by_copy(trace: Trace, pairs: Iterable[DiagnosedDevice]) -> tuple[str | None, ...]:
    result = np.full(len(trace.copies), NO_ID, np.int64)
    for context, device in pairs:
        result = np.maximum(result, reason_of_copies(context, device.reason))
    return tuple(None if number == NO_ID else CODES[number] for number in result.tolist())


def _findings(context: DeviceContext, reason: Int64) -> Iterator[Finding]:
    for number, rule in enumerate(RULES):
        rows = np.flatnonzero(reason == number)
        least = 0 if rule.always(context) else context.config.report_share * context.activity.span_ns
        if rule.describe is not None and len(rows) and context.idle_ns(rows) >= least:
            parts = (rows,) if rule.parts is None else rule.parts(context, rows)
            for part in _parts(context, parts, least):
                yield _finding(context, rule, rule.describe(context, part), part)
        report = rule.view(context)
        if report is not None and (report.hazard or report.informational or (report.idle_ns or 0) >= least):
            yield _finding(context, rule, report, np.empty(0, np.int64))


def _parts(context: DeviceContext, parts: tuple[Int64, ...], least: float) -> list[Int64]:
    """The largest part, and the others with enough idle time."""
    largest, *others = sorted(parts, key=context.idle_ns, reverse=True)
    return [largest, *(part for part in others if context.idle_ns(part) >= least)]


def _finding(context: DeviceContext, rule: Rule, report: Report, rows: Int64) -> Finding:
    copies = context.copies_of(rows) if report.copies is None else report.copies
    issued = unique(context.trace.copies.call[copies])
    calls = unique(np.concatenate([context.blocking_calls_of(rows), issued])) if report.calls is None else report.calls
    idle_ns = context.idle_ns(rows) if report.idle_ns is None else report.idle_ns
    places = _places(context, rows, copies, calls)
    where = places[0].where if places else Place(process=context.key.process, device=context.key.device)
    guessed_ns = context.idle_ns(rows[context.idle.inferred[rows]])
    inferred = report.confidence is Confidence.HIGH and 2 * guessed_ns > idle_ns > 0
    return Finding(
        code=rule.code,
        name=rule.name,
        kind=report.kind,
        severity=_severity(context, report, idle_ns),
        confidence=Confidence.MEDIUM if inferred else report.confidence,
        confirm_with=_INFERRED if inferred else report.confirm_with,
        rank=0,
        copies=tuple(copies.tolist()),
        calls=tuple(calls.tolist()),
        idle_rows=tuple(rows.tolist()),
        where=where,
        places=places,
        evidence=report.evidence,
        message=report.message,
        fix=rule.fix_of(report, where, pytorch=context.pytorch),
        change=report.change or rule.change,
        idle_ns=idle_ns,
        copying_ns=int(context.link_copy_ns[rows].sum()),
        blocked_ns=_blocked_ns(context, report, calls),
        waited_for=report.waited_for or rule.waited_for,
        ran=report.ran,
        bound=report.bound,
    )


def _blocked_ns(context: DeviceContext, report: Report, calls: Int64) -> int:
    """The host time for which the calls blocked, as the evidence has it, which may be about a part of the calls."""
    blocked = report.evidence.get("blocked_ns")
    return blocked if isinstance(blocked, int) else context.blocked_ns(calls)


def _severity(context: DeviceContext, report: Report, idle_ns: int) -> Severity:
    if report.hazard or report.informational:
        return Severity.HAZARD if report.hazard else Severity.INFO
    config, span_ns = context.config, context.activity.span_ns
    if idle_ns >= config.high_share * span_ns:
        return Severity.HIGH
    return Severity.MEDIUM if idle_ns >= config.medium_share * span_ns else Severity.LOW


def _places(context: DeviceContext, rows: Int64, copies: Int64, calls: Int64) -> tuple[Share, ...]:
    """The places of idle intervals; where there are none, of the copies, else of the kernels that calls launched."""
    trace, key = context.trace, context.key
    if len(rows):
        at = Moments.of_idle(trace, context.idle.take(rows), context.copy[rows])
        cost_ns = context.idle.duration_ns[rows]
    elif len(copies):
        at = Moments.of_calls(trace, trace.copies.call[copies], trace.copies.stream[copies])
        cost_ns = context.facts.exposed_ns[copies]
    else:
        kernels = trace.kernels.take(key.rows(trace.kernels) & np.isin(trace.kernels.call, calls))
        at, cost_ns = Moments.of_calls(trace, kernels.call, kernels.stream), kernels.duration_ns
    return shares(trace, at.in_process(key.process), cost_ns, key.device)


def _ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Rank findings by their GPU idle time: hazards first, information last."""
    order = {Severity.HAZARD: 0, Severity.INFO: 2}

    def key(finding: Finding) -> tuple[int, int, str]:
        return order.get(finding.severity, 1), -finding.idle_ns, finding.code

    return tuple(replace(finding, rank=number) for number, finding in enumerate(sorted(findings, key=key), 1))
