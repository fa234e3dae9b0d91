"""Simulate what fixing the findings saves: each alone, and one after the other. Savings do not add up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from overlapscope.dependencies.build import build_graph
from overlapscope.diagnosis.attribution import Attribution
from overlapscope.diagnosis.config import DiagnosisConfig
from overlapscope.diagnosis.finding import Finding, Plan, Step
from overlapscope.diagnosis.gpu_time import GpuTime, gpu_time
from overlapscope.diagnosis.idle_by_rule import attributed
from overlapscope.measure.devices import DeviceKey
from overlapscope.measure.windows import Window, is_whole, window_of
from overlapscope.model.columns import NO_ID
from overlapscope.whatif.catalogue import parse
from overlapscope.whatif.change import Change
from overlapscope.whatif.config import SimulationConfig
from overlapscope.whatif.prediction import Prediction
from overlapscope.whatif.what_if import Baseline

_OTHERS = "the change also removes GPU idle time that is attributed elsewhere"
_UNPROFILED = "the idle time is recorded, the saving is without the profiler"


def simulate_fixes(
    attribution: Attribution, window: Window, findings: tuple[Finding, ...], config: DiagnosisConfig
) -> tuple[tuple[Finding, ...], Plan | None]:
    """Add the saving of its change to every finding, and make a plan of changes in the order of their saving.

    The plan is None where nothing can be fixed, for a trace that is too large (`overlapscope.what_if` simulates traces
    of any size), and for a time interval that is no range.
    """
    graph = attribution.graph
    fixable = [finding for finding in findings if finding.change is not None]
    measurable = window.name is not None or is_whole(graph.trace, window)
    if len(graph.time_ns) > config.max_simulated_nodes or not fixable or not measurable:
        return findings, None
    base = Baseline.of(graph, window, SimulationConfig(dependencies=config.dependencies))
    plan = Plan(
        tuple(_greedy(base, fixable, config)), base.simulated_ns, base.unprofiled_ns, base.baseline, base.own_ns
    )
    planned = {change for step in plan.steps for change in step.changes}
    return tuple(_with_saving(base, attribution, finding, planned, config) for finding in findings), plan


def _with_saving(
    base: Baseline, attribution: Attribution, finding: Finding, planned: set[str], config: DiagnosisConfig
) -> Finding:
    """Add the simulated saving of a finding's change, applied to its own copies only; 0 where it would cost time.

    A saving close to zero gets an upper bound too, since the consumers of a copy may not be in the trace. If that is
    close to zero too, and the change helps after no other one, it is not offered.
    """
    if finding.change is None:
        return finding
    change = replace(parse(finding.change), copies=finding.copies or None)
    least = config.report_share * base.own_ns
    found, most = base.predict((change,), bounds=False), 0
    saving = max(base.own_ns - found.own.predicted_ns, 0)
    if saving < least:
        most = base.own_ns - base.predict((change,)).own.low_ns
    high = most if most >= least and most > saving else None
    worth = max(config.worthless_share * finding.idle_ns, config.noise_share * base.own_ns)
    offered = max(saving, high or 0) >= worth or finding.change in planned
    return replace(
        finding,
        saving_ns=saving,
        saving_high_ns=high,
        offered=offered,
        waits_instead=None if offered else _waits_instead(attribution, found, finding, config),
        saves_more=_saves_more(found, finding, saving),
    )


def _saves_more(found: Prediction, finding: Finding, saving: int) -> str | None:
    """Why a change saves more than the GPU idle time of its finding."""
    if saving <= finding.idle_ns:
        return None
    return _OTHERS if 2 * (found.saving_ns - finding.idle_ns) > saving - finding.idle_ns else _UNPROFILED


def _waits_instead(
    attribution: Attribution, found: Prediction, finding: Finding, config: DiagnosisConfig
) -> str | None:
    """What a GPU waits for in a simulation in which it waits no less; None unless most of the time went there."""
    key = DeviceKey(*(NO_ID if n is None else n for n in (finding.where.process, finding.where.device)))
    graph = build_graph(found.after, config.dependencies)
    before = _time(attribution, key, found.window, config)
    after = _time(Attribution(graph, config.dependencies), key, window_of(found.after, found.window.name), config)
    longer = {part.label: part.time_ns - before.of(part.key) for part in after.parts}
    most = max(longer, key=lambda label: longer[label])
    return most.removeprefix("idle: ") if 2 * longer[most] > finding.idle_ns else None


def _time(attribution: Attribution, key: DeviceKey, window: Window, config: DiagnosisConfig) -> GpuTime:
    found = {device.key: (context.activity, device) for context, device in attributed(attribution, window, config)}
    return gpu_time(*found[key], window)


def _step(found: Prediction, findings: Iterable[Finding]) -> Step:
    names = tuple(str(change) for change in found.changes)
    fixes = tuple(dict.fromkeys(finding.code for finding in findings if finding.change == names[-1]))
    return Step(
        changes=names,
        fixes=fixes,
        predicted_ns=found.predicted_ns,
        saving_ns=found.saving_ns,
        low_ns=found.low_ns,
        high_ns=found.high_ns,
        unprofiled_ns=None if found.unprofiled is None else found.unprofiled.predicted_ns,
        time_ns=found.own.predicted_ns,
        time_low_ns=found.own.low_ns,
        time_high_ns=found.own.high_ns,
    )


def _greedy(base: Baseline, findings: list[Finding], config: DiagnosisConfig) -> Iterator[Step]:
    """Add the change that saves most, again and again, while it saves more than ``report_share``."""
    remaining = list(dict.fromkeys(finding.change or "" for finding in findings))
    chosen: tuple[Change, ...] = ()
    reached = base.own_ns
    while remaining:
        tries = [base.predict((*chosen, parse(name)), bounds=False) for name in dict.fromkeys(remaining)]
        best = min(tries, key=lambda found: found.own.predicted_ns)
        if reached - best.own.predicted_ns < config.report_share * reached:
            return
        yield _step(base.predict(best.changes), findings)
        chosen, reached = best.changes, best.own.predicted_ns
        done = [str(change) for change in chosen]
        enabled = chosen[-1].often_followed_by if done[-1] == chosen[-1].name else ()
        remaining = [name for name in (*remaining, *enabled) if name not in done]
