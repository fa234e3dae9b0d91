"""The rule OVL024, overlap-cannot-help."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import audit, open_trace
from overlapscope.analysis.analysis import diagnose
from overlapscope.diagnosis.finding import Confidence, Severity
from tests.conftest import CASES
from tests.notation import trace_of
from tests.rules import RuleTests, finding_of
from tests.rules.traces import EXPOSED


class TestOvl024(RuleTests):
    code = "OVL024"
    reports = ("small_copies_exposed", EXPOSED)
    silent = ("one_stream",)


def test_copies_that_are_worth_hiding_are_no_copies_that_are_not() -> None:
    """The same loop with copies of 4 MiB and more kernels, and with copies of 64 MiB."""
    small, large = (diagnose(open_trace(CASES / f"{name}.json.gz"), "pass") for name in _ONE_STREAM)
    assert finding_of(small, "OVL024") is not None
    assert finding_of(large, "OVL024") is None


_ONE_STREAM = ("small_copies_exposed", "one_stream")


def test_copies_that_are_exposed_but_cost_little_are_told_as_information(tmp_path: Path) -> None:
    """600 us of copies, all exposed, and 19 587 us of kernels."""
    trace = trace_of(tmp_path, EXPOSED)
    (finding,) = diagnose(trace).findings
    assert (finding.code, finding.severity, finding.idle_ns) == ("OVL024", Severity.INFO, 0)
    evidence = finding.evidence
    assert (evidence["now_ns"], evidence["bound_by"], evidence["bound_ns"]) == (20_190_000, "kernels", 19_587_000)
    assert (evidence["saving_ns"], evidence["exposed_copy_ns"]) == (600_000, 600_000)
    said = "Perfect overlap of copies would save at most 600 us of 20.2 ms (3 %): the kernels take 19.6 ms."
    assert said in audit(trace).verdict


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("stream 7: 10-410", "stream 13: 420-810"),  # one copy is hidden, the other one is short
        ("10_202-20_200", "11_202-20_200"),  # kernels take less of the time
    ],
)
def test_it_is_not_told_where_copies_are_hidden_or_overlap_would_help(old: str, new: str, tmp_path: Path) -> None:
    text = EXPOSED.replace("10_001-10_201", "10_001-10_101").replace(old, new)
    assert "OVL024" not in {finding.code for finding in diagnose(trace_of(tmp_path, text)).findings}


def test_a_limit_by_the_host_is_less_certain_than_one_by_the_kernels(tmp_path: Path) -> None:
    """The host may wait inside of an operator, and the profiler lengthens its work."""
    by_kernels = diagnose(trace_of(tmp_path, EXPOSED)).findings[0]
    assert (by_kernels.confidence, by_kernels.confirm_with) == (Confidence.HIGH, "")
    working = EXPOSED.replace("| launch 30-33", "| op aten::work 40-20_150 | launch 30-33")
    (by_host,) = (each for each in diagnose(trace_of(tmp_path, working)).findings if each.code == "OVL024")
    assert by_host.evidence["bound_by"] == "host"
    assert by_host.confidence is Confidence.MEDIUM
    assert "overlapscope.record" in by_host.confirm_with


def test_copies_of_pageable_memory_are_no_limit(tmp_path: Path) -> None:
    """The copy engine is busy all the time: pinned copies are told to be the limit, pageable ones are not."""
    text = """
    thread 1: copy 400MB pinned HtoD 0-5 -> stream 13: 600-9_000 | launch 6-9 -> stream 7: 11-8_000
              copy 400MB pinned HtoD 20-25 -> stream 13: 9_001-18_000 | launch 30-33 -> stream 7: 9_001-17_000
    """
    (finding,) = (each for each in diagnose(trace_of(tmp_path, text)).findings if each.code == "OVL024")
    assert finding.evidence["bound_by"] == "HtoD copies"
    verdict = audit(trace_of(tmp_path, text)).verdict
    assert verdict.endswith("the HtoD copies take 17.4 ms; only fewer bytes or faster copies help.")
    slow = diagnose(trace_of(tmp_path, text.replace("pinned", "pageable")))
    assert "OVL024" not in {each.code for each in slow.findings}
