"""Shares of time: blocked, hidden, idle, and what fixes would save."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from overlapscope.budget.counts import NO_CALLS
from overlapscope.budget.figure import Cost, Figure, costs, missing, places_of_calls, places_of_copies
from overlapscope.budget.limits import ALL_CAUSES
from overlapscope.budget.scope import Scope
from overlapscope.budget.waits import rule_of_calls
from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.finding import DeviceDiagnosis
from overlapscope.diagnosis.places import Moments, shares
from overlapscope.measure.devices import DeviceKey
from overlapscope.measure.spans import covered, intersect, union
from overlapscope.model.columns import Bool, Int64
from overlapscope.model.enums import LINK
from overlapscope.whatif.calls import scalar_reads

_NO_WORK = "it has no GPU work"


def blocked_share(scope: Scope) -> Figure:
    """The share of the host time for which calls block a thread, of the thread for which it is largest."""
    if not scope.calls.any():
        return missing(NO_CALLS)
    calls, begin, window = scope.trace.api_calls, scope.blocked_from_ns, scope.host_window
    blocked_ns = window.covers(calls.process, begin, calls.end_ns)
    best = Figure(0.0)
    for process, thread in calls.take(scope.calls).threads:
        rows = np.flatnonzero((calls.process == process) & (calls.thread == thread) & (blocked_ns > 0))
        within = window.of(process)
        spent = intersect(union(begin[rows], calls.end_ns[rows]), within).total_ns
        share = spent / within.total_ns if within.total_ns else 0.0
        if best.value is None or share > best.value:
            places = places_of_calls(scope.trace, rows, blocked_ns[rows], "ns")
            best = Figure(share, rule=rule_of_calls(scope.trace, rows, blocked_ns[rows]), places=places)
    return best


def hidden_share(scope: Scope) -> Figure:
    """The share of the hideable copy time that is hidden, of the GPU for which it is smallest."""
    if not scope.devices:
        return missing(_NO_WORK)
    found = [figure for key in scope.devices if (figure := _hidden_on(scope, key)).value is not None]
    if not found:
        return missing("no GPU has both kernels and hideable copies in it")
    return min(found, key=lambda figure: figure.value or 0.0)


def _hidden_on(scope: Scope, key: DeviceKey) -> Figure:
    """Hideable are copies over a link but for single values, for as long as kernels run in the window."""
    copies, table = scope.trace.copies, scope.trace.kernels
    mine = key.rows(table)
    kernels = union(table.start_ns[mine], table.end_ns[mine])
    hideable = scope.copies & key.rows(copies) & np.isin(copies.direction, LINK) & ~scalar_reads(scope.trace)
    rows = np.flatnonzero(hideable)
    copying = union(copies.start_ns[rows], copies.end_ns[rows])
    hideable_ns = min(copying.total_ns, intersect(kernels, scope.window.of(key.process)).total_ns)
    if not hideable_ns:
        return missing("nothing to hide, or nothing to hide it behind")
    exposed_ns = copies.duration_ns[rows] - covered(copies.start_ns[rows], copies.end_ns[rows], kernels)
    exposed = rows[exposed_ns > 0]
    share = min(intersect(copying, kernels).total_ns / hideable_ns, 1.0)
    places = places_of_copies(scope.trace, exposed, exposed_ns[exposed_ns > 0], "ns")
    return Figure(share, about=key.title, rule=_rule_of_copies(scope, exposed), places=places)


def _rule_of_copies(scope: Scope, rows: Int64) -> str | None:
    """The rule about most of the time of some copies."""
    spent: dict[str, int] = {}
    for row, duration in zip(rows.tolist(), scope.trace.copies.duration_ns[rows].tolist(), strict=True):
        code = scope.diagnosis.copy_reasons[row]
        if code is not None:
            spent[code] = spent.get(code, 0) + duration
    return max(spent, key=lambda code: spent[code], default=None)


def idle_share(scope: Scope, part: str) -> Figure:
    """The share of the time for which a GPU is idle: of any cause, of one, or by one rule; of the GPU with most."""
    devices = [device for device in scope.diagnosis.devices if device.span_ns]
    if not devices:
        return missing(_NO_WORK)
    found = [_idle_on(scope, device, part) for device in devices]
    most = max(found, key=lambda figure: figure.value or 0.0)
    doubt = "" if part == ALL_CAUSES else insufficient(scope)
    return replace(most, doubt=doubt)


def _idle_on(scope: Scope, device: DeviceDiagnosis, part: str) -> Figure:
    rows = np.flatnonzero(_of_part(device, part))
    idle, trace = device.idle.take(rows), scope.trace
    at = Moments.of_idle(trace, idle, idle.copy).in_process(device.key.process)
    places = costs(shares(trace, at, idle.duration_ns, device.key.device))
    by_rule = {
        code: int(idle.duration_ns[device.reason[rows] == number].sum()) for number, code in enumerate(device.codes)
    }
    rule = max(by_rule, key=lambda code: by_rule[code]) if any(by_rule.values()) else None
    return Figure(int(idle.duration_ns.sum()) / device.span_ns, about=device.key.title, rule=rule, places=places)


def _of_part(device: DeviceDiagnosis, part: str) -> Bool:
    if part == ALL_CAUSES:
        return np.ones(len(device.idle), np.bool_)
    if part in device.codes:
        by_rule: Bool = device.reason == device.codes.index(part)
        return by_rule
    by_cause: Bool = device.idle.cause == Cause[part.upper()]
    return by_cause


def saving_share(scope: Scope) -> Figure:
    """The share of the time that the simulated fixes of the plan save together."""
    plan, found = scope.diagnosis.plan, scope.diagnosis
    if not scope.devices:
        return missing(_NO_WORK)
    if plan is None and any(finding.change is not None for finding in found.findings):
        return missing("the trace was not simulated, or has no calls")
    if plan is None or not plan.steps:
        return Figure(0.0, doubt=insufficient(scope))
    last = plan.steps[-1]
    fixed = [finding for finding in found.findings if finding.change in last.changes]
    places = tuple(Cost(finding.where, finding.saving_ns or 0) for finding in fixed)
    saved = max(plan.baseline_ns - last.time_ns, 0) / plan.baseline_ns
    rule = next((code for step in plan.steps for code in step.fixes), None)
    return Figure(saved, doubt=insufficient(scope), about=f"with {', '.join(last.changes)}", rule=rule, places=places)


def findings(scope: Scope, code: str) -> Figure:
    """The number of findings of a rule."""
    if not scope.diagnosis.devices:
        return missing(_NO_WORK)
    found = [finding for finding in scope.diagnosis.findings if finding.code == code]
    places = costs(share for finding in found for share in finding.places)
    return Figure(len(found), doubt=insufficient(scope), rule=code, places=places)


def insufficient(scope: Scope) -> str:
    """What the trace lacks to attribute idle time, where that is a finding; else nothing."""
    lacking = (finding for finding in scope.diagnosis.findings if finding.code == "OVL000")
    return next((f"OVL000: {finding.evidence['missing']}" for finding in lacking), "")
