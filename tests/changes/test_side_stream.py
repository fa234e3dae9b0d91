"""The change side-stream: copies get a stream of their own, to and from the host and between GPUs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from overlapscope import open_trace, what_if
from overlapscope.model.enums import Direction
from overlapscope.model.trace import Trace
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
    assert by_order_ns(found.estimate)[1] == pytest.approx(15_400_000, rel=0.02)


def test_copies_that_nothing_waits_for_still_share_their_copy_engine_in_the_lower_bound(tmp_path: Path) -> None:
    """Three copies of 1 ms in a row, and a kernel that may read none of them."""
    text = """
        thread 1: copy 55MB pinned HtoD 0-4 -> stream 7: 10-1_010 | copy 55MB pinned HtoD 6-10 -> stream 7: 1_012-2_012
                  copy 55MB pinned HtoD 12-16 -> stream 7: 2_014-3_014 | launch 18-22 -> stream 7: 3_016-3_116
    """
    found = what_if(trace_of(tmp_path, text), ["side-stream"])
    assert by_order_ns(found.estimate)[0] == pytest.approx(3_004_000, abs=5_000)
    assert by_order_ns(found.estimate)[0] < found.predicted_ns


def test_a_change_made_to_one_half_and_then_the_other_is_made_to_all() -> None:
    trace = open_trace(SAMPLES / "offload-pinned-same.json.gz")
    halves = [f"side-stream:within={name}" for name in ("offload to host", "bring back")]
    both = [what_if(trace, some, "offload").predicted_ns for some in (["side-stream"], halves, halves[::-1])]
    assert both == [both[0]] * 3
    assert both[0] < min(what_if(trace, half, "offload").predicted_ns for half in halves)


GPUS = {"deviceProperties": [{"id": index, "name": "NVIDIA H200"} for index in range(2)]}


def handed_over(tmp_path: Path) -> Trace:
    """A kernel on either GPU, 2 ms on the first and 3 on the second, and a copy from the first that waits for both.

    The next kernel on the first waits for nothing but its stream, the next one on the second for the copy.
    """
    return trace_of(
        tmp_path,
        """
        thread 1: launch 0-4 -> stream 7: 10-2_010 | launch 6-10 -> gpu 1 stream 15: 16-3_016
                  record A 12-13 -> stream 15 | wait A 14-15 -> stream 7
                  peer-copy 300MB 0 to 1 16-20 -> stream 7: 3_020-4_020
                  record B 22-23 -> stream 7 | wait B 24-25 -> gpu 1 stream 15
                  launch 26-30 -> stream 7: 4_024-5_024 | launch 32-36 -> gpu 1 stream 15: 4_026-4_526
        """,
        **GPUS,
    )


def test_a_copy_to_another_gpu_on_a_stream_of_its_own_waits_for_what_made_it(tmp_path: Path) -> None:
    """And for nothing on the GPU that receives it, if there are buffers enough; what it brings is waited for."""
    trace = handed_over(tmp_path)
    assert trace.copies.target_device.tolist() == [1]
    found = what_if(trace, ["side-stream"])
    kernels, copies = found.after.kernels, found.after.copies
    (made, mine), (_, theirs) = (kernels.start_ns[kernels.device == device].tolist() for device in (0, 1))
    assert copies.start_ns[0] == made + 2_002_000
    assert mine < copies.start_ns[0] + 10_000, "the next kernel of the GPU that sends does not wait for it"
    assert theirs >= copies.end_ns[0]
    assert found.predicted_ns < by_order_ns(found.estimate)[1] <= found.simulated_ns


def test_what_comes_from_another_gpu_finds_a_free_buffer_or_waits_for_the_one_there_is(tmp_path: Path) -> None:
    """Three copies, each after the kernel of 3 ms that used the last one: at worst they still do."""
    text = ""
    for step in range(3):
        host, gpu = 24 * step, 4_004 * step
        waits = f"wait used {host}-{host + 3} -> stream 7 |" if step else ""
        text += f"""
            {waits} peer-copy 300MB 0 to 1 {host + 4}-{host + 7} -> stream 7: {gpu + 40}-{gpu + 1_040}
            record sent {host + 8}-{host + 11} -> stream 7 | wait sent {host + 12}-{host + 15} -> gpu 1 stream 15
            launch {host + 16}-{host + 19} -> gpu 1 stream 15: {gpu + 1_042}-{gpu + 4_042}
            record used {host + 20}-{host + 23} -> stream 15"""
    found = what_if(trace_of(tmp_path, text, **GPUS), ["side-stream"])
    copies, kernels = found.after.copies, found.after.kernels
    assert (copies.start_ns[1:] < copies.end_ns[:-1] + 10_000).all(), "each into another buffer"
    assert (kernels.start_ns >= copies.end_ns).all()
    assert by_order_ns(found.estimate)[1] == found.simulated_ns
    assert any("free buffer" in text for text in found.assumptions)


def test_a_copy_that_the_receiver_makes_is_like_one_from_the_host(tmp_path: Path) -> None:
    """On a stream of its own it waits for no kernel of its GPU, and the next kernel waits for it."""
    text = """
        thread 1: launch 0-4 -> gpu 1 stream 15: 10-2_010
                  peer-copy 300MB 0 to 1 6-10 -> gpu 1 stream 15: 2_012-3_012
                  launch 12-16 -> gpu 1 stream 15: 3_014-3_514
    """
    found = what_if(trace_of(tmp_path, text, **GPUS), ["side-stream"])
    copies, kernels = found.after.copies, found.after.kernels
    assert copies.start_ns[0] - found.after.start_ns < 100_000
    assert kernels.start_ns[1] >= max(copies.end_ns[0], kernels.end_ns[0])


@pytest.mark.parametrize("by", [0, 1])
def test_what_a_copy_waits_for_on_its_own_gpu_stays(by: int, tmp_path: Path) -> None:
    """An event of another stream there: what is sent was made there, or what is received is used there."""
    text = f"""
        thread 1: launch 0-4 -> gpu {by} stream 20: 10-2_010 | record A 6-7 -> gpu {by} stream 20
                  wait A 8-9 -> gpu {by} stream 7 | peer-copy 300MB 0 to 1 10-14 -> gpu {by} stream 7: 2_014-3_014
    """
    after = what_if(trace_of(tmp_path, text, **GPUS), ["side-stream"]).after
    assert after.copies.start_ns[0] >= after.kernels.end_ns[0]


@pytest.mark.parametrize("made_on", [20, 7], ids=["after a kernel", "alone"])
def test_copies_that_need_not_wait_for_each_other_are_on_streams_of_their_own(made_on: int, tmp_path: Path) -> None:
    """One to the host and one to another GPU, which shared a stream: no stream does two things at once."""
    text = f"""
        thread 1: launch 0-4 -> stream {made_on}: 10-1_010
                  copy 200MB pinned DtoH 6-10 -> stream 20: 1_012-6_012
                  peer-copy 300MB 0 to 1 12-16 -> stream 20: 6_014-7_014
    """
    after = what_if(trace_of(tmp_path, text, **GPUS), ["side-stream"]).after
    assert len(np.unique(after.copies.stream)) == 2
    assert (20 in after.copies.stream) == (made_on != 20)
    if made_on == 20:
        assert (after.copies.start_ns >= after.kernels.end_ns[0]).all()
    assert (after.copies.start_ns < after.copies.end_ns.min()).all()
