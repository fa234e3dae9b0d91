"""What host threads wait for: synchronisations, copies that block their calls, each other's calls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from overlapscope import what_if
from overlapscope.analysis.analysis import diagnose
from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.diagnosis.causes import Cause
from tests import kineto_maker as make
from tests.notation import trace_of


@pytest.mark.parametrize("sync", ["stream-sync", "event-sync", "sync"])
def test_a_synchronisation_that_did_not_wait_waits_after_a_change(sync: str, tmp_path: Path) -> None:
    """After a pageable copy it returns at once; after a pinned one it waits for the copy, whether recorded or not."""
    trace = trace_of(
        tmp_path,
        f"""
        thread 1: copy 55MB pageable HtoD 0-5_000 -> stream 7: 4-4_994 | {sync} 5_002-5_005
                  launch 5_010-5_014 -> stream 7: 5_016-5_116
        """,
        **make.H200,
    )
    after = what_if(trace, ["pin"]).after
    assert after.api_calls.end_ns[1] >= after.copies.end_ns[0]
    assert after.api_calls.start_ns[1] < 100_000 + trace.start_ns


def test_a_synchronisation_waits_for_its_own_gpu_only(tmp_path: Path) -> None:
    """A copy of 5 ms on one, a kernel of 4 ms on the other, both on stream 7; the copy is faster then."""
    trace = trace_of(
        tmp_path,
        """
        thread 1: launch 0-4 -> gpu 1 stream 7: 10-4_010 | copy 55MB pinned HtoD 6-10 -> stream 7: 12-5_012
                  stream-sync 20-5_013 -> stream 7 | launch 5_020-5_024 -> stream 7: 5_030-10_030
        """,
    )
    found = what_if(trace, ["faster-link=1000"])
    assert found.after.api_calls.end_ns[2] - found.after.start_ns < 1_000_000


@pytest.mark.parametrize("sync", ["sync", "stream-sync", "event-sync"])
def test_the_host_still_waits_for_what_comes_to_it(sync: str, tmp_path: Path) -> None:
    """A kernel, its result of 5 ms, another kernel, a synchronisation: it ends no sooner than the copy."""
    trace = trace_of(
        tmp_path,
        f"""
        thread 1: launch 0-4 -> stream 7: 6-1_006 | copy 1KB pinned DtoH 10-14 -> stream 7: 1_008-6_008
                  launch 20-24 -> stream 7: 6_010-7_010 | record 25-27 | {sync} 30-7_015
        """,
    )
    after = what_if(trace, ["side-stream"]).after
    assert after.kernels.start_ns[1] < after.copies.end_ns[0]
    assert after.api_calls.end_ns.max() >= after.copies.end_ns[0]


def test_a_pageable_copy_blocks_its_call_as_long_as_it_takes(tmp_path: Path) -> None:
    """On a side stream its call is free of the kernels before it, and still blocks until the copy ends."""
    trace = trace_of(
        tmp_path,
        """
        thread 1: launch 0-4 -> stream 7: 5-3_005 | copy 20MB pageable HtoD 10-5_010 -> stream 7: 3_010-5_000
        """,
    )
    after = what_if(trace, ["side-stream"]).after
    assert after.copies.start_ns[0] < 1_000_000 + trace.start_ns
    assert abs(int(after.api_calls.end_ns[1] - after.copies.end_ns[0])) < 20_000


BLOCKED = """
    thread 2: copy 55MB pageable HtoD 0-5_000 -> stream 13: 4-4_994
    thread 1: launch 100-5_005 -> stream 7: 5_040-6_040
"""


def test_a_launch_that_another_thread_s_copy_blocks_is_free_once_that_is_pinned(tmp_path: Path) -> None:
    assert what_if(trace_of(tmp_path, BLOCKED, **make.H200), ["pin"]).predicted_ns < 1_300_000


def test_that_a_copy_blocks_another_thread_is_inferred(tmp_path: Path) -> None:
    graph = build_graph(trace_of(tmp_path, BLOCKED))
    launch = graph.call_end(np.flatnonzero(graph.calls.thread == 1))
    assert graph.bound_by(launch).tolist() == [DependencyKind.DRIVER_LOCK]
    locks = graph.dependencies.take(graph.dependencies.of_kind(DependencyKind.DRIVER_LOCK))
    assert locks.inferred.tolist() == [True]


@pytest.mark.parametrize(
    ("call", "holds"), [("cudaHostAlloc", True), ("cudaFreeHost", True), ("cudaMallocAsync", False)]
)
def test_page_locking_blocks_the_launches_of_other_threads(call: str, holds: bool, tmp_path: Path) -> None:
    text = f"""
    thread 1: launch 0-5 -> stream 7: 10-100 | launch 120-5_005 -> stream 7: 5_010-6_000
    thread 2: {call} 110-5_000
    """
    trace = trace_of(tmp_path, text)
    graph = build_graph(trace)
    assert bool(graph.dependencies.of_kind(DependencyKind.DRIVER_LOCK).any()) is holds
    found = diagnose(trace)
    assert ("OVL018" in {finding.code for finding in found.findings}) is holds
    assert (Cause.ALLOCATION in found.devices[0].idle.cause) is holds


def test_host_work_between_two_calls_is_not_handed_to_another_thread(tmp_path: Path) -> None:
    """The main thread runs an operator for 10 ms; meanwhile another thread copies."""
    trace = trace_of(
        tmp_path,
        """
        thread 1: launch 0-4 -> stream 7: 6-56 | op data_prep 10-9_990 | launch 10_000-10_004 -> stream 7: 10_006-10_106
        thread 2: copy 55MB pageable HtoD 100-9_100 -> stream 13: 110-9_090
        """,
        **make.H200,
    )
    assert what_if(trace, ["pin"]).predicted_ns > 9_900_000
