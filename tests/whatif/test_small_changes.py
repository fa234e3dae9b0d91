"""Changes of a few lines: no scalar reads, no allocations, CUDA graphs, a faster link."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import what_if
from tests import kineto_maker as make
from tests.notation import trace_of


@pytest.mark.parametrize(("size", "left"), [("4B", 0), ("4KiB", 3)])
def test_a_value_that_is_not_read_is_not_copied(size: str, left: int, tmp_path: Path) -> None:
    """A copy of more than a value stays, and nothing waits for it."""
    trace = trace_of(
        tmp_path,
        f"""
        thread 1: launch 0-4 -> stream 7: 5-105 | copy {size} pageable DtoH 6-108 -> stream 7: 105-108
                  stream-sync 110-115 | launch 120-124 -> stream 7: 130-230
        """,
    )
    found = what_if(trace, ["no-scalar-sync"])
    assert found.after.copies.duration_ns.tolist() == [left * 1000]
    copy, wait = (found.after.api_calls.duration_ns[row] for row in (1, 2))
    assert copy < 6_000
    assert (copy == 0) == (size == "4B")
    assert wait == 0


def test_an_allocation_before_the_loop_takes_no_time_in_it(tmp_path: Path) -> None:
    """Nor does a free, and neither waits for the kernel before it."""
    text = """
        thread 1: launch 0-4 -> stream 7: 10-1_010 | cudaMalloc 10-1_015 | cudaFree 1_020-1_120
                  launch 1_130-1_134 -> stream 7: 1_140-1_240
    """
    after = what_if(trace_of(tmp_path, text), ["preallocate"]).after
    assert after.api_calls.duration_ns.tolist() == [4_000, 0, 0, 4_000]
    assert after.api_calls.start_ns[3] - after.start_ns == 10_000 + 5_000 + 10_000


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


@pytest.mark.parametrize("rate", [10, 10.1, 12, 21])
def test_a_faster_link_makes_copies_beside_each_other_no_slower(rate: float, tmp_path: Path) -> None:
    """Each way four copies of 1 MB in 100 us, all of it beside the other way: 10 GB/s."""
    duplex = [
        {"direction": "HtoD", "alone_ns": 100, "beside_ns": 125},
        {"direction": "DtoH", "alone_ns": 100, "beside_ns": 200},
    ]
    pairs = "|".join(
        f"copy 1MB pinned HtoD {number}-{number + 0.5} -> stream 7: {50 * number}-{50 * number + 100} |"
        f"copy 1MB pinned DtoH {number + 0.6}-{number + 0.9} -> stream 9: {50 * number}-{50 * number + 100}"
        for number in range(1, 9, 2)
    )
    found = what_if(trace_of(tmp_path, pairs, **make.calibrated(duplex=duplex)), [f"faster-link={rate}"])
    assert found.predicted_ns <= found.simulated_ns
    assert found.predicted_ns == pytest.approx(found.simulated_ns * 10 / rate, rel=0.15)


def test_a_link_that_is_faster_already_stays_and_pageable_copies_do_too(tmp_path: Path) -> None:
    """55 MB in 1 ms are 55 GB/s."""
    text = """
        thread 1: copy 55MB pinned HtoD 0-4 -> stream 7: 6-1_006
                  copy 55MB pageable HtoD 10-5_010 -> stream 7: 1_008-5_008
    """
    trace = trace_of(tmp_path, text)
    assert what_if(trace, ["faster-link=50"]).predicted_ns == what_if(trace, []).simulated_ns
    assert what_if(trace, ["faster-link=100"]).after.copies.duration_ns.tolist() == [550_000, 4_000_000]
