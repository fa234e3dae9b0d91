"""Limits on a trace: what each figure counts, when a limit is kept, broken or not measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from overlapscope import Budget, BudgetNotUnderstood, Trace, Window, analyse, check, open_trace
from overlapscope.budget.configuration import budget_from
from overlapscope.budget.limits import LIMIT_KINDS, Limits
from overlapscope.budget.outputs import junit_of, markdown_of
from overlapscope.budget.result import CheckResult, Outcome, Status
from overlapscope.measure.windows import of_occurrence
from tests import kineto_maker as make
from tests.conftest import CASES, SAMPLES, opened
from tests.notation import trace_of

HEALTHY = """
    thread 1: range ProfilerStep#1 0-1000 | range step 1-500 | copy 8MB pinned HtoD 2-6 -> stream 13: 10-200
    launch 7-11 -> stream 7: 10-480
    range step 501-1000 | copy 8MB pinned HtoD 502-506 -> stream 13: 510-700
    launch 507-511 -> stream 7: 481-990
"""
"""Two steps whose copies run beside kernels."""
PAGEABLE = """
    thread 1: range ProfilerStep#1 0-1000 | range step 1-500 | copy 8MB pageable HtoD 2-300 -> stream 13: 10-299
    launch 307-311 -> stream 7: 310-480
    range step 501-1000 | copy 8MB pageable HtoD 502-800 -> stream 13: 510-799
    launch 807-811 -> stream 7: 810-990
"""
"""The same from pageable memory: the host is blocked, the kernels come late."""
READING = """
    thread 1: range ProfilerStep#1 0-1000 | range step 1-500 | launch 7-11 -> stream 7: 10-300
    copy 4B pageable DtoH 12-310 -> stream 7: 301-302 | stream-sync 311-312 -> stream 7
    range step 501-1000 | launch 507-511 -> stream 7: 510-700
    copy 4B pageable DtoH 512-710 -> stream 7: 701-702 | stream-sync 711-712 -> stream 7
    event-sync 713-714
"""
"""A value read in every step; the second step also waits for an event."""


def checked(trace: Trace, within: str | None = None, **limits: Any) -> CheckResult:
    return check(trace, budget_from(limits if within is None else {"ranges": {within: limits}}))


def only(trace: Trace, within: str | None = None, **limits: Any) -> Outcome:
    (outcome,) = checked(trace, within, **limits).outcomes
    return outcome


# Every limit, kept and broken


CASES_OF_LIMITS: dict[str, tuple[Any, str, str]] = {
    "scalar_reads_per_step": (0, HEALTHY, READING),
    "synchronisations_per_step": (0, HEALTHY, READING),
    "pageable_bytes": (0, HEALTHY, PAGEABLE),
    "blocked_share": (0.1, HEALTHY, PAGEABLE),
    "hidden_share": (0.9, HEALTHY, PAGEABLE),
    "idle_share": ({"copy_call": 0.1}, HEALTHY, PAGEABLE),
    "saving_share": (0.1, HEALTHY, PAGEABLE),
    "no_findings": (["pageable-copy"], HEALTHY, PAGEABLE),
}


def test_every_limit_is_tried() -> None:
    assert set(CASES_OF_LIMITS) == set(LIMIT_KINDS)


@pytest.mark.parametrize("within", [None, "step", "st?p"])
@pytest.mark.parametrize("name", CASES_OF_LIMITS)
def test_a_limit_is_kept_by_one_program_and_broken_by_another(name: str, within: str | None, tmp_path: Path) -> None:
    limit, good, bad = CASES_OF_LIMITS[name]
    kept = only(trace_of(tmp_path, good, **make.H200), within, **{name: limit})
    broken = only(trace_of(tmp_path, bad, **make.H200), within, **{name: limit})
    assert (kept.status, kept.rule, kept.places) == (Status.PASSED, None, ())
    assert broken.status is Status.FAILED
    assert broken.range == within
    assert broken.rule in ({"OVL004", "OVL005"} if bad is READING else {"OVL001"})
    assert "step" in (broken.places[0].where.range or "")
    assert broken.fix


def values(result: CheckResult) -> dict[str, float | None]:
    return {outcome.limit: outcome.value for outcome in result.outcomes}


EVERY_LIMIT = {name: limit for name, (limit, _, _) in CASES_OF_LIMITS.items()}


@pytest.mark.parametrize("picture", [HEALTHY, PAGEABLE, READING])
def test_limits_of_a_range_and_of_an_analysis_of_it_have_the_same_figures(picture: str, tmp_path: Path) -> None:
    trace = trace_of(tmp_path, picture, **make.H200)
    result = check(analyse(trace, "step"), budget_from(EVERY_LIMIT))
    assert values(result) == values(checked(trace, "step", **EVERY_LIMIT))
    assert {outcome.range for outcome in result.outcomes} == {None}


def test_the_limits_of_parts_of_a_trace_are_about_these_parts(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, f"{READING} copy 8MB pageable HtoD 715-760 -> stream 13: 720-759", **make.H200)
    middle_ns = (trace.start_ns + trace.end_ns) // 2
    halves = [(trace.start_ns, middle_ns), (middle_ns, trace.end_ns)]
    parts = {
        "occurrence": [of_occurrence(trace, "step", number) for number in (1, 2)],
        "interval": [Window.between(*half) for half in halves],
        "named": [replace(Window.between(*half), name="half") for half in halves],
    }
    for kind, windows in parts.items():
        results = [check(analyse(trace, window=window), budget_from(EVERY_LIMIT)) for window in windows]
        first, second = map(values, results)
        assert (first["scalar_reads_per_step"], second["scalar_reads_per_step"]) == (1, 1), kind
        assert (first["synchronisations_per_step"], second["synchronisations_per_step"]) == (1, 2), kind
        assert (first["pageable_bytes"], second["pageable_bytes"]) == (0, 8_000_000), kind


def test_calls_count_for_the_occurrence_that_made_them(tmp_path: Path) -> None:
    """The device work of the first step runs on while the host is in the second."""
    trace = trace_of(
        tmp_path,
        """
        thread 1: range step 1-100 | launch 7-11 -> stream 7: 10-400
        range step 101-500 | copy 8MB pageable HtoD 102-300 -> stream 13: 110-299 | stream-sync 311-401 -> stream 7
        launch 410-414 -> stream 7: 413-490
        """,
        **make.H200,
    )
    results = [check(analyse(trace, window=of_occurrence(trace, "step", n)), budget_from(EVERY_LIMIT)) for n in (1, 2)]
    first, second = map(values, results)
    assert (first["synchronisations_per_step"], second["synchronisations_per_step"]) == (0, 1)
    assert (first["pageable_bytes"], second["pageable_bytes"]) == (0, 8_000_000)
    assert first["blocked_share"] == 0 < (second["blocked_share"] or 0)


def test_a_part_of_a_trace_is_called_what_it_is(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, PAGEABLE, **make.H200)
    half = Window.between(trace.start_ns, (trace.start_ns + trace.end_ns) // 2)
    for analysis, title in (
        (analyse(trace), "whole trace"),
        (analyse(trace, window=half), "a part of the trace"),
        (analyse(trace, "step"), "range 'step', 2 x"),
        (analyse(trace, window=of_occurrence(trace, "step", 1)), "range 'step', 1 x"),
        (analyse(trace, device=0), "whole trace, device 0"),
    ):
        result = check(analysis, budget_from({"pageable_bytes": 0, "ranges": {"step": {"pageable_bytes": 0}}}))
        suite = Xml.fromstring(junit_of(result))  # noqa: S314 - made here
        assert [case.attrib["classname"].removeprefix("overlapscope.") for case in suite.iter("testcase")] == [
            title,
            "step",
        ]
        assert f"| {title} |" in markdown_of(result)


def test_each_step_is_counted_by_itself(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, READING)
    assert only(trace, "step", synchronisations_per_step=2).status is Status.PASSED
    most = only(trace, "step", synchronisations_per_step=1)
    assert (most.value, most.status) == (2, Status.FAILED)
    assert "step 2 of 2" in most.message
    assert only(trace, synchronisations_per_step=1).value == 3
    assert only(trace, "step", scalar_reads_per_step=0).value == 1


def test_ranges_of_a_pattern_that_enclose_each_other_are_one_step(tmp_path: Path) -> None:
    text = "thread 1: range step 0-500 | range step inner 1-400 | launch 2-6 -> stream 7: 10-20 | stream-sync 30-40"
    outcome = only(trace_of(tmp_path, text), "step*", synchronisations_per_step=0)
    assert "step 1 of 1" in outcome.message


def test_what_begins_and_ends_a_recording_is_no_synchronisation(tmp_path: Path) -> None:
    """The device synchronisations before the first and after the last launch; one in between is."""
    text = """
        thread 1: range ProfilerStep#1 0-1000 | sync 1-2 | launch 7-11 -> stream 7: 10-300 | sync 20-301
        launch 307-311 -> stream 7: 310-900 | sync 320-901
    """
    assert only(trace_of(tmp_path, text), synchronisations_per_step=0).value == 1
    assert only(trace_of(tmp_path, text), blocked_share=0.0).value == pytest.approx(277 / 893, abs=0.01), (
        "of the time of the GPU's work"
    )


def test_a_value_that_nobody_waits_for_is_no_scalar_read(tmp_path: Path) -> None:
    text = "thread 1: range step 0-500 | launch 1-5 -> stream 7: 10-200 | copy 4B pinned DtoH 6-9 -> stream 7: 201-202"
    read = f"{text} | stream-sync 10-203 -> stream 7"
    assert only(trace_of(tmp_path, text), "step", scalar_reads_per_step=0).value == 0
    assert only(trace_of(tmp_path, read), "step", scalar_reads_per_step=0).value == 1


DEFERRED = """
    thread 1: range step 0-1000 | launch 1-5 -> stream 7: 10-200 | copy 4B pinned DtoH 6-9 -> stream 7: 201-202
    record A 10-12 -> stream 7 | launch 21-25 -> stream 7: 203-600 | copy 4B pinned DtoH 26-29 -> stream 7: 601-602
    record B 30-32 -> stream 7
"""
"""Two values that are copied to the host; what comes next waits for one of them."""


@pytest.mark.parametrize(
    ("wait", "reads"),
    [
        ("event-sync 33-204", 0),
        ("event-sync 33-604", 1),
        ("event-sync A 700-701 -> stream 7", 0),
        ("event-sync B 700-701 -> stream 7", 1),
        ("stream-sync 33-604 -> stream 7", 1),
    ],
)
def test_a_wait_for_an_earlier_copy_is_no_scalar_read(wait: str, reads: int, tmp_path: Path) -> None:
    trace = trace_of(tmp_path, f"{DEFERRED} | {wait}")
    assert only(trace, "step", scalar_reads_per_step=0).value == reads


@pytest.mark.parametrize("name", ["json", "sqlite"])
def test_a_read_that_was_put_off_a_step_is_no_scalar_read(name: str) -> None:
    trace = open_trace(SAMPLES / f"scalar_reads-cpu-deferred.{name}.gz")
    assert only(trace, "scalar_reads", scalar_reads_per_step=1).status is Status.PASSED


def test_a_single_value_is_no_pageable_buffer(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, READING)
    assert only(trace, pageable_bytes=0).value == 0
    assert only(trace_of(tmp_path, READING.replace("4B", "64B")), pageable_bytes=0).value == 128


def test_a_copy_that_waits_by_its_name_is_a_synchronisation(tmp_path: Path) -> None:
    text = "thread 1: range step 0-500 | launch 1-5 -> stream 7: 10-200 | {} 8MB pinned HtoD 6-300 -> stream 7: 201-299"
    assert only(trace_of(tmp_path, text.format("memcpy")), "step", synchronisations_per_step=0).value == 1
    assert only(trace_of(tmp_path, text.format("copy")), "step", synchronisations_per_step=0).value == 0


def test_copies_count_where_they_were_issued(tmp_path: Path) -> None:
    """A pageable copy that another range issued, and that runs within the time of this one."""
    text = """
        thread 1: range other 0-100 | copy 8MB pageable HtoD 1-90 -> stream 13: 150-250
        range step 101-300 | launch 102-105 -> stream 7: 110-290
    """
    assert only(trace_of(tmp_path, text), "step", pageable_bytes=0).value == 0
    assert only(trace_of(tmp_path, text), "other", pageable_bytes=0).value == 8_000_000


def test_only_as_much_copy_time_is_hideable_as_kernels_run(tmp_path: Path) -> None:
    text = "thread 1: range step 0-500 | copy 8MB pinned HtoD 1-5 -> stream 13: 10-410 | launch 6-8 -> stream 7: 10-110"
    assert only(trace_of(tmp_path, text), "step", hidden_share=1.0).value == 1.0
    late = text.replace("stream 7: 10-110", "stream 7: 360-460")
    assert only(trace_of(tmp_path, late), "step", hidden_share=1.0).value == 0.5


def test_the_worst_gpu_counts(tmp_path: Path) -> None:
    text = """
        thread 1: range step 0-500 | copy 8MB pinned HtoD 1-5 -> stream 13: 10-110 | launch 6-8 -> stream 7: 10-110
        copy 8MB pinned HtoD 11-15 -> gpu 1 stream 13: 20-120 | launch 16-18 -> gpu 1 stream 7: 121-300
    """
    outcome = only(trace_of(tmp_path, text), "step", hidden_share=0.5)
    assert (outcome.value, outcome.status) == (0.0, Status.FAILED)
    assert "GPU 1" in outcome.message


def test_idle_time_can_be_limited_by_cause_by_rule_and_altogether(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, PAGEABLE)
    found = checked(trace, "step", idle_share={"all": 1, "copy_call": 1, "pageable-copy": 1, "synchronisation": 0})
    by_limit = {outcome.limit: outcome.value or 0.0 for outcome in found.outcomes}
    assert list(by_limit) == [f"idle_share.{part}" for part in ("all", "copy_call", "OVL001", "synchronisation")]
    assert by_limit["idle_share.synchronisation"] == 0.0
    assert by_limit["idle_share.all"] >= by_limit["idle_share.OVL001"] >= by_limit["idle_share.copy_call"] > 0.5


# What the trace cannot show


NOT_MEASURED: dict[str, tuple[str, dict[str, Any], str]] = {
    "no such range": (HEALTHY, {"within": "nowhere", "pageable_bytes": 0}, "no range 'nowhere'"),
    "no steps": (HEALTHY.replace("ProfilerStep#1", "epoch"), {"synchronisations_per_step": 9}, "no steps"),
    "no GPU work": ("thread 1: range step 0-9 | stream-sync 1-8", {"within": "step", "pageable_bytes": 0}, "no GPU"),
    "no GPU to be idle": ("thread 1: range step 0-9 | stream-sync 1-8", {"idle_share": {"all": 1.0}}, "no GPU"),
    "no calls": ("thread 1: range step 0-9", {"within": "step", "synchronisations_per_step": 9}, "no CUDA call"),
    "no calls to block": ("thread 1: range step 0-9", {"within": "step", "blocked_share": 1.0}, "no CUDA call"),
    "nothing to hide": ("thread 1: launch 1-5 -> stream 7: 10-20", {"hidden_share": 0.0}, "hideable copies"),
    "nothing to hide behind": (
        "thread 1: copy 8MB pinned HtoD 1-5 -> stream 7: 10-20",
        {"hidden_share": 0.0},
        "hideable copies",
    ),
}


@pytest.mark.parametrize("case", NOT_MEASURED)
def test_what_a_trace_cannot_show_is_not_measured_and_fails_unless_configured(case: str, tmp_path: Path) -> None:
    text, limits, reason = NOT_MEASURED[case]
    within = limits.get("within")
    wanted = {name: value for name, value in limits.items() if name != "within"}
    table = {"ranges": {within: wanted}} if within else wanted
    trace = trace_of(tmp_path, text)
    (outcome,) = (strict := check(trace, budget_from(table))).outcomes
    assert (outcome.status, outcome.value) == (Status.NOT_MEASURED, None)
    assert reason in outcome.message
    assert not strict.passed
    assert check(trace, budget_from(table | {"not_measured": "pass"})).passed


def test_a_bound_that_breaks_a_limit_fails_and_one_that_keeps_it_is_not_measured(tmp_path: Path) -> None:
    """Of ROCm, copies have no memory kind: the pageable bytes are those that are known to be."""
    unknown = make.copy(400, 10, kinds="HtoD (Host -> Device)", stream=13)
    pageable = make.copy(420, 10, size=1000, stream=13)
    kernel = "thread 1: launch 1-5 -> stream 7: 10-300"
    assert only(trace_of(tmp_path, kernel, unknown), pageable_bytes=0).status is Status.NOT_MEASURED
    assert only(trace_of(tmp_path, kernel, unknown, pageable), pageable_bytes=0).status is Status.FAILED
    assert only(trace_of(tmp_path, kernel), pageable_bytes=0).status is Status.PASSED


def test_a_trace_that_does_not_say_why_the_gpu_was_idle_shows_no_cause(tmp_path: Path) -> None:
    """Where launches are missing, no copy call is to blame, and none is acquitted."""
    events = [make.kernel(10, 100), make.kernel(500, 100), make.kernel(900, 100)]
    trace = trace_of(tmp_path, "thread 1: launch 1-5 -> stream 7: 1-9", *events)
    result = checked(trace, idle_share={"copy_call": 0, "all": 0.9}, no_findings=["OVL001", "OVL000"], saving_share=0)
    status = {outcome.limit: outcome.status for outcome in result.outcomes}
    assert status == {
        "idle_share.copy_call": Status.NOT_MEASURED,
        "idle_share.all": Status.PASSED,
        "no_findings.OVL001": Status.NOT_MEASURED,
        "no_findings.OVL000": Status.FAILED,
        "saving_share": Status.NOT_MEASURED,
    }


# A gate: the programs of the sample traces


GATE = {"pageable_bytes": 1024, "no_findings": ["OVL001"], "idle_share": {"copy_call": 0.05}}
"""The routing of moe_prefetch has to read some hundred bytes on the host."""
TWINS = {
    "gemm_copy-pageable-copy-first-non-blocking-side": "gemm_copy-pinned-copy-first-non-blocking-side",
    "dataloader_train-pageable-non-blocking": "dataloader_train-pinned-non-blocking",
    "offload-pageable-side": "offload-pinned-side",
    "moe_prefetch-pageable-non-blocking": "moe_prefetch-pinned-non-blocking",
}


@pytest.mark.parametrize("suffix", ["json.gz", "sqlite.gz"])
@pytest.mark.parametrize("unpinned", TWINS)
def test_the_gate_fails_when_a_buffer_is_unpinned_and_only_then(unpinned: str, suffix: str) -> None:
    result = check(open_trace(SAMPLES / f"{unpinned}.{suffix}"), budget_from(GATE))
    assert {outcome.rule for outcome in result.violations} == {"OVL001"}
    assert {outcome.limit for outcome in result.violations} >= {"pageable_bytes", "no_findings.OVL001"}
    assert all(outcome.places[0].where.range for outcome in result.violations)
    assert check(open_trace(SAMPLES / f"{TWINS[unpinned]}.{suffix}"), budget_from(GATE)).passed


def test_the_gate_does_not_mind_other_faults() -> None:
    """The pinned program reads a value in every step: that breaks the limit on reads, and no limit on pinning."""
    trace = open_trace(SAMPLES / "dataloader_train-pinned-item.json.gz")
    assert check(trace, budget_from(GATE)).passed
    assert only(trace, "step", scalar_reads_per_step=0).value == 1


def test_a_place_names_the_source_line_where_it_was_recorded() -> None:
    outcome = only(open_trace(CASES / "prefetched.json.gz"), hidden_share=1.0)
    assert outcome.status is Status.FAILED
    assert "loops.py(" in (outcome.places[0].where.source or "")


def test_a_check_without_limits_says_so() -> None:
    result = check(open_trace(CASES / "prefetched.json.gz"), Budget())
    assert (result.summary, result.outcomes, bool(Budget())) == ("passed: no limits", (), False)


@pytest.mark.parametrize(
    ("limits", "key"),
    [
        (Limits(hidden_share=90), "hidden_share"),
        (Limits(idle_share={"zebra": 0.1}), "idle_share.zebra"),
        (Limits(no_findings=("OVL999",)), "no_findings"),
    ],
)
def test_limits_made_in_python_are_looked_through_too(limits: Limits, key: str) -> None:
    trace = open_trace(CASES / "prefetched.json.gz")
    for budget, place in ((Budget(limits=limits), key), (Budget(ranges={"a b": limits}), f'ranges."a b".{key}')):
        with pytest.raises(BudgetNotUnderstood) as caught:
            check(trace, budget)
        assert str(caught.value).startswith(f"{place}: ")
    assert check(trace, Budget(limits=Limits(no_findings=("pageable-copy",)))).outcomes[0].limit == "no_findings.OVL001"


def test_every_public_trace_can_be_checked(corpus_trace: Path) -> None:
    """Whatever is wrong with it; each violation has a rule and a place."""
    limits = {"pageable_bytes": 0, "blocked_share": 0, "hidden_share": 1, "idle_share": {"all": 0, "copy_call": 0}}
    limits |= {"synchronisations_per_step": 0, "scalar_reads_per_step": 0, "no_findings": ["OVL001", "OVL008"]}
    result = check(opened(corpus_trace), budget_from({**limits, "ranges": {"*tep*": limits}}))
    assert len(result.outcomes) == 18
    assert {child.tag for child in Xml.fromstring(junit_of(result))[0]} == {"testcase"}  # noqa: S314 - made here
    for outcome in result.outcomes:
        if outcome.status is Status.FAILED:
            assert outcome.rule, outcome
            assert outcome.places, outcome


def test_outcomes_are_rows() -> None:
    frame = checked(open_trace(CASES / "prefetched.json.gz"), pageable_bytes=0, hidden_share=0.1).to_pandas()
    assert list(frame["limit"]) == ["pageable_bytes", "hidden_share"]
