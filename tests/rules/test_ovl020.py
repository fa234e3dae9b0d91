"""The rule OVL020, issue-bound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from overlapscope.analysis.analysis import diagnose
from overlapscope.diagnosis.rules.ovl020_issue_bound import copies_before
from tests import kineto_maker as make
from tests.notation import trace_of
from tests.rules import RuleTests
from tests.rules.traces import TWO_KERNELS, findings_of, issuing


class TestOvl020(RuleTests):
    code = "OVL020"
    reports = ("full_queue",)
    silent = ("blocks_together",)


def test_a_thread_that_issues_copies_launches_late(tmp_path: Path) -> None:
    (finding,) = (entry for entry in diagnose(issuing(tmp_path)).findings if entry.code == "OVL020")
    assert finding.idle_ns == pytest.approx(2_100_000, rel=0.05)
    assert (finding.evidence["copies"], finding.evidence["call_ns"]) == (100, 2_000_000)


def test_calls_that_wait_for_room_are_told_from_small_copies(tmp_path: Path) -> None:
    """The copies wait for a long kernel. Sixty-four calls take 2 us; the rest take 50, with a full queue."""
    short = [(100 + 3 * number, 102 + 3 * number) for number in range(64)]
    long = [(300 + 51 * number, 350 + 51 * number) for number in range(80)]
    issued = " | ".join(
        f"copy 4KiB pinned HtoD {begin}-{end} -> stream 13: {4500 + 2 * number}-{4501 + 2 * number}"
        for number, (begin, end) in enumerate(short + long)
    )
    text = TWO_KERNELS + "thread 1: " + issued + " | launch 4400-4405 -> stream 7: 4410-9000"
    finding = findings_of(tmp_path, text)["OVL020"]
    assert finding.evidence["most_queued"] == 143
    assert finding.evidence["many_queued_call_ns"] == 50_000
    assert "instead of" in finding.message
    few = text.replace("pinned", "pageable")
    assert "OVL020" not in findings_of(tmp_path, few)


@pytest.mark.parametrize(("name", "full"), [("Command Buffer Full", True), ("Activity Buffer Request", False)])
def test_the_profiler_records_a_wait_for_room(name: str, full: bool, tmp_path: Path) -> None:
    """Other work fills the queue: few copies are in it when a call waits."""
    text = """
    thread 1: launch 0-5 -> stream 13: 10-4050 | copy 4KiB pinned HtoD 20-4000 -> stream 13: 4051-4053
              op aten::mm 4010-6000 | launch 5990-5995 -> stream 7: 6000-9000
    """
    trace = trace_of(tmp_path, text, make.overhead(30, 3900, name))
    codes = {finding.code for finding in diagnose(trace).findings}
    assert ("OVL020" in codes) is full


def test_the_copies_before_a_copy_are_those_of_its_gpu_that_are_not_complete(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        """
        thread 1: copy 1MB pinned HtoD 0-5 -> stream 7: 10-30 | copy 1MB pinned HtoD 6-9 -> stream 7: 31-50
                  copy 1MB pinned HtoD 35-38 -> stream 7: 51-70 | copy 1MB pinned HtoD 36-39 -> gpu 1 stream 7: 45-60
        """,
    )
    here = trace.copies.device == 0
    assert copies_before(trace)[here].tolist() == [0, 1, 1]
    assert copies_before(trace)[np.flatnonzero(~here)].tolist() == [0]
