"""Copies get a stream of their own: what still waits for them, and what they still wait for."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import open_trace, what_if
from overlapscope.model.enums import Direction
from tests import kineto_maker as make
from tests.bounds import by_order_ns
from tests.conftest import SAMPLES
from tests.notation import trace_of


def test_a_side_stream_lets_a_copy_run_under_the_kernels_before_it(tmp_path: Path) -> None:
    text = """
        thread 1: launch 0-4 -> stream 7: 5-1_005 | copy 1KB pinned HtoD 5-9 -> stream 7: 1_006-1_406
                  launch 10-14 -> stream 7: 1_407-2_407
    """
    found = what_if(trace_of(tmp_path, text), ["side-stream"])
    assert found.simulated_ns - found.predicted_ns == pytest.approx(400_000, abs=5_000)
    assert found.after.copies.stream.tolist() != [7]
    assert by_order_ns(found.estimate)[0] <= found.predicted_ns <= by_order_ns(found.estimate)[1]


def test_what_comes_back_is_not_sent_before_it_has_come(tmp_path: Path) -> None:
    """An activation goes to the host and back on one stream, with kernels between."""
    trace = trace_of(
        tmp_path,
        """
        thread 1: launch 0-4 -> stream 7: 6-1_006 | copy 10MB pinned DtoH 10-14 -> stream 7: 1_008-1_208
                  launch 20-24 -> stream 7: 1_210-2_210 | copy 10MB pinned HtoD 30-34 -> stream 7: 2_212-2_412
        """,
    )
    after = what_if(trace, ["side-stream"]).after
    back, there = (after.copies.take(after.copies.direction == way) for way in (Direction.DTOH, Direction.HTOD))
    assert there.start_ns[0] >= back.end_ns[0]
    assert there.start_ns[0] < 2_000_000 + trace.start_ns


CONSUMED = """
    thread 1: op aten::copy_ 4-10 | copy 1KB pinned HtoD 5-9 -> stream 7: 20-420
              op aten::mm 12-18 | launch 13-17 -> stream 7: 421-521
              op aten::relu 30-36 | launch 31-35 -> stream 7: 522-622 | launch 41-45 -> stream 7: 623-723
"""
CONSUMERS = {"op_start_ns": [4_000, 30_000], "tensor": [0, 0]}


@pytest.mark.parametrize("known", [True, False])
def test_only_the_operators_that_were_given_a_tensor_wait_for_its_copy(known: bool, tmp_path: Path) -> None:
    """A copy, a kernel that reads something else, one that reads it; a kernel of no operator may read anything."""
    about = make.calibrated(copy_consumers=CONSUMERS if known else None)
    found = what_if(trace_of(tmp_path, CONSUMED, **about), ["side-stream"])
    first = found.after.kernels.start_ns[0] - found.after.copies.start_ns[0]
    if known:
        assert first < 200_000, "it reads something else"
        assert found.after.kernels.start_ns[1] >= found.after.copies.end_ns[0]
        assert by_order_ns(found.estimate)[0] == found.predicted_ns
    else:
        assert first > 400_000
        assert by_order_ns(found.estimate)[0] < found.predicted_ns
    again = what_if(found.after, ["side-stream"])
    assert again.simulated_ns >= again.predicted_ns, "operators are elsewhere in a simulated trace"


def test_a_kernel_of_no_operator_of_torch_may_read_anything(tmp_path: Path) -> None:
    text = CONSUMED.replace("aten::mm", "mine::fused")
    trace = trace_of(tmp_path, text, **make.calibrated(copy_consumers=CONSUMERS))
    after = what_if(trace, ["side-stream"]).after
    assert after.kernels.start_ns[0] >= after.copies.end_ns[0]


def test_an_event_after_a_moved_copy_is_still_one_after_the_kernel_before_it(tmp_path: Path) -> None:
    """A kernel of 4 ms, a copy, a record, on stream 7; stream 9 waits for that."""
    text = """
        thread 1: launch 0-4 -> stream 7: 10-4_010 | copy 1KB pinned HtoD 6-10 -> stream 7: 4_011-5_011
                  record A 11-12 -> stream 7 | wait A 13-14 -> stream 9 | launch 16-20 -> stream 9: 5_013-5_113
    """
    kernels = what_if(trace_of(tmp_path, text), ["side-stream"]).after.kernels
    assert kernels.start_ns[1] >= kernels.end_ns[0]


def test_another_stream_still_waits_for_what_it_may_read(tmp_path: Path) -> None:
    """The kernel after the copy is known to read something else; stream 9 waits for that kernel, and reads the copy."""
    trace = trace_of(
        tmp_path,
        """
        thread 1: op aten::copy_ 10-18 | copy 1KB pinned HtoD 11-15 -> stream 7: 75-4_075
                  op aten::mm 20-28 | launch 21-25 -> stream 7: 4_080-4_180
                  record A 31-35 -> stream 7 | wait A 41-45 -> stream 9
                  op aten::relu 50-58 | launch 51-55 -> stream 9: 4_190-4_290
        """,
        **make.calibrated(copy_consumers={"op_start_ns": [10_000, 50_000], "tensor": [0, 0]}),
    )
    after = what_if(trace, ["side-stream"]).after
    by_stream = dict(zip(after.kernels.stream.tolist(), after.kernels.start_ns.tolist(), strict=True))
    assert by_stream[7] < after.copies.end_ns[0] <= by_stream[9]


def test_the_upper_bound_lets_buffers_go_round(tmp_path: Path) -> None:
    """Pinned copies of 1 ms, kernels of 0.1 after one of 10: with two buffers, most copies come after it."""
    events, at = [], 200
    for step in range(6):
        long = 10_000 if step == 0 else 100
        events += [
            make.call(20 * step, 4, name="cudaMemcpyAsync", correlation=2 * step + 1),
            make.copy(at, 1000, size=55_000_000, correlation=2 * step + 1, **make.TO_GPU),
            make.call(20 * step + 10, 4, correlation=2 * step + 2),
            make.kernel(at + 1001, long, correlation=2 * step + 2),
        ]
        at += 1002 + long
    found = what_if(trace_of(tmp_path, *events, **make.H200), ["side-stream"])
    assert found.predicted_ns == pytest.approx(11_700_000, rel=0.02)
    assert by_order_ns(found.estimate)[1] == pytest.approx(15_600_000, rel=0.02)


def test_copies_that_nothing_waits_for_still_share_their_copy_engine_in_the_lower_bound(tmp_path: Path) -> None:
    """Three copies of 1 ms in a row, and a kernel that may read none of them."""
    text = """
        thread 1: copy 55MB pinned HtoD 0-4 -> stream 7: 10-1_010 | copy 55MB pinned HtoD 6-10 -> stream 7: 1_012-2_012
                  copy 55MB pinned HtoD 12-16 -> stream 7: 2_014-3_014 | launch 18-22 -> stream 7: 3_016-3_116
    """
    found = what_if(trace_of(tmp_path, text), ["side-stream"])
    assert by_order_ns(found.estimate)[0] == pytest.approx(3_014_000, abs=5_000)
    assert by_order_ns(found.estimate)[0] < found.predicted_ns


def test_a_change_made_to_one_half_and_then_the_other_is_made_to_all() -> None:
    trace = open_trace(SAMPLES / "offload-pinned-same.json.gz")
    halves = [f"side-stream:within={name}" for name in ("offload to host", "bring back")]
    both = [what_if(trace, some, "offload").predicted_ns for some in (["side-stream"], halves, halves[::-1])]
    assert both == [both[0]] * 3
    assert both[0] < min(what_if(trace, half, "offload").predicted_ns for half in halves)
