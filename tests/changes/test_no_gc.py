"""No garbage collection: what a finding about it saves."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import audit
from tests import kineto_maker as make
from tests.notation import trace_of
from tests.rules.traces import STEP, repeated

STEP_US = 10_000


def test_a_finding_about_garbage_has_it_and_the_plan_too(tmp_path: Path) -> None:
    """Steps of 10 ms, of which Python collects garbage for 4 ms while the GPU is idle."""
    events = [
        make.host_event("gc.collect (train.py:30)", begin + 500, 4_000, "gc")
        for begin in range(0, 6 * STEP_US, STEP_US)
    ]
    audited = audit(trace_of(tmp_path, repeated(6, STEP, STEP_US), *events))
    (finding,) = (each for each in audited.conclusion.findings if each.kind == "garbage-collection")
    assert finding.change == "no-gc"
    assert finding.saving_ns == pytest.approx(5 * 4_000_000, rel=0.01)
    assert audited.conclusion.plan is not None
    assert "no-gc" in audited.conclusion.plan.steps[-1].changes
    assert "With no-gc" in audited.headline
