"""Which host threads wait for each other, and what that does to predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overlapscope import open_trace, what_if
from overlapscope.model.trace import Trace
from overlapscope.replay.build import graph_of
from overlapscope.replay.chance import steady, unlikely
from overlapscope.replay.config import DEFAULT
from overlapscope.replay.graph import Because, Graph, moments
from overlapscope.replay.host import _silent_since
from overlapscope.replay.idle import busy_threads
from overlapscope.replay.joins import joins
from tests import kineto_maker as make

GPU = {"deviceProperties": [{"id": 0, "name": "NVIDIA H200"}]}
NODE = "autograd::engine::evaluate_function: AddBackward0"
SOMEWHAT = np.random.default_rng(0).integers(0, 100, 40).tolist()


def opened(tmp_path: Path, events: list[make.Event], **header: Any) -> Trace:
    return open_trace(make.write(tmp_path / "t.json", *events, **header))


def named(tid: int, name: str) -> make.Event:
    return {"ph": "M", "name": "thread_name", "pid": 1, "tid": tid, "ts": 0, "args": {"name": f"thread {tid} ({name})"}}


def asked(graph: Graph) -> set[tuple[int, int]]:
    """Which threads wait for which: from, to."""
    edges = graph.edges.take(graph.edges.of_kind(Because.HANDOFF))
    ends = (graph.calls.thread[edges.source // 2].tolist(), graph.calls.thread[edges.target // 2].tolist())
    return set(zip(*ends, strict=True))


def fed(lags: list[int], works: int = 2_000) -> list[make.Event]:
    """A worker prepares a batch and sends it from pageable memory, puts it into a queue and keeps a copy of another.

    The main thread waits for the queue and launches a kernel; it goes on so long after each batch is there.
    """
    events, now = [], 0.0
    for batch, lag in enumerate(lags):
        ready = now + works + SOMEWHAT[batch] + 2_000
        events += [
            make.call(ready - 2_000, 1_990, name="cudaMemcpyAsync", tid=2, correlation=4 * batch + 1),
            make.copy(ready - 1_995, 1_980, size=55_000_000, stream=13, correlation=4 * batch + 1),
            make.call(ready, 1, name="cudaEventRecord", tid=2, correlation=4 * batch + 2),
            make.call(ready + 5, 2_000, name="cudaMemcpyAsync", tid=2, correlation=4 * batch + 3),
            make.copy(ready + 10, 1_990, kinds="DtoH (Device -> Pageable)", size=55_000_000, stream=13,
                      correlation=4 * batch + 3),
            make.call(ready + lag, 4, correlation=4 * batch + 4),
            make.kernel(ready + lag + 6, 20, correlation=4 * batch + 4),
        ]  # fmt: skip
        now = ready + 2_010
    return events


def test_a_thread_that_another_feeds_goes_on_when_that_does(tmp_path: Path) -> None:
    """Eight batches of 2 ms of work and 4 ms of staging; pinned, the work is left, and the main thread follows."""
    trace = opened(tmp_path, fed([100 + each // 4 for each in SOMEWHAT[:8]]), **GPU)
    assert asked(graph_of(trace)) == {(2, 1)}
    found = what_if(trace, ["pin", "non-blocking"])
    assert found.replayed_ns > 45_000_000
    assert found.predicted_ns == pytest.approx(8 * 2_050_000, rel=0.1)


def test_a_thread_that_goes_on_at_any_moment_waits_for_nobody(tmp_path: Path) -> None:
    """It works by itself for about 6 ms each time, wherever the other is."""
    trace = opened(tmp_path, fed([20 * each for each in SOMEWHAT[:8]]), **GPU)
    assert not asked(graph_of(trace))
    assert what_if(trace, ["pin", "non-blocking"]).predicted_ns > 40_000_000


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
    trace = opened(tmp_path, handed_out(rounds, lag=5), **GPU)
    assert {(2, 1), (3, 1), (4, 1)} <= asked(graph_of(trace))
    found = what_if(trace, ["pin", "non-blocking"])
    assert found.replayed_ns > rounds * 4_000_000
    assert found.predicted_ns == pytest.approx(rounds * 2_000_000, rel=0.25)


def test_the_profiler_s_own_affairs_are_no_rest_of_the_others(tmp_path: Path) -> None:
    """They make a call, nothing while a buffer is got, and then what the main thread waits for in the end."""
    _, *rest = handed_out(1, lag=5, tids=(2, 3))
    work = [event | {"ts": event["ts"] + 400} for event in rest[:-1]]
    end = max(event["ts"] + event["dur"] for event in work if event["cat"] == "cuda_runtime")
    work += [make.call(60, 4, tid=2, correlation=99), make.annotation("step", 50, end)]
    affairs = make._event("overhead", "Activity Buffer Request", -1, 0, 66, 445, {})
    own = make.call(end + 25, 5, name="cudaDeviceSynchronize")
    without, known = (asked(graph_of(opened(tmp_path, [*work, own, *some], **GPU))) for some in ([], [affairs]))
    assert not {pair for pair in without if pair[1] == 1}
    assert {pair for pair in known if pair[1] == 1} == {(2, 1), (3, 1)}


@pytest.mark.parametrize("tids", [(2,), (2, 3)])
def test_a_thread_that_only_waits_in_the_end_does_so_for_the_others(tids: tuple[int, ...], tmp_path: Path) -> None:
    """Its first call comes 20 us after their last, as in a trace of one step; the step began long before."""
    first, *rest = handed_out(1, lag=5, tids=tids)
    work, end = rest[:-1], max(event["ts"] + event["dur"] for event in rest[:-1] if event["cat"] == "cuda_runtime")
    own = [make.annotation("step", 50, end), make.call(end + 20, 5, name="cudaDeviceSynchronize")]
    assert first["name"] == "cudaDeviceSynchronize"
    found = what_if(opened(tmp_path, [*work, *own], **GPU), ["pin", "non-blocking"], "step")
    assert found.replayed_ns == found.measured_ns > 3_000_000
    assert 600_000 < found.predicted_ns < 1_000_000


def test_a_thread_that_goes_on_while_others_are_busy_waits_for_none(tmp_path: Path) -> None:
    """Three rounds of the others' work lie within each of its silences, and it goes on in the middle of the next."""
    others = [event for event in handed_out(12, lag=5, begins=10) if event["name"] != "cudaDeviceSynchronize"]
    copies = [event["ts"] for event in others if event["name"] == "cudaMemcpyAsync" and event["tid"] == 2]
    own = [make.call(moment + 1_000, 5, name="cudaDeviceSynchronize") for moment in copies[::3]]
    assert not {pair for pair in asked(graph_of(opened(tmp_path, [*others, *own], **GPU))) if pair[1] == 1}


def by_themselves(seed: int, threads: int, steps: int) -> list[make.Event]:
    """Threads that have nothing to do with each other: some launches, and a pause of 1.5 to 8 ms more or less."""
    random, events = np.random.default_rng(seed), []
    for tid in range(1, threads + 1):
        now, pause = random.uniform(0, 3_000), random.uniform(1_500, 8_000)
        for _ in range(steps):
            for _ in range(random.integers(1, 8)):
                duration, correlation = float(random.integers(3, 12)), len(events) + 1
                events.append(make.call(now, duration, tid=tid, correlation=correlation))
                events.append(make.kernel(now + duration + 3, 2, stream=10 + tid, correlation=correlation))
                now += duration + random.uniform(5, 150)
            now += pause * random.uniform(0.8, 1.2)
    return events


@pytest.mark.parametrize("steps", [3, 20])
def test_threads_that_go_quiet_together_wait_for_nobody(steps: int, tmp_path: Path) -> None:
    """By chance one of a hundred threads seems to, about."""
    joined = 0
    for seed in range(8):
        graph = moments(opened(tmp_path, by_themselves(seed, 6, steps), **GPU))
        found = joins(graph, _silent_since(graph), busy_threads(graph), DEFAULT)
        joined += len(np.unique(graph.calls.owner[found.target // 2]))
    assert joined <= 2, "of 48"


def test_silences_end_by_chance_or_not() -> None:
    """Silences of 1 ms that end 10 us after their only cause, or at any moment after it; or with a cause each 20 us."""
    silence, once = np.full(20, 1_000_000), np.ones(20, np.int64)
    promptly, anywhere = np.full(20, 10_000), 10_000 * np.array(SOMEWHAT[:20])
    assert unlikely(silence, promptly, once, 0.01)
    assert not unlikely(silence, anywhere, once, 0.01)
    assert not unlikely(silence, promptly, 50 * once, 0.01)
    assert not unlikely(silence[:1], 2 * promptly[:1], once[:1], 0.01), "once is not enough"


def test_what_a_thread_does_by_itself_takes_as_long_as_ever() -> None:
    varying, alike = np.array(SOMEWHAT), np.full(len(SOMEWHAT), 50)
    assert steady(alike, varying)
    assert not steady(varying, alike)
    assert steady(varying, 3 * varying, 2.0)
    assert not steady(varying, varying, 2.0)


def backward(*, silence: int, worker: bool = False, steps: int = 6) -> list[make.Event]:
    """Steps: the main thread launches, then autograd's, then the main one again, with a silence between each.

    The ``worker`` copies after autograd's launches each time, but sooner or later.
    """
    events, now, correlation = [named(2, "pt_autograd_0"), named(1, "python3")], 0.0, 0
    for step in range(steps):
        for tid in (1, 2, 1):
            if tid == 2:
                events.append(make.cpu_op(NODE, now, 90, tid=2))
            for _ in range(4):
                correlation += 1
                events += [make.call(now, 10, tid=tid, correlation=correlation)]
                events += [make.kernel(now + 8, 5, correlation=correlation)]
                now += 20
            if worker and tid == 2:
                correlation += 1
                begin = now + SOMEWHAT[step]
                events.append(make.call(begin, silence // 2, tid=3, name="cudaMemcpyAsync", correlation=correlation))
            now += silence
    return events


def test_the_thread_of_autograd_works_for_the_one_before_it(tmp_path: Path) -> None:
    trace = opened(tmp_path, backward(silence=400, worker=True, steps=20))
    assert asked(graph_of(trace)) == {(1, 2), (2, 1)}


def test_a_graph_takes_a_backward_pass(tmp_path: Path) -> None:
    """What it takes to hand a backward pass over and back is gone; not what is between two steps, or what others do."""
    steps = what_if(opened(tmp_path, backward(silence=400)), ["graph"])
    assert steps.replayed_ns > 17 * 400_000
    assert steps.predicted_ns == pytest.approx(5 * 400_000, rel=0.2)
    others = [event | {"name": "mine"} if event["name"] == NODE else event for event in backward(silence=400)]
    others[0] = named(2, "python3")
    assert what_if(opened(tmp_path, others), ["graph"]).predicted_ns > 12 * 400_000


def test_what_reads_a_value_goes_with_it(tmp_path: Path) -> None:
    """item() takes 40 us, of which 10 are its calls; of the 60 us around it, the program's own 20 stay."""
    events, now = [], 0.0
    for step in range(10):
        events += [
            make.call(now, 10, correlation=3 * step + 1),
            make.kernel(now + 5, 2, correlation=3 * step + 1),
            make.cpu_op("aten::item", now + 20, 40),
            make.cpu_op("aten::_local_scalar_dense", now + 25, 30),
            make.call(now + 30, 5, name="cudaMemcpyAsync", correlation=3 * step + 2),
            make.copy(now + 33, 1, size=4, kinds="DtoH (Device -> Pageable)", correlation=3 * step + 2),
            make.call(now + 36, 5, name="cudaStreamSynchronize", correlation=3 * step + 3),
        ]
        now += 70
    found = what_if(opened(tmp_path, events), ["no-host-read"])
    assert found.predicted_ns == pytest.approx(10 * 30_000, rel=0.1)


@pytest.mark.parametrize(("reader", "waits_us"), [(1, 2_000), (3, 1_000)], ids=["its own thread", "another"])
def test_copies_that_a_thread_issues_together_are_waited_for_together(
    reader: int, waits_us: int, tmp_path: Path
) -> None:
    """Two copies of 1 ms; the first kernel reads the first. Another thread may hear of each by itself."""
    up = {"kinds": "HtoD (Pinned -> Device)", "stream": 7, "size": 55_000_000}
    events: list[make.Event] = []
    for number, begin in enumerate((0, 20), 1):
        events += [
            make.cpu_op("aten::copy_", begin, 10),
            make.call(begin + 2, 4, name="cudaMemcpyAsync", correlation=number),
            make.copy(10 + 1_000 * (number - 1), 999, correlation=number, **up),
        ]
    for number, begin in enumerate((40, 60), 3):
        events += [
            make.cpu_op("aten::mm", begin, 10, tid=reader),
            make.call(begin + 2, 4, tid=reader, correlation=number),
            make.kernel(2_012 + 1_001 * (number - 3), 1_000, correlation=number),
        ]
    touches = {"op_start_ns": [0, 20_000, 40_000, 60_000], "tensor": [0, 1, 0, 1]}
    about = {"schema": "overlapscope.recording/1", "touches": touches}
    after = what_if(opened(tmp_path, events, overlapscope=about), ["side-stream"]).after
    begins = after.kernels.start_ns.min() - after.copies.start_ns.min()
    assert begins / 1e3 == pytest.approx(waits_us, abs=30)


def test_pieces_are_gathered_as_fast_as_they_are_staged(tmp_path: Path) -> None:
    """Without a calibration: eight pieces that each took 3 us, though larger ones are staged far faster a byte."""
    events = [
        make.call(0, 110, name="cudaMemcpyAsync", correlation=1),
        make.copy(5, 100, size=10_000_000, correlation=1),
        make.call(200, 5, correlation=2),
        make.kernel(210, 5, correlation=2),
    ]
    for index in range(8):
        events += [
            make.call(300 + 20 * index, 8, name="cudaMemcpyAsync", correlation=index + 3),
            make.copy(305 + 20 * index, 3, size=2_048, correlation=index + 3),
        ]
    found = what_if(opened(tmp_path, events, **GPU), ["coalesce"])
    call = found.after.api_calls
    assert int((call.end_ns - call.start_ns)[2]) == pytest.approx(8 * 3_000 + 8_000, abs=3_000)
    assert any("as long as staging" in text for text in found.basis)


def test_calls_that_take_no_time_do_not_wait_for_themselves(tmp_path: Path) -> None:
    """Two threads call at the same moments, and all calls take nothing."""
    events = [make.kernel(3, 5, correlation=1)]
    for index in range(8):
        begin = 1_000 * index + 37 * (index * index % 11)
        events += [make.call(begin, 0, tid=tid, correlation=index + 1 if tid == 1 else 0) for tid in (1, 2)]
    found = what_if(opened(tmp_path, events), ["pin"])
    assert found.predicted_ns == found.replayed_ns


@pytest.mark.parametrize(
    "names",
    [
        ["cudaStreamSynchronize", "cudaLaunchKernel"],
        ["cudaEventRecord", "cudaStreamWaitEvent", "cudaEventSynchronize"],
    ],
)
def test_calls_without_any_device_work_are_replayed(names: list[str], tmp_path: Path) -> None:
    events = [make.call(10 * index, 5, name=name, correlation=index + 1) for index, name in enumerate(names)]
    found = what_if(opened(tmp_path, events), ["pin", "side-stream"])
    assert found.predicted_ns == found.replayed_ns == 10_000 * (len(names) - 1) + 5_000
