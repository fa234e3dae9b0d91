"""`doctor`: ask a trace every question of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from overlapscope.fitness.answer import Answered, Verdict
from overlapscope.fitness.catalogue import CHECKS
from overlapscope.fitness.config import DEFAULT, FitnessConfig
from overlapscope.fitness.settings import Setting, profiler_of
from overlapscope.fitness.statement import statement
from overlapscope.model.frames import frame
from overlapscope.model.trace import Trace

if TYPE_CHECKING:
    import pandas

_WEIGHT = {Verdict.NO: 2, Verdict.PARTLY: 1}
_CORE = 4  # no setting for mere names of places comes before one that figures rest on


def doctor(trace: Trace, config: FitnessConfig = DEFAULT) -> Fitness:
    """What a trace can answer and what not, with the setting of the profiler that would help most.

    Args:
        trace: an opened trace.
        config: what is good enough, with reasons.
    """
    profiler = profiler_of(trace)
    return Fitness(trace, tuple(Answered(check, check.examine(trace, config), profiler) for check in CHECKS))


@dataclass(frozen=True, eq=False)
class Fitness:
    """All questions with their answers."""

    trace: Trace
    answers: tuple[Answered, ...]

    def __iter__(self) -> Iterator[Answered]:
        return iter(self.answers)

    def __repr__(self) -> str:
        return f"<Fitness: {self.statement}>"

    @property
    def limits(self) -> tuple[Answered, ...]:
        """The answers from which figures or findings of an audit suffer."""
        return tuple(each for each in self.answers if each.limits)

    @property
    def verdict(self) -> Verdict:
        """Whether the trace answers what an audit asks."""
        if not self.limits:
            return Verdict.YES
        return Verdict.NO if self.answers[0].answer.verdict is Verdict.NO else Verdict.PARTLY

    @property
    def setting(self) -> Setting | None:
        """The setting that would help most: a whole trace first, then by what it gives, figures before names."""
        if self.verdict is Verdict.NO:
            return self.answers[0].answer.setting  # without GPU work nothing else helps
        whole = [each.answer.setting for each in self.limits if each.check.basis and each.answer.setting is not None]
        if whole:
            return whole[0]
        gains: dict[str, tuple[int, Setting]] = {}
        for each in self.answers:
            chosen = each.answer.setting
            if chosen is not None and each.answer.open:
                gain = _WEIGHT[each.answer.verdict] * (_CORE if each.check.core else 1)
                gains[chosen.key] = gains.get(chosen.key, (0, chosen))[0] + gain, chosen
        core = {each.answer.setting.key for each in self.limits if each.answer.setting is not None}
        wanted = [entry for key, entry in gains.items() if key in core] or list(gains.values())
        return max(wanted, key=lambda entry: entry[0])[1] if wanted else None

    @property
    def statement(self) -> str:
        """One or two sentences about what figures and findings rest on."""
        return statement(self.limits, self.setting)

    @property
    def told_health(self) -> frozenset[str]:
        """Codes of the health warnings that the answers tell already."""
        return frozenset(code for each in self.answers if each.answer.open for code in each.answer.health)

    def to_dict(self) -> dict[str, Any]:
        """The answers as JSON-ready data: ``fit`` of an audit."""
        setting = self.setting
        return {
            "verdict": str(self.verdict),
            "statement": self.statement,
            "setting": None if setting is None else setting.for_profiler(profiler_of(self.trace)),
            "answers": [each.to_dict() for each in self.answers],
        }

    def to_pandas(self) -> pandas.DataFrame:
        """The questions and their answers, one per row."""
        return frame(each.row() for each in self.answers)
