"""The rule OVL105, self-wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope.analysis.analysis import diagnose
from overlapscope.diagnosis.finding import Confidence, Finding, Severity
from tests import kineto_maker as make
from tests.notation import trace_of
from tests.rules import RuleTests, diagnosis_of_case, finding_of
from tests.rules.traces import INSIDE


class TestOvl105(RuleTests):
    code = "OVL105"
    reports = ("self_wait-read-unordered", INSIDE)
    silent = ("self_wait-read-ordered",)


def self_wait(tmp_path: Path, text: str) -> Finding | None:
    return finding_of(diagnose(trace_of(tmp_path, text)), "OVL105")


def test_a_kernel_that_starts_before_the_copy_has_arrived_is_a_hazard(tmp_path: Path) -> None:
    finding = self_wait(tmp_path, INSIDE)
    assert finding is not None
    assert (finding.severity, finding.confidence, finding.copies) == (Severity.HAZARD, Confidence.MEDIUM, (0,))
    assert finding.evidence == {"unordered_copies": 1, "self_waits": 1, "inferred": False}
    assert finding.message.startswith("Suspected: 1 copy ran beside")


def test_a_copy_to_the_host_that_starts_before_the_kernel_ends_is_one_too(tmp_path: Path) -> None:
    finding = self_wait(
        tmp_path,
        """
        thread 1: launch 0-5 -> stream 7: 10-1000 | record A 6-8 -> stream 13 | wait A 9-11 -> stream 13
                  copy 64MB pinned DtoH 12-17 -> stream 13: 20-1200 | sync 30-1210
        """,
    )
    assert finding is not None
    assert finding.copies == (0,)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("wait A 9-11 -> stream 13", "wait A 9-11 -> stream 7"),  # the other stream waits
        ("stream 7: 30-900", "stream 7: 1205-1900"),  # it comes later all the same
        ("stream 7: 30-900", "stream 13: 1205-1900"),  # all is on one stream
        ("stream 13: 10-1200", "stream 13: 10-20"),  # the copy was over
        ("| sync", "| record B 26-27 -> stream 13 | wait B 28-29 -> stream 7 | sync"),  # who needs it waits later
        ("copy 64MB pinned HtoD", "launch"),
    ],
)
def test_a_self_wait_that_does_no_harm_is_silent(old: str, new: str, tmp_path: Path) -> None:
    assert self_wait(tmp_path, INSIDE) is not None
    assert self_wait(tmp_path, INSIDE.replace(old, new)) is None


NOT_RECORDED = """
thread 1: copy 64MB pinned HtoD 0-5 -> stream 13: 10-1200 | record A 6-8 -> stream 13 | wait 9-11 -> stream 13
          launch 20-25 -> stream 7: 30-900 | stream-sync 30-905 -> stream 7
          copy 64MB pinned HtoD 910-915 -> stream 13: 1201-2400
          record B 916-918 -> stream 13 | wait 919-921 -> stream 13
          launch 925-930 -> stream 7: 935-1800 | stream-sync 935-1805 -> stream 7
"""
"""As CUDA 12.9 and later leave it: the trace does not say what the waits are for."""


def test_a_wait_of_the_copy_s_own_stream_alone_orders_nothing(tmp_path: Path) -> None:
    finding = self_wait(tmp_path, NOT_RECORDED)
    assert finding is not None
    assert (finding.severity, finding.confidence, finding.copies) == (Severity.HAZARD, Confidence.LOW, (0, 1))
    assert finding.evidence["inferred"] is True


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("stream-sync 30-905 -> stream 7", "sync 30-905"),  # the host waits for all
        ("stream-sync 30-905 -> stream 7", "stream-sync 30-905 -> stream 13"),  # and for this one
        ("stream-sync 30-905 -> stream 7", "wait 30-32 -> stream 7"),  # the other stream waits for something
    ],
)
def test_what_may_have_been_ordered_otherwise_is_not_told(old: str, new: str, tmp_path: Path) -> None:
    finding = self_wait(tmp_path, NOT_RECORDED.replace(old, new))
    assert finding is not None
    assert finding.copies == (1,)


EVENT = {"wait_on_cuda_event_id": 5}


def test_what_went_on_beside_all_other_streams_waited_for_itself(tmp_path: Path) -> None:
    """A second copy on the waiting stream starts while the kernels of the other one run: it waited for itself."""
    lines = """
    thread 1: launch 0-5 -> stream 7: 10-3000 | copy 64MB pinned HtoD 6-9 -> stream 13: 12-1200 | cudaEventRecord 10-11
    """
    wait = [
        make.call(12, 2, name="cudaStreamWaitEvent", correlation=50),
        make.sync("Stream Wait Event", 12, 2, stream=13, correlation=50, wait_on_stream=-1, **EVENT),
    ]
    after = [
        make.call(20, 5, correlation=51),
        make.kernel(3001, 100, correlation=51),
        make.call(30, 5, name="cudaMemcpyAsync", correlation=52),
        make.copy(1205, 1000, kinds="HtoD (Pinned -> Device)", size=64_000_000, correlation=52),
    ]
    own = trace_of(tmp_path, lines, *wait, *after).event_waits
    assert (own.source_stream.tolist(), own.inferred.tolist()) == ([13], [True])
    after[-1]["ts"] = 3002  # it may have waited for the kernels
    assert trace_of(tmp_path, lines, *wait, *after).event_waits.source_stream.tolist() == [7]
    second = [dict(event) for event in wait]
    after[-1]["ts"] = 1205
    for event in second:
        event["ts"] = 16
        event["args"] = event["args"] | {"correlation": 60}
    several = trace_of(tmp_path, lines, *wait, *second, *after).event_waits
    assert 13 not in several.source_stream.tolist(), "an event that is waited for twice is not one of wait_stream"


def test_a_recorded_fault_is_told_and_its_fix_is_not() -> None:
    faulty, healthy = (
        diagnosis_of_case(name, Path()) for name in ("self_wait-read-unordered", "self_wait-read-ordered")
    )
    finding = finding_of(faulty, "OVL105")
    assert finding is not None
    assert {"inferred": True}.items() <= dict(finding.evidence).items()
    assert finding_of(healthy, "OVL105") is None
