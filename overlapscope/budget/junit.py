"""A check as JUnit XML, as continuous integration reads it: one test case for each limit and range."""

from __future__ import annotations

from xml.etree import ElementTree as Xml

from overlapscope.budget.result import CheckResult, Outcome, Status
from overlapscope.budget.text import detail_of
from overlapscope.formatting import safe

_SUITE = "overlapscope check"


def junit_of(result: CheckResult) -> str:
    """The XML, in the form of the schema junit-10 of Jenkins' xUnit plugin.

    A limit that was not measured is a failure, or skipped where the budget lets it pass.
    """
    skipped = sum(outcome.status is Status.NOT_MEASURED for outcome in result.outcomes) if result.pass_unmeasured else 0
    counts = {"tests": str(len(result.outcomes)), "failures": str(len(result.violations)), "errors": "0"}
    suites = Xml.Element("testsuites", {"name": _SUITE} | counts)
    suite = Xml.SubElement(suites, "testsuite", {"name": _SUITE} | counts | {"skipped": str(skipped), "time": "0"})
    for outcome in result.outcomes:
        _add(suite, outcome, failed=result.violates(outcome))
    Xml.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{Xml.tostring(suites, encoding="unicode")}\n'


def _add(suite: Xml.Element, outcome: Outcome, *, failed: bool) -> None:
    of = "whole trace" if outcome.range is None else safe(outcome.range)
    names = {"classname": f"overlapscope.{of}", "name": outcome.label, "time": "0"}
    case = Xml.SubElement(suite, "testcase", names)
    if outcome.status is Status.PASSED:
        return
    about = {"message": safe(outcome.sentence), "type": outcome.reason or str(outcome.status)}
    Xml.SubElement(case, "failure" if failed else "skipped", about).text = "\n".join(detail_of(outcome))
