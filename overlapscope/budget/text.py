"""A check as lines of text: what is broken first, each with its place and its fix."""

from __future__ import annotations

from collections.abc import Iterator

from overlapscope.budget.result import CheckResult, Outcome, Status
from overlapscope.formatting import safe


def lines_of(result: CheckResult) -> list[str]:
    """The summary, what makes the check fail, and what passed."""
    broken = [line for outcome in result.violations for line in [*detail_of(outcome), ""]]
    others = (outcome for outcome in result.outcomes if not result.violates(outcome))
    passed = [f"  {mark(outcome)}  {safe(outcome.title)}: {safe(outcome.message)}" for outcome in others]
    return [f"check {result.summary}", "", *broken, *passed]


def detail_of(outcome: Outcome) -> Iterator[str]:
    """One outcome with its finding, places and fix."""
    yield f"  {mark(outcome)}  {safe(outcome.title)}: {safe(outcome.message)}"
    if outcome.reason is not None:
        finding = "" if outcome.finding is None else f": {safe(outcome.finding)}"
        yield f"      {outcome.reason}{finding}"
    yield from (f"      at {safe(cost.words)}" for cost in outcome.places)
    yield from (f"      fix: {safe(line)}" for line in (outcome.fix or "").splitlines())


def mark(outcome: Outcome) -> str:
    """The status, in capitals where not all is well."""
    return str(outcome.status) if outcome.status is Status.PASSED else outcome.status.upper()
