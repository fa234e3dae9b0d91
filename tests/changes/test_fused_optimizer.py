"""An optimizer steps all parameters at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import what_if
from overlapscope.analysis.analysis import diagnose
from overlapscope.model.trace import Trace
from tests import kineto_maker as make
from tests.notation import trace_of


def steps(tmp_path: Path, launches: int, name: str = "Optimizer.step#AdamW.step") -> Trace:
    """Three steps of an optimizer: kernels of 2 us, each of which the host takes 20 us to launch."""
    events, at, number = [], 0.0, 0
    for _ in range(3):
        events.append(make.annotation(name, at - 1, 20 * launches))
        for _ in range(launches):
            number += 1
            events += [make.call(at, 5, correlation=number), make.kernel(at + 6, 2, correlation=number)]
            at += 20
        at += 20
    return trace_of(tmp_path, *events)


def test_a_loop_over_parameters_is_one_launch(tmp_path: Path) -> None:
    prediction = what_if(steps(tmp_path, 200), ["fused-optimizer"])
    kernels_ns = 3 * 200 * 2_000
    assert kernels_ns <= prediction.predicted_ns < 1.2 * kernels_ns
    assert prediction.low_ns < kernels_ns, "a fused kernel moves less memory"
    assert any("3 steps with one launch instead of 600" in text for text in prediction.assumptions)


@pytest.mark.parametrize(("launches", "name"), [(20, "Optimizer.step#AdamW.step"), (200, "step")])
def test_few_launches_or_no_optimizer_stay(launches: int, name: str, tmp_path: Path) -> None:
    prediction = what_if(steps(tmp_path, launches, name), ["fused-optimizer"])
    assert prediction.predicted_ns == prediction.simulated_ns


@pytest.mark.parametrize(("launches", "change"), [(200, "fused-optimizer"), (20, "cuda-graph")])
def test_a_late_host_in_an_optimizer_s_loop_is_told_the_optimizer_s_fix(
    launches: int, change: str, tmp_path: Path
) -> None:
    finding = diagnose(steps(tmp_path, launches)).findings[0]
    assert (finding.code, finding.change) == ("OVL008", change)
    assert f"Optimizer.step#AdamW.step (3 calls, {3 * launches} launches, 20 us each)" in finding.message
    assert ("fused=True" in finding.fix) == (change == "fused-optimizer")
