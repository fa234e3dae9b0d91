"""The search for the changes of a plan, over every combination of changes that some trace allows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

from overlapscope.diagnosis.capture import Capture
from overlapscope.diagnosis.finding import NOISE_SHARE, Expected
from overlapscope.whatif.baseline import Baseline
from overlapscope.whatif.catalogue import CHANGES
from overlapscope.whatif.change import Change
from overlapscope.whatif.changes import NAMES
from overlapscope.whatif.changes.cuda_graph import CudaGraph
from overlapscope.whatif.interval import Changed
from overlapscope.whatif.prediction import Prediction

_EVERY = tuple(kind() for kind in CHANGES if not kind.of_findings_only)
"""The changes that a plan tries whatever the findings are."""


@dataclass(frozen=True)
class Reached:
    """A step of a plan: its changes on the stated basis, and all that is predicted for them."""

    changed: Changed
    prediction: Prediction


@dataclass(frozen=True, eq=False)
class Search:
    """The search for the changes of a plan.

    All changes together come first, and each goes again without which the time stays within ``share`` of the shortest.
    So changes that only help together stay, and what one change does needs no second one. What is left is made step by
    step, the change that saves most first. Of several forms of an edit only one is there: a finding's, else the best.

    Attributes:
        base: the simulation of the unchanged program.
        of_findings: the changes of findings.
        capture: what the trace shows against a CUDA graph.
        refused: the names of changes that the trace refutes.
        share: the least share of the time that a step saves.
        expected: the times of all that was predicted.
    """

    base: Baseline
    of_findings: tuple[Change, ...]
    capture: Capture
    refused: frozenset[str]
    share: float
    expected: dict[tuple[Change, ...], Expected] = field(default_factory=dict)

    def steps(self) -> list[Reached]:
        """The steps: each saves enough with those before it, also without what is known of the profiler.

        No step has an interval that reaches up to the time without changes.
        """
        refused = self.refused if self.capture.refused is None else self.refused | {CudaGraph.name}
        candidates = [change for change in self._candidates if change.name not in refused]
        while True:
            steps, unsure = self._one_by_one(self._fewest(self._allowed(candidates)))
            candidates = [change for change in candidates if change not in unsure]
            reached = steps[-1].changed.predicted_ns if steps else self._length(())
            if not unsure or (1 - self.share) * reached <= self._length(self._allowed(candidates)):
                return steps

    @cached_property
    def _candidates(self) -> tuple[Change, ...]:
        """Changes in the order of the catalogue, with the numbers that findings give them.

        Without calls a trace does not tell when work was issued: there findings alone have changes.
        """
        numbered = {change.name for change in self.of_findings}
        known = _EVERY if len(self.base.graph.calls) else ()
        every = {*self.of_findings, *(change for change in known if change.name not in numbered)}
        return tuple(sorted(every, key=lambda change: (_place(change), str(change))))

    def _length(self, changes: Iterable[Change]) -> int:
        return self.base.stated.length_with(tuple(changes))

    def _allowed(self, changes: Iterable[Change]) -> tuple[Change, ...]:
        """The changes, without a CUDA graph that needs another one which is not among them."""
        kept = tuple(changes)
        allowed = self.capture.allows(_names(kept))
        return kept if allowed else tuple(change for change in kept if change.name != CudaGraph.name)

    def _fewest(self, changes: tuple[Change, ...]) -> tuple[Change, ...]:
        """Drop each change without which the time gets shorter, then what it stays close without; none if too little.

        A change of a finding goes then where that makes no difference, another one where it saves less than the share.
        What is asked most of a program goes first.
        """
        for change in changes:
            forms = [each for each in changes if each.form_of and each.form_of == change.form_of]
            if len(forms) > 1:
                idle = [each for each in forms if not self.base.stated.is_edited_by(each)]
                others = [each for each in forms if each not in self.of_findings]
                changes = min((self._without(changes, each) for each in idle or others or forms), key=self._length)
        slower = [each for each in changes if not each.only_removes]
        fewer = self._without(changes, *slower)
        alone = min((self._length(self._allowed((change,))) for change in self.of_findings), default=self._length(()))
        best = min(self._length(fewer), alone)  # a change may undo what another one does
        if min(self._length(changes), best) > (1 - self.share) * self._length(()):
            return ()
        if best < (1 - NOISE_SHARE) * self._length(changes):
            for change in slower:
                fewer, least = self._without(changes, change), NOISE_SHARE if change in self.of_findings else 0
                changes = fewer if self._length(fewer) < (1 - least) * self._length(changes) else changes
        for least, of_findings in ((self.share, False), (NOISE_SHARE, True)):
            group = [change for change in changes[::-1] if (change in self.of_findings) is of_findings]
            changes = self._dropped(changes, group, self._length(changes) / (1 - least))
        return changes

    def _dropped(self, changes: tuple[Change, ...], group: Sequence[Change], most_ns: float) -> tuple[Change, ...]:
        """The changes without a group where the time stays below a limit, else without what can go of its halves."""
        fewer = self._without(changes, *group)
        if self._length(fewer) <= most_ns:
            return fewer
        if len(group) > 1:
            half = (len(group) + 1) // 2
            for part in (group[:half], group[half:]):
                changes = self._dropped(changes, part, most_ns)
        return changes

    def _without(self, changes: tuple[Change, ...], *others: Change) -> tuple[Change, ...]:
        return self._allowed(change for change in changes if change not in others)

    def _one_by_one(self, wanted: tuple[Change, ...]) -> tuple[list[Reached], set[Change]]:
        """Steps of the wanted changes, and changes that may save nothing: these make no step.

        What finding's changes save in the end that is too little for a step comes with the last one.
        """
        steps, unsure, chosen = list[Reached](), set[Change](), tuple[Change, ...]()
        for least, among in ((self.share, wanted), (NOISE_SHARE, self.of_findings)):
            while left := tuple(change for change in wanted if change in among and change not in chosen):
                step = self._next(chosen, left, least, unsure)
                if step is None or (least < self.share and not steps):
                    break
                steps[len(steps) - (least < self.share) :] = [step]
                chosen = step.changed.changes
        return steps, unsure - set(chosen)

    def _next(
        self, chosen: tuple[Change, ...], left: tuple[Change, ...], least: float, unsure: set[Change]
    ) -> Reached | None:
        """The step that saves most, and at least a share: one more change, else two, else all that is left.

        It has to save that also without what is known of the profiler: what it adds to calls that a change removes is
        no saving. Changes that would do but for their interval are added to ``unsure``.
        """
        for count in sorted({1, min(2, len(left)), len(left)}):
            tries = [(*chosen, *more) for more in combinations(left, count)]
            tries = [each for each in tries if self.capture.allows(_names(each))]
            for changes in sorted(tries, key=self._length):
                if self._length(changes) > (1 - least) * self._length(chosen):
                    break
                if self.base.own.length_with(changes) > (1 - least) * self.base.own.length_with(chosen):
                    continue
                changed = self.base.stated.run_with(changes)
                prediction = self.base.prediction(changed)
                self.expected[changes] = Expected.of(prediction)
                if prediction.stated.high_ns < self.base.stated_ns:
                    return Reached(changed, prediction)
                unsure.update(changes[len(chosen) :])
        return None


def _place(change: Change) -> int:
    """The place of a change in the catalogue."""
    return NAMES.index(change.name)


def _names(changes: Iterable[Change]) -> frozenset[str]:
    return frozenset(change.name for change in changes)
