"""`Figure`: each figure that a limit is set on, measured in a scope, with the places that it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from overlapscope.budget.limits import ALL_CAUSES, CAUSES
from overlapscope.budget.scope import Scope, rule_of_calls, waited_for, waits_by_name
from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.finding import DeviceDiagnosis, Place, Share
from overlapscope.diagnosis.places import Moments, shares
from overlapscope.formatting import size, time
from overlapscope.measure.copies import host_kind
from overlapscope.measure.devices import DeviceKey
from overlapscope.measure.spans import covered, intersect, union
from overlapscope.model.columns import NO_ID, Bool, Int32, Int64
from overlapscope.model.enums import LINK, SYNC_CALLS, Direction, MemoryKind
from overlapscope.model.frames import Row
from overlapscope.model.trace import Trace
from overlapscope.whatif.calls import scalar_reads

_MOST_PLACES = 5
_NO_CALLS = "no CUDA call in it was recorded"
_NO_WORK = "it has no GPU work"


@dataclass(frozen=True)
class Cost(Row):
    """A place in the program, and how much of a figure comes from it, in ``unit``: ``count``, ``bytes`` or ``ns``."""

    where: Place
    amount: int
    unit: str = "ns"

    @property
    def words(self) -> str:
        """The place and the amount as text."""
        units = {"ns": time, "bytes": size, "count": "{:,}".format}
        gpu = "" if self.where.device is None else f", GPU {self.where.device}"
        return f"{self.where.words or f'a place that is not recorded{gpu}'} ({units[self.unit](self.amount)})"


@dataclass(frozen=True)
class Figure:
    """A measured figure, with the rule that most of it falls under and its places, the largest part first.

    Attributes:
        value: the figure; None where the trace does not have it.
        missing: the reason for None.
        doubt: what the trace lacks where the figure is only a bound: a limit that it breaks is broken, a limit that it
            keeps may be broken all the same.
        worst: the step or the GPU that has this value.
        rule: the code of the rule.
        places: the places.
    """

    value: float | None
    missing: str = ""
    doubt: str = ""
    worst: str = ""
    rule: str | None = None
    places: tuple[Cost, ...] = ()


def missing(reason: str) -> Figure:
    """A figure that the trace does not have."""
    return Figure(None, reason)


def costs(parts: Iterable[Share], unit: str = "ns") -> tuple[Cost, ...]:
    """The places of the parts of a figure with their amounts, the largest first."""
    every = sorted((Cost(share.where, share.idle_ns, unit) for share in parts), key=lambda cost: -cost.amount)
    known = [cost for cost in every if cost.where.words]
    return tuple((known or every)[:_MOST_PLACES])


def places_of_calls(trace: Trace, calls: Int64, amounts: Int64, unit: str) -> tuple[Cost, ...]:
    """The places of calls, each with its amount."""
    return costs(shares(trace, Moments.of_calls(trace, calls), amounts, NO_ID), unit)


def places_of_copies(trace: Trace, copies: Int64 | Int32, amounts: Int64, unit: str) -> tuple[Cost, ...]:
    """The places where copies were issued, each with its amount."""
    table = trace.copies
    at = Moments.of_calls(trace, table.call[copies], table.stream[copies])
    at = replace(at, process=np.where(at.process == NO_ID, table.process[copies], at.process))
    devices = np.unique(table.device[copies]).tolist()
    device = devices[0] if len(devices) == 1 else NO_ID
    return costs(shares(trace, at, amounts, device), unit)


def synchronisations(scope: Scope) -> Figure:
    """The most synchronisations in a step: calls that wait until the GPU has finished some work, however short."""
    waits = scope.calls & (np.isin(scope.trace.api_calls.kind, SYNC_CALLS) | waits_by_name(scope.trace))
    return _most_per_step(scope, np.flatnonzero(waits))


def scalar_reads_per_step(scope: Scope) -> Figure:
    """The most scalar reads in a step: copies of a single value to the host that the host waits for."""
    copies = scope.trace.copies
    values = scope.copies & scalar_reads(scope.trace)
    called = copies.call[values & waited_for(scope.trace)]
    rows = np.unique(called[called != NO_ID]).astype(np.int64)
    figure = _most_per_step(scope, rows[scope.calls[rows]])
    unknown = values & ((copies.call == NO_ID) | (host_kind(copies) == MemoryKind.UNKNOWN))
    if figure.value is None or not (unknown & ~waited_for(scope.trace)).any():
        return figure
    return replace(figure, doubt="calls or memory kinds of copies to the host were not recorded")


def pageable_bytes(scope: Scope) -> Figure:
    """The bytes that are copied from or to pageable memory, but for single values: these are scalar reads."""
    copies = scope.trace.copies
    over_link = scope.copies & np.isin(copies.direction, LINK) & ~scalar_reads(scope.trace)
    kind = host_kind(copies)
    pageable = np.flatnonzero(over_link & (kind == MemoryKind.PAGEABLE))
    sizes = np.maximum(copies.size_bytes[pageable], 0)
    unknown = over_link & (kind == MemoryKind.UNKNOWN) & (copies.direction != Direction.PTOP)
    doubts = ["the memory kind of copies was not recorded"] if unknown.any() else []
    doubts += ["the size of copies was not recorded"] if (copies.size_bytes[pageable] == NO_ID).any() else []
    if scope.trace.health.has("copies-not-recorded") or not scope.devices:
        return missing("its copies were not recorded" if scope.devices else _NO_WORK)
    places = places_of_copies(scope.trace, pageable, sizes, "bytes")
    return Figure(int(sizes.sum()), doubt=", ".join(doubts), rule="OVL001", places=places)


def _most_per_step(scope: Scope, rows: Int64) -> Figure:
    """The number of the calls in the step that has most of them."""
    if not scope.calls.any():
        return missing(_NO_CALLS)
    if not len(scope.steps):
        return missing("the trace has no steps of torch's profiler: limit a range instead")
    counts = scope.per_step(rows)
    most = int(np.argmax(counts))
    here = scope.rows_of_step(rows, most)
    each = np.ones(len(here), np.int64)
    rule, places = rule_of_calls(scope.trace, here, each), places_of_calls(scope.trace, here, each, "count")
    return Figure(int(counts[most]), worst=f"step {most + 1} of {len(counts)}", rule=rule, places=places)


def blocked_share(scope: Scope) -> Figure:
    """The share of the host time for which calls block a thread, of the thread for which it is largest."""
    if not scope.calls.any():
        return missing(_NO_CALLS)
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
    by_device = [figure for key in scope.devices if (figure := _hidden_on(scope, key)).value is not None]
    if not by_device:
        return missing("no GPU has both kernels and hideable copies in it")
    return min(by_device, key=lambda figure: figure.value or 0.0)


def _hidden_on(scope: Scope, key: DeviceKey) -> Figure:
    """The share on one GPU: hideable are copies over a link but for single values, for as long as kernels run."""
    copies, table = scope.trace.copies, scope.trace.kernels
    on_device = key.rows(table)
    kernels = union(table.start_ns[on_device], table.end_ns[on_device])
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
    return Figure(share, worst=key.title, rule=_rule_of_copies(scope, exposed), places=places)


def _rule_of_copies(scope: Scope, rows: Int64) -> str | None:
    """The rule under which most of the time of copies falls."""
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
    most = max((_idle_on(scope, device, part) for device in devices), key=lambda figure: figure.value or 0.0)
    return replace(most, doubt="" if part == ALL_CAUSES else _insufficient(scope))


def _idle_on(scope: Scope, device: DeviceDiagnosis, part: str) -> Figure:
    rows = np.flatnonzero(_of_part(device, part))
    idle, trace = device.idle.take(rows), scope.trace
    at = Moments.of_idle(trace, idle, idle.copy).in_process(device.key.process)
    places = costs(shares(trace, at, idle.duration_ns, device.key.device))
    by_rule = {
        code: int(idle.duration_ns[device.reason[rows] == number].sum()) for number, code in enumerate(device.codes)
    }
    rule = max(by_rule, key=lambda code: by_rule[code]) if any(by_rule.values()) else None
    return Figure(int(idle.duration_ns.sum()) / device.span_ns, worst=device.key.title, rule=rule, places=places)


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
    plan, every = scope.diagnosis.plan, scope.diagnosis.findings
    if not scope.devices:
        return missing(_NO_WORK)
    if plan is None or not plan.steps:
        return Figure(0.0, doubt=_insufficient(scope))
    last = plan.steps[-1]
    fixed = [finding for finding in every if finding.change in last.changes]
    places = tuple(Cost(finding.where, finding.saving_ns or 0) for finding in fixed)
    saved = max(plan.baseline_ns - last.time_ns, 0) / plan.baseline_ns
    rule = next((code for step in plan.steps for code in step.fixes), None)
    return Figure(saved, doubt=_insufficient(scope), worst=f"with {', '.join(last.changes)}", rule=rule, places=places)


def findings(scope: Scope, code: str) -> Figure:
    """The number of findings of a rule."""
    if not scope.diagnosis.devices:
        return missing(_NO_WORK)
    of_rule = [finding for finding in scope.diagnosis.findings if finding.code == code]
    places = costs(share for finding in of_rule for share in finding.places)
    return Figure(len(of_rule), doubt=_insufficient(scope), rule=code, places=places)


def _insufficient(scope: Scope) -> str:
    """What the trace lacks to attribute idle time, where that is a finding; else nothing."""
    lacking = (finding for finding in scope.diagnosis.findings if finding.code == "OVL000")
    return next((f"OVL000: {finding.evidence['missing']}" for finding in lacking), "")


_WHOLE: dict[str, Callable[[Scope], Figure]] = {
    "scalar_reads_per_step": scalar_reads_per_step,
    "synchronisations_per_step": synchronisations,
    "pageable_bytes": pageable_bytes,
    "blocked_share": blocked_share,
    "hidden_share": hidden_share,
    "saving_share": saving_share,
}
_BY_PART: dict[str, Callable[[Scope, str], Figure]] = {
    "idle_share": idle_share,
    "no_findings": findings,
}


def measured(scope: Scope, name: str, part: str | None = None) -> Figure:
    """The figure of a limit by its name, and by its part where it has parts."""
    return _WHOLE[name](scope) if part is None else _BY_PART[name](scope, part)


def stored(scope: Scope) -> dict[str, Any]:
    """All figures as JSON-ready data for a baseline: None for what the trace does not have.

    Causes without idle time are left out.
    """
    values: dict[str, Any] = {name: measured(scope, name).value for name in _WHOLE}
    idle = {cause: measured(scope, "idle_share", cause).value for cause in CAUSES}
    with_time = {cause: share for cause, share in idle.items() if share or cause == ALL_CAUSES}
    values["idle_share"] = None if idle[ALL_CAUSES] is None else with_time
    values["findings"] = sorted({finding.code for finding in scope.diagnosis.findings})
    return values
