"""Simulate what fixing the findings saves: each alone, and one after the other. Savings do not add up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.graph import Graph
from overlapscope.diagnosis.attribution import Attribution
from overlapscope.diagnosis.config import DiagnosisConfig
from overlapscope.diagnosis.edits import edited_places
from overlapscope.diagnosis.finding import Confidence, Diagnosis, Finding, Plan, Severity, Step
from overlapscope.diagnosis.places import same_places
from overlapscope.diagnosis.savings import change_of, expected, with_saving
from overlapscope.measure.windows import Window, is_whole, of_range, with_range
from overlapscope.model.trace import Trace
from overlapscope.whatif.catalogue import CHANGES, parse
from overlapscope.whatif.change import Change
from overlapscope.whatif.config import SimulationConfig
from overlapscope.whatif.interval import Changed
from overlapscope.whatif.prediction import Prediction
from overlapscope.whatif.what_if import Baseline

_INTERVAL = "chosen interval"
_OF_ANY_PLAN = tuple(kind.name for kind in CHANGES if kind.of_any_plan)


def simulate_fixes(
    attribution: Attribution, window: Window, findings: tuple[Finding, ...], config: DiagnosisConfig
) -> tuple[tuple[Finding, ...], Plan | None]:
    """Add the saving of its change to every finding, and make a plan of changes in the order of their saving.

    The plan is None where no change saves anything that a finding is about, and where nothing is to be simulated.
    """
    graph = attribution.graph
    fixable = [finding for finding in findings if finding.change is not None]
    interval = window.name is None and not is_whole(graph.trace, window)
    nothing = not fixable and not any(finding.idle_ns for finding in findings)
    if not config.simulate or nothing or (interval and not len(graph.calls)):
        return findings, None
    if interval:
        graph, window = _as_range(graph, window, config)
    base = Baseline.of(graph, window, SimulationConfig(dependencies=config.dependencies))
    everywhere = [_everywhere(graph.trace, finding) for finding in findings]
    candidates = [finding for finding in everywhere if finding.change is not None]
    steps = tuple(_Search(base, candidates, missing_order(findings), config).steps())
    if not (fixable or steps):
        return findings, None
    plan = Plan(steps, base.simulated_ns, base.own_ns, base.baseline, base.stated_ns, base.known)
    saving = (with_saving(base, attribution, finding, plan, config) for finding in everywhere)
    return tuple(replace(found, calls=was.calls) for found, was in zip(saving, findings, strict=True)), plan


def planned_changes(found: Diagnosis) -> tuple[Change, ...]:
    """All changes of a plan as it simulates them: some are about the calls of their findings only; () without steps."""
    if found.plan is None or not found.plan.steps:
        return ()
    findings = [_everywhere(found.trace, finding) for finding in found.findings]
    return tuple(change_of(name, findings) for name in found.plan.steps[-1].changes)


def _everywhere(trace: Trace, finding: Finding) -> Finding:
    """A finding whose change is about its calls, with all calls of their places: one line of a program makes them all.

    It has those that delayed the GPU; the others are as long, but hidden.
    """
    if finding.change is None or not parse(finding.change).of_findings_calls or not finding.calls:
        return finding
    return replace(finding, calls=tuple(same_places(trace, np.array(finding.calls)).tolist()))


def missing_order(findings: Sequence[Finding]) -> dict[str, str]:
    """For each rule that finds a race, in words, that a change which moves copies or waits needs what is missing."""
    races = [finding for finding in findings if finding.severity is Severity.HAZARD]
    says = {finding.code: "suspects to be" if finding.confidence is Confidence.LOW else "finds" for finding in races}
    return {code: f"assumes an order that {code} {how} missing" for code, how in says.items()}


def _as_range(graph: Graph, window: Window, config: DiagnosisConfig) -> tuple[Graph, Window]:
    """A time interval as a range, so that its length can change in a simulation."""
    trace = with_range(graph.trace, _INTERVAL, window.first_ns, window.last_ns)
    ranged = replace(of_range(trace, _INTERVAL), device=window.device)
    return build_graph(trace, config.dependencies), ranged


@dataclass(frozen=True)
class _Search:
    """The search for a plan: again and again the change that saves most, two at once where no single one does.

    Candidates are the changes of findings, what often follows them, and those of any plan: idle time has one finding,
    but may be saved in several ways.

    A change must save enough in the times that are stated, and also without what is known of the profiler: what it adds
    to calls that a change removes is no saving.
    """

    base: Baseline
    findings: Sequence[Finding]
    races: Mapping[str, str]
    config: DiagnosisConfig

    def steps(self) -> Iterator[Step]:
        """The steps, while each saves more than ``report_share``."""
        chosen: tuple[str, ...] = ()
        reached = self.base.stated_ns, self.base.own_ns
        while True:
            names = self._next_names(chosen)
            best = self._best(chosen, [(name,) for name in self._left((*names, *_OF_ANY_PLAN), chosen)], reached)
            best = best or self._best(chosen, list(combinations(self._with_followers(names, chosen), 2)), reached)
            if best is None:
                return
            before, chosen = chosen, tuple(str(change) for change in best.changes)
            yield self._step(self.base.prediction(best), before)
            reached = best.predicted_ns, self.base.own.length_with(best.changes)

    def _best(
        self, chosen: tuple[str, ...], tries: Sequence[tuple[str, ...]], reached: tuple[int, int]
    ) -> Changed | None:
        """What saves most after the changes so far; None where that is too little."""
        best, (most_ns, most_own_ns) = None, ((1 - self.config.report_share) * was for was in reached)
        for names in tries:
            found = self.base.stated.run_with(self._changes((*chosen, *names)))
            shorter = best is None or found.predicted_ns < best.predicted_ns
            if shorter and found.predicted_ns <= most_ns and self.base.own.length_with(found.changes) <= most_own_ns:
                best = found
        return best

    def _changes(self, names: Sequence[str]) -> tuple[Change, ...]:
        return tuple(change_of(name, self.findings) for name in names)

    def _next_names(self, chosen: tuple[str, ...]) -> list[str]:
        """The changes of the findings that are left, and what often follows those so far."""
        own = [finding.change for finding in self.findings if finding.change is not None]
        return self._left((*own, *_followers(chosen)), chosen)

    def _with_followers(self, names: Sequence[str], chosen: tuple[str, ...]) -> list[str]:
        return self._left((*names, *_followers(names)), chosen)

    @staticmethod
    def _left(names: Sequence[str], chosen: tuple[str, ...]) -> list[str]:
        return [name for name in dict.fromkeys(names) if name not in chosen]

    def _step(self, found: Prediction, before: tuple[str, ...]) -> Step:
        names = tuple(str(change) for change in found.changes)
        fixed = [finding for finding in self.findings if finding.change in set(names) - set(before)]
        return Step(
            changes=names,
            fixes=tuple(dict.fromkeys(finding.code for finding in fixed)),
            places=tuple(dict.fromkeys(self._places(found.changes, before))),
            saving_ns=found.saving_ns,
            assumes=(*self._races(found), *found.granted),
            **expected(found).to_dict(),
        )

    def _races(self, found: Prediction) -> Iterator[str]:
        """What some changes assume though findings say otherwise, but for what is in order in the prediction."""
        if any(change.needs_order for change in found.changes):
            yield from (text for code, text in self.races.items() if code not in found.in_order)

    def _places(self, changes: tuple[Change, ...], before: tuple[str, ...]) -> Iterator[str]:
        """Where the newest changes are made: as their findings have it, else where they edit the program."""
        for change in changes:
            if str(change) in before:
                continue
            own = [each.where.words for each in self.findings if each.change == str(change) and each.where.words]
            others = tuple(each for each in changes if each is not change)
            yield from own or self._edited(change, others)

    def _edited(self, change: Change, others: tuple[Change, ...]) -> list[str]:
        found = edited_places(self.base.recorded.edits, self.base.window, change, others)
        return [share.where.words for share in found if share.where.words]


def _followers(names: Sequence[str]) -> list[str]:
    """What often follows some changes of all that they may change."""
    changes = [parse(name) for name in names]
    return [each for change in changes if str(change) == change.name for each in change.often_followed_by]
