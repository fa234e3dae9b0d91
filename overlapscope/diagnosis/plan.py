"""Simulate what fixing the findings saves: one after the other, and where each change edits the program.

Savings do not add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import OWN_DURATION, WAITS
from overlapscope.diagnosis.capture import Capture
from overlapscope.diagnosis.finding import (
    NOISE_SHARE,
    UNPROFILED,
    Confidence,
    Diagnosis,
    Expected,
    Finding,
    Limit,
    Plan,
    Severity,
    Share,
    Step,
)
from overlapscope.diagnosis.gpu_time import COPIES, GpuTime, gpu_time
from overlapscope.diagnosis.host_reads import NEEDED, purposes
from overlapscope.diagnosis.places import Moments, shares
from overlapscope.diagnosis.search import Reached, Search
from overlapscope.formatting import counted, time
from overlapscope.measure.ceiling import ceiling
from overlapscope.measure.devices import DeviceKey
from overlapscope.measure.grouping import each_value
from overlapscope.measure.places import STEPS, is_step
from overlapscope.measure.windows import Window, inside, of_range
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.whatif.baseline import Baseline
from overlapscope.whatif.calls import scalar_reads
from overlapscope.whatif.catalogue import Edits, parse
from overlapscope.whatif.change import Change
from overlapscope.whatif.changes.cuda_graph import CudaGraph
from overlapscope.whatif.changes.no_scalar_sync import NoScalarSync
from overlapscope.whatif.changes.read_once import ReadOnce
from overlapscope.whatif.interval import Basis, Changed
from overlapscope.whatif.retimed import window_after

if TYPE_CHECKING:
    from overlapscope.analysis.analysis import Analysis

_WORTHLESS_SHARE = 0.05
"""A fix that recovers less than this share of its GPU idle time is not offered."""

_TOO_LITTLE = "two runs of a program differ by as much"
_OTHERS = "it also removes idle time that is listed under other causes"
_COLUMNS = ("stream", "source_kind", "target_kind")


def edited_places(edits: Edits, window: Window, change: Change, others: tuple[Change, ...]) -> tuple[Share, ...]:
    """Where a change edits a program that has the other changes, what takes longest in the trace first.

    Races are in order on both sides: that order is no part of the change.
    """
    graph, trace = edits.graph, edits.graph.trace
    before, after = (edits.changed(changes, in_order=True).graph for changes in (others, (*others, change)))
    copies = np.flatnonzero(_other_copies(before, after) & inside(trace.copies, window))
    calls = trace.copies.call[copies]
    if len(copies):
        at, cost_ns = Moments.of_calls(trace, calls, trace.copies.stream[copies]), trace.copies.duration_ns[copies]
    else:
        row = graph.calls.row[_shorter_calls(before, after)]
        row = row[inside(trace.api_calls, window)[row]]
        at, cost_ns = Moments.of_calls(trace, row), trace.api_calls.duration_ns[row]
    return shares(trace, at, cost_ns, NO_ID)


def _other_copies(before: Graph, after: Graph) -> Bool:
    """Mask of copies that have another stream or other memory."""
    one, other = before.trace.copies, after.trace.copies
    result: Bool = np.any([getattr(one, name) != getattr(other, name) for name in _COLUMNS], axis=0)
    return result


def _shorter_calls(before: Graph, after: Graph) -> Int64:
    """The calls that take less time by themselves, or wait for less."""
    end = before.call_end(np.arange(len(before.calls)))
    less = [was > now for was, now in zip(_taken_and_waits(before), _taken_and_waits(after), strict=True)]
    return np.flatnonzero(np.logical_or(*less)[end])


def _taken_and_waits(graph: Graph) -> tuple[Int64, Int64]:
    """For each node how long its own call takes, and for how much else it waits."""
    edges, nodes = graph.dependencies, len(graph.time_ns)
    durations, waits = edges.of_kind(*OWN_DURATION), edges.of_kind(*WAITS)
    taken = np.bincount(edges.target[durations], edges.weight_ns[durations], nodes).astype(np.int64)
    return taken, np.bincount(edges.target[waits], minlength=nodes)


def worth_simulating(diagnosis: Diagnosis) -> bool:
    """Whether a finding has a change, or GPU idle time that some change may save and that no race is about.

    Else whether calls that wait for a busy GPU, such as ``cudaFree``, take long: it may be busy with one kernel where
    several would fit.
    """
    once = Severity.HAZARD, Severity.INFO
    costly = (finding.idle_ns and finding.severity not in once for finding in diagnosis.findings)
    waited = diagnosis.allocating_ns > diagnosis.report_threshold_ns
    return any(finding.change is not None for finding in diagnosis.findings) or any(costly) or waited


def with_plan(analysis: Analysis) -> Diagnosis:
    """The diagnosis with the saving of each finding's change, and a plan of changes in the order of their saving.

    The plan is None where no change saves anything, and no finding has one.
    """
    base = analysis.baseline
    findings = tuple(_bounded(base, finding) for finding in analysis.recorded.findings)
    diagnosis = replace(analysis.recorded, findings=findings)
    capture = Capture.of(analysis.graph, analysis.window)
    of_findings = tuple(dict.fromkeys(parse(finding.change) for finding in findings if finding.change is not None))
    refused = frozenset([NoScalarSync.name] if _reads_are_needed(analysis, of_findings) else [])
    search = Search(base, of_findings, capture, refused, analysis.config.report_share)
    reached = search.steps()
    if not (of_findings or reached):
        return diagnosis
    plan = Plan(
        simulated_ns=base.simulated_ns,
        unprofiled_ns=base.own_ns,
        baseline=base.baseline,
        baseline_ns=base.stated_ns,
        profiler_cost=base.known,
        steps=tuple(_steps(base, findings, reached)),
        step_changes=step_changes(base.stated, reached[-1].changed) if reached else (),
        limit=_limit(analysis.after(reached[-1].changed.changes)) if reached else None,
    )
    savings = Savings(analysis, plan, capture, search.expected)
    return replace(diagnosis, findings=tuple(savings.of(finding) for finding in findings), plan=plan)


def _reads_are_needed(analysis: Analysis, of_findings: tuple[Change, ...]) -> bool:
    """Whether the trace shows that the program does not go on without most of what it reads in loops."""
    if not any(isinstance(change, ReadOnce) for change in of_findings):
        return False
    trace = analysis.trace
    purpose = purposes(trace, np.flatnonzero(scalar_reads(trace) & inside(trace.copies, analysis.window)))
    return 2 * int(np.isin(purpose, list(NEEDED)).sum()) > len(purpose)


def planned_changes(diagnosis: Diagnosis) -> tuple[Change, ...]:
    """All changes of a plan; () without steps."""
    if diagnosis.plan is None or not diagnosis.plan.steps:
        return ()
    return tuple(map(parse, diagnosis.plan.steps[-1].changes))


def missing_order(findings: Sequence[Finding]) -> dict[str, str]:
    """For each rule that finds a race, in words, that a change which moves copies or waits needs what is missing."""
    races = [finding for finding in findings if finding.severity is Severity.HAZARD]
    says = {finding.code: "suspects to be" if finding.confidence is Confidence.LOW else "finds" for finding in races}
    return {code: f"assumes an order that {code} {how} missing" for code, how in says.items()}


def _steps(base: Baseline, findings: Sequence[Finding], reached: Sequence[Reached]) -> Iterator[Step]:
    """What the steps of a search are to people: what they fix, where they are made, and what has to hold."""
    before = frozenset[Change]()
    for each in reached:
        prediction = each.prediction
        newest = [change for change in prediction.changes if change not in before]
        before = frozenset(prediction.changes)
        races = missing_order(findings) if any(change.needs_order for change in before) else {}
        fixed = [finding.code for finding in findings if finding.change in {*map(str, newest)}]
        yield Step.of(
            prediction,
            changes=tuple(map(str, prediction.changes)),
            fixes=tuple(dict.fromkeys(fixed)),
            places=tuple(dict.fromkeys(_places(base, findings, prediction.changes, newest))),
            saving_ns=prediction.saving_ns,
            assumes=(
                *(text for code, text in races.items() if code not in prediction.in_order),
                *prediction.granted,
                *_needed_reads(base, prediction.changes),
            ),
            conditions=tuple(change.condition for change in prediction.changes if change.condition),
        )


def _needed_reads(base: Baseline, changes: tuple[Change, ...]) -> Iterator[str]:
    """What is read for a purpose that the trace shows, though the changes take its read away."""
    if not any(isinstance(change, NoScalarSync) for change in changes):
        return
    trace = base.graph.trace
    reads = np.flatnonzero(scalar_reads(trace) & inside(trace.copies, base.window))
    purpose = purposes(trace, reads)
    for each, does in NEEDED.items():
        count = int((purpose == each).sum())
        if count:
            yield f"assumes that the program {does} otherwise than by {counted(count, 'read')} of the host"


def _places(
    base: Baseline, findings: Sequence[Finding], changes: tuple[Change, ...], newest: Sequence[Change]
) -> Iterator[str]:
    """Where the newest changes are made: as their findings have it, else where they edit the program."""
    for change in newest:
        places = [finding.where.words for finding in findings if finding.change == str(change)]
        others = tuple(each for each in changes if each is not change)
        if not any(places):
            edited = edited_places(base.recorded.edits, base.window, change, others)
            places = [share.where.words for share in edited]
        yield from filter(None, places)


def step_changes(basis: Basis, changed: Changed) -> tuple[float, ...]:
    """By which share each step of a window gets shorter or longer, in order; () where it has no two steps.

    Steps are the occurrences of the window's range, else those of torch's profiler. Each lasts from the end of the one
    before it, or from its begin where that is later, so that work which runs into the next step counts once.
    """
    steps = _window_of_steps(basis)
    if steps is None:
        return ()
    was, now = (_lengths(window_after(simulated, steps)) for simulated in (basis.simulated, changed.after))
    if len(was) != len(now):
        return ()
    return tuple((now[was > 0] / was[was > 0] - 1).round(4).tolist())


def _window_of_steps(basis: Basis) -> Window | None:
    trace, window = basis.graph.trace, basis.window
    if window.name is None and is_step(trace).any():
        every = of_range(trace, STEPS)
        within = (every.start_ns >= window.first_ns) & (every.start_ns < window.last_ns)
        rows = np.flatnonzero(within)
        window = Window(STEPS, every.start_ns[rows], every.end_ns[rows], every.process[rows])
    return window if window.name is not None and len(window.start_ns) > 1 else None


def _lengths(steps: Window) -> Int64:
    """How long each step of a window lasts after the one before it, by process and begin."""
    order = np.lexsort((steps.start_ns, steps.process))
    begin, end, process = steps.start_ns[order], steps.end_ns[order], steps.process[order]
    reached = begin.copy()
    for _, rows in each_value(process):
        reached[rows[1:]] = np.maximum(begin[rows[1:]], np.maximum.accumulate(end[rows])[:-1])
    lengths: Int64 = np.maximum(end - reached, 0)
    return lengths


def _limit(after: Analysis) -> Limit | None:
    """What limits the program of an analysis: of its GPU with the most work; None without GPU work."""
    used = [(context.activity, device) for context, device in after.contexts]
    if not used:
        return None
    active, device = max(used, key=lambda pair: pair[0].busy.total_ns)
    most, spent = ceiling(after.trace, active), gpu_time(active, device, after.window)
    waits = [part for part in spent.parts if part.is_idle]
    longest, exposed_ns = max(waits, key=lambda part: part.time_ns), spent.of(COPIES)
    return Limit(
        time_ns=after.window.wall_ns,
        kernels_ns=active.kernels.total_ns,
        copies_ns=active.copies.total_ns,
        overlap_ns=max(min(most.saving_ns, exposed_ns, most.kernels_ns + min(most.htod_ns, most.dtoh_ns)), 0),
        exposed_ns=exposed_ns,
        waits_for=longest.label.removeprefix("idle: "),
        waits_ns=longest.time_ns,
    )


def _bounded(base: Baseline, finding: Finding) -> Finding:
    """The finding with what the window takes at least without what it is about, where a change tells that."""
    if finding.bound is None:
        return finding
    without_ns = base.stated.length_with((parse(finding.bound.change),))
    return replace(finding, bound=replace(finding.bound, baseline_ns=base.stated_ns, without_ns=without_ns))


@dataclass(frozen=True, eq=False)
class Savings:
    """Simulated savings of the change of each finding by itself, against the baseline of the plan."""

    analysis: Analysis
    plan: Plan
    capture: Capture
    known: Mapping[tuple[Change, ...], Expected]

    def of(self, finding: Finding) -> Finding:
        """The finding with the simulated saving of its change; 0 where that would cost time.

        A saving close to zero gets an upper bound too, since the consumers of a copy may not be in the trace. A change
        that is in no step of the plan is offered where it saves more than nothing for certain, also without what the
        profiler cost, and the trace does not refute what it takes.
        """
        if finding.change is None:
            return finding
        base, change = self.analysis.baseline, parse(finding.change)
        least = self.analysis.config.report_share * base.stated_ns
        stated_ns, most = base.stated.length_with((change,)), 0
        saving = max(base.stated_ns - stated_ns, 0)
        if saving < least:
            most = base.stated_ns - stated_ns + base.stated.run_with((change,)).order.less_ns
        high = most if most >= least and most > saving else None
        idle_ns = finding.idle_ns * base.stated_ns / max(base.simulated_ns, 1)
        worth = max(_WORTHLESS_SHARE * idle_ns, NOISE_SHARE * base.stated_ns)
        unprofiled_saving = max(base.own_ns - base.own.length_with((change,)), 0)
        lasts = high is not None or unprofiled_saving >= NOISE_SHARE * base.own_ns
        enough = lasts and max(saving, high or 0) >= worth
        planned = any(finding.change in step.changes for step in self.plan.steps)
        expected = self._expected(change) if enough or (planned and saving) else None
        instead = None if enough or planned else self._waits_instead(change, finding)
        why_not = None if planned else self._why_not(change, expected, instead)
        return replace(
            finding,
            saving_ns=saving,
            saving_high_ns=high,
            unprofiled_saving_ns=unprofiled_saving,
            expected=expected if saving and why_not is None else None,
            not_offered=why_not,
            waits_instead=instead,
            saves_more=_saves_more(base, change, finding, saving),
        )

    def _expected(self, change: Change) -> Expected:
        """The times with a change by itself, which the search may have predicted."""
        changes = (change,)
        return self.known[changes] if changes in self.known else Expected.of(self.analysis.baseline.predict(changes))

    def _why_not(self, change: Change, expected: Expected | None, instead: str | None) -> str | None:
        """Why a change by itself is not offered; ``expected`` is None where it saves too little."""
        missing = self.capture.missing(frozenset([change.name])) if isinstance(change, CudaGraph) else None
        if missing is not None:
            return missing
        if expected is None:
            return _TOO_LITTLE if instead is None else f"the GPU would then wait: {instead}"
        if expected.time_high_ns < self.plan.baseline_ns:
            return None
        return f"may save nothing: {expected.interval}, from {time(self.plan.baseline_ns)}"

    def _waits_instead(self, change: Change, finding: Finding) -> str | None:
        """The wait in place of the finding's, where the GPU waits no less; None unless most time went there."""
        key = DeviceKey(*(NO_ID if n is None else n for n in (finding.where.process, finding.where.device)))
        before = _time(key, self.analysis)
        if before is None:
            return None
        after = _time(key, self.analysis.after((change,)))
        if after is None:
            return None
        longer = {part.label: part.time_ns - before.of(part.key) for part in after.parts}
        most = max(longer, key=lambda label: longer[label])
        return most.removeprefix("idle: ") if 2 * longer[most] > finding.idle_ns else None


def _saves_more(base: Baseline, change: Change, finding: Finding, saving: int) -> str | None:
    """Why a change saves more than the GPU idle time of its finding."""
    if saving <= finding.idle_ns:
        return None
    recorded = base.simulated_ns - base.recorded.length_with((change,))
    return _OTHERS if 2 * (recorded - finding.idle_ns) > saving - finding.idle_ns else UNPROFILED


def _time(key: DeviceKey, analysis: Analysis) -> GpuTime | None:
    """The time of a GPU, None where it is hardly used."""
    times = (gpu_time(of.activity, device, analysis.window) for of, device in analysis.contexts if device.key == key)
    return next(times, None)
