"""Without empty_cache() nothing is freed, and nothing allocated again."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import what_if
from overlapscope.analysis.analysis import diagnose
from tests import kineto_maker as make
from tests.notation import trace_of
from tests.rules.traces import repeated

STEPS, STEP_US = 6, 4_000
STEP = "thread 1: op aten::mm 0-500 | cudaMalloc 10-400 | launch 420-425 -> stream 7: 430-1400 | {0}"
FREES = "cudaFree 1500-2000 | cudaFree 2010-2500"


def saved_us(tmp_path: Path, between: str, *events: make.Event) -> float:
    trace = trace_of(tmp_path, repeated(STEPS, STEP.format(between), STEP_US), *events)
    return what_if(trace, ["no-empty-cache"]).saving_ns / 1_000


def test_frees_outside_of_operators_and_the_allocations_are_gone(tmp_path: Path) -> None:
    """Two frees of 500 us and an allocation of 390 us in each step; the first allocation comes before the window."""
    assert saved_us(tmp_path, FREES) == pytest.approx((STEPS - 1) * (990 + 390), rel=0.05)


@pytest.mark.parametrize(
    "between",
    [
        "op aten::mm 1490-2600 | cudaFree 1500-2000 | cudaFree 2010-2500",  # an allocator that runs out of memory
        "cudaFree 1500-2000",
    ],
    ids=["in an operator", "fewer frees than allocations"],
)
def test_what_the_allocator_does_by_itself_stays(between: str, tmp_path: Path) -> None:
    saved = saved_us(tmp_path, between)
    assert saved == pytest.approx(0 if "op" in between else (STEPS - 1) * (500 + 390), rel=0.05)


def test_a_program_that_frees_without_operators_is_none_of_it(tmp_path: Path) -> None:
    """CUDA C++: allocations and frees of the program itself."""
    step = "thread 1: cudaMalloc 10-400 | launch 420-425 -> stream 7: 430-1400 | cudaFree 1500-2000"
    assert what_if(trace_of(tmp_path, repeated(STEPS, step, STEP_US)), ["no-empty-cache"]).saving_ns == 0


def test_where_the_call_is_recorded_its_frees_count_alone(tmp_path: Path) -> None:
    """The second free of each step is made elsewhere."""
    events = [
        make.host_event("torch.cuda.empty_cache (a.py:3)", STEP_US * number + 1_490, 512, "empty_cache")
        for number in range(STEPS)
    ]
    assert saved_us(tmp_path, FREES, *events) == pytest.approx((STEPS - 1) * (500 + 390), rel=0.05)


def test_the_finding_about_allocations_has_it(tmp_path: Path) -> None:
    found = diagnose(trace_of(tmp_path, repeated(STEPS, STEP.format(FREES), STEP_US))).findings
    (finding,) = (each for each in found if each.code == "OVL009")
    assert finding.change == "no-empty-cache"
    assert "torch.cuda.empty_cache()" in finding.message
    assert finding.saving_ns
