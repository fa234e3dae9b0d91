"""Idle time is attributed by the dependency graph, also where a trace is odd."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from overlapscope import audit, open_trace, what_if
from overlapscope.analysis.analysis import diagnose
from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.simulate import simulate
from overlapscope.diagnosis.causes import Cause, Pieces
from overlapscope.diagnosis.finding import Confidence
from overlapscope.diagnosis.run_ahead import Blocking, matched
from overlapscope.model.trace import Trace
from tests import kineto_maker as make
from tests.notation import trace_of


def opened(tmp_path: Path, *events: make.Event) -> Trace:
    return open_trace(make.write(tmp_path / "t.json", *events))


def test_a_blocking_copy_that_takes_no_time_waits_for_nothing(tmp_path: Path) -> None:
    """Its start and its end, and the end of its call, are at one moment: that is no cycle, also after a change."""
    trace = opened(
        tmp_path,
        make.call(100, 10, name="cudaMemcpy", correlation=1),
        make.copy(110, 0, size=4, correlation=1),
        make.call(120, 5, correlation=2),
        make.kernel(130, 10, correlation=2),
    )
    found = what_if(trace, "pin")
    assert found.simulated_ns == 30_000
    assert found.predicted_ns <= found.simulated_ns
    later = opened(
        tmp_path,
        make.call(171, 2, name="cudaMemcpy", correlation=3),
        make.copy(173, 0, stream=0, correlation=3),
        make.copy(432, 86, kinds="DtoH (Device -> Pageable)", stream=0, correlation=9),
    )
    assert audit(later).devices


def test_negative_times_are_times(tmp_path: Path) -> None:
    """A hand-off between threads before time zero comes no sooner than it did."""
    trace = opened(
        tmp_path,
        make.call(-1_000, 500, name="cudaStreamSynchronize", tid=40),
        make.cpu_op("autograd::engine::evaluate_function: X", -935, 45, tid=10),
        make.call(-435, 5, tid=10, correlation=2),
        make.kernel(-420, 10, correlation=2),
    )
    graph = build_graph(trace)
    assert (simulate(graph).time_ns == graph.time_ns).all()


def test_a_synchronisation_waits_for_copies_of_its_stream_first(tmp_path: Path) -> None:
    """Thread 1 synchronises stream 7 while its own result comes down, and another thread's upload runs on stream 13."""
    events = []
    for number in range(10):
        at, last = 4_000 * number, 10 * number
        events += [
            make.call(at, 4, name="cudaMemcpyAsync", tid=2, correlation=last + 1),
            make.copy(at + 6, 3_000, kinds="HtoD (Pinned -> Device)", stream=13, correlation=last + 1),
            make.call(at + 10, 5, correlation=last + 2),
            make.kernel(at + 20, 100, stream=7, correlation=last + 2),
            make.call(at + 20, 5, name="cudaMemcpyAsync", correlation=last + 3),
            make.copy(at + 130, 1_500, kinds="DtoH (Device -> Pinned)", stream=7, correlation=last + 3),
            make.call(at + 40, 1_595, name="cudaStreamSynchronize", correlation=last + 4),
            make.sync("Stream Sync", at + 40, 1_595, stream=7, correlation=last + 4),
        ]
    trace = opened(tmp_path, *events)
    idle = diagnose(trace).devices[0].idle
    waiting = (idle.cause == Cause.SYNCHRONISATION) & (idle.duration_ns > 1_000_000)
    assert waiting.sum() >= 9
    assert np.unique(trace.copies.stream[idle.copy[waiting]]).tolist() == [7]


def test_what_no_dependency_shows_is_not_sure(tmp_path: Path) -> None:
    """Thread 1 launches now and then; thread 2 stages copies by itself: that the one waits for the other is a guess."""
    random, events, now = np.random.default_rng(3), [], 0.0
    for number in range(1, 25):
        for each in range(2):
            events.append(make.call(now + 20 * each, 5, correlation=3 * number + each))
            events.append(make.kernel(now + 20 * each + 8, 10, correlation=3 * number + each))
        begin = now + float(random.uniform(200, 700))
        staged = float(random.integers(50, 150))
        events.append(make.call(begin, staged, name="cudaMemcpyAsync", tid=2, correlation=3 * number + 2))
        events.append(make.copy(begin + 4, staged - 8, stream=13, correlation=3 * number + 2))
        now += float(random.uniform(1_000, 1_600))
    pageable = [entry for entry in diagnose(opened(tmp_path, *events)).findings if entry.code == "OVL001"]
    assert all(entry.confidence is not Confidence.HIGH and entry.confirm_with for entry in pageable)


@pytest.mark.parametrize(
    ("then", "charged"),
    [("", "OVL004"), ("memcpy 64KiB pageable DtoH 1_012-1_020 -> stream 7: 1_013-1_018 |", "OVL008")],
    ids=["nothing else waits", "a copy of results waits for the same work"],
)
def test_a_wait_is_charged_with_what_is_gone_without_it(then: str, charged: str, tmp_path: Path) -> None:
    """The thread waits 1 ms for a kernel, makes no call for 600 us, and launches the next one; eight times."""
    text = f"launch 0-5 -> stream 7: 8-1_008 | sync 6-1_011 | {then} op aten::sort 1_021-1_600"
    found = diagnose(trace_of(tmp_path, "thread 1: " + " | ".join(shifted(text, 1_610 * step) for step in range(8))))
    assert found.findings[0].code == charged
    assert found.findings[0].idle_ns > 0.8 * found.idle_ns


def test_a_synchronisation_of_a_slow_host_costs_nothing(tmp_path: Path) -> None:
    """Kernels of 10 us, of which the host launches one in 40; it waits for each: without that it is as slow."""
    text = "launch 0-30 -> stream 7: 31-41 | sync 30-42"
    lines = "thread 1: " + " | ".join(shifted(text, 45 * step) for step in range(200))
    (finding,) = diagnose(trace_of(tmp_path, lines)).findings
    assert (finding.code, finding.kind) == ("OVL008", "launch-bound")


def shifted(text: str, by: int) -> str:
    """Some text with its times later."""
    return re.sub(r"\b([\d_]+)-([\d_]+)\b", lambda times: f"{int(times[1]) + by}-{int(times[2]) + by}", text)


def test_credit_of_blocking_calls_is_used_up_by_late_time_newest_first() -> None:
    """Against a plain loop, one nanosecond at a time: waits end the credit of what did not wait before them."""
    chance = np.random.default_rng(1)
    for _ in range(50):
        begins = np.sort(chance.choice(400, 24, replace=False)) * 10
        call = chance.random(24) < 0.5
        begins, ends = begins[call], begins[~call]
        late = Pieces.of(np.arange(len(begins)), begins, begins + chance.integers(1, 10, len(begins)), Cause.HOST_WORK)
        left, waits = chance.integers(-3, 12, len(ends)), chance.random(len(ends)) < 0.4
        rows = np.arange(len(ends)) + 100
        which, start, end, row = matched(late, np.arange(len(begins)), Blocking(ends, rows, left, waits))
        found = [(w, ns, r) for w, a, b, r in zip(which, start, end, row, strict=True) for ns in range(a, b)]
        credit, wanted = list[list[int]](), []
        for moment, number in sorted([(t, n) for n, t in enumerate(ends)] + [(t, ~n) for n, t in enumerate(begins)]):
            if number >= 0:
                credit = [entry for entry in credit if entry[2] or not waits[number]]
                credit.append([rows[number], left[number], waits[number]])
                continue
            for ns in range(moment, late.end_ns[~number]):
                paying = next((entry for entry in credit[::-1] if entry[1] > 0), [-1, 0])
                paying[1] -= 1
                wanted.append((~number, ns, paying[0]))
        assert found == wanted
