"""The result of a check as text, Markdown, JUnit XML and annotations of GitHub Actions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from xml.etree import ElementTree as Xml

from overlapscope.budget.result import CheckResult, Outcome, Status
from overlapscope.diagnosis.places import source_line
from overlapscope.document.markdown import markdown_of as markdown
from overlapscope.document.nodes import Heading, Node, Paragraph, Section, Terms, row_table
from overlapscope.document.text import plain_text
from overlapscope.formatting import safe

_SUITE = "overlapscope check"
_LIMIT = ("range", "limit", "")
_TEXTS = frozenset({*_LIMIT, "rule", "place"})


def check_parts(result: CheckResult) -> list[Node]:
    """The summary, what makes the check fail with its places and fixes, and what passed, for a terminal."""
    others = (outcome for outcome in result.outcomes if not result.violates(outcome))
    return [
        Section("", (Paragraph(f"check {result.summary}"),)),
        *(Section("", tuple(outcome_parts(outcome))) for outcome in result.violations),
        *map(_outcome, others),
    ]


def outcome_parts(outcome: Outcome) -> Iterator[Node]:
    """One outcome with its finding, places and fix."""
    yield _outcome(outcome)
    if outcome.reason is not None:
        yield _detail(outcome.reason if outcome.finding is None else f"{outcome.reason}: {outcome.finding}")
    yield from (_detail(f"at {cost.words}") for cost in outcome.places)
    yield from (_detail(f"fix: {line}") for line in (outcome.fix or "").splitlines())


def _outcome(outcome: Outcome) -> Node:
    """The message of an outcome after its status, in capitals where not all is well."""
    status = str(outcome.status) if outcome.status is Status.PASSED else outcome.status.upper()
    return Terms(((status, f"{outcome.title}: {outcome.message}"),))


def _detail(text: str) -> Node:
    return Terms((("", text),), least=2)


def markdown_of(result: CheckResult) -> str:
    """A table of what makes the check fail, and a table of the other limits to unfold."""
    others = [_limit(result, outcome) for outcome in result.outcomes if not result.violates(outcome)]
    violations = [
        (*_limit(result, outcome), outcome.reason or "", outcome.places[0].words if outcome.places else "")
        for outcome in result.violations
    ]
    failed = row_table("", (*_LIMIT, "rule", "place"), violations, _TEXTS)
    folded = Section("other limits", (row_table("", _LIMIT, others, _TEXTS),), folded=True)
    return markdown([Heading(f"overlapscope check {result.summary}", 3), failed, folded])


def _limit(result: CheckResult, outcome: Outcome) -> tuple[str, str, str]:
    return result.place_of(outcome), outcome.label, outcome.sentence


def junit_of(result: CheckResult) -> str:
    """The XML, in the form of the schema junit-10 of Jenkins' xUnit plugin.

    A limit that was not measured is a failure, or skipped where the budget lets it pass.
    """
    skipped = sum(outcome.status is Status.NOT_MEASURED for outcome in result.outcomes) if result.pass_unmeasured else 0
    counts = {"tests": str(len(result.outcomes)), "failures": str(len(result.violations)), "errors": "0"}
    suites = Xml.Element("testsuites", {"name": _SUITE} | counts)
    suite = Xml.SubElement(suites, "testsuite", {"name": _SUITE} | counts | {"skipped": str(skipped), "time": "0"})
    for outcome in result.outcomes:
        _add(suite, result, outcome)
    Xml.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{Xml.tostring(suites, encoding="unicode")}\n'


def _add(suite: Xml.Element, result: CheckResult, outcome: Outcome) -> None:
    names = {"classname": f"overlapscope.{safe(result.place_of(outcome))}", "name": outcome.label, "time": "0"}
    case = Xml.SubElement(suite, "testcase", names)
    if outcome.status is Status.PASSED:
        return
    attributes = {"message": safe(outcome.sentence), "type": outcome.reason or str(outcome.status)}
    details = plain_text(list(outcome_parts(outcome)))
    kind = "failure" if result.violates(outcome) else "skipped"
    Xml.SubElement(case, kind, attributes).text = details.rstrip("\n")


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
    """The file and line of the first place whose source line is recorded."""
    lines = (source_line(cost.where.source) for cost in outcome.places if cost.where.source)
    for recorded in lines:
        if recorded is not None:
            path, line = PurePath(recorded[0]), recorded[1]
            inside = root and path.is_relative_to(root)
            return {"file": safe(str(path.relative_to(root) if inside else path)), "line": str(line)}
    return {}


def _escaped(text: str, signs: dict[str, str]) -> str:
    return "".join(signs.get(sign, sign) for sign in text)
