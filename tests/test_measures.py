"""What the measures say of traces small enough to work out by hand; long on purpose, one place for them all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from overlapscope.dependencies.build import build_graph
from overlapscope.diagnosis.attribution import Attribution
from overlapscope.diagnosis.causes import HOST_CAUSES, Cause, IdleByCause
from overlapscope.errors import RangeNotFound
from overlapscope.measure.copies import copy_facts, group_copies, staging
from overlapscope.measure.definitions import their_overlap
from overlapscope.measure.devices import Activity, DeviceKey, activity, device_keys, without_kernels
from overlapscope.measure.host import host_blocking, plain_enqueue_ns
from overlapscope.measure.launches import launch_figures, queue_depth
from overlapscope.measure.places import innermost
from overlapscope.measure.ranges import figures_by_range
from overlapscope.measure.windows import of_range, whole
from overlapscope.model.trace import Trace
from overlapscope.read.opening import open_trace
from tests import kineto_maker as make

US = 1000
KEY = DeviceKey(1, 0)
MEMCPY = "cudaMemcpyAsync"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace.json"


def read(path: Path, *events: make.Event) -> Trace:
    return open_trace(make.write(path, *events))


def idle_causes(trace: Trace, active: Activity) -> IdleByCause:
    return Attribution(build_graph(trace)).by_cause(active.key, active.idle)


def kernel_gap_causes(trace: Trace, active: Activity) -> IdleByCause:
    return Attribution(build_graph(trace)).by_cause(active.key, without_kernels(active), kernels_only=True)


def overlapping(path: Path) -> Trace:
    """One copy [100, 200) half under one kernel [150, 250), launched 40 and 20 us before."""
    return read(
        path,
        make.call(60, 5, name=MEMCPY, correlation=1),
        make.call(130, 5, correlation=2),
        make.copy(100, 100, correlation=1, size=50_000),
        make.kernel(150, 100, correlation=2),
    )


def test_one_copy_half_hidden(path: Path) -> None:
    trace = overlapping(path)
    facts = copy_facts(trace, whole(trace))
    assert facts.hidden_ns.tolist() == [50 * US]
    assert facts.exposed_ns.tolist() == [50 * US]
    assert facts.launch_delay_ns.tolist() == [40 * US]
    assert facts.call_duration_ns.tolist() == [5 * US]
    assert facts.blocked_ns.tolist() == [0]
    assert facts.bandwidth_gb_s.tolist() == [0.5]
    active = activity(trace, KEY, whole(trace))
    assert (active.kernels.total_ns, active.copies.total_ns, active.overlap.total_ns) == (100 * US, 100 * US, 50 * US)
    assert active.hidden_fraction == 0.5
    assert active.span_ns == 150 * US


def test_touching_is_not_overlapping(path: Path) -> None:
    trace = read(path, make.kernel(0, 10), make.copy(10, 10), make.kernel(20, 10))
    assert activity(trace, device_keys(trace)[0], whole(trace)).overlap.total_ns == 0


def test_kernels_of_another_device_hide_nothing(path: Path) -> None:
    calls = [make.call(0, 1, correlation=number) for number in (1, 2)]
    trace = read(path, *calls, make.kernel(0, 100, device=1, correlation=1), make.copy(10, 50, correlation=2))
    assert copy_facts(trace, whole(trace)).hidden_ns.tolist() == [0]


@pytest.mark.parametrize("events", [[make.kernel(0, 5)], [make.copy(0, 5)]])
def test_copies_alone_and_kernels_alone_have_no_overlap_figure(path: Path, events: list[make.Event]) -> None:
    trace = read(path, *events)
    assert activity(trace, device_keys(trace)[0], whole(trace)).hidden_fraction is None


def test_potential_is_the_kernel_time_it_could_have_had(path: Path) -> None:
    """Issued at 10, run at 100 behind a kernel of its own stream [20, 100), needed at 150."""
    trace = read(
        path,
        make.call(0, 5, correlation=1),
        make.kernel(20, 80, stream=7, correlation=1),
        make.call(10, 5, name=MEMCPY, correlation=2),
        make.copy(100, 50, stream=7, correlation=2),
        make.call(16, 5, correlation=3),
        make.kernel(150, 10, stream=7, correlation=3),
    )
    facts = copy_facts(trace, whole(trace))
    assert facts.hidden_ns.tolist() == [0]
    assert facts.hideable_ns.tolist() == [50 * US]
    alone = read(path, make.kernel(20, 80), make.copy(100, 50))
    assert copy_facts(alone, whole(alone)).hideable_ns.tolist() == [-1], "unknown without its call, not zero"


def test_held_is_what_exceeds_a_plain_enqueue(path: Path) -> None:
    launches = [make.call(100 * number, 6, correlation=number) for number in range(1, 6)]
    trace = read(
        path,
        *launches,
        make.call(1000, 500, name=MEMCPY, correlation=9),
        make.call(2000, 7, name=MEMCPY, correlation=10),
        make.copy(1100, 390, correlation=9),
        make.copy(2100, 390, correlation=10),
    )
    assert plain_enqueue_ns(trace.api_calls) == 6 * US
    assert copy_facts(trace, whole(trace)).blocked_ns.tolist() == [494 * US, 0]
    (copies, launched) = host_blocking(trace, whole(trace))
    assert (copies.api, copies.calls, copies.total_ns, copies.blocked_ns) == (MEMCPY, 2, 507 * US, 494 * US)
    assert (launched.api, launched.calls, launched.blocked_ns) == ("cudaLaunchKernel", 5, 0)


def test_a_call_inside_another_holds_its_thread_once(path: Path) -> None:
    trace = read(
        path,
        make.call(0, 500, name=MEMCPY, correlation=1),
        make.call(10, 480, name="cuMemcpyHtoDAsync_v2", correlation=2),
        make.copy(100, 390, correlation=1),
    )
    assert sum(row.blocked_ns for row in host_blocking(trace, whole(trace))) == 495 * US


def test_groups_add_up(path: Path) -> None:
    trace = read(
        path,
        make.kernel(0, 1000),
        make.copy(10, 10, size=5),
        make.copy(15, 10, size=7, kinds="HtoD (Pinned -> Device)", stream=14),
        make.copy(2000, 10, size=11, kinds="DtoH (Device -> Pinned)"),
    )
    spans = whole(trace)
    facts = copy_facts(trace, spans)
    up, down = group_copies(trace, facts, spans, ("direction",))
    assert (up.key, up.count, up.size_bytes) == ({"direction": "HtoD"}, 2, 12)
    assert (up.total_ns, up.busy_ns, up.hidden_ns) == (20 * US, 15 * US, 20 * US)
    assert (down.exposed_ns, down.hidden_ns) == (10 * US, 0)
    by = group_copies(trace, facts, spans, ("direction", "memory", "stream"))
    assert {tuple(group.key.values()) for group in by} == {
        ("HtoD", "pageable", 13), ("HtoD", "pinned", 14), ("DtoH", "pinned", 13),
    }  # fmt: skip
    with pytest.raises(KeyError):
        group_copies(trace, facts, spans, ("colour",))


def test_groups_by_range_and_step(path: Path) -> None:
    trace = read(
        path,
        make.annotation("ProfilerStep#3", 0, 100),
        make.annotation("load", 5, 30),
        make.call(10, 5, name=MEMCPY, correlation=1),
        make.call(150, 5, name=MEMCPY, correlation=2),
        make.copy(20, 10, correlation=1),
        make.copy(160, 10, correlation=2),
    )
    spans = whole(trace)
    groups = group_copies(trace, copy_facts(trace, spans), spans, ("range", "step"))
    assert {tuple(group.key.values()) for group in groups} == {("load", "ProfilerStep#3"), (None, None)}


def test_a_range_lasts_until_its_device_work_is_done(path: Path) -> None:
    trace = read(
        path,
        make.annotation("step", 0, 50),
        make.annotation("step", 1000, 50),
        make.call(10, 5, correlation=1),
        make.kernel(40, 200, correlation=1),
        make.call(1010, 5, correlation=2),
        make.kernel(1020, 10, correlation=2),
        make.call(60, 5, correlation=3),
        make.kernel(500, 200, correlation=3),
    )
    window = of_range(trace, "step")
    assert window.start_ns.tolist() == [0, 1000 * US]
    assert window.end_ns.tolist() == [240 * US, 1050 * US]
    assert window.wall_ns == 290 * US
    assert activity(trace, KEY, window).kernels.total_ns == 210 * US
    assert of_range(trace, "st?p").wall_ns == 290 * US
    with pytest.raises(RangeNotFound, match="step"):
        of_range(trace, "stepp")


def test_a_window_cuts_copies_at_its_edge(path: Path) -> None:
    trace = read(path, make.annotation("r", 0, 50), make.call(500, 1), make.copy(40, 20, size=9), make.kernel(45, 100))
    window = of_range(trace, "r")
    (group,) = group_copies(trace, copy_facts(trace, window), window, ("direction",))
    assert (group.count, group.size_bytes, group.total_ns, group.hidden_ns) == (1, 9, 10 * US, 5 * US)


def test_figures_by_range(path: Path) -> None:
    trace = read(
        path,
        make.annotation("outer", 0, 300),
        make.annotation("inner", 0, 100),
        make.annotation("inner", 150, 50),
        make.annotation("elsewhere", 0, 50, pid=2, tid=2),
        make.call(10, 1, correlation=1),
        make.call(160, 1, name=MEMCPY, correlation=2),
        make.kernel(20, 100, correlation=1),
        make.copy(165, 100, correlation=2),
    )
    figures = {entry.name: entry for entry in figures_by_range(trace)}
    inner = figures["inner"]
    assert (inner.occurrences, inner.wall_ns) == (2, (120 + 115) * US)
    assert (inner.kernel_busy_ns, inner.copy_busy_ns, inner.overlap_ns) == (100 * US, 100 * US, 0)
    assert (figures["outer"].kernel_busy_ns, figures["outer"].copy_busy_ns) == (100 * US, 100 * US)
    assert (inner.host_ns, inner.after_ns) == (75 * US, (20 + 65) * US / 2)
    assert figures["elsewhere"].kernel_busy_ns == 0, "another process's range has no share in this one's device"
    assert [entry.name for entry in figures_by_range(trace)] == ["outer", "inner", "elsewhere"]


def test_a_range_that_waits_says_for_how_long(path: Path) -> None:
    """The first returns while its kernel runs, and waits for nothing; the second synchronises."""
    trace = read(
        path,
        make.annotation("forward", 0, 50),
        make.annotation("loss", 60, 400),
        *(make.call(10 + 10 * number, 5, correlation=number) for number in range(1, 4)),
        *(make.kernel(20 + 100 * number, 90, correlation=number) for number in range(1, 4)),
        make.call(65, 350, name="cudaDeviceSynchronize", correlation=9),
    )
    forward, loss = (
        next(each for each in figures_by_range(trace) if each.name == name) for name in ("forward", "loss")
    )
    assert (forward.host_ns, forward.after_ns, forward.blocked_ns) == (50 * US, (410 - 50) * US, 0)
    assert (loss.host_ns, loss.after_ns) == (400 * US, 0)
    assert loss.blocked_ns == (350 - 5) * US


def test_idle_within_a_range_is_all_its_time_without_work(path: Path) -> None:
    """Two occurrences of 100 us with 30 us of kernels each; the 800 us between them are no part of it."""
    trace = read(
        path,
        make.annotation("step", 0, 100),
        make.annotation("step", 900, 100),
        make.call(20, 5, correlation=1),
        make.call(920, 5, correlation=2),
        make.kernel(30, 30, correlation=1),
        make.kernel(930, 30, correlation=2),
    )
    active = activity(trace, KEY, of_range(trace, "step"))
    assert (active.span_ns, active.idle.total_ns) == (200 * US, 140 * US)
    found = idle_causes(trace, active)
    assert found.total_ns == 140 * US
    assert found.sum_ns(Cause.NO_WORK_LEFT) == 40 * US
    assert kernel_gap_causes(trace, active).total_ns == 140 * US


def test_a_range_is_its_own_process_s(path: Path) -> None:
    trace = read(
        path,
        make.annotation("r", 0, 100, pid=1),
        make.call(10, 1, correlation=1, pid=1),
        make.call(10, 1, correlation=101, pid=2, tid=2),
        make.kernel(20, 30, correlation=1),
        make.kernel(20, 70, device=1, correlation=101),
    )
    window = of_range(trace, "r")
    assert activity(trace, DeviceKey(1, 0), window).kernels.total_ns == 30 * US
    assert activity(trace, DeviceKey(2, 1), window).kernels.total_ns == 0


def test_held_time_is_cut_to_the_window(path: Path) -> None:
    trace = read(
        path,
        make.annotation("r", 900, 200),
        make.call(0, 1000, name=MEMCPY, correlation=1),
        make.copy(5, 990, correlation=1, size=10_000_000),
        make.call(1050, 5, correlation=2),
        make.kernel(1060, 5, correlation=2),
    )
    window = of_range(trace, "r")
    assert copy_facts(trace, window).blocked_ns.tolist() == [100 * US]
    (group,) = group_copies(trace, copy_facts(trace, window), window, ("memory",))
    assert (group.total_ns, group.unclipped_ns, group.blocked_ns) == (95 * US, 990 * US, 100 * US)


def test_held_is_found_where_every_launch_waits(path: Path) -> None:
    """CUDA_LAUNCH_BLOCKING: no launch of the trace is a plain one."""
    events = [make.call(100_000 * number, 5000, correlation=number + 1) for number in range(5)]
    trace = read(
        path, *events, make.call(50_000, 6000, name=MEMCPY, correlation=9), make.copy(50_010, 5980, correlation=9)
    )
    assert plain_enqueue_ns(trace.api_calls) == 20 * US
    assert copy_facts(trace, whole(trace)).blocked_ns.tolist() == [5980 * US]


def test_unknown_sizes_are_unknown(path: Path) -> None:
    event = make.copy(5, 5)
    del event["args"]["bytes"]
    trace = read(path, event)
    (group,) = group_copies(trace, copy_facts(trace, whole(trace)), whole(trace), ("direction",))
    assert (group.size_bytes, group.unknown_size) == (None, 1)


def test_no_ranges_at_all_says_how_to_get_some(path: Path) -> None:
    with pytest.raises(RangeNotFound, match="annotate"):
        of_range(read(path, make.kernel(0, 5)), "step")


def causes(trace: Trace) -> dict[str, float]:
    active = activity(trace, KEY, whole(trace))
    found = idle_causes(trace, active)
    assert found.total_ns == active.idle.total_ns
    apart = (*HOST_CAUSES, Cause.PROFILER, Cause.UNKNOWN, Cause.NO_WORK_LEFT)
    figures = {f"{cause.name.lower()}_ns": found.sum_ns(cause) for cause in apart}
    figures["queued_ns"] = found.sum_ns(*(cause for cause in Cause if cause not in apart))
    return {name: value / US for name, value in figures.items() if value}


def test_idle_while_a_copy_holds_the_host(path: Path) -> None:
    """Idle [10, 330): the copy call holds the thread over [20, 320), then the kernel is launched."""
    trace = read(
        path,
        make.call(0, 4, correlation=1),
        make.kernel(5, 5, correlation=1),
        make.call(20, 300, name=MEMCPY, correlation=7),
        make.call(322, 6, correlation=2),
        make.kernel(330, 5, correlation=2),
    )
    # Of the call's 300 us, 4.5 would have gone into a plain enqueue (launches take 4 and 6).
    assert causes(trace) == {"copy_call_ns": 295.5, "host_not_recorded_ns": 12, "api_call_ns": 10.5, "queued_ns": 2}


def test_idle_while_synchronising_allocating_or_in_python(path: Path) -> None:
    trace = read(
        path,
        make.call(0, 4, correlation=1),
        make.kernel(5, 5, correlation=1),
        make.call(10, 50, name="cudaStreamSynchronize", correlation=8),
        make.call(60, 30, name="cudaMalloc", correlation=9),
        make.cpu_op("aten::linear", 90, 120),
        make.call(200, 5, correlation=2),
        make.kernel(206, 5, correlation=2),
    )
    assert causes(trace) == {
        "synchronisation_ns": 50, "allocation_ns": 30, "host_work_ns": 110, "api_call_ns": 5, "queued_ns": 1,
    }  # fmt: skip


def test_idle_with_the_work_already_queued(path: Path) -> None:
    trace = read(
        path,
        make.call(0, 4, correlation=1),
        make.kernel(5, 5, correlation=1),
        make.call(5, 4, correlation=2),
        make.kernel(100, 5, correlation=2),
    )
    assert causes(trace) == {"queued_ns": 90}


def test_idle_behind_a_copy_of_another_thread(path: Path) -> None:
    """Thread 1's launch takes from 20 to 300 because thread 2 is inside a pageable copy call."""
    launches = [make.call(1000 + 10 * number, 5, correlation=50 + number) for number in range(5)]
    trace = read(
        path,
        *launches,
        make.call(0, 5, correlation=1),
        make.kernel(5, 5, correlation=1),
        make.call(10, 290, name=MEMCPY, correlation=7, tid=2),
        make.call(20, 280, correlation=2),
        make.kernel(305, 5, correlation=2),
    )
    found = causes(trace)
    assert found["copy_call_ns"] == 275
    assert found["api_call_ns"] == 5


def test_copies_that_only_enqueue_hold_nobody(path: Path) -> None:
    """Ten pinned copies of 5 us per call: they keep the thread from the next launch, but none holds it."""
    copies = [make.call(20 + 8 * number, 5, name=MEMCPY, correlation=100 + number) for number in range(10)]
    trace = read(
        path,
        make.call(0, 4, correlation=1),
        make.kernel(5, 5, correlation=1),
        *copies,
        make.call(110, 4, correlation=2),
        make.kernel(120, 5, correlation=2),
    )
    assert "copy_call_ns" not in causes(trace)
    assert causes(trace)["api_call_ns"] == 10 * 5 + 4


def test_a_graph_launch_is_no_copy_call(path: Path) -> None:
    trace = read(
        path,
        make.call(2000, 5, correlation=2),
        make.call(0, 1000, name="cudaGraphLaunch", correlation=1),
        make.copy(100, 10, correlation=1),
        make.copy(200, 10, correlation=1, kinds="DtoH (Device -> Pinned)"),
    )
    assert copy_facts(trace, whole(trace)).blocked_ns.tolist() == [0, 0]


def test_idle_before_work_without_a_call_is_unknown(path: Path) -> None:
    trace = read(path, make.call(0, 4, correlation=1), make.kernel(5, 5, correlation=1), make.kernel(50, 5))
    assert causes(trace) == {"unknown_ns": 40}


def test_kernel_gaps_see_what_a_busy_device_hides(path: Path) -> None:
    """The copy keeps the device busy all along; the kernel is launched late because its call held the host."""
    trace = read(
        path,
        make.call(0, 4, correlation=1),
        make.kernel(5, 5, correlation=1),
        make.call(6, 300, name=MEMCPY, correlation=7),
        make.copy(8, 297, correlation=7),
        make.call(308, 4, correlation=2),
        make.kernel(315, 5, correlation=2),
    )
    active = activity(trace, KEY, whole(trace))
    assert active.idle.total_ns == 10 * US
    assert (
        kernel_gap_causes(trace, active).sum_ns(Cause.COPY_CALL) == 296 * US
    )  # of [6, 306), less a plain enqueue of 4
    assert kernel_gap_causes(trace, active).total_ns == 305 * US


def test_queue_depth_and_delays(path: Path) -> None:
    calls = [make.call(10 * number, 4, correlation=number + 1) for number in range(3)]
    kernels = [make.kernel(100 + 50 * number, 50, correlation=number + 1) for number in range(3)]
    trace = read(path, *calls, *kernels)
    times, depth = queue_depth(trace, KEY)
    assert times.tolist() == [0, 10 * US, 20 * US, 100 * US, 150 * US, 200 * US]
    assert depth.tolist() == [1, 2, 3, 2, 1, 0]
    figures = launch_figures(trace, KEY, whole(trace))
    assert (figures.median_delay_ns, figures.max_delay_ns, figures.max_queue_depth) == (140 * US, 180 * US, 2)
    assert figures.mean_queue_depth == pytest.approx((100 + 50) / 150)
    lost = read(path, make.call(0, 1), make.kernel(5, 5))
    assert launch_figures(lost, KEY, whole(lost)).median_delay_ns is None


def test_staging_compares_with_pinned_copies_of_the_same_size(path: Path) -> None:
    trace = read(
        path,
        make.call(0, 1),
        make.copy(0, 100, size=1000, kinds="HtoD (Pinned -> Device)"),
        make.copy(200, 400, size=1500),
        make.copy(900, 77, size=50_000),
    )
    spans = whole(trace)
    (found,) = staging(trace, copy_facts(trace, spans), KEY, spans)
    assert (found.count, found.compared_count, found.staging_cost_ns) == (2, 1, 250 * US)
    none = read(path, make.call(0, 1), make.copy(200, 400, size=1500))
    (found,) = staging(none, copy_facts(none, whole(none)), KEY, whole(none))
    assert found.staging_cost_ns is None, "without a pinned copy the trace cannot tell"


def test_collectives_are_apart_from_compute(path: Path) -> None:
    trace = read(
        path,
        make.call(0, 1),
        make.kernel(0, 100, name="ncclDevKernel_AllReduce"),
        make.kernel(50, 100, stream=8),
        make.kernel(140, 20, stream=9),
    )
    active = activity(trace, KEY, whole(trace))
    assert (active.collectives.total_ns, active.compute.total_ns) == (100 * US, 110 * US)
    assert active.exposed_collectives.total_ns == 50 * US
    assert active.kernel_concurrency.total_ns == 60 * US


def test_the_delay_of_what_starts_before_its_call_is_not_known(tmp_path: Path) -> None:
    early = [make.call(10, 2, correlation=1), make.kernel(5, 9, correlation=1)]
    late = [make.call(30, 2, correlation=2), make.kernel(37, 9, correlation=2)]
    trace = open_trace(make.write(tmp_path / "t.json", *early, *late))
    figures = launch_figures(trace, DeviceKey(1, 0), whole(trace))
    assert (figures.median_delay_ns, figures.max_delay_ns, figures.max_queue_depth) == (7_000, 7_000, 1)


def test_their_overlap_of_steps_without_any_call(tmp_path: Path) -> None:
    steps = [make.annotation(f"ProfilerStep#{number}", 10 * number, 10) for number in range(2)]
    trace = open_trace(make.write(tmp_path / "t.json", make.kernel(1, 2), *steps))
    (hta,) = their_overlap(trace, "hta")
    assert hta.computation_ns == 0


def test_definitions_of_others(path: Path) -> None:
    trace = read(path, make.call(0, 1, correlation=1), make.kernel(0.4, 10, correlation=1), make.copy(5, 10))
    (hta,) = their_overlap(trace, "hta")
    assert hta.computation_ns == 9 * US, "cut to whole microseconds, inwards"
    (lens,) = their_overlap(trace, "tracelens")
    assert (lens.computation_ns, lens.memory_ns) == (10 * US, 0), "work without a call is left out"
    with pytest.raises(ValueError, match="unknown definition"):
        their_overlap(trace, "nsys")  # type: ignore[arg-type]


def test_innermost_range_against_brute_force() -> None:
    random = np.random.default_rng(7)
    start = np.sort(random.integers(0, 200, 60))
    end = start + random.integers(0, 60, 60)
    ranges = _ranges(start, end)
    moments = np.arange(-5, 270)
    ones = np.ones(len(moments), np.int64)
    found = innermost(ranges, ones, ones, moments)
    for moment, row in zip(moments.tolist(), found.tolist(), strict=True):
        around = [index for index in range(60) if start[index] <= moment < end[index]]
        # Of ranges that are open, the one that began last; of several that began together, the last listed.
        assert row == (max(around) if around else -1), moment


def _ranges(start: np.ndarray, end: np.ndarray):  # type: ignore[no-untyped-def, type-arg]
    from overlapscope.model.columns import Names
    from overlapscope.model.tables import Ranges

    ones = np.ones(len(start), np.int64)
    return Ranges.build(Names(), len(start), {"start_ns": start, "end_ns": end, "process": ones, "thread": ones})
