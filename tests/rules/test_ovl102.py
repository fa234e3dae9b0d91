"""The rule OVL102, early-refill."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope.diagnosis.finding import Confidence, Severity
from tests.rules import RuleTests, noted
from tests.rules.traces import BUSY, REFILL, WRITTEN, columns, reported


class TestOvl102(RuleTests):
    code = "OVL102"
    reports = (noted(REFILL.format("range fill 20-21"), **WRITTEN),)
    silent = (noted(REFILL.format("stream-sync 20-640 -> stream 7"), **WRITTEN),)


def test_a_buffer_that_is_filled_while_it_goes_up(tmp_path: Path) -> None:
    early = REFILL.format("range fill 20-21").replace("700-720", "30-50")
    accesses = {"host_accesses": columns(op_start_ns=[9, 30], tensor=[0, 0], access=[1, 3])}
    finding = reported(tmp_path, "OVL102", early, **accesses)
    assert finding is not None
    assert (finding.severity, finding.confidence) == (Severity.HAZARD, Confidence.HIGH)
    by_chance = reported(tmp_path, "OVL102", REFILL.format("range fill 20-21"), **WRITTEN)
    assert by_chance is not None
    assert by_chance.confidence is Confidence.MEDIUM
    assert reported(tmp_path, "OVL102", REFILL.format("stream-sync 20-640 -> stream 7"), **WRITTEN) is None
    assert reported(tmp_path, "OVL102", early) is None, "not known without a recording"


@pytest.mark.parametrize("where", ["gpu 1 stream 7", "stream 20"])
def test_a_buffer_that_goes_to_two_places_is_free_when_both_have_it(where: str, tmp_path: Path) -> None:
    text = (
        f"{BUSY} | launch 2-3 -> {where}: 4-690 |"
        f"op aten::copy_ 9-13 | copy 4MB pinned HtoD 10-12 -> {where}: 700-800 |"
        "op aten::copy_ 15-19 | copy 4MB pinned HtoD 16-18 -> stream 7: 500-600 | stream-sync 20-610 -> stream 7 |"
        "{} op aten::fill_ 820-840 | launch 900-901 -> stream 7: 902-910"
    )
    notes = {"host_accesses": columns(op_start_ns=[9, 15, 820], tensor=[0, 0, 0], access=[1, 1, 3])}
    finding = reported(tmp_path, "OVL102", text.format(""), **notes)
    assert finding is not None
    assert finding.evidence["unordered"] == 1
    both = text.format("record A 611-612 -> stream 7 | event-sync 613-810 |")
    assert reported(tmp_path, "OVL102", both, **notes) is None


@pytest.mark.parametrize(("memory", "reports"), [("pinned", True), ("pageable", False), ("unknown", False)])
def test_pageable_memory_may_be_filled_when_the_call_returns(memory: str, reports: bool, tmp_path: Path) -> None:
    text = f"{BUSY} | op aten::copy_ 9-15 | copy 64KB {memory} HtoD 10-13 -> stream 7: 500-520 | op aten::fill_ 30-50 |"
    text += "launch 900-901 -> stream 7: 902-910"
    accesses = columns(op_start_ns=[9, 30], tensor=[0, 0], access=[1, 3])
    assert (reported(tmp_path, "OVL102", text, host_accesses=accesses) is not None) == reports
