"""What mending the findings is worth: each by itself, and one after the other. Savings never add; replays do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from overlapscope.dependencies.graph import Graph
from overlapscope.diagnosis.config import DiagnosisConfig
from overlapscope.diagnosis.finding import Finding, Plan, Step
from overlapscope.measure.windows import Window
from overlapscope.whatif.catalogue import parse
from overlapscope.whatif.change import Change
from overlapscope.whatif.prediction import Prediction
from overlapscope.whatif.what_if import Baseline

def worth(
    graph: Graph, window: Window, findings: tuple[Finding, ...], config: DiagnosisConfig
) -> tuple[tuple[Finding, ...], Plan | None]:
    """Give every finding what its change would save, and find the order in which to make changes.

    None for a graph that has more nodes than is worth waiting for; `overlapscope.what_if` predicts for any.
    """
    fixable = [finding for finding in findings if finding.change is not None]
    if len(graph.time_ns) > config.most_nodes or not fixable:
        return findings, None
    base = Baseline.of(graph, window)
    valued = tuple(_valued(base, finding, config) for finding in findings)
    return valued, Plan(tuple(_greedy(base, fixable, config)), base.simulated_ns, base.unprofiled_ns)


def _valued(base: Baseline, finding: Finding, config: DiagnosisConfig) -> Finding:
    """The finding with what its change wins, made to its own copies only: nothing where it would lose.

    Where it wins next to nothing, with the most that it may win: what reads a copy may not be in the trace.
    """
    if finding.change is None:
        return finding
    change = replace(parse(finding.change), copies=finding.copies or None)
    least = config.worth_saying * base.own_ns
    saving, most = max(base.own_ns - base.predict((change,), bounds=False).own.predicted_ns, 0), 0
    if saving < least:
        most = base.own_ns - base.predict((change,)).own.low_ns
    return replace(finding, saving_ns=saving, saving_high_ns=most if most >= least and most > saving else None)


def _step(found: Prediction, findings: Iterable[Finding]) -> Step:
    names = tuple(str(each) for each in found.changes)
    fixes = tuple(dict.fromkeys(finding.code for finding in findings if finding.change == names[-1]))
    unprofiled = None if found.unprofiled is None else found.unprofiled.predicted_ns
    return Step(names, fixes, found.predicted_ns, found.saving_ns, found.low_ns, found.high_ns, unprofiled)


def _greedy(base: Baseline, findings: list[Finding], config: DiagnosisConfig) -> Iterable[Step]:
    """Add the change that wins most, as long as it wins more than noise."""
    open_changes = list(dict.fromkeys(finding.change or "" for finding in findings))
    chosen: tuple[Change, ...] = ()
    reached = base.own_ns
    while open_changes:
        tries = [base.predict((*chosen, parse(name)), bounds=False) for name in dict.fromkeys(open_changes)]
        best = min(tries, key=lambda found: found.own.predicted_ns)
        if reached - best.own.predicted_ns < config.worth_saying * reached:
            return
        yield _step(base.predict(best.changes), findings)
        chosen, reached = best.changes, best.own.predicted_ns
        done = [str(each) for each in chosen]
        follow = chosen[-1].often_followed_by if done[-1] == chosen[-1].name else ()
        open_changes = [name for name in (*open_changes, *follow) if name not in done]
