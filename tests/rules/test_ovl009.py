"""The rule OVL009, allocation."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope.analysis.analysis import diagnose
from overlapscope.diagnosis.catalogue import rule
from overlapscope.diagnosis.finding import Place
from tests.notation import trace_of
from tests.rules import RuleTests, place
from tests.rules.traces import STEP, repeated


class TestOvl009(RuleTests):
    code = "OVL009"
    reports = ("device_allocation",)
    silent = ("host_allocation",)


def test_a_library_that_sets_itself_up_is_first_use(tmp_path: Path) -> None:
    """cudaFree in the first of six aten::linear, for 20 ms; the later ones make none."""
    first = "thread 1: launch 0-5 -> stream 7: 10-100\nop aten::linear 100-20120 | cudaFree 110-20110"
    later = "op aten::linear 21000-21020 | launch 21005-21010 -> stream 7: 21012-21500"
    found = diagnose(trace_of(tmp_path, first, repeated(6, later, 600))).findings
    assert "OVL009" not in {entry.code for entry in found}
    assert "first-use" in {entry.kind for entry in found}


def test_an_allocation_of_every_step_is_no_first_use(tmp_path: Path) -> None:
    allocating = repeated(6, "thread 1: op aten::empty 10-4000 | cudaMalloc 20-3990")
    found = diagnose(trace_of(tmp_path, allocating, repeated(6, STEP))).findings
    assert found[0].code == "OVL009"


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (place("aten::cudnn_convolution", "cudaFree"), "cudnn.benchmark"),
        (place("aten::empty", "cudaMalloc"), "expandable_segments"),
        (place(None, "cudaMalloc"), "cudaMallocAsync"),
    ],
)
def test_the_fix_fits_the_place(where: Place, words: str) -> None:
    assert words in rule("OVL009").fix_for(where)
