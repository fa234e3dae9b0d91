"""Copies from one GPU to another on streams of their own: what they wait for, and what waits for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from overlapscope import what_if
from overlapscope.model.trace import Trace
from tests.bounds import by_order_ns
from tests.notation import trace_of

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
