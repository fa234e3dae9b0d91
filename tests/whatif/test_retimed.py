"""A simulation as a trace: rows belong together as before, and what was not simulated keeps its place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from overlapscope import open_trace, what_if
from overlapscope.dependencies.simulate import simulate
from overlapscope.whatif.retimed import retimed
from tests import kineto_maker as make
from tests.notation import trace_of
from tests.real_traces import SOME, graph


@pytest.mark.parametrize("path", SOME, ids=lambda path: path.name)
def test_a_retimed_trace_is_a_trace(path: Path) -> None:
    """Unchanged, every table is as it was; changed, rows still belong to the same calls."""
    trace = open_trace(path)
    same = retimed(simulate(graph(path)))
    for name, table in trace.tables():
        if name == "event_records":
            continue
        for spec in table.columns():
            assert (getattr(getattr(same, name), spec.name) == getattr(table, spec.name)).all(), (name, spec.name)
    after = what_if(trace, ["pin", "non-blocking", "side-stream"]).after
    assert sorted(after.kernels.duration_ns.tolist()) == sorted(trace.kernels.duration_ns.tolist())
    for table in (after.kernels, after.copies):
        assert (table.start_ns >= after.api_calls.start_ns[table.call]).all(), "nothing starts before its launch"
        assert (np.diff(table.start_ns) >= 0).all()


OTHERS = {
    "a worker of a loader": [make.annotation("load", 300 * index, 280, pid=77, tid=77) for index in range(8)],
    "the profiler": [make.overhead(2_400, 5)],
    "a thread that pins": [make.call(290 * n, 9, name="cudaEventQuery", correlation=n + 90, tid=5) for n in range(9)],
    "a busier thread, and a synchronisation without a call": [
        *(make.call(2 * at, 1, correlation=90 + at, tid=5) for at in range(4)),
        *(make.kernel(2 * at + 1, 1, stream=9, correlation=90 + at) for at in range(4)),
        make.sync("Context Sync", 1_400, 950, stream=-1, correlation=99),
    ],
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_waits_for_nothing_known_goes_with_the_others(other: str, tmp_path: Path) -> None:
    """Two milliseconds of staging; what others do meanwhile makes a shorter program no longer."""
    copies = [{"direction": "HtoD", "host_memory": "pinned", "size_bytes": 20_000_000, "copy_ns": 1}]
    trace = trace_of(
        tmp_path,
        """
        thread 1: range step 0-2_400 | copy 20MB pageable HtoD 10-2_010 -> stream 13: 14-2_004
                  launch 2_030-2_034 -> stream 7: 2_040-2_340 | sync 2_050-2_350
        """,
        *OTHERS[other],
        **make.calibrated(copies=copies),
    )
    found, within = what_if(trace, ["pin"]), what_if(trace, ["pin"], "step")
    after_work = trace.ranges.end_ns.max() - trace.kernels.end_ns.max()
    assert found.predicted_ns == pytest.approx(within.predicted_ns - after_work - 10_000, abs=20_000)
    assert found.after.end_ns - found.after.start_ns == pytest.approx(within.predicted_ns, abs=20_000)


def test_what_a_thread_does_between_calls_keeps_its_distance_from_the_call_before_it(tmp_path: Path) -> None:
    """An operator 10 us after a copy of 1 ms, which takes no time once it is pinned, and 20 us after that a launch."""
    trace = trace_of(
        tmp_path,
        """
        thread 1: copy 1MB pageable HtoD 0-1_000 -> stream 13: 4-990 | op aten::add 1_010-1_030
                  launch 1_020-1_024 -> stream 7: 1_030-1_040
        """,
        **make.H200,
    )
    after = what_if(trace, ["pin"]).after
    returned = after.api_calls.end_ns[0]
    assert returned - after.start_ns < 20_000
    assert (after.cpu_ops.start_ns[0], after.api_calls.start_ns[1]) == (returned + 10_000, returned + 20_000)
    assert after.cpu_ops.end_ns[0] - after.cpu_ops.start_ns[0] == 20_000
