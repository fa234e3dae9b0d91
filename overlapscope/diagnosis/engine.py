"""Lay lost device time to reasons, and reasons to findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from overlapscope.diagnosis.case import Case, unique
from overlapscope.diagnosis.catalogue import RULES
from overlapscope.diagnosis.config import DEFAULT, DiagnosisConfig
from overlapscope.diagnosis.finding import DeviceDiagnosis, Diagnosis, Finding, Place, Plan, Severity, Share
from overlapscope.diagnosis.places import shares
from overlapscope.diagnosis.plan import worth
from overlapscope.diagnosis.reasons import CODES, reason_of, reason_of_copies
from overlapscope.diagnosis.rule import Rule, Said
from overlapscope.measure.copies import copy_facts
from overlapscope.measure.devices import activity, device_keys
from overlapscope.measure.losses import losses
from overlapscope.measure.windows import Window, of_range, whole
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.trace import Trace

_NOTHING_TO_WIN = "OVL011"


def diagnose(
    trace: Trace,
    range: str | None = None,  # noqa: A002
    config: DiagnosisConfig = DEFAULT,
) -> Diagnosis:
    """Say why the copies of ``trace`` were not hidden, and what else its devices waited for.

    Every nanosecond in which a device had no work of its own has one reason; reasons with enough of them are findings.

    Args:
        trace: an opened trace.
        range: restrict it to the host ranges of this name (``*`` and ``?`` match).
        config: thresholds, with their reasons.

    Raises:
        RangeNotFound: the trace has no such range.
    """
    return diagnose_window(trace, whole(trace) if range is None else of_range(trace, range), config)


def diagnose_window(trace: Trace, window: Window, config: DiagnosisConfig = DEFAULT) -> Diagnosis:
    """Say why the copies of ``trace`` were not hidden within a window."""
    cases = _used([case for case in _cases(trace, window, config) if len(case.activity.busy)])
    reasons = [reason_of(case) for case in cases]
    found = [finding for case, reason in zip(cases, reasons, strict=True) for finding in _findings(case, reason)]
    findings, plan = worth(trace, window, _ranked(found), config)
    noise = max((round(config.worth_saying * case.span_ns) for case in cases), default=0)
    copying = [case.activity.copies.total_ns for case in cases]
    return Diagnosis(
        trace=trace,
        window=window,
        devices=tuple(
            DeviceDiagnosis(case.activity.key, case.losses, reason, CODES)
            for case, reason in zip(cases, reasons, strict=True)
        ),
        findings=_ranked(findings, plan),
        plan=plan,
        copy_reasons=_by_copy(trace, cases, reasons),
        hidden_ns=sum(case.activity.overlap.total_ns for case in cases),
        copying_ns=sum(copying),
        noise_ns=noise,
    )


def _cases(trace: Trace, window: Window, config: DiagnosisConfig) -> Iterator[Case]:
    facts = copy_facts(trace, window, config.losses.host)
    for key in device_keys(trace):
        active = activity(trace, key, window)
        yield Case(trace, window, active, losses(trace, active, window, config.losses), facts, config)


def _used(cases: list[Case]) -> list[Case]:
    """Without devices that next to nothing runs on beside others of their process: nobody uses them."""
    most: dict[int, int] = {}
    for case in cases:
        process = case.activity.key.process
        most[process] = max(most.get(process, 0), case.activity.busy.total_ns)
    return [
        case
        for case in cases
        if case.activity.busy.total_ns >= case.config.used_share * most[case.activity.key.process]
    ]


def _by_copy(trace: Trace, cases: list[Case], reasons: list[Int64]) -> tuple[str | None, ...]:
    result = np.full(len(trace.copies), NO_ID, np.int64)
    for case, reason in zip(cases, reasons, strict=True):
        result = np.maximum(result, reason_of_copies(case, reason))
    return tuple(None if number == NO_ID else CODES[number] for number in result.tolist())


def _findings(case: Case, reason: Int64) -> Iterator[Finding]:
    for number, rule in enumerate(RULES):
        rows = np.flatnonzero(reason == number)
        least = 0 if rule.always(case) else case.config.worth_saying * case.span_ns
        if rule.describe is not None and len(rows) and case.lost_ns(rows) >= least:
            yield _finding(case, rule, rule.describe(case, rows), rows)
        said = rule.view(case)
        if said is not None and (said.hazard or said.aside or (said.lost_ns or 0) >= least):
            yield _finding(case, rule, said, np.empty(0, np.int64))


def _finding(case: Case, rule: Rule, said: Said, rows: Int64) -> Finding:
    copies = case.copies_of(rows) if said.copies is None else said.copies
    issued = unique(case.trace.copies.call[copies])
    calls = unique(np.concatenate([case.roots_of(rows), issued])) if said.calls is None else said.calls
    lost = case.lost_ns(rows) if said.lost_ns is None else said.lost_ns
    places = _places(case, rows, copies)
    return Finding(
        code=rule.code,
        name=rule.name,
        severity=_severity(case, said, lost),
        confidence=said.confidence,
        doubt=said.doubt,
        rank=0,
        copies=tuple(copies.tolist()),
        calls=tuple(calls.tolist()),
        where=places[0].where if places else _device_only(case),
        places=places,
        evidence=said.evidence,
        message=said.message,
        fix=said.fix or rule.fix,
        change=said.change or rule.change,
        lost_ns=lost,
        held_ns=case.held_ns(calls),
    )


def _severity(case: Case, said: Said, lost: int) -> Severity:
    if said.hazard or said.aside:
        return Severity.HAZARD if said.hazard else Severity.INFO
    if lost >= case.config.high_share * case.span_ns:
        return Severity.HIGH
    return Severity.MEDIUM if lost >= case.config.medium_share * case.span_ns else Severity.LOW


def _places(case: Case, rows: Int64, copies: Int64) -> tuple[Share, ...]:
    """Where the stretches' root calls are, else their copies' calls, else the launches that came late."""
    table, device = case.trace.copies, case.activity.key.device
    if not len(rows):
        return shares(
            case.trace, table.call[copies].astype(np.int64), case.facts.exposed_ns[copies], table.stream[copies], device
        )
    root, copy = case.losses.root[rows], case.copy[rows]
    issued = np.append(table.call, NO_ID)[copy]
    calls = np.select([root != NO_ID, issued != NO_ID], [root, issued], case.losses.next_call[rows]).astype(np.int64)
    return shares(case.trace, calls, case.losses.duration_ns[rows], np.append(table.stream, NO_ID)[copy], device)


def _device_only(case: Case) -> Place:
    return Place(None, None, None, None, case.activity.key.process, None, case.activity.key.device, None)


def _ranked(findings: Iterable[Finding], plan: Plan | None = None) -> tuple[Finding, ...]:
    """Hazards first, asides last, in between what the plan mends, in its order, then what wins most.

    That is what its change may save, at most what was lost for it. Where nothing was replayed it is what was lost;
    where there is nothing to hide behind, nothing is to be won.
    """
    order = {Severity.HAZARD: 0, Severity.INFO: 2}
    steps = plan.steps if plan is not None else ()
    turn = {code: number for number, step in reversed(list(enumerate(steps))) for code in step.mends}

    def key(finding: Finding) -> tuple[int, int, int, int, str]:
        saving = 0 if finding.code == _NOTHING_TO_WIN else finding.saving_most_ns or finding.saving_ns
        gain = finding.lost_ns if saving is None else min(saving, finding.lost_ns)
        planned = turn.get(finding.code, len(steps))
        return order.get(finding.severity, 1), planned, -gain, -finding.lost_ns, finding.code

    ranked = sorted(findings, key=key)
    return tuple(replace(finding, rank=number) for number, finding in enumerate(ranked, 1))
