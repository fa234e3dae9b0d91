"""`doctor`: ask a trace every question of the catalogue, and say what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from overlapscope.document.nodes import Heading, Node, Paragraph, Section, Terms, Tone
from overlapscope.fitness.answer import Answered, Verdict
from overlapscope.fitness.catalogue import CHECKS
from overlapscope.fitness.settings import Setting, profiler_of
from overlapscope.model.frames import frame
from overlapscope.model.trace import Trace

if TYPE_CHECKING:
    import pandas

_WEIGHT = {Verdict.NO: 2, Verdict.PARTLY: 1}
_CORE = 4  # no setting for mere names of places comes before one that figures rest on
FIT = "This trace has everything that the figures and findings need."
_HEADINGS: dict[str, Callable[[Answered], bool]] = {
    "It answers": lambda each: each.answer.verdict is Verdict.YES,
    "In part": lambda each: each.limits and each.answer.verdict is Verdict.PARTLY,
    "It does not answer": lambda each: each.limits and each.answer.verdict is Verdict.NO,
    "Open, but no figure needs it": lambda each: each.answer.open and not each.check.core,
    "Does not arise": lambda each: each.answer.verdict is Verdict.DOES_NOT_ARISE,
}
"""Headings, with the answers below each; every answer is below one."""
_OTHER_HELP = "No setting makes up for what figures lack; what else would help"


def fitness_of(trace: Trace) -> Fitness:
    """What a trace can answer and what not, with the setting of the profiler that would help most."""
    profiler = profiler_of(trace)
    return Fitness(trace, tuple(Answered(check, check.examine(trace), profiler) for check in CHECKS))


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
        """One or two sentences that say what figures and findings rest on."""
        return statement(self.limits, self.setting, profiler_of(self.trace))

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


def statement(limits: Sequence[Answered], setting: Setting | None, profiler: str = "") -> str:
    """What the trace cannot tell, what only in part, what to know of it, and the setting that would help most.

    The setting has the form of the profiler.
    """
    return " ".join(_sentences(limits, setting, profiler)) if limits else FIT


def _sentences(limits: Sequence[Answered], setting: Setting | None, profiler: str) -> Iterator[str]:
    plain = [each for each in limits if not each.answer.remark]
    missing = [_topic(each) for each in plain if each.answer.verdict is Verdict.NO]
    doubtful = [_topic(each) for each in plain if each.answer.verdict is Verdict.PARTLY]
    if missing:
        yield f"Not in this trace: {', '.join(missing)}."
    if doubtful:
        yield f"Uncertain: {', '.join(doubtful)}."
    yield from (each.answer.remark for each in limits if each.answer.remark)
    if setting in [each.answer.setting for each in limits] and setting is not None:
        yield f"Would help most: {setting.use(profiler)}."


def _topic(each: Answered) -> str:
    return f"{each.check.topic} ({each.answer.brief})" if each.answer.brief else each.check.topic


def fit_parts(fit: Fitness) -> list[Node]:
    """The statement, the questions by their answers with the evidence, and the setting that would help most."""
    parts: list[Node] = [
        Section("", (Paragraph(fit.trace.metadata.path), Paragraph(statement(fit.limits, None)))),
    ]
    width = max(len(each.check.question) for each in fit.answers)
    for heading, belongs in _HEADINGS.items():
        answers = tuple((each.check.question, each.answer.evidence) for each in fit.answers if belongs(each))
        if answers:
            parts.append(Section("", (Heading(heading), Terms(answers, width))))
    return [*parts, *_help(fit)]


def _help(fit: Fitness) -> Iterator[Node]:
    """The setting that would help most, in the form of the profiler that made the trace, and as a recording."""
    setting = fit.setting
    if setting is None:
        yield Paragraph("No setting of the profiler would help.")
        return
    profiler = profiler_of(fit.trace)
    use = setting.use(profiler)
    others = fit.limits and setting not in [each.answer.setting for each in fit.limits]
    yield Paragraph(f"{_OTHER_HELP if others else 'What would help most'} ({setting.gives})")
    yield Paragraph(use, Tone.DETAIL)
    if setting.record not in {"", use} and profiler == "torch.profiler":
        yield Paragraph(f"or: {setting.record}", Tone.DETAIL)
