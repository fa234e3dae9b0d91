"""``overlapscope check``: exit status, and every form in which it says what became of the limits."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
from click.testing import Result
from typer.testing import CliRunner

from overlapscope import check, open_trace
from overlapscope.budget.configuration import budget_from
from overlapscope.budget.outputs import annotations_of, check_parts, junit_of, markdown_of
from overlapscope.budget.result import CheckResult
from overlapscope.cli.main import app
from overlapscope.document.text import plain_text
from tests import kineto_maker as make
from tests.conftest import CASES, SAMPLES
from tests.golden import same_as_golden
from tests.notation import events, trace_of
from tests.test_budget import HEALTHY, PAGEABLE

UNPINNED = SAMPLES / "gemm_copy-pageable-copy-first-non-blocking-side.json.gz"
PINNED = SAMPLES / "gemm_copy-pinned-copy-first-non-blocking-side.json.gz"
LIMITS = """
[check]
pageable_bytes = 0
[check.ranges.round]
no_findings = ["OVL001"]
synchronisations_per_step = 0
"""
NASTY = "step %0A::error::\r\n<a href='x'>]]>&\x1b[31m|`@all`\ud800"
"""The name of a range that no output may be fooled by."""


@pytest.fixture
def limits(tmp_path: Path) -> Path:
    path = tmp_path / "limits.toml"
    path.write_text(LIMITS)
    return path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["check", *map(str, arguments)])


# Exit status


def test_it_succeeds_when_all_limits_are_kept(limits: Path) -> None:
    result = run(PINNED, "--config", limits)
    assert result.exit_code == 0
    same_as_golden("check-passed", result.stdout)


def test_it_fails_with_place_rule_and_fix_when_a_limit_is_broken(limits: Path) -> None:
    result = run(UNPINNED, "--config", limits)
    assert result.exit_code == 3
    same_as_golden("check-failed", result.stdout)


def test_what_is_not_measured_fails_unless_configured(limits: Path) -> None:
    limits.write_text('[check.ranges."nowhere*"]\npageable_bytes = 0\n')
    result = run(PINNED, "--config", limits)
    assert result.exit_code == 3
    same_as_golden("check-not-measured", result.stdout)
    limits.write_text('[check]\nnot_measured = "pass"\n' + limits.read_text())
    assert run(PINNED, "--config", limits).exit_code == 0


def test_lost_data_is_told_apart(limits: Path, tmp_path: Path) -> None:
    limits.write_text("[check]\npageable_bytes = 0\n")
    cut = tmp_path / "cut.json"
    cut.write_text(make.text(*events("thread 1: launch 1-5 -> stream 7: 10-20"), make.kernel(30, 5))[:-200])
    assert run(cut, "--config", limits).exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config", "nowhere.toml"], "nowhere.toml: cannot be read"),
        (["--config", "wrong.toml"], "wrong.toml: check.pageable_byte: no such key; do you mean pageable_bytes?"),
        (["--config", "limits.toml", "--baseline", "none.json"], "none.json: no such baseline; --update-baseline"),
        (["--config", "limits.toml", "--baseline", "wrong.toml"], "wrong.toml: is no JSON"),
        (["--config", "empty.toml"], "empty.toml: check.ranges.round: has no limits"),
        ([], "no limits: there are none in overlapscope.toml or pyproject.toml here; name a --config"),
    ],
)
def test_there_is_no_result_with_a_configuration_that_is_wrong(
    arguments: list[str], message: str, limits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wrong.toml").write_text("[check]\npageable_byte = 0\n")
    Path("empty.toml").write_text("[check]\npageable_bytes = 0\n[check.ranges.round]\n")
    result = run(PINNED, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_a_trace_that_cannot_be_read_is_no_result(limits: Path, tmp_path: Path) -> None:
    assert run(tmp_path / "nowhere.json", "--config", limits).exit_code == 2


@pytest.mark.parametrize(
    "arguments", [["--update-baseline"], ["--annotations", "--format", "json"], ["--annotations", "--format", "junit"]]
)
def test_options_that_make_no_sense_are_refused(arguments: list[str], limits: Path) -> None:
    assert run(PINNED, "--config", limits, *arguments).exit_code == 2


def test_limits_are_found_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").write_text("[project]\nname = 'x'\n[tool.overlapscope.check]\npageable_bytes = 0\n")
    assert run(UNPINNED).exit_code == 3
    Path("overlapscope.toml").write_text("[check]\nhidden_share = 0.5\n")
    assert run(UNPINNED).exit_code == 0


def test_nothing_replaces_the_trace(limits: Path, tmp_path: Path) -> None:
    trace = shutil.copy(PINNED, tmp_path / "t.json.gz")
    before = Path(trace).read_bytes()
    for option in ("--output", "--junit", "--summary"):
        assert run(trace, "--config", limits, option, trace).exit_code == 2
    assert run(trace, "--config", limits, "--baseline", trace, "--update-baseline").exit_code == 2
    assert Path(trace).read_bytes() == before


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_a_reader_who_has_gone_does_not_change_the_exit_status(form: str, limits: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "overlapscope", "check", str(UNPINNED), "--config", str(limits), "--format", form]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False, text=True)
    os.close(writing)
    assert done.returncode == 3, done.stderr
    assert "Error" not in done.stderr


def test_a_finding_has_one_fix_under_all_limits() -> None:
    result = result_of(UNPINNED, pageable_bytes=0, hidden_share=1, idle_share={"all": 0, "copy_call": 0, "OVL001": 0})
    assert len(result.violations) == 5
    assert len({(outcome.rule, outcome.fix) for outcome in result.violations}) == 1


def test_idle_time_is_said_in_the_words_of_its_cause() -> None:
    result = result_of(UNPINNED, idle_share={"all": 0, "copy_call": 0, "OVL001": 0})
    words = [outcome.message.partition(":")[0] for outcome in result.violations]
    assert words == [
        "time without a kernel",
        "time without a kernel, host blocked in copy calls",
        "time without a kernel, OVL001",
    ]


# Baseline


def test_a_baseline_is_written_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written = run(PINNED, "--baseline", "b.json", "--update-baseline")
    assert written.exit_code == 0
    assert "b.json: has the figures of this trace now" in written.stderr
    assert run(PINNED, "--baseline", "b.json").exit_code == 0
    worse = run(UNPINNED, "--baseline", "b.json")
    assert worse.exit_code == 3
    same_as_golden("check-worse-than-baseline", worse.stdout)


def test_a_range_without_limits_is_compared_with_a_baseline(limits: Path, tmp_path: Path) -> None:
    limits.write_text("[check.ranges.round]\n")
    path = tmp_path / "b.json"
    assert run(PINNED, "--config", limits, "--baseline", path, "--update-baseline").exit_code == 0
    assert run(UNPINNED, "--config", limits, "--baseline", path).exit_code == 3


def test_updating_a_baseline_still_checks_the_limits(limits: Path, tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    assert run(UNPINNED, "--config", limits, "--baseline", path, "--update-baseline").exit_code == 3
    assert json.loads(path.read_text())["trace"]["pageable_bytes"] == 6 * 2**26


# JUnit XML: the elements and attributes of the schema junit-10, and their order


CHILDREN = {"testsuites": {"testsuite"}, "testsuite": {"testcase"}, "testcase": {"failure", "skipped"}}
REQUIRED = {"testsuite": {"name", "tests", "failures", "errors"}, "testcase": {"name"}}
ALLOWED = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "time", "skipped", "timestamp", "hostname", "id", "package"},
    "testcase": {"name", "time", "classname", "group"},
    "failure": {"type", "message"},
    "skipped": {"type", "message"},
}


def validated(text: str) -> Xml.Element:
    root = Xml.fromstring(text)  # noqa: S314 - made here
    assert root.tag == "testsuites"
    for element in root.iter():
        assert REQUIRED.get(element.tag, set()) <= set(element.attrib) <= ALLOWED[element.tag]
        assert {child.tag for child in element} <= CHILDREN.get(element.tag, set())
        assert len(element) <= 1 or element.tag == "testsuite"
    (suite,) = root
    cases = list(suite)
    assert int(suite.attrib["tests"]) == len(cases)
    assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure"))
    assert int(suite.attrib["skipped"]) == len(suite.findall("testcase/skipped"))
    assert len({(case.attrib["classname"], case.attrib["name"]) for case in cases}) == len(cases)
    return suite


def result_of(path: Path, **table: Any) -> CheckResult:
    return check(open_trace(path), budget_from(table))


MIXED: dict[str, Any] = {
    "pageable_bytes": 0,
    "no_findings": ["OVL005"],
    "ranges": {"round": {"pageable_bytes": 0}, "nowhere": {"pageable_bytes": 0}},
}


def test_junit_has_one_test_case_for_each_limit_and_range() -> None:
    suite = validated(junit_of(result_of(UNPINNED, **MIXED)))
    names = [(case.attrib["classname"], case.attrib["name"], [child.tag for child in case]) for case in suite]
    assert names == [
        ("overlapscope.whole trace", "pageable_bytes", ["failure"]),
        ("overlapscope.whole trace", "no_findings.OVL005", []),
        ("overlapscope.round", "pageable_bytes", ["failure"]),
        ("overlapscope.nowhere", "pageable_bytes", ["failure"]),
    ]
    first, *_, last = suite.iter("failure")
    assert first.attrib["type"] == "OVL001 pageable-copy"
    assert "at ProfilerStep#1 / gemm_copy / round / copy" in (first.text or "")
    assert last.attrib["type"] == "not measured"


def test_junit_skips_what_may_be_unmeasured() -> None:
    suite = validated(junit_of(result_of(PINNED, not_measured="pass", **MIXED)))
    assert [case.attrib["classname"] for case in suite if case.find("skipped") is not None] == ["overlapscope.nowhere"]
    assert suite.attrib["failures"] == "0"


# GitHub annotations


COMMAND = re.compile(
    r"::error (?:file=(?P<file>[^,:]+),line=(?P<line>\d+),)?title=(?P<title>[^,:]*)::(?P<message>[^\r\n]*)"
)


def test_annotations_have_no_file_where_the_trace_knows_none() -> None:
    (line,) = annotations_of(result_of(UNPINNED, pageable_bytes=0))
    match = COMMAND.fullmatch(line)
    assert match is not None
    assert (match["file"], match["title"]) == (None, "overlapscope%3A pageable_bytes")
    assert "384 MiB, at most 0 B allowed%0AOVL001 pageable-copy: 6 pageable" in match["message"]
    assert not annotations_of(result_of(PINNED, pageable_bytes=0))


def test_annotations_name_file_and_line_from_the_repository_on(tmp_path: Path) -> None:
    frame = make.Event(ph="X", cat="python_function", pid=1, tid=1, ts=0, dur=1000, args={"Python id": 1})
    for name, file in (("/home/me/repo/src/train.py(12): load", "src/train.py"), ("train.py(12): load", "train.py")):
        trace = trace_of(tmp_path, PAGEABLE, frame | {"name": name})
        (line,) = annotations_of(check(trace, budget_from({"pageable_bytes": 0})), "/home/me/repo")
        match = COMMAND.fullmatch(line)
        assert match is not None
        assert (match["file"], match["line"]) == (file, "12")


def test_annotations_are_printed_after_the_text(limits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(UNPINNED, "--config", limits, "--annotations")
    assert [line[:8] for line in result.stdout.splitlines()[-2:]] == ["::error "] * 2


# All forms, of a trace that means harm


@pytest.fixture
def nasty(tmp_path: Path) -> CheckResult:
    frame = make.Event(ph="X", cat="python_function", pid=1, tid=1, ts=0, dur=1000, name=f"{NASTY}.py(3): f", args={})
    trace = trace_of(tmp_path, PAGEABLE, make.annotation(NASTY, 0, 1000), frame)
    table = {"pageable_bytes": 0, "no_findings": ["OVL001"]}
    return check(trace, budget_from({**table, "ranges": {NASTY: table, f"{NASTY}?": table}}))


def test_junit_survives_foreign_text(nasty: CheckResult) -> None:
    suite = validated(junit_of(nasty))
    assert suite.attrib["tests"] == "6"
    assert "<a href='x'>]]>&" in suite[2].attrib["classname"]
    assert not re.search(r"[^\t\n\x20-\ud7ff\ue000-\ufffd]", junit_of(nasty))


def test_annotations_survive_foreign_text(nasty: CheckResult) -> None:
    lines = annotations_of(nasty)
    assert len(lines) == 6
    for line in lines:
        assert COMMAND.fullmatch(line), line
        assert "\x1b" not in line
        assert "step %0A" not in line


def test_text_and_markdown_survive_foreign_text(nasty: CheckResult) -> None:
    for text in (*plain_text(check_parts(nasty)).splitlines(), *markdown_of(nasty).splitlines()):
        assert text.isprintable()
    rows = [line for line in markdown_of(nasty).splitlines() if line.startswith("| step")]
    assert rows
    for row in rows:
        assert not re.search(r"(?<!\\)[<`]", row.replace("@<!-- -->", ""))
        assert "@all" not in row


def test_markdown_shows_what_is_broken_first() -> None:
    lines = markdown_of(result_of(UNPINNED, **MIXED)).splitlines()
    assert lines[0] == r"### overlapscope check failed\: 1 passed, 2 failed, 1 not measured"
    assert lines.index("<details><summary>other limits</summary>") > 5
    assert [line.split(" | ")[0] for line in lines[4:7]] == ["| whole trace", "| round", "| nowhere"]


def test_all_forms_are_written_in_one_run(limits: Path, tmp_path: Path) -> None:
    out, junit, summary = (tmp_path / name for name in ("o.json", "j.xml", "s.md"))
    arguments = ("--format", "json", "--output", out, "--junit", junit, "--summary", summary, "--annotations")
    result = run(UNPINNED, "--config", limits, *arguments)
    assert result.exit_code == 3
    assert json.loads(out.read_text())["counts"] == {"passed": 1, "failed": 2, "not_measured": 0}
    assert validated(junit.read_text()).attrib["failures"] == "2"
    assert summary.read_text().startswith("### overlapscope check failed")
    assert len(result.stdout.splitlines()) == 2


def test_the_json_is_the_result(limits: Path) -> None:
    result = run(UNPINNED, "--config", limits, "--format", "json")
    data = json.loads(result.stdout)
    assert data["schema"] == "overlapscope.check/1"
    assert not data["passed"]
    first = data["outcomes"][0]
    assert (first["limit"], first["status"], first["value"], first["rule"]) == (
        "pageable_bytes",
        "failed",
        6 * 2**26,
        "OVL001",
    )
    assert first["places"][0]["amount"] == 6 * 2**26
    assert first["places"][0]["where"]["api"] == "cudaMemcpyAsync"


def test_a_recorded_line_is_the_place_of_a_violation(tmp_path: Path) -> None:
    (line,) = annotations_of(result_of(CASES / "prefetched.json.gz", hidden_share=1.0))
    match = COMMAND.fullmatch(line)
    assert match is not None
    assert match["file"].endswith("loops.py")


def test_a_healthy_program_breaks_nothing(tmp_path: Path) -> None:
    table = {"pageable_bytes": 0, "hidden_share": 0.9, "saving_share": 0.05, "no_findings": ["OVL001", "OVL004"]}
    assert check(trace_of(tmp_path, HEALTHY), budget_from({"ranges": {"step": table}})).passed
