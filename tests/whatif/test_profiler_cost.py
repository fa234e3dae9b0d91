"""What the profiler spent for each event: from a calibration, and from what steps took without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from overlapscope import what_if
from overlapscope.dependencies.build import build_graph
from overlapscope.measure.windows import whole
from overlapscope.model.trace import Trace
from overlapscope.whatif.baseline import Baseline
from tests import kineto_maker as make
from tests.notation import trace_of


def baseline(trace: Trace) -> Baseline:
    return Baseline.of(build_graph(trace), whole(trace))


def launches(count: int, *, gap: float) -> list[make.Event]:
    """A host-bound thread: an operator and in it a launch of 4 us, every ``gap``; the device has little to do."""
    events = []
    for index in range(count):
        begin = gap * index
        events += [
            make.cpu_op("aten::add_", begin, gap - 2),
            make.call(begin + 3, 4, correlation=index + 1),
            make.kernel(begin + 9, 1, correlation=index + 1),
        ]
    return events


def issuing(call_us: float) -> dict[str, Any]:
    """What issuing took, where calls cost this at least."""
    return {
        "issue_unprofiled": {"kernel_ns": 4_000, "copy_ns": 4_000},
        "issue_profiled": {"kernel_ns": 4_000 + round(1_000 * call_us), "copy_ns": 4_000 + round(2_000 * call_us)},
    }


def recorded_in(wall_us: float, unprofiled_us: list[float], call_us: float = 1) -> dict[str, Any]:
    """A recording that took this long, with steps of these times before it, and calls that cost this at least."""
    times = [round(1e3 * each) for each in unprofiled_us]
    return make.calibrated(
        **issuing(call_us),
        recorded={"count": 1, "wall_ns": round(1e3 * wall_us)},
        unprofiled={"count": len(times), "wall_ns": sum(times), "host_ns": times},
    )


def test_an_operator_costs_what_the_trace_tells_and_a_call_what_its_calibration_does(tmp_path: Path) -> None:
    """2 us before the inner operator begins and 1 after it ends; 4 us at least for a call, so 8 are thought."""
    events = [
        event
        for begin in range(0, 3_000, 100)
        for event in (
            make.cpu_op("aten::outer", begin, 60),
            make.cpu_op("aten::inner", begin + 2, 57),
            make.call(begin + 10, 4, correlation=begin + 1),
            make.kernel(begin + 20, 5, correlation=begin + 1),
        )
    ]
    found = baseline(trace_of(tmp_path, *events, **make.calibrated(**issuing(4))))
    assert found.profiler is not None
    assert (found.profiler.operator_ns, found.profiler.call_ns) == pytest.approx((3_000, 8_000))
    assert found.unprofiled_ns is not None
    assert found.simulated_ns - found.unprofiled_ns == pytest.approx(29 * (2 * 3_000 + 8_000), rel=0.02)


def test_an_event_costs_what_makes_the_steps_as_long_as_they_were(tmp_path: Path) -> None:
    """A hundred launches, 20 us apart, which took 17 without the profiler: an operator of 1 us and a call of 2 each."""
    about = recorded_in(2_000, [1_700] * 5)
    found = what_if(trace_of(tmp_path, *launches(100, gap=20), **about), [])
    assert found.unprofiled is not None
    assert found.unprofiled.event_ns == pytest.approx(1_500, rel=0.02)
    assert found.unprofiled.simulated_ns == pytest.approx(1_700_000, rel=0.02)
    assert not any("the host's work takes" in text for text in found.assumptions)


def test_what_events_do_not_explain_is_the_host_speed_factor(tmp_path: Path) -> None:
    """Three fifths of it without the profiler: events cost more than guessed, and the host is faster than recorded."""
    about = recorded_in(2_000, [1_200] * 5)
    found = what_if(trace_of(tmp_path, *launches(100, gap=20), **about), [])
    assert found.unprofiled is not None
    assert 2_000 < found.unprofiled.event_ns < 1_500 * 1.75, "three quarters more at most"
    assert found.unprofiled.simulated_ns == pytest.approx(1_200_000, rel=0.02)
    assert any("the host's work takes 2" in text and "% less" in text for text in found.assumptions)


def test_steps_that_differ_by_more_say_nothing_of_what_an_event_costs(tmp_path: Path) -> None:
    """One kernel of 2 ms, few events: it is in the middle of what is possible, and the host as fast as recorded."""
    about = recorded_in(2_100, [1_900, 2_000, 2_050, 2_100, 2_200])
    kernel = make.call(0, 4, correlation=1), make.kernel(5, 2_000, correlation=1)
    found = baseline(trace_of(tmp_path, *kernel, *launches(3, gap=20)[3:], **about))
    assert found.profiler is not None
    assert (found.profiler.operator_ns, found.profiler.call_ns) == pytest.approx((1_000, 2_000))
    assert found.profiler.host_factor == pytest.approx(1, abs=0.01)


def test_what_the_device_bounds_says_little_of_the_host_s_speed(tmp_path: Path) -> None:
    """A kernel of 1.9 ms after 60 us of the host's work, half of which is what steps took less."""
    about = recorded_in(2_000, [1_970] * 5)
    found = baseline(trace_of(tmp_path, "launch 0-4 | launch 64-68 -> stream 7: 74-2_000", **about))
    assert found.profiler is not None
    assert found.profiler.host_factor == pytest.approx(1, abs=0.05)
    assert found.unprofiled_ns is not None
    assert found.unprofiled_ns == pytest.approx(1_926_000, rel=0.001), "the kernel alone"


@pytest.mark.parametrize("longer", [-6, 6], ids=["blocked to the end", "returned before"])
@pytest.mark.parametrize("slower", [1.25, 0.8])
def test_where_copies_are_staged_most_of_the_time_their_speed_is_the_likeliest_to_differ(
    slower: float, longer: int, tmp_path: Path
) -> None:
    """Ten staged copies of 1 ms, each with a launch after it; steps took a quarter longer or a fifth less."""
    text = "|".join(
        f"copy 10MB pageable HtoD {begin}-{begin + 1_000} -> stream 13: {begin + 4}-{begin + 1_000 + longer} |"
        f"launch {begin + 1_010}-{begin + 1_014} -> stream 7: {begin + 1_016}-{begin + 1_017}"
        for begin in range(0, 10_200, 1_020)
    )
    about = recorded_in(10_200, [10_200 * slower] * 5)
    found = baseline(trace_of(tmp_path, text, **about))
    assert found.profiler is not None
    assert found.profiler.staging_factor == pytest.approx(slower, abs=0.03)
    assert found.profiler.host_factor == pytest.approx(1, abs=0.01)
    assert found.profiler.call_ns == pytest.approx(2_000, rel=0.05)
    assert found.unprofiled_ns == pytest.approx(10_200_000 * slower, rel=0.02)


def test_a_host_that_runs_ahead_in_every_other_step_is_not_unsure(tmp_path: Path) -> None:
    ticks = [400_000, 2_600_000] * 5
    about = recorded_in(2_000, [1_500] * 10)
    about["overlapscope"]["unprofiled"]["host_ns"] = ticks
    trace = trace_of(tmp_path, *launches(100, gap=20), **about)
    assert trace.metadata.recording is not None
    assert trace.metadata.recording.unsure == 0
    assert baseline(trace).unprofiled_ns == pytest.approx(1_500_000, rel=0.02)


def test_what_the_profiler_does_for_itself_pays_for_no_event(tmp_path: Path) -> None:
    """The same program, and 400 us of a full buffer in the middle of it."""

    def lasting(pause: float) -> int | None:
        events = [*launches(50, gap=20), *(each | {"ts": each["ts"] + pause} for each in launches(100, gap=20)[150:])]
        if pause:
            events.append(make.overhead(998, pause))
        return baseline(trace_of(tmp_path, *events, **make.calibrated(**issuing(4)))).unprofiled_ns

    assert lasting(400) == pytest.approx(lasting(0), abs=2_000)


def test_a_device_that_bounds_at_first_sight_does_not_end_the_search(tmp_path: Path) -> None:
    """Kernels of 20 us every 20: a slower host shows only where it takes longer than they do."""
    text = "|".join(
        f"op aten::add_ {begin}-{begin + 18} | launch {begin + 3}-{begin + 7} -> stream 7: {begin + 9}-{begin + 29}"
        for begin in range(0, 2_000, 20)
    )
    found = baseline(trace_of(tmp_path, text, **recorded_in(2_010, [2_310] * 8)))
    assert found.unprofiled_ns == pytest.approx(2_310_000, rel=0.05)


def test_what_is_not_explained_is_said(tmp_path: Path) -> None:
    """A kernel takes all of the time, and steps took half of it."""
    text = "launch 0-4 -> stream 7: 9-2_009"
    found = what_if(trace_of(tmp_path, text, **recorded_in(2_009, [1_000] * 5)), [])
    assert any("longer than the steps were without the profiler" in text for text in found.assumptions)


def test_nothing_to_simulate_is_no_reason_to_fail(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, "op aten::add 0-50", **recorded_in(50, [40] * 5))
    found = what_if(trace, ["pin"])
    assert found.predicted_ns == found.simulated_ns


def test_what_a_short_gap_cannot_pay_the_next_one_pays(tmp_path: Path) -> None:
    """Two launches 1 us apart, then 30 us until the next: three events of 2 us each are 6, wherever they are."""
    text = "|".join(
        f"launch {at}-{at + 4} -> stream 7: {at + 5}-{at + 6}"
        for begin in range(0, 2_000, 40)
        for at in (begin, begin + 5)
    )
    about = recorded_in(2_000, [1_800] * 5)
    found = what_if(trace_of(tmp_path, text, **about), [])
    assert found.unprofiled is not None
    assert found.unprofiled.event_ns == pytest.approx(2_000, rel=0.03)
