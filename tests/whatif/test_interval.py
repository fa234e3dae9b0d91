"""Intervals of predictions: each source of uncertainty widens them where it should, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import Prediction, open_trace, what_if
from overlapscope.whatif.host_memory import UNKNOWN_READER
from overlapscope.whatif.interval import narrower
from overlapscope.whatif.sources import Estimate, Part, Reason
from tests import kineto_maker as make
from tests.notation import trace_of

HOST_BOUND = "|".join(f"launch {at}-{at + 5} -> stream 7: {at + 10}-{at + 12}" for at in range(0, 2_000, 20))
GPU_BOUND = "|".join(f"launch {at}-{at + 2} -> stream 7: {10 + 50 * at}-{9 + 50 * (at + 2)}" for at in range(0, 80, 2))


def part(found: Prediction, reason: Reason, *, own: bool = False) -> Part:
    estimate = found.unprofiled.estimate if own else found.estimate
    return next((each for each in estimate.parts if each.reason is reason), Part(reason, 0, 0))


def test_what_was_measured_has_no_interval(tmp_path: Path) -> None:
    found = what_if(trace_of(tmp_path, HOST_BOUND), [])
    assert found.low_ns == found.predicted_ns == found.high_ns


def test_the_host_varies_more_than_the_gpu(tmp_path: Path) -> None:
    host, gpu = (what_if(trace_of(tmp_path, text), "pin").estimate for text in (HOST_BOUND, GPU_BOUND))
    assert host.widest is Reason.HOST
    assert gpu.widest is Reason.DEVICE
    assert 0.3 < host.width <= 0.4
    assert 0.08 < gpu.width <= 0.1


def test_a_plain_trace_of_a_launch_bound_loop_may_take_far_less_without_the_profiler(tmp_path: Path) -> None:
    """Nothing in it tells what an event cost: 20 us pass between launches, of which the profiler may take nine."""
    found = what_if(trace_of(tmp_path, HOST_BOUND), [])
    assert found.unprofiled is not None
    assert found.unprofiled.low_ns < 0.6 * found.unprofiled.predicted_ns
    assert found.sentence.endswith("; as recorded, with the profiler's cost.")
    assert part(found, Reason.PROFILER, own=True).more_ns == 0, "no more than with it"
    assert found.narrowed_by is not None
    assert "--unprofiled" in found.narrowed_by
    assert found.to_dict()["narrowed_by"] == found.narrowed_by


def test_steps_that_were_timed_without_the_profiler_leave_its_cost_less_open(tmp_path: Path) -> None:
    issue = {"kernel_ns": 5_000, "copy_ns": 5_000}
    steps = {name: {"count": 1, "wall_ns": wall} for name, wall in (("recorded", 2_000_000), ("unprofiled", 1_900_000))}
    known = make.calibrated(issue_unprofiled=issue, issue_profiled={"kernel_ns": 6_500, "copy_ns": 6_500})
    timed = make.calibrated(**known["overlapscope"], **steps)
    untimed, better = (what_if(trace_of(tmp_path, HOST_BOUND, **about), []) for about in (known, timed))
    assert part(untimed, Reason.PROFILER, own=True).less_ns > 50_000
    assert part(better, Reason.PROFILER, own=True).less_ns < 20_000


def test_steps_that_another_tool_slowed_too_say_how_long_the_program_takes_at_most(tmp_path: Path) -> None:
    """Where events cost nothing, the host was slow while it was recorded: the timed steps were no longer for it."""
    steps = {name: {"count": 1, "wall_ns": wall} for name, wall in (("recorded", 2_000_000), ("unprofiled", 1_600_000))}
    found = what_if(trace_of(tmp_path, HOST_BOUND, **make.calibrated(**steps)), []).unprofiled
    profiler = next(each for each in found.estimate.parts if each.reason is Reason.PROFILER)
    assert profiler.more_ns < 0.05 * found.predicted_ns
    assert profiler.less_ns > 0.2 * found.predicted_ns


def test_without_calls_all_time_without_work_may_be_the_profilers(tmp_path: Path) -> None:
    kernels = [make.kernel(at, 30) for at in (0, 100, 200)]
    found = what_if(open_trace(make.write(tmp_path / "t.json", *kernels)), [])
    own = found.to_dict()["unprofiled"]
    assert (own["cost"], own["predicted_ns"], own["high_ns"]) == ("unknown", 230_000, 241_500)
    assert own["low_ns"] == round(0.95 * 90_000)
    assert "what keeps the GPU busy" in found.assumptions[-1]


@pytest.mark.parametrize(
    ("reason", "recorded", "said"),
    [
        (Reason.HOST, False, "--unprofiled"),
        (Reason.PROFILER, False, "--unprofiled"),
        (Reason.PROFILER, True, "--warmup"),
        (Reason.HOST, True, "from run to run"),
        (Reason.ORDER, False, "notes the operators"),
        (Reason.ORDER, True, "in which order"),
    ],
)
def test_what_narrows_an_interval_is_not_in_the_trace_yet(
    reason: Reason, recorded: bool, said: str, tmp_path: Path
) -> None:
    issue, steps = {"kernel_ns": 5_000, "copy_ns": 5_000}, {"count": 1, "wall_ns": 2_000_000}
    consumers: dict[str, list[int]] = {"op_start_ns": [], "tensor": []}
    known = make.calibrated(
        issue_unprofiled=issue, issue_profiled=issue, recorded=steps, unprofiled=steps, copy_consumers=consumers
    )
    trace = trace_of(tmp_path, HOST_BOUND, **(known if recorded else {}))
    found = Estimate.of(100, (Part(reason, 50, 50),), least_ns=0, most_ns=None)
    advice = narrower([found], [f"pin: {UNKNOWN_READER}"], trace)
    assert advice is not None
    assert said in advice


DOWN = "thread 1: copy 100MiB pageable DtoH 22-10_031 -> stream 7: 30-10_030 | stream-sync 10_034-10_040 -> stream 7"


def test_a_wide_interval_on_either_basis_says_what_would_narrow_it(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, HOST_BOUND)
    narrow, wide = (Estimate.of(100, (Part(Reason.ORDER, ns, ns),), least_ns=0, most_ns=None) for ns in (5, 50))
    assert narrower([narrow, narrow], [], trace) is None
    assert narrower([narrow, wide], [], trace) == narrower([wide, narrow], [], trace) is not None


def test_pinned_results_may_come_asynchronously_and_in_memory_that_is_kept(tmp_path: Path) -> None:
    """Host work after the copy waits no longer; and 25 600 pages are not freed, if the host has that much to do."""
    text = DOWN + " | launch 14_000-14_004 -> stream 7: 14_010-14_020"
    found = what_if(trace_of(tmp_path, text, **make.H200), "pin")
    both = what_if(trace_of(tmp_path, text, **make.H200), ["pin", "non-blocking"])
    assert both.predicted_ns < found.predicted_ns
    assert found.low_ns < both.predicted_ns
    assert part(found, Reason.FIX).less_ns >= found.predicted_ns - both.predicted_ns + 3_000_000
    assert part(both, Reason.FIX).less_ns == 25_600 * 125


def test_no_interval_goes_below_what_keeps_the_gpu_busy_or_beyond_a_slow_run_as_it_is(tmp_path: Path) -> None:
    gpu = what_if(trace_of(tmp_path, GPU_BOUND), "pin")
    assert gpu.low_ns >= 0.95 * 40 * 99_000
    text = DOWN + " | launch 10_050-10_054 -> stream 7: 10_060-10_070"
    pinned = what_if(trace_of(tmp_path, text, **make.H200), "pin")
    assert pinned.high_ns <= 1.2 * pinned.simulated_ns


def test_a_wait_for_an_unknown_stream_may_be_for_any(tmp_path: Path) -> None:
    """Once the copy is pinned, the second kernel comes before the end of the first, if it does not wait for that."""
    text = """
        thread 1: launch 0-4 -> stream 7: 10-9_010 | copy 100MiB pageable HtoD 10-10_011 -> stream 13: 15-10_010
                  wait A 10_015-10_017 | launch 10_020-10_024 -> stream 13: 10_030-13_030
    """
    wait = make.sync("Stream Wait Event", 10_015, 0, stream=13, correlation=3, wait_on_stream=-1)
    known, unknown = (what_if(trace_of(tmp_path, text, *some, **make.H200), "pin") for some in ((), (wait,)))
    assert known.predicted_ns == unknown.predicted_ns
    assert part(known, Reason.ORDER).more_ns == 0
    assert part(unknown, Reason.ORDER).more_ns == pytest.approx(3_000_000, rel=0.02)


def test_parts_of_one_kind_add_up_and_those_by_chance_add_in_quadrature() -> None:
    parts = (Part(Reason.ORDER, 10, 0), Part(Reason.FIX, 5, 1), Part(Reason.HOST, 3, 3), Part(Reason.LINK, 4, 4))
    found = Estimate.of(100, parts, least_ns=0, most_ns=None)
    assert (found.low_ns, found.high_ns, found.widest) == (80, 106, Reason.ORDER)
    assert Estimate.of(100, parts, least_ns=90, most_ns=102).width == pytest.approx(0.12)
    assert Estimate.of(100, parts, least_ns=120, most_ns=80) == Estimate(100, 100, 100, found.parts)
