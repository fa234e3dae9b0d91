"""`diagnose`: attribute GPU idle time to rules, and turn rules with enough of it into findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from overlapscope.dependencies.build import build_graph
from overlapscope.diagnosis.attribution import Attribution
from overlapscope.diagnosis.catalogue import RULES
from overlapscope.diagnosis.config import DEFAULT, DiagnosisConfig
from overlapscope.diagnosis.device_context import DeviceContext, unique
from overlapscope.diagnosis.finding import Confidence, DeviceDiagnosis, Diagnosis, Finding, Place, Severity, Share
from overlapscope.diagnosis.idle_by_rule import attributed
from overlapscope.diagnosis.places import Moments, shares
from overlapscope.diagnosis.plan import simulate_fixes
from overlapscope.diagnosis.reasons import CODES, reason_of_copies
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.measure.windows import Window, window_of
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.trace import Trace

_INFERRED = "what the launching thread, or the work after the copy, waited for: it is inferred from times"


def silent(_phase: str) -> None:
    """Nobody is told which part of the work begins."""


def diagnose(
    trace: Trace,
    within: str | Window | None = None,
    config: DiagnosisConfig = DEFAULT,
    on_phase: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Find out why the copies of ``trace`` were not hidden, and what else its GPUs waited for.

    Every nanosecond in which a GPU ran no kernel, memset or copy within the device has one reason. Reasons with enough
    idle time become findings, each with its evidence, a fix, and the simulated saving of that fix.

    Args:
        trace: an opened trace.
        within: analyse only the host ranges of this name (``*`` and ``?`` match), or a `Window`; None for all.
        config: thresholds, with their reasons.
        on_phase: called with the name of each part of the work when it begins.

    Raises:
        RangeNotFound: the trace has no such range.
    """
    window, on_phase = window_of(trace, within), on_phase or silent
    on_phase("dependencies")
    attribution = Attribution(build_graph(trace, config.dependencies), config.dependencies)
    return diagnose_window(attribution, window, config, on_phase)


def diagnose_window(
    attribution: Attribution,
    window: Window,
    config: DiagnosisConfig = DEFAULT,
    on_phase: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Do the same for a window of a trace whose dependencies are known."""
    trace, on_phase = attribution.graph.trace, on_phase or silent
    on_phase("findings")
    pairs = attributed(attribution, window, config)
    contexts = [context for context, _ in pairs]
    found = [finding for context, device in pairs for finding in _findings(context, device.reason)]
    on_phase("simulating fixes")
    findings, plan = simulate_fixes(attribution, window, _ranked(found), config)
    return Diagnosis(
        trace=trace,
        window=window,
        devices=tuple(device for _, device in pairs),
        findings=findings,
        plan=plan,
        copy_reasons=_by_copy(trace, pairs),
        hidden_ns=sum(context.activity.overlap.total_ns for context in contexts),
        copy_ns=sum(context.activity.copies.total_ns for context in contexts),
        report_threshold_ns=max((round(config.report_share * context.span_ns) for context in contexts), default=0),
    )


def _by_copy(trace: Trace, pairs: Iterable[tuple[DeviceContext, DeviceDiagnosis]]) -> tuple[str | None, ...]:
    result = np.full(len(trace.copies), NO_ID, np.int64)
    for context, device in pairs:
        result = np.maximum(result, reason_of_copies(context, device.reason))
    return tuple(None if number == NO_ID else CODES[number] for number in result.tolist())


def _findings(context: DeviceContext, reason: Int64) -> Iterator[Finding]:
    for number, rule in enumerate(RULES):
        rows = np.flatnonzero(reason == number)
        least = 0 if rule.always(context) else context.config.report_share * context.span_ns
        if rule.describe is not None and len(rows) and context.idle_ns(rows) >= least:
            for part in _parts(context, rule.parts(context, rows), least):
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
    where = places[0].where if places else _device_only(context)
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
    )


def _blocked_ns(context: DeviceContext, report: Report, calls: Int64) -> int:
    """As its evidence has it, which may be about some of the calls only."""
    said = report.evidence.get("blocked_ns")
    return said if isinstance(said, int) else context.blocked_ns(calls)


def _severity(context: DeviceContext, report: Report, idle_ns: int) -> Severity:
    if report.hazard or report.informational:
        return Severity.HAZARD if report.hazard else Severity.INFO
    if idle_ns >= context.config.high_share * context.span_ns:
        return Severity.HIGH
    return Severity.MEDIUM if idle_ns >= context.config.medium_share * context.span_ns else Severity.LOW


def _places(context: DeviceContext, rows: Int64, copies: Int64, calls: Int64) -> tuple[Share, ...]:
    """The places of idle intervals; where there are none, of the copies, else of the kernels that calls launched."""
    trace, table, key = context.trace, context.trace.copies, context.activity.key
    if not len(rows) and not len(copies):
        launched = np.flatnonzero(key.rows(trace.kernels) & np.isin(trace.kernels.call, calls))
        at = Moments.of_calls(trace, trace.kernels.call[launched], trace.kernels.stream[launched])
        return shares(trace, at.in_process(key.process), trace.kernels.duration_ns[launched], key.device)
    if not len(rows):
        at = Moments.of_calls(trace, table.call[copies], table.stream[copies])
        return shares(trace, at.in_process(key.process), context.facts.exposed_ns[copies], key.device)
    at = Moments.of_idle(trace, context.idle.take(rows), context.copy[rows])
    return shares(trace, at.in_process(key.process), context.idle.duration_ns[rows], key.device)


def _device_only(context: DeviceContext) -> Place:
    return Place(None, None, None, None, context.activity.key.process, None, context.activity.key.device, None)


def _ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Rank findings by their GPU idle time: hazards first, information last."""
    order = {Severity.HAZARD: 0, Severity.INFO: 2}

    def key(finding: Finding) -> tuple[int, int, str]:
        return order.get(finding.severity, 1), -finding.idle_ns, finding.code

    return tuple(replace(finding, rank=number) for number, finding in enumerate(sorted(findings, key=key), 1))
