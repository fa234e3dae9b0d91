"""Kernels are launched as one CUDA graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import what_if
from tests import kineto_maker as make
from tests.notation import trace_of


@pytest.mark.parametrize("overlap_us", [0, 5])
def test_kernels_that_overlap_a_little_do_not_overlap_more_in_a_graph(overlap_us: int, tmp_path: Path) -> None:
    """Fifty of 100 us; with programmatic dependent launch each starts 5 us before the last one ends."""
    events = []
    for index in range(50):
        events += [
            make.call(5 * index, 4, correlation=index + 1),
            make.kernel(10 + (100 - overlap_us) * index, 100, correlation=index + 1),
        ]
    found = what_if(trace_of(tmp_path, *events), ["cuda-graph"])
    assert found.predicted_ns == pytest.approx(50 * (100_000 - 1_000 * overlap_us), rel=0.01)


NODE = "autograd::engine::evaluate_function: AddBackward0"


def backward(node: str, *, silence: int = 400, steps: int = 6) -> list[make.Event]:
    """Steps: the main thread launches, then another runs ``node``, then the main one again, a silence between each."""
    events, now, correlation = [], 0.0, 0
    for _ in range(steps):
        for tid in (1, 2, 1):
            if tid == 2:
                events.append(make.cpu_op(node, now, 90, tid=2))
            for _ in range(4):
                correlation += 1
                events += [make.call(now, 10, tid=tid, correlation=correlation)]
                events += [make.kernel(now + 8, 5, correlation=correlation)]
                now += 20
            now += silence
    return events


def test_a_graph_takes_a_backward_pass(tmp_path: Path) -> None:
    """What it takes to hand a backward pass over and back is gone; not what is between two steps, or what others do."""
    steps = what_if(trace_of(tmp_path, *backward(NODE)), ["cuda-graph"])
    assert steps.simulated_ns > 17 * 400_000
    assert steps.predicted_ns == pytest.approx(5 * 400_000, rel=0.2)
    assert what_if(trace_of(tmp_path, *backward("mine")), ["cuda-graph"]).predicted_ns > 12 * 400_000
