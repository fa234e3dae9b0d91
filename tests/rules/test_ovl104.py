"""The rule OVL104, early-reuse."""

from __future__ import annotations

from pathlib import Path

from overlapscope.diagnosis.finding import Confidence, Severity
from tests.rules import RuleTests, noted
from tests.rules.traces import REUSE, REUSED, reported


class TestOvl104(RuleTests):
    code = "OVL104"
    reports = (noted(REUSE.format("range free 20-21"), **REUSED),)
    silent = (noted(REUSE.format("range free 20-21")),)


def test_memory_that_is_used_again_too_early(tmp_path: Path) -> None:
    finding = reported(tmp_path, "OVL104", REUSE.format("range free 20-21"), **REUSED)
    assert finding is not None
    assert (finding.severity, finding.confidence) == (Severity.HAZARD, Confidence.HIGH)
    assert reported(tmp_path, "OVL104", REUSE.format("range free 20-21")) is None
    ordered = REUSE.format("record A 14-15 -> stream 7 | wait A 16-17 -> stream 20").replace("40-140", "610-700")
    assert reported(tmp_path, "OVL104", ordered, **REUSED) is None
