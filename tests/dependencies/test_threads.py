"""Thread hand-offs: which host threads wait for each other, and what that does to predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from overlapscope import what_if
from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import DependencyKind
from tests import kineto_maker as make
from tests.notation import trace_of

NODE = "autograd::engine::evaluate_function: AddBackward0"
SOMEWHAT = np.random.default_rng(0).integers(0, 100, 40).tolist()


def thread_name(tid: int, name: str) -> make.Event:
    return {"ph": "M", "name": "thread_name", "pid": 1, "tid": tid, "ts": 0, "args": {"name": f"thread {tid} ({name})"}}


def hand_offs(graph: Graph, *, least_ns: int = 0) -> set[tuple[int, int]]:
    """Which threads wait for which, from and to, where the one goes on at least so long after the other."""
    edges = graph.dependencies.take(graph.dependencies.of_kind(DependencyKind.THREAD_HANDOFF))
    edges = edges.take(edges.weight_ns >= least_ns)
    ends = (graph.calls.thread[edges.source // 2].tolist(), graph.calls.thread[edges.target // 2].tolist())
    return set(zip(*ends, strict=True))


def fed(lags: list[int], *, goes_on: bool = False) -> list[make.Event]:
    """A worker prepares a batch for 2 ms, sends it from pageable memory, and puts it into a queue.

    The main thread waits for the queue and launches a kernel; it goes on so long after each batch is there. The worker
    prepares the next batch then, or first ``goes_on`` with a copy of something else.
    """
    events, now = [], 0.0
    for batch, lag in enumerate(lags):
        ready = now + 2_000 + SOMEWHAT[batch] + 2_000
        events += [
            make.call(ready - 2_000, 1_990, name="cudaMemcpyAsync", tid=2, correlation=4 * batch + 1),
            make.copy(ready - 1_995, 1_980, size=55_000_000, stream=13, correlation=4 * batch + 1),
            make.call(ready, 1, name="cudaEventRecord", tid=2, correlation=4 * batch + 2),
            make.call(ready + lag, 4, correlation=4 * batch + 4),
            make.kernel(ready + lag + 6, 20, correlation=4 * batch + 4),
        ]
        if goes_on:
            events += [
                make.call(ready + 5, 2_000, name="cudaMemcpyAsync", tid=2, correlation=4 * batch + 3),
                make.copy(ready + 10, 1_990, kinds="DtoH (Device -> Pageable)", size=55_000_000, stream=13,
                          correlation=4 * batch + 3),
            ]  # fmt: skip
        now = ready + (2_010 if goes_on else 2)
    return events


def test_a_thread_that_another_feeds_goes_on_when_that_does(tmp_path: Path) -> None:
    """Eight batches of 2 ms of work and 2 ms of staging; pinned, the work is left, and the main thread follows."""
    trace = trace_of(tmp_path, *fed([100 + each // 4 for each in SOMEWHAT[:8]]), **make.H200)
    assert hand_offs(build_graph(trace)) == {(2, 1), (1, 2)}
    found = what_if(trace, ["pin", "non-blocking"])
    assert found.simulated_ns > 30_000_000
    assert found.predicted_ns == pytest.approx(8 * 2_050_000, rel=0.1)


def test_a_thread_that_goes_on_at_any_moment_waits_for_nobody(tmp_path: Path) -> None:
    """It works by itself for about 4 ms each time, wherever the other is."""
    trace = trace_of(tmp_path, *fed([40 * each for each in SOMEWHAT[:8]]), **make.H200)
    assert not hand_offs(build_graph(trace))
    assert what_if(trace, ["pin", "non-blocking"]).predicted_ns > 8 * 3_500_000


def test_a_thread_that_is_never_silent_is_not_seen_to_feed_another(tmp_path: Path) -> None:
    """A limit: with a queue, the feeder may go on at once. What the other waits for then stays its own work."""
    trace = trace_of(tmp_path, *fed([100 + each // 4 for each in SOMEWHAT[:8]], goes_on=True), **make.H200)
    assert not hand_offs(build_graph(trace))
    found = what_if(trace, ["pin", "non-blocking"])
    assert 40_000_000 < found.predicted_ns <= found.simulated_ns, "less is saved than could be, not more"


def handed_out(rounds: int, *, lag: int, begins: int = 1_000, tids: tuple[int, ...] = (2, 3, 4)) -> list[make.Event]:
    """The main thread hands work to others, each of which sends a pageable batch and then launches some kernels.

    They need about 3 ms each, and the main thread synchronises ``lag`` us after the last one's end; the next round
    ``begins`` so long after that.
    """
    events, now, correlation = [make.call(0, 5, name="cudaDeviceSynchronize")], 100.0, 0
    for number in range(rounds):
        ends = []
        for tid in tids:
            start = now + 10 * tid
            correlation += 1
            staging = 2_500 + 5 * SOMEWHAT[number * len(tids) + tid - 2]
            events += [
                make.call(start, staging, name="cudaMemcpyAsync", tid=tid, correlation=correlation),
                make.copy(start + 5, staging - 10, size=10_000_000, stream=10 + tid, correlation=correlation),
            ]
            start += staging + 20
            for _ in range(10):
                correlation += 1
                events += [
                    make.call(start, 10, tid=tid, correlation=correlation),
                    make.kernel(start + 12, 5, stream=10 + tid, correlation=correlation),
                ]
                start += 30 + SOMEWHAT[correlation % 40]
            ends.append(start)
        now = max(ends) + lag
        events.append(make.call(now, 5, name="cudaDeviceSynchronize"))
        now += begins
    return events


@pytest.mark.parametrize("rounds", [3, 8])
def test_a_thread_that_hands_out_work_goes_on_when_all_of_it_is_done(rounds: int, tmp_path: Path) -> None:
    """Whichever thread ends last. Pinned and not waited for, copies take 0.2 ms; so the others are done far sooner."""
    trace = trace_of(tmp_path, *handed_out(rounds, lag=5), **make.H200)
    assert {(2, 1), (3, 1), (4, 1)} <= hand_offs(build_graph(trace))
    found = what_if(trace, ["pin", "non-blocking"])
    assert found.simulated_ns > rounds * 4_000_000
    assert found.predicted_ns == pytest.approx(rounds * 2_000_000, rel=0.25)


def test_the_profiler_s_overhead_is_no_rest_of_the_others(tmp_path: Path) -> None:
    """They make a call, nothing while a buffer is got, and then what the main thread waits for in the end."""
    _, *rest = handed_out(1, lag=5, tids=(2, 3))
    work = [event | {"ts": event["ts"] + 400} for event in rest[:-1]]
    end = max(event["ts"] + event["dur"] for event in work if event["cat"] == "cuda_runtime")
    work += [make.call(60, 4, tid=2, correlation=99), make.annotation("step", 50, end)]
    overhead = make.overhead(66, 445)
    own = make.call(end + 25, 5, name="cudaDeviceSynchronize")
    without, known = (
        hand_offs(build_graph(trace_of(tmp_path, *work, own, *some, **make.H200))) for some in ([], [overhead])
    )
    assert not {pair for pair in without if pair[1] == 1}
    assert {pair for pair in known if pair[1] == 1} == {(2, 1), (3, 1)}


@pytest.mark.parametrize("tids", [(2,), (2, 3)])
def test_a_thread_that_only_waits_in_the_end_does_so_for_the_others(tids: tuple[int, ...], tmp_path: Path) -> None:
    """Its first call comes 20 us after their last, as in a trace of one step; the step began long before.

    What is saved is the staging of the one that ends last.
    """
    first, *rest = handed_out(1, lag=5, tids=tids)
    assert first["name"] == "cudaDeviceSynchronize"
    work = rest[:-1]
    last = max((event for event in work if event["cat"] == "cuda_runtime"), key=lambda event: event["ts"])
    end = last["ts"] + last["dur"]
    own = [make.annotation("step", 50, end), make.call(end + 20, 5, name="cudaDeviceSynchronize")]
    found = what_if(trace_of(tmp_path, *work, *own, **make.H200), ["pin", "non-blocking"], "step")
    assert found.simulated_ns == found.measured_ns > 3_000_000
    (staging,) = [each["dur"] for each in work if each["name"] == "cudaMemcpyAsync" and each["tid"] == last["tid"]]
    assert found.saving_ns == 1_000 * (staging - 10), "its call takes as long as a launch then"
    assert found.predicted_ns > 600_000


def test_a_thread_that_goes_on_while_others_are_busy_waits_for_none(tmp_path: Path) -> None:
    """Three rounds of the others' work lie within each of its silences, and it goes on in the middle of the next."""
    others = [event for event in handed_out(12, lag=5, begins=10) if event["name"] != "cudaDeviceSynchronize"]
    copies = [event["ts"] for event in others if event["name"] == "cudaMemcpyAsync" and event["tid"] == 2]
    own = [make.call(moment + 1_000, 5, name="cudaDeviceSynchronize") for moment in copies[::3]]
    assert not {pair for pair in hand_offs(build_graph(trace_of(tmp_path, *others, *own, **make.H200))) if pair[1] == 1}


def backward(steps: int) -> list[make.Event]:
    """The main thread launches, then autograd's, then the main one again, with a silence of 0.4 ms between each.

    A worker copies after autograd's launches each time, but sooner or later.
    """
    events, now, correlation = [thread_name(2, "pt_autograd_0"), thread_name(1, "python3")], 0.0, 0
    for step in range(steps):
        for tid in (1, 2, 1):
            if tid == 2:
                events.append(make.cpu_op(NODE, now, 90, tid=2))
            for _ in range(4):
                correlation += 1
                events += [make.call(now, 10, tid=tid, correlation=correlation)]
                events += [make.kernel(now + 8, 5, correlation=correlation)]
                now += 20
            if tid == 2:
                correlation += 1
                begin = now + SOMEWHAT[step]
                events.append(make.call(begin, 200, tid=3, name="cudaMemcpyAsync", correlation=correlation))
            now += 400
    return events


@pytest.mark.parametrize("known_by", ["M", "cpu_op"], ids=["its thread's name", "its operators"])
def test_the_thread_of_autograd_works_for_the_one_before_it(known_by: str, tmp_path: Path) -> None:
    """Nothing else waits for it, nor it for anything else: neither the worker that copies right after it each time."""
    told_apart = {"M", "cpu_op"} - {known_by}
    events = [event for event in backward(20) if event.get("cat", "M") not in told_apart]
    assert hand_offs(build_graph(trace_of(tmp_path, *events))) == {(1, 2), (2, 1)}


def seldom(steps: int) -> list[make.Event]:
    """One thread asks another for eight copies, after a silence of 9 ms; while both are busy, they meet by chance."""
    events: list[make.Event] = []

    def call(begin: float, tid: int) -> None:
        correlation = len(events) + 1
        name, work = "cudaLaunchKernel", make.kernel(begin + 5, 2, correlation=correlation)
        if tid == 2:
            name, work = "cudaMemcpyAsync", make.copy(begin + 5, 2, correlation=correlation, **make.TO_GPU)
        events.extend([make.call(begin, 3, tid=tid, name=name, correlation=correlation), work])

    for step in range(steps):
        begin = 10_000.0 * step
        call(begin, 1)
        for index in range(8):
            call(begin + 400 + 11 * index, 2)
            call(begin + 400 + 11 * index + 6 + index % 3, 1)
    return events


@pytest.mark.parametrize(("steps", "seen"), [(8, {(1, 2)}), (4, set())], ids=["often enough", "too seldom to tell"])
def test_threads_that_ask_each_other_seldom_are_seen_among_chance_meetings(
    steps: int, seen: set[tuple[int, int]], tmp_path: Path
) -> None:
    """Within 0.4 ms after a silence of 9 ms: by chance one in twelve times."""
    assert hand_offs(build_graph(trace_of(tmp_path, *seldom(steps))), least_ns=300_000) == seen


@pytest.mark.parametrize("prepares_us", [50, 2_000])
def test_a_loader_that_works_before_it_copies_is_still_waited_for(prepares_us: int, tmp_path: Path) -> None:
    """Another thread prepares and copies 10 ms from pageable memory, and the main thread waits for it, six times."""
    events, now, correlation = [], 0.0, 0
    for _ in range(6):
        now += prepares_us
        correlation += 2
        events += [
            make.call(now, 10_000, name="cudaMemcpyAsync", correlation=correlation, tid=2),
            make.copy(now + 5, 9_990, correlation=correlation, size=55_000_000, kinds="HtoD (Pageable -> Device)"),
            make.call(now + 10_050, 4, correlation=correlation + 1),
            make.kernel(now + 10_060, 1000, correlation=correlation + 1),
            make.call(now + 10_060, 1010, name="cudaDeviceSynchronize", correlation=1000 + correlation),
        ]
        now += 10_060 + 1010 + 20
    found = what_if(trace_of(tmp_path, *events, **make.H200), ["pin"])
    assert found.simulated_ns - found.predicted_ns == pytest.approx(6 * 10_000_000, rel=0.05), "no call is blocked"


def test_the_engine_of_old_profilers_is_known_by_its_operators(tmp_path: Path) -> None:
    """They note steps as operators, which keep no thread busy, and nodes of the backward pass by their class."""
    events = []
    for step in range(3):
        at = 10_000 * step
        events += [
            make.cpu_op(f"ProfilerStep#{step}", at, 9_900, tid=1),
            make.cpu_op("aten::mm", at + 10, 100, tid=1),
            make.call(at + 20, 10, correlation=2 * step + 1, tid=1),
            make.kernel(at + 40, 50, correlation=2 * step + 1),
            make.cpu_op("torch::autograd::AccumulateGrad", at + 300, 100, tid=2),
            make.call(at + 310, 10, correlation=2 * step + 2, tid=2),
            make.kernel(at + 330, 50, correlation=2 * step + 2),
            make.cpu_op("aten::add", at + 450, 20, tid=1),
            make.call(at + 455, 5, name="cudaEventRecord", tid=1),
        ]
    trace = trace_of(tmp_path, *events)
    assert len(trace.ranges) == 3
    assert hand_offs(build_graph(trace)) == {(1, 2), (2, 1)}
