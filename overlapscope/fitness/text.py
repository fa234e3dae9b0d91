"""The answers about a trace as lines of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from overlapscope.fitness.answer import Answered, Verdict
from overlapscope.fitness.fitness import Fitness
from overlapscope.fitness.settings import profiler_of
from overlapscope.fitness.statement import statement

_HEADINGS: dict[str, Callable[[Answered], bool]] = {
    "It answers": lambda each: each.answer.verdict is Verdict.YES,
    "In part": lambda each: each.limits and each.answer.verdict is Verdict.PARTLY,
    "It does not answer": lambda each: each.limits and each.answer.verdict is Verdict.NO,
    "Open, but no figure needs it": lambda each: each.answer.open and not each.check.core,
    "Does not arise": lambda each: each.answer.verdict is Verdict.DOES_NOT_ARISE,
}
"""Each with the answers under it; every answer stands under one."""
_OTHER_HELP = "No setting makes up for what figures lack; what else would help"


def lines(fit: Fitness) -> list[str]:
    """The statement, the questions by their answers with the evidence, and the setting that would help most."""
    shown = [fit.trace.metadata.path, statement(fit.limits, None), ""]
    width = max(len(each.check.question) for each in fit.answers)
    for heading, belongs in _HEADINGS.items():
        rows = [each for each in fit.answers if belongs(each)]
        if rows:
            shown += [heading, *(_row(each, width) for each in rows), ""]
    return [*shown, *_help(fit)]


def _row(each: Answered, width: int) -> str:
    return f"  {each.check.question:{width}}  {each.answer.evidence}"


def _help(fit: Fitness) -> Iterator[str]:
    """The setting that would help most, in the form of the profiler that made the trace, and as a recording."""
    setting = fit.setting
    if setting is None:
        yield "No setting of the profiler would help."
        return
    profiler = profiler_of(fit.trace)
    use = setting.use(profiler)
    others = fit.limits and setting not in [each.answer.setting for each in fit.limits]
    yield f"{_OTHER_HELP if others else 'What would help most'} ({setting.gives})"
    yield f"  {use}"
    if setting.record not in {"", use} and profiler == "torch.profiler":
        yield f"  or: {setting.record}"
