"""A check as Markdown, for a job's summary or a comment on a change."""

from __future__ import annotations

import re

from overlapscope.budget.result import CheckResult, Outcome
from overlapscope.formatting import safe

_SIGNS = re.compile(r"([\\`*_{}\[\]<>()#+!|~&:$-])")
"""What Markdown, or HTML in it, could begin with."""


def markdown_of(result: CheckResult) -> str:
    """A table of what makes the check fail, and a table of the other limits to unfold."""
    others = [outcome for outcome in result.outcomes if not result.violates(outcome)]
    parts = [f"### overlapscope check {result.summary}", ""]
    if result.violations:
        parts += ["| range | limit | | rule | place |", "|---|---|---|---|---|", *map(_broken, result.violations), ""]
    if others:
        parts += ["<details><summary>other limits</summary>", "", "| range | limit | |", "|---|---|---|"]
        parts += [*map(_kept, others), "", "</details>", ""]
    return "\n".join(parts)


def _broken(outcome: Outcome) -> str:
    place = outcome.places[0].words if outcome.places else ""
    return f"{_kept(outcome)} {_text(outcome.reason or '')} | {_text(place)} |"


def _kept(outcome: Outcome) -> str:
    return f"| {_text(outcome.range or 'whole trace')} | {_text(outcome.label)} | {_text(outcome.sentence)} |"


def _text(words: str) -> str:
    return _SIGNS.sub(r"\\\1", safe(words)).replace("@", "@<!-- -->")  # so that it mentions nobody
