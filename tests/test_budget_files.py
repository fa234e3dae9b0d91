"""Configuration and baselines: what they mean, and that whatever is wrong is named with its key."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from typer.testing import CliRunner

from overlapscope import (
    Budget,
    BudgetNotUnderstood,
    OutputError,
    baseline_of,
    check,
    open_trace,
    read_baseline,
    read_budget,
    write_baseline,
)
from overlapscope.budget.baseline import Baseline, limits_of
from overlapscope.budget.configuration import budget_from, dotted
from overlapscope.budget.limits import LIMIT_KINDS, Limits, Tolerance, Tolerances, Unit
from overlapscope.budget.result import Against, Status
from overlapscope.cli.main import app
from overlapscope.pytest_plugin.run import NAMES, RecordedRun
from tests.conftest import ROOT, SAMPLES
from tests.notation import trace_of
from tests.test_budget import HEALTHY, PAGEABLE, READING

FULL = """
[check]
scalar_reads_per_step = 0
synchronisations_per_step = 1
pageable_bytes = 4096
blocked_share = 0.05
hidden_share = 0.9
saving_share = 0
no_findings = ["OVL001", "scalar-read", "OVL014"]
not_measured = "pass"
[check.idle_share]
all = 0.2
copy_call = 0.0
OVL001 = 0.01
[check.ranges."step*"]
hidden_share = 1
[check.tolerance]
pageable_bytes = 1024
blocked_share = "10 %"
"""


def written(folder: Path, text: str, name: str = "overlapscope.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_configuration_says_all_that_there_is(tmp_path: Path) -> None:
    found = read_budget(written(tmp_path, FULL))
    assert found == Budget(
        limits=Limits(
            scalar_reads_per_step=0,
            synchronisations_per_step=1,
            pageable_bytes=4096,
            blocked_share=0.05,
            hidden_share=0.9,
            saving_share=0.0,
            no_findings=("OVL001", "OVL005", "OVL103"),
            idle_share={"all": 0.2, "copy_call": 0.0, "OVL001": 0.01},
        ),
        ranges={"step*": Limits(hidden_share=1.0)},
        tolerances=Tolerances(pageable_bytes=Tolerance(1024), blocked_share=Tolerance(0.1, relative=True)),
        pass_unmeasured=True,
    )
    assert all(getattr(found.limits, entry.name) != entry.default for entry in fields(Limits)), "all are tried"


def test_a_pyproject_has_it_below_tool(tmp_path: Path) -> None:
    below = FULL.replace("[check", "[tool.overlapscope.check")
    assert read_budget(written(tmp_path, below, "pyproject.toml")) == read_budget(written(tmp_path, FULL))


WRONG: dict[str, str] = {
    'ranges."".hidden_share = 0.5': 'check.ranges."": has to be the name of a range',
    "hiden_share = 1": "check.hiden_share: no such key; do you mean hidden_share?",
    "synchronizations_per_step = 1": "check.synchronizations_per_step: no such key; do you mean",
    "zebra = 1": "check.zebra: no such key; there are scalar_reads_per_step, ",
    "pageable_bytes = -1": "check.pageable_bytes: is -1, and has to be at least 0",
    "pageable_bytes = 1.5": "check.pageable_bytes: is a number, and has to be an integer",
    "pageable_bytes = true": "check.pageable_bytes: is a boolean",
    "hidden_share = 90": "check.hidden_share: is 90, and has to be a share from 0 to 1",
    "hidden_share = nan": "check.hidden_share: is nan",
    "hidden_share = '90%'": "check.hidden_share: is a string",
    "no_findings = 'OVL001'": "check.no_findings: has to be a list",
    "no_findings = ['OVL999']": "check.no_findings: no rule 'OVL999'",
    "not_measured = 'skip'": "check.not_measured: is 'skip', and has to be 'fail' or 'pass'",
    "not_measured = []": "check.not_measured: is []",
    "idle_share = 0.1": "check.idle_share: is a number, and has to be a table",
    "idle_share.copy_cal = 0.1": "check.idle_share.copy_cal: no such cause or rule; do you mean copy_call?",
    "idle_share.all = 2": "check.idle_share.all: is 2",
    "ranges.step = 1": "check.ranges.step: is an integer, and has to be a table",
    "ranges.'step*'.hidden = 1": 'check.ranges."step*".hidden: no such key; do you mean hidden_share?',
    "ranges.'a.b'.hidden_share = -1": 'check.ranges."a.b".hidden_share: is -1',
    "ranges.step.not_measured = 'pass'": "check.ranges.step.not_measured: no such key",
    "tolerance.no_findings = 1": "check.tolerance.no_findings: no such key",
    "tolerance.blocked_share = 3": "check.tolerance.blocked_share: is 3",
    "tolerance.pageable_bytes = 'some'": "check.tolerance.pageable_bytes: 'some' is neither a number nor a percentage",
    "tolerance = 5": "check.tolerance: is an integer, and has to be a table",
}


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_is_named_with_its_key(line: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"[check]\n{line}\n")
    with pytest.raises(BudgetNotUnderstood) as caught:
        read_budget(path)
    assert str(caught.value).startswith(f"{path}: {WRONG[line]}")


OTHER_FILES: dict[str, tuple[str, str]] = {
    "[chek]\npageable_bytes = 0": ("overlapscope.toml", "chek: no such key; do you mean check?"),
    "[tool.overlapscop.check]\npageable_bytes = 0": ("pyproject.toml", "tool.overlapscop: no such key; do you mean"),
    "[tool.other]\nx = 1": ("pyproject.toml", "has no limits; they belong under [tool.overlapscope.check]"),
    "": ("overlapscope.toml", "has no limits; they belong under [check]"),
    "check = 3": ("overlapscope.toml", "check: is an integer"),
    "[check": ("overlapscope.toml", "is no TOML"),
}


@pytest.mark.parametrize("text", OTHER_FILES)
def test_a_file_without_limits_is_an_error(text: str, tmp_path: Path) -> None:
    name, message = OTHER_FILES[text]
    with pytest.raises(BudgetNotUnderstood) as caught:
        read_budget(written(tmp_path, text, name))
    assert str(caught.value).startswith(f"{tmp_path / name}: {message}")


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    for name, message in (("nowhere.toml", "cannot be read"), ("bytes.toml", "is no text"), ("", "cannot be read")):
        with pytest.raises(BudgetNotUnderstood, match=message) as caught:
            read_budget(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)


PLACES = st.sampled_from([(), ("ranges", "step*"), ("ranges", "a.b c"), ("ranges", '"')])
VALUES = st.one_of(
    st.none(), st.booleans(), st.text(max_size=5), st.integers(max_value=-1), st.floats(max_value=-1e-9), st.just([1])
)


@given(PLACES, st.sampled_from(sorted(LIMIT_KINDS)), VALUES)
def test_a_value_that_no_limit_can_have_is_named_wherever_it_stands(
    where: tuple[str, ...], name: str, value: Any
) -> None:
    table: Any = {name: value}
    for part in reversed(where):
        table = {part: table}
    with pytest.raises(BudgetNotUnderstood) as caught:
        budget_from(table, ("check",))
    assert str(caught.value).startswith(f"{dotted(('check', *where, name))}: ")


@given(
    PLACES, st.text(min_size=1).filter(lambda name: name not in {*LIMIT_KINDS, "ranges", "tolerance", "not_measured"})
)
def test_an_unknown_key_is_named_wherever_it_stands(where: tuple[str, ...], name: str) -> None:
    table: Any = {name: 0}
    for part in reversed(where):
        table = {part: table}
    with pytest.raises(BudgetNotUnderstood) as caught:
        budget_from(table, ("check",))
    assert str(caught.value).startswith(f"{dotted(('check', *where, name))}: no such key")


def test_what_a_baseline_allows_can_be() -> None:
    before = {"hidden_share": 0.0, "blocked_share": 0.99, "pageable_bytes": 10, "findings": []}
    found = {limit.name: limit.allowed for limit in limits_of(before, Tolerances(pageable_bytes=Tolerance(5)), [])}
    assert found == {"hidden_share": 0, "blocked_share": 1, "pageable_bytes": 15}
    assert Unit.BYTES.shown(10**18) == "1,000,000,000,000,000,000 B"


# The page about it


PAGE = (ROOT / "docs" / "howto" / "check.md").read_text()


def test_every_limit_is_on_the_page_with_its_marker_and_assertion() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .*? \| `(\w+)`, `(\w+)` \|", PAGE, re.MULTILINE)
    assert {limit: marker for limit, marker, _ in rows} == {limit: marker for marker, limit in NAMES.items()}
    assert all(callable(getattr(RecordedRun, assertion)) for _, _, assertion in rows)
    used = re.findall(r"\brun\.(\w+)|assert_\w+", PAGE)
    assert all(hasattr(RecordedRun, name) for name in used if name)


def test_the_configurations_on_the_page_can_be_read(tmp_path: Path) -> None:
    text = "".join(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
    found = read_budget(written(tmp_path, text, "pyproject.toml"))
    assert found.ranges["train_step*"].idle_share == {"copy_call": 0.01, "OVL004": 0.02}
    assert found.tolerances.saving_share == Tolerance(0.2, relative=True)


# Baselines


STEPS = budget_from({"ranges": {"step": {}}})


def test_a_baseline_that_is_written_is_read_again_and_kept_by_its_own_trace(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, PAGEABLE)
    path = tmp_path / "baseline.json"
    write_baseline(baseline_of(trace, STEPS), path)
    again = read_baseline(path)
    assert again == baseline_of(trace, STEPS)
    result = check(trace, STEPS, again)
    assert result.passed
    assert {outcome.against for outcome in result.outcomes} == {Against.BASELINE}
    assert {"pageable_bytes", "idle_share.copy_call"} <= {outcome.limit for outcome in result.outcomes}
    assert [path.name for path in tmp_path.iterdir() if "baseline" in path.name] == ["baseline.json"]


def test_a_baseline_is_for_people_to_read(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    write_baseline(baseline_of(trace_of(tmp_path, PAGEABLE), STEPS), path)
    lines = path.read_text().splitlines()
    assert '  "schema": "overlapscope.baseline/1",' in lines
    assert '      "pageable_bytes": 16000000,' in lines
    assert json.loads(path.read_text())["ranges"]["step"]["findings"] == ["OVL001"]


def test_a_trace_that_is_worse_than_the_baseline_fails_with_place_and_rule(tmp_path: Path) -> None:
    before = baseline_of(trace_of(tmp_path, HEALTHY), STEPS)
    result = check(trace_of(tmp_path, PAGEABLE), STEPS, before)
    broken = {(outcome.range, outcome.limit): outcome for outcome in result.violations}
    assert {(None, "pageable_bytes"), ("step", "pageable_bytes"), ("step", "no_findings.OVL001")} <= set(broken)
    assert {outcome.rule for outcome in result.violations} == {"OVL001"}
    assert all(outcome.places for outcome in result.violations)
    assert "idle_share.no_work_left" not in {outcome.limit for outcome in result.outcomes}, "in neither trace"
    better = check(trace_of(tmp_path, HEALTHY), STEPS, baseline_of(trace_of(tmp_path, PAGEABLE), STEPS))
    assert not [outcome for outcome in better.outcomes if outcome.status is Status.FAILED]


def test_a_figure_that_the_trace_no_longer_has_is_not_measured(tmp_path: Path) -> None:
    before = baseline_of(trace_of(tmp_path, PAGEABLE), STEPS)
    result = check(trace_of(tmp_path, READING), STEPS, before)
    assert {outcome.limit for outcome in result.violations if outcome.value is None} == {"hidden_share"}
    gone = check(trace_of(tmp_path, PAGEABLE.replace("range step", "range epoch")), STEPS, before)
    assert {outcome.status for outcome in gone.outcomes if outcome.range == "step"} == {Status.NOT_MEASURED}


def test_tolerances_are_amounts_or_shares_and_zero_for_what_is_counted() -> None:
    before = {"pageable_bytes": 1000, "hidden_share": 0.9, "blocked_share": 0.2, "saving_share": None, "findings": []}
    allowed = {limit.key: limit.allowed for limit in limits_of(before, Tolerances(), ["OVL001"])}
    assert allowed == {
        "pageable_bytes": 1000,
        "hidden_share": pytest.approx(0.85),
        "blocked_share": pytest.approx(0.25),
        "no_findings.OVL001": 0,
    }
    wider = Tolerances(pageable_bytes=Tolerance(0.5, relative=True), hidden_share=Tolerance(0.1, relative=True))
    assert [limit.allowed for limit in limits_of(before, wider, [])][:2] == [1500, pytest.approx(0.81)]


def test_a_range_that_the_baseline_does_not_have_is_an_error(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, HEALTHY)
    before = baseline_of(trace, Budget())
    with pytest.raises(BudgetNotUnderstood, match="no range 'step': write it again with --update-baseline"):
        check(trace, STEPS, before)


WRONG_BASELINES: dict[str, str] = {
    "[]": "schema: is None",
    '{"schema": "overlapscope.baseline/9"}': "schema: is 'overlapscope.baseline/9'",
    '{"schema": "overlapscope.baseline/1"}': "trace: has to be an object",
    '{"schema": "overlapscope.baseline/1", "trace": {}}': "trace.blocked_share: is missing",
    "{": "is no JSON",
}


def test_lists_that_are_too_deep_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(BudgetNotUnderstood, match="is no JSON"):
        read_baseline(written(tmp_path, "[" * 100_000, "deep.json"))
    with pytest.raises(BudgetNotUnderstood, match="is no TOML"):
        read_budget(written(tmp_path, "x = " + "[" * 100_000, "deep.toml"))
    (tmp_path / "deep.json").write_text("[" * 100_000)
    result = CliRunner().invoke(app, ["transfers", str(tmp_path / "deep.json"), "-o", str(tmp_path / "o.svg")])
    assert (result.exit_code, "is no JSON" in result.output) == (2, True)


@pytest.mark.parametrize("text", WRONG_BASELINES)
def test_a_baseline_that_is_malformed_is_an_error_with_its_key(text: str, tmp_path: Path) -> None:
    path = written(tmp_path, text, "baseline.json")
    with pytest.raises(BudgetNotUnderstood) as caught:
        read_baseline(path)
    assert str(caught.value).startswith(f"{path}: {WRONG_BASELINES[text]}")


@pytest.mark.parametrize(
    ("name", "value", "key"),
    [
        ("pageable_bytes", -1, "ranges.step.pageable_bytes"),
        ("pageable_bytes", "1", "ranges.step.pageable_bytes"),
        ("hidden_share", True, "ranges.step.hidden_share"),
        ("hidden_share", 10**400, "ranges.step.hidden_share"),
        ("pageable_bytes", 1e308, "ranges.step.pageable_bytes"),
        ("idle_share", 0.1, "ranges.step.idle_share"),
        ("idle_share", {"zebra": 0.1}, "ranges.step.idle_share.zebra"),
        ("idle_share", {"all": []}, "ranges.step.idle_share.all"),
        ("findings", ["OVL999"], "ranges.step.findings"),
        ("zebra", 1, "ranges.step.zebra"),
    ],
)
def test_a_figure_of_a_baseline_that_is_malformed_is_named(name: str, value: Any, key: str, tmp_path: Path) -> None:
    data = baseline_of(trace_of(tmp_path, HEALTHY), STEPS).to_dict()
    data["ranges"]["step"][name] = value
    with pytest.raises(BudgetNotUnderstood) as caught:
        Baseline.from_dict(data)
    assert str(caught.value).startswith(f"{key}: ")


def test_a_baseline_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    before = baseline_of(open_trace(SAMPLES / "scalar_reads-cpu.json.gz"), Budget())
    with pytest.raises(OutputError):
        write_baseline(before, tmp_path / "nowhere" / "baseline.json")
    assert not list(tmp_path.iterdir())
