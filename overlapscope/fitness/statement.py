"""The statement before the findings of an audit: in one or two sentences, what they rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from overlapscope.fitness.answer import Answered, Verdict
from overlapscope.fitness.settings import Setting

FIT = "This trace has everything that the figures and findings need."


def statement(limits: Sequence[Answered], setting: Setting | None) -> str:
    """What the trace cannot tell, what only in part, what to know of it, and the setting that would help most."""
    return " ".join(_sentences(limits, setting)) if limits else FIT


def _sentences(limits: Sequence[Answered], setting: Setting | None) -> Iterator[str]:
    plain = [each for each in limits if not each.answer.remark]
    missing = [_about(each) for each in plain if each.answer.verdict is Verdict.NO]
    doubtful = [_about(each) for each in plain if each.answer.verdict is Verdict.PARTLY]
    if missing:
        yield f"Not in this trace: {', '.join(missing)}."
    if doubtful:
        yield f"Uncertain: {', '.join(doubtful)}."
    yield from (each.answer.remark for each in limits if each.answer.remark)
    if setting in [each.answer.setting for each in limits] and setting is not None:
        yield f"Would help most: {setting.short} (see overlapscope doctor)."


def _about(each: Answered) -> str:
    return f"{each.check.about} ({each.answer.brief})" if each.answer.brief else each.check.about
