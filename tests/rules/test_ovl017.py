"""The rule OVL017, another-device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from overlapscope.analysis.analysis import diagnose
from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.finding import Confidence
from tests.conftest import PAIRS
from tests.opened import diagnosis_of
from tests.rules import KINETO, NSYS, RuleTests, codes
from tests.rules.traces import idle_of_the_second, taking_turns


class TestOvl017(RuleTests):
    code = "OVL017"
    reports = ("pipeline_stages-faulty", "replicas-faulty")
    silent = ("streamed_halves-faulty",)


@pytest.mark.parametrize("suffix", [KINETO, NSYS])
@pytest.mark.parametrize(("name", "waits"), [("pipeline_stages", True), ("replicas", True), ("streamed_halves", False)])
def test_of_two_gpus_one_that_waits_for_the_other_is_told_so(name: str, waits: bool, suffix: str) -> None:
    """Stages take turns, replicas exchange what they learnt; halves are streamed to each by itself."""
    found = diagnosis_of(PAIRS / f"{name}-faulty.{suffix}", "step")
    assert ("OVL017" in codes(found)) is waits
    told = sum(finding.idle_ns for finding in found.findings if finding.code == "OVL017")
    untold = sum(finding.idle_ns for finding in found.findings if finding.code == "OVL000")
    assert told > 5 * untold or not waits


def test_a_device_that_waits_for_another_one_is_told_so(tmp_path: Path) -> None:
    trace = taking_turns(tmp_path)
    assert idle_of_the_second(trace) == {Cause.OTHER_DEVICE: 5_004 - 100}
    (finding,) = diagnose(trace).findings
    assert (finding.code, finding.where.device, finding.saving_ns) == ("OVL017", 1, None)
    assert finding.confidence is Confidence.HIGH
    assert "4.9 ms for work of another GPU, once" in finding.message


def test_where_the_event_is_left_open_that_is_not_as_sure(tmp_path: Path) -> None:
    trace = taking_turns(tmp_path)
    left_open = replace(trace, syncs=replace(trace.syncs, inferred=~trace.syncs.inferred))
    (finding,) = diagnose(left_open).findings
    assert (finding.code, finding.confidence) == ("OVL017", Confidence.MEDIUM)
