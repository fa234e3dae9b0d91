"""The answers about a trace as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from overlapscope.fitness.answer import Answered, Verdict
from overlapscope.fitness.fitness import Fitness
from overlapscope.fitness.settings import profiler_of
from overlapscope.fitness.statement import statement

_HEADINGS = {
    Verdict.YES: "It answers",
    Verdict.PARTLY: "In part",
    Verdict.NO: "It does not answer",
    Verdict.DOES_NOT_ARISE: "Does not arise",
}


def lines(fit: Fitness) -> list[str]:
    """The statement, the questions by verdict with their evidence, and the setting that would help most."""
    shown = [fit.trace.metadata.path, statement(fit.limits, None), ""]
    width = max(len(each.check.question) for each in fit.answers)
    for verdict, heading in _HEADINGS.items():
        rows = [each for each in fit.answers if each.answer.verdict is verdict]
        if rows:
            shown += [heading, *(_row(each, width) for each in rows), ""]
    return [*shown, *_help(fit)]


def _row(each: Answered, width: int) -> str:
    return f"  {each.check.question:{width}}  {each.answer.evidence}"


def _help(fit: Fitness) -> Iterator[str]:
    """The setting that would help most, in the form of the profiler that made the trace, and as a recording."""
    setting = fit.setting
    if setting is None:
        yield "No setting of the profiler would add anything."
        return
    profiler = profiler_of(fit.trace)
    use = setting.use(profiler)
    yield f"What would help most ({setting.gives})"
    yield f"  {use}"
    if setting.record not in {"", use} and profiler == "torch.profiler":
        yield f"  or: {setting.record}"
