"""A check as workflow commands of GitHub Actions, which mark the lines of a change."""

from __future__ import annotations

from pathlib import PurePath

from overlapscope.budget.result import CheckResult, Outcome
from overlapscope.diagnosis.places import source_line
from overlapscope.formatting import safe

_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = _DATA | {":": "%3A", ",": "%2C"}


def annotations_of(result: CheckResult, root: str = "") -> list[str]:
    """One ``::error`` for each violation, with file and line where the trace records them.

    Args:
        result: the check.
        root: the folder of the repository; files in it are named from there on.
    """
    return [_annotation(outcome, root) for outcome in result.violations]


def _annotation(outcome: Outcome, root: str) -> str:
    properties = {**_file_and_line(outcome, root), "title": f"overlapscope: {safe(outcome.title)}"}
    words = [outcome.sentence]
    words += [f"{outcome.reason}: {outcome.finding}" if outcome.finding else outcome.reason] if outcome.reason else []
    words += [f"at {cost.words}" for cost in outcome.places[:1]]
    words += [f"fix: {outcome.fix}"] if outcome.fix else []
    lines = [safe(line) for text in words for line in text.splitlines()]
    given = ",".join(f"{name}={_escaped(value, _PROPERTY)}" for name, value in properties.items())
    return f"::error {given}::{_escaped(chr(10).join(lines), _DATA)}"


def _file_and_line(outcome: Outcome, root: str) -> dict[str, str]:
    """Of the first place whose source line is recorded."""
    known = (source_line(cost.where.source) for cost in outcome.places if cost.where.source)
    for found in known:
        if found is not None:
            path, line = PurePath(found[0]), found[1]
            inside = root and path.is_relative_to(root)
            return {"file": safe(str(path.relative_to(root) if inside else path)), "line": str(line)}
    return {}


def _escaped(text: str, signs: dict[str, str]) -> str:
    return "".join(signs.get(sign, sign) for sign in text)
