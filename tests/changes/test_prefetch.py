"""Copies are issued some steps earlier: by whom, in which order, and who waits for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from overlapscope import open_trace, what_if
from overlapscope.model.columns import NO_ID
from overlapscope.model.enums import ApiKind
from tests.conftest import SAMPLES
from tests.notation import trace_of


def test_a_prefetched_copy_is_issued_by_an_earlier_call() -> None:
    """In the simulated trace it belongs to the call before which it could not start."""
    trace = open_trace(SAMPLES / "prefetcher-non-blocking.json.gz")
    after = what_if(trace, ["prefetch=2"]).after
    known = after.copies.call != NO_ID
    issued = after.api_calls.start_ns[after.copies.call]
    assert (after.copies.start_ns[known] >= issued[known]).all(), "nothing starts before its launch"
    large = after.copies.size_bytes > 1 << 20
    per_call = np.unique(after.copies.call[large & known], return_counts=True)[1]
    assert per_call.max() == 3, "the first group's calls issue those of the next two steps too"


def test_pageable_copies_are_not_prefetched() -> None:
    found = what_if(open_trace(SAMPLES / "moe_prefetch-pageable.json.gz"), ["prefetch"], "moe_prefetch")
    assert found.predicted_ns > 0.95 * found.simulated_ns
    assert any("pin them first" in text for text in found.assumptions)


def test_who_waits_for_the_gpu_waits_for_what_was_prefetched(tmp_path: Path) -> None:
    """Steps of a copy and a kernel of 1 ms each that end with cudaDeviceSynchronize."""
    steps = "|".join(
        f"copy 64MiB pinned HtoD {now}-{now + 4} -> stream 7: {now + 6}-{now + 1_006} |"
        f"launch {now + 10}-{now + 14} -> stream 7: {now + 1_008}-{now + 2_008} | sync {now + 15}-{now + 2_010}"
        for now in range(0, 6 * 2_020, 2_020)
    )
    after = what_if(trace_of(tmp_path, steps), ["prefetch=1"]).after
    syncs = after.api_calls.end_ns[after.api_calls.kind == ApiKind.DEVICE_SYNC]
    issued = after.api_calls.start_ns[after.copies.call]
    for end, call in zip(after.copies.end_ns.tolist(), issued.tolist(), strict=True):
        assert end <= syncs[np.searchsorted(syncs, call)]


def test_prefetching_leaves_what_has_a_stream_of_its_own_there() -> None:
    """Its copies are pageable, which prefetching lets be."""
    trace = open_trace(SAMPLES / "gemm_copy-pageable-copy-first-non-blocking-same.json.gz")
    aside, ahead = (what_if(trace, some, "gemm_copy") for some in (["side-stream"], ["side-stream", "prefetch"]))
    assert ahead.predicted_ns == aside.predicted_ns < aside.simulated_ns


def test_copies_with_a_short_one_between_them_stay_one_after_the_other(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        """
        thread 1: copy 64KiB pinned HtoD 5-9 -> stream 7: 8-11.3
                  copy 2KiB pageable HtoD 9.5-13.5 -> stream 20: 12.5-14
                  copy 1MiB pinned HtoD 16.5-20.5 -> stream 7: 19.5-71.5
        """,
    )
    copies = what_if(trace, ["prefetch=1"]).after.copies
    first, last = np.flatnonzero(copies.size_bytes > 2_048)
    assert copies.end_ns[first] <= copies.start_ns[last]


def test_what_a_copy_waits_for_it_waits_for_as_many_steps_earlier(tmp_path: Path) -> None:
    """Three copies on a stream of their own, each after an event of the kernel before it: the buffers go round."""
    text = "".join(
        f"""
        copy 64MiB pinned HtoD {at}-{at + 4} -> stream 9: {gpu}-{gpu + 1_000} | record A {at + 6}-{at + 7} -> stream 9
        wait A {at + 8}-{at + 9} -> stream 7 | launch {at + 10}-{at + 14} -> stream 7: {gpu + 1_003}-{gpu + 2_003}
        record B {at + 16}-{at + 17} -> stream 7 | wait B {at + 18}-{at + 19} -> stream 9"""
        for at, gpu in ((0, 10), (20, 2_016), (40, 4_022))
    )
    found = what_if(trace_of(tmp_path, text), ["prefetch=1"])
    copies, kernels = found.after.copies, found.after.kernels
    assert copies.start_ns[1] < kernels.start_ns[0], "into the second buffer"
    assert kernels.end_ns[0] <= copies.start_ns[2] < kernels.end_ns[1], "into the first one again"
