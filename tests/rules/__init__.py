"""What tests of rules share: recorded cases, diagnoses of made traces, and what every rule is tested for."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from overlapscope import open_trace
from overlapscope.analysis.analysis import diagnose
from overlapscope.diagnosis.catalogue import rule
from overlapscope.diagnosis.finding import Diagnosis, Finding, Place
from overlapscope.diagnosis.rule import HEADINGS
from tests import kineto_maker as make
from tests.conftest import CASES, PAIRS, SAMPLES
from tests.notation import trace_of
from tests.opened import diagnosis_of

KINETO, NSYS = "json.gz", "sqlite.gz"
Case = str | Callable[[Path], Diagnosis]


class RuleTests:
    """Every rule reports in some case, is silent in a similar one, and has a page.

    A case is the name of a loop of ``tests/cases/loops.py``, of a sample or of a pair, a trace in the notation of
    ``tests/notation.py``, or what makes its trace in a folder and diagnoses it.
    """

    code: ClassVar[str]
    reports: ClassVar[tuple[Case, ...]]
    silent: ClassVar[tuple[Case, ...]]

    def test_it_reports(self, tmp_path: Path) -> None:
        for case in self.reports:
            assert self.code in codes(diagnosis_of_case(case, tmp_path)), case

    def test_it_is_silent(self, tmp_path: Path) -> None:
        for case in self.silent:
            assert self.code not in codes(diagnosis_of_case(case, tmp_path)), case

    def test_its_page_is_complete(self) -> None:
        entry = rule(self.code)
        assert tuple(entry.sections) == HEADINGS
        assert all(len(text) > 20 for text in entry.sections.values())
        assert "```" in entry.sections["Fix"]
        assert "# before" in entry.sections["Fix"] or entry.code == "OVL000"
        assert entry.title
        assert entry.fix
        assert rule(entry.code.lower()) is entry


def diagnosis_of_case(case: Case, tmp_path: Path) -> Diagnosis:
    if not isinstance(case, str):
        return case(tmp_path)
    if "thread 1:" in case:
        return diagnose(trace_of(tmp_path, case), plan=False)
    if (SAMPLES / f"{case}.{KINETO}").exists():
        return diagnosis_of(SAMPLES / f"{case}.{KINETO}", case.partition("-")[0])
    if (PAIRS / f"{case}.{KINETO}").exists():
        return diagnosis_of(PAIRS / f"{case}.{KINETO}", "step")
    return loop(case)


def loop(name: str, suffix: str = KINETO) -> Diagnosis:
    """The diagnosis of what ``tests/cases/loops.py`` recorded."""
    return diagnosis_of(CASES / f"{name}.{suffix}", "pass")


def noted(text: str, **calibration: Any) -> Callable[[Path], Diagnosis]:
    """A trace in the notation whose recording noted something."""
    return lambda path: diagnose(trace_of(path, text, **make.calibrated(**calibration)), plan=False)


def program(*events: make.Event, **header: Any) -> Callable[[Path], Diagnosis]:
    return lambda path: diagnose(open_trace(make.write(path / "t.json", *events, **header)))


def place(op: str | None = None, api: str | None = None, around: str | None = None) -> Place:
    """A place of the first GPU, with an operator, a call and ranges."""
    return Place(around, None, op, api, 1, 1, 0, 7)


def top(diagnosis: Diagnosis) -> str | None:
    """The code of the first finding."""
    return diagnosis.findings[0].code if diagnosis.findings else None


def codes(diagnosis: Diagnosis) -> set[str]:
    return {finding.code for finding in diagnosis.findings}


def finding_of(diagnosis: Diagnosis, code: str) -> Finding | None:
    """The first finding with a code."""
    return next((finding for finding in diagnosis.findings if finding.code == code), None)


def without(tmp_path: Path, source: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Diagnosis:
    """The diagnosis of a copy of a Kineto trace, each event changed or left out."""
    content = json.loads(gzip.decompress(source.read_bytes()))
    content["traceEvents"] = [kept for event in content["traceEvents"] if (kept := change(event)) is not None]
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(content))
    return diagnose(open_trace(path), "pass", plan=False)
