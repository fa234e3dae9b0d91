"""The ceiling of overlap, against a count of microseconds, and what is said of it."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from overlapscope import audit
from overlapscope.analysis.window import window_of
from overlapscope.measure.ceiling import ceiling
from overlapscope.measure.devices import activity, device_keys
from overlapscope.measure.host import blocked_from_ns
from overlapscope.model.trace import Trace
from tests.notation import trace_of

LENGTH = 600  # us of a made trace


def made(seed: int) -> str:
    """Some launches, copies, synchronisations, operators and overheads of two threads at random."""
    pick, lines = random.Random(seed), []  # noqa: S311 - no secret
    for thread in (1, 2):
        at, items = 0, []
        while at < LENGTH - 100:
            begin, end = at + pick.randint(0, 9), at + pick.choice((12, 15, 60))
            start = begin + pick.randint(0, 40)
            until = start + pick.randint(1, 90)
            items.append(
                pick.choice(
                    (
                        f"launch {begin}-{end} -> stream {pick.choice((7, 9))}: {start}-{until}",
                        f"copy 4KiB pinned HtoD {begin}-{end} -> stream 13: {start}-{until}",
                        f"copy 4KiB pinned DtoH {begin}-{end} -> stream 14: {start}-{until}",
                        f"copy 4KiB pinned DtoD {begin}-{end} -> stream 7: {start}-{until}",
                        f"sync {begin}-{end}",
                        f"op aten::add {begin}-{end + 20}",
                        f"overhead {begin}-{end}",
                    )
                )
            )
            at = end
        lines.append(f"thread {thread}: {' | '.join(items)}")
    return "\n".join(lines)


def counted(trace: Trace) -> dict[str, int]:
    """The parts of the ceiling, microsecond by microsecond; shares only the duration of an enqueue with the package."""
    copies, kernels, calls, ops = trace.copies, trace.kernels, trace.api_calls, trace.cpu_ops
    zero = int(min(table.start_ns.min() for table in (kernels, copies) if len(table)))
    last = int(max(table.end_ns.max() for table in (kernels, copies) if len(table)))
    grid = np.arange(zero, last, 250)  # quarters of a us: enqueues end between whole ones

    def inside(start: list[int], end: list[int]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        result = np.zeros(len(grid), np.bool_)
        for one, other in zip(start, end, strict=True):
            result |= (grid >= one) & (grid < other)
        return result

    def of(direction: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        rows = copies.direction == direction
        return inside(copies.start_ns[rows].tolist(), copies.end_ns[rows].tolist())

    own = inside(kernels.start_ns.tolist(), kernels.end_ns.tolist()) | of(3)
    host = 0
    for thread in (1, 2):
        mine, theirs = calls.thread == thread, ops.thread == thread
        work = inside(calls.start_ns[mine].tolist(), calls.end_ns[mine].tolist())
        work |= inside(ops.start_ns[theirs].tolist(), ops.end_ns[theirs].tolist())
        blocked = inside(blocked_from_ns(trace.api_calls)[mine].tolist(), calls.end_ns[mine].tolist())
        profiler = inside(trace.overheads.start_ns.tolist(), trace.overheads.end_ns.tolist())
        host = max(host, int((work & ~blocked & ~profiler).sum()))
    parts = {"now_ns": len(grid), "kernels_ns": own.sum(), "htod_ns": of(1).sum(), "dtoh_ns": of(2).sum()}
    here = np.isin(np.arange(len(calls)), copies.call)
    cost = inside(copies.start_ns.tolist(), copies.end_ns.tolist())
    cost &= ~inside(kernels.start_ns.tolist(), kernels.end_ns.tolist())
    cost |= inside(blocked_from_ns(trace.api_calls)[here].tolist(), calls.end_ns[here].tolist())
    parts |= {"ptop_ns": 0, "host_ns": host, "copies_ns": cost.sum()}
    return {name: 250 * int(value) for name, value in parts.items()}


@pytest.mark.parametrize("seed", range(12))
def test_the_ceiling_is_what_counting_gives(seed: int, tmp_path: Path) -> None:
    trace = trace_of(tmp_path, made(seed))
    (key,) = device_keys(trace)
    found = ceiling(trace, activity(trace, key, window_of(trace, None)))
    expected = counted(trace)
    for name, value in expected.items():
        assert getattr(found, name) == pytest.approx(value, abs=2_000 if name == "host_ns" else 0), name
    longest = max(found.parts.values())
    assert (found.bound_ns, found.saving_ns) == (longest, min(found.now_ns - longest, found.copies_ns))
    assert found.to_dict()["bound_by"] == found.bound_by


def test_no_verdict_speaks_of_a_ceiling_that_is_far(tmp_path: Path) -> None:
    text = "thread 1: copy 4MB pinned HtoD 0-5 -> stream 7: 10-410 | launch 6-9 -> stream 7: 411-1_000"
    assert "Perfect" not in audit(trace_of(tmp_path, text)).verdict
