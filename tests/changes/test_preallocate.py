"""Memory is allocated before the loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import what_if
from overlapscope.analysis.analysis import diagnose
from tests.notation import trace_of


def test_an_allocation_before_the_loop_takes_no_time_in_it(tmp_path: Path) -> None:
    """Nor does a free, and neither waits for the kernel before it."""
    text = """
        thread 1: launch 0-4 -> stream 7: 10-1_010 | cudaMalloc 10-1_015 | cudaFree 1_020-1_120
                  launch 1_130-1_134 -> stream 7: 1_140-1_240
    """
    after = what_if(trace_of(tmp_path, text), ["preallocate"]).after
    assert after.api_calls.duration_ns.tolist() == [4_000, 0, 0, 4_000]
    assert after.api_calls.start_ns[3] - after.start_ns == 10_000 + 5_000 + 10_000


def test_it_is_in_the_plan_of_a_gpu_that_frees_keep_busy_with_one_kernel_at_a_time(tmp_path: Path) -> None:
    """Kernels of one block on streams of their own, a free after each, which waits for it."""
    rounds = (
        f"launch {at}-{at + 5} -> stream {20 + number}: {at + 10}-{at + 1000} | cudaFree {at + 6}-{at + 1005}"
        for number, at in enumerate(range(0, 8 * 1010, 1010))
    )
    trace = trace_of(tmp_path, "thread 1: " + " | ".join(rounds))
    found = diagnose(trace)
    assert found.healthy
    assert found.plan is not None
    assert [step.changes for step in found.plan.steps] == [("preallocate",)]
    assert found.plan.steps[-1].time_ns == pytest.approx(1_060_000, rel=0.1)
    assert "while the GPU is busy" in found.summary


def test_setting_up_is_no_allocation_of_the_loop(tmp_path: Path) -> None:
    """The first cudaFree makes the context, and takes far longer than the later ones."""
    text = "thread 1: launch 0-5 -> stream 7: 10-20 | cudaFree 30-60000 | launch 60010-60015 -> stream 7: 60020-60030"
    rounds = (
        f"cudaFree {at}-{at + 5} | launch {at + 6}-{at + 9} -> stream 7: {at + 12}-{at + 40}"
        for at in range(60100, 61000, 100)
    )
    trace = trace_of(tmp_path, " | ".join((text, *rounds)))
    assert what_if(trace, "preallocate").saving_ns < 1_000_000
