"""Simulate what fixing the findings saves: each alone, and one after the other. Savings do not add up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from overlapscope.dependencies.graph import Graph
from overlapscope.diagnosis.config import DiagnosisConfig
from overlapscope.diagnosis.finding import Finding, Plan, Step
from overlapscope.measure.windows import Window, is_whole
from overlapscope.whatif.catalogue import parse
from overlapscope.whatif.change import Change
from overlapscope.whatif.config import SimulationConfig
from overlapscope.whatif.prediction import Prediction
from overlapscope.whatif.what_if import Baseline


def simulate_fixes(
    graph: Graph, window: Window, findings: tuple[Finding, ...], config: DiagnosisConfig
) -> tuple[tuple[Finding, ...], Plan | None]:
    """Add the saving of its change to every finding, and make a plan of changes in the order of their saving.

    The plan is None where nothing can be fixed, for a trace that is too large (`overlapscope.what_if` simulates traces
    of any size), and for a time interval that is no range.
    """
    fixable = [finding for finding in findings if finding.change is not None]
    measurable = window.name is not None or is_whole(graph.trace, window)
    if len(graph.time_ns) > config.max_simulated_nodes or not fixable or not measurable:
        return findings, None
    base = Baseline.of(graph, window, SimulationConfig(dependencies=config.dependencies))
    findings = tuple(_with_saving(base, finding, config) for finding in findings)
    return findings, Plan(tuple(_greedy(base, fixable, config)), base.simulated_ns, base.unprofiled_ns)


def _with_saving(base: Baseline, finding: Finding, config: DiagnosisConfig) -> Finding:
    """Add the simulated saving of a finding's change, applied to its own copies only; 0 where it would cost time.

    A saving close to zero gets an upper bound too, since the consumers of a copy may not be in the trace.
    """
    if finding.change is None:
        return finding
    change = replace(parse(finding.change), copies=finding.copies or None)
    least = config.report_share * base.own_ns
    saving, most = max(base.own_ns - base.predict((change,), bounds=False).own.predicted_ns, 0), 0
    if saving < least:
        most = base.own_ns - base.predict((change,)).own.low_ns
    return replace(finding, saving_ns=saving, saving_high_ns=most if most >= least and most > saving else None)


def _step(found: Prediction, findings: Iterable[Finding]) -> Step:
    names = tuple(str(change) for change in found.changes)
    fixes = tuple(dict.fromkeys(finding.code for finding in findings if finding.change == names[-1]))
    unprofiled = None if found.unprofiled is None else found.unprofiled.predicted_ns
    return Step(names, fixes, found.predicted_ns, found.saving_ns, found.low_ns, found.high_ns, unprofiled)


def _greedy(base: Baseline, findings: list[Finding], config: DiagnosisConfig) -> Iterable[Step]:
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
