"""Copies of both directions at once are slower than alone, by what the calibration says."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import what_if
from tests import kineto_maker as make
from tests.notation import trace_of

DUPLEX = [
    {"direction": "HtoD", "alone_ns": 100, "beside_ns": 125},
    {"direction": "DtoH", "alone_ns": 100, "beside_ns": 200},
]


@pytest.mark.parametrize("known", [True, False])
def test_copies_of_both_directions_at_once_are_slower(known: bool, tmp_path: Path) -> None:
    """One down after one up, on one stream; on two, each is beside the other for most of its time."""
    text = """
        thread 1: copy 1KB pinned HtoD 0-4 -> stream 7: 6-1_006 | copy 1KB pinned DtoH 10-14 -> stream 7: 1_008-2_008
    """
    about = make.calibrated(duplex=DUPLEX) if known else {}
    found = what_if(trace_of(tmp_path, text, **about), ["side-stream"])
    after = found.after.copies
    together = after.end_ns[0] - after.start_ns[1]
    up, down = (after.end_ns - after.start_ns).tolist()
    if known:
        assert up == pytest.approx(1_000_000 + 0.2 * together, rel=0.01)
        assert down == pytest.approx(1_000_000 + 0.5 * min(after.end_ns) - 0.5 * max(after.start_ns), rel=0.01)
    else:
        assert (up, down) == (1_000_000, 1_000_000)


def test_copies_that_were_beside_each_other_are_as_slow_as_they_were(tmp_path: Path) -> None:
    """Nothing changes, or what is beside them goes away: then they are as fast as alone."""
    text = """
        thread 1: copy 1KB pinned HtoD 0-4 -> stream 7: 6-1_006 | copy 1KB pinned DtoH 5-9 -> stream 9: 12-1_012
                  launch 1_020-1_024 -> stream 7: 1_030-1_040
    """
    trace = trace_of(tmp_path, text, **make.calibrated(duplex=DUPLEX))
    same = what_if(trace, ["no-scalar-sync"]).after.copies
    assert (same.end_ns - same.start_ns).tolist() == [1_000_000, 1_000_000]
    faster = what_if(trace, ["faster-link=1000"]).after.copies
    assert (faster.end_ns - faster.start_ns < 100_000).all()


def test_without_a_change_the_program_s_own_time_is_the_same(tmp_path: Path) -> None:
    """Copies of both directions that are beside each other without the profiler only."""
    operators = "|".join(f"op aten::view {begin}-{begin + 4}" for begin in range(10, 310, 15))
    issue = {"kernel_ns": 4_000, "copy_ns": 4_000}
    about = make.calibrated(
        issue_unprofiled=issue,
        issue_profiled={"kernel_ns": 8_000, "copy_ns": 12_000},
        recorded={"count": 1, "wall_ns": 620_000},
        unprofiled={"count": 5, "wall_ns": 2_500_000, "host_ns": [500_000] * 5},
        duplex=DUPLEX,
    )
    trace = trace_of(
        tmp_path,
        f"""
        thread 1: copy 1KB pinned HtoD 0-4 -> stream 7: 6-306 | {operators}
                  copy 1KB pinned DtoH 310-314 -> stream 9: 320-620
        """,
        **about,
    )
    found = what_if(trace, [])
    assert found.unprofiled is not None
    assert found.unprofiled.simulated_ns == found.unprofiled.predicted_ns < found.simulated_ns
