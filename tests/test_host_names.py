"""What ran on the host while the GPU was idle: its kind, its names, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from overlapscope import Finding, audit, open_trace
from overlapscope.analysis.analysis import diagnose
from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.finding import Bound
from overlapscope.diagnosis.host_names import ran
from overlapscope.document.text import plain_text
from overlapscope.measure.host_work import HostWorkKind
from overlapscope.report.screen import first_screen
from tests import kineto_maker as make, nsys_maker
from tests.notation import trace_of
from tests.rules.traces import STEP, repeated

STEP_US, STEPS = 10_000, 6
Events = Callable[[float], list[make.Event]]


def each_step(events: Events) -> list[make.Event]:
    return [event for number in range(STEPS) for event in events(STEP_US * number)]


def late(tmp_path: Path, events: Events) -> list[Finding]:
    """The findings about a late host of a loop whose GPU is idle for the first 5 of 10 ms."""
    trace = trace_of(tmp_path, repeated(STEPS, STEP, STEP_US), *each_step(events))
    return [finding for finding in diagnose(trace).findings if finding.code == "OVL008"]


def collecting(at: float) -> list[make.Event]:
    return [make.host_event("gc.collect (train.py:30)", at + 100, 4_800, "gc", place="main (train.py:30)")]


def sleeping(at: float) -> list[make.Event]:
    return [make.host_event("time.sleep (poll.py:3)", at + 100, 4_800, "sleep")]


def saving(at: float) -> list[make.Event]:
    return [make.host_event("torch.save (a.py:9)", at + 100, 4_800, "save")]


def printing(at: float) -> list[make.Event]:
    return [make.host_event("print", at + 100, 4_800, "log", place="report (train.py:7)")]


def collating(at: float) -> list[make.Event]:
    return [make.host_event("collate_fn", at + 100, 4_800, "collate")]


def sampling(at: float) -> list[make.Event]:
    """Two functions of the program, of which one calls a library."""
    return [
        make.sample("main (train.py:3);tokenize (text.py:12)", at + 100, 1_200, cpu=1_200),
        make.sample("main (train.py:3);prepare (text.py:40);sort (numpy/core/fromnumeric.py:9)", at + 1_300, 3_600),
    ]


def stacks(at: float) -> list[make.Event]:
    return [make.frame("train.py(12): main", at + 50, 4_900), make.frame("net/text.py(40): prepare", at + 100, 4_700)]


def collecting_in_stacks(at: float) -> list[make.Event]:
    return [
        make.frame("train.py(12): main", at + 50, 4_900),
        make.frame("<built-in function collect>", at + 100, 4_800),
    ]


def waiting_for_the_lock(at: float) -> list[make.Event]:
    return [
        make.sample("main (train.py:3);forward (net.py:8)", at + 100, 4_800, cpu=300),
        make.sample("run (threading.py:1);parse (worker.py:9)", at + 100, 4_800, cpu=4_500, tid=2),
    ]


@pytest.mark.parametrize(
    ("events", "kind", "name", "source"),
    [
        (collecting, "garbage-collection", "gc.collect (train.py:30)", "event"),
        (sleeping, "sleep", "time.sleep (poll.py:3)", "event"),
        (saving, "file", "torch.save (a.py:9)", "event"),
        (printing, "logging", "print in report (train.py:7)", "event"),
        (collating, "data-loading", "collate_fn", "event"),
        (sampling, "host-work", "prepare (text.py:40)", "sample"),
        (stacks, "host-work", "prepare (text.py:40)", "frame"),
        (collecting_in_stacks, "garbage-collection", "gc.collect in main (train.py:12)", "frame"),
        (waiting_for_the_lock, "interpreter-lock", "thread 2: parse (worker.py:9)", "sample"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_late_host_is_named_by_what_it_ran(events: Events, kind: str, name: str, source: str, tmp_path: Path) -> None:
    finding = late(tmp_path, events)[0]
    assert finding.kind == kind
    assert (finding.ran[0].name, finding.ran[0].source) == (name, source)
    assert name in finding.message
    assert finding.bound is not None
    assert 2 * (finding.bound.baseline_ns or 0) > 3 * (finding.bound.without_ns or 0) > 0
    assert "overlapscope record" not in finding.fix


def test_the_shares_are_of_the_idle_time(tmp_path: Path) -> None:
    finding = late(tmp_path, sampling)[0]
    shares = {each.name: each.idle_ns / finding.idle_ns for each in finding.ran}
    assert shares == pytest.approx({"prepare (text.py:40)": 0.75, "tokenize (text.py:12)": 0.25}, abs=0.01)


def test_lines_of_one_function_are_one(tmp_path: Path) -> None:
    """The line with most samples is named."""

    def lines(at: float) -> list[make.Event]:
        places = ((100, 1_000, 3), (1_100, 2_500, 5), (3_600, 1_000, 9))
        return [make.sample(f"main (train.py:{line})", at + begin, length) for begin, length, line in places]

    (only,) = late(tmp_path, lines)[0].ran
    assert only.name == "main (train.py:5)"
    assert only.idle_ns == pytest.approx(5 * 4_500_000, rel=0.02)


@pytest.mark.parametrize(
    ("main", "cpu", "other_cpu", "locked"),
    [
        ("forward (net.py:8)", 300, 4_500, True),
        ("forward (net.py:8)", 4_000, 4_500, False),  # it ran itself
        ("forward (net.py:8)", 300, 300, False),  # nobody ran
        ("wait (threading.py:300)", 300, 4_500, False),  # it waits for that thread
        ("Connection.recv (multiprocessing/connection.py:3)", 300, 4_500, False),
        ("forward (net.py:8)", None, 4_500, False),  # not known
    ],
)
def test_the_lock_is_waited_for_where_another_thread_runs(
    main: str, cpu: float | None, other_cpu: float, locked: bool, tmp_path: Path
) -> None:
    def events(at: float) -> list[make.Event]:
        return [
            make.sample(main, at + 100, 4_800, cpu=cpu),
            make.sample("parse (worker.py:9)", at + 100, 4_800, cpu=other_cpu, tid=2),
        ]

    kinds = {finding.kind for finding in late(tmp_path, events)}
    assert ("interpreter-lock" in kinds) is locked


def test_several_threads_hold_the_lock_together(tmp_path: Path) -> None:
    """Eight threads that never wait have an eighth of the processor each; the one that has most is named."""

    def events(at: float) -> list[make.Event]:
        others = [make.sample("busy (hog.py:5)", at + 100, 4_800, cpu=500 + tid, tid=tid) for tid in range(2, 10)]
        return [make.sample("forward (net.py:8)", at + 100, 4_800, cpu=500), *others]

    finding = late(tmp_path, events)[0]
    assert finding.kind == "interpreter-lock"
    assert finding.ran[0].name == "thread 9: busy (hog.py:5)"


def test_causes_add_up_and_the_first_kind_counts(tmp_path: Path) -> None:
    """Garbage for 1 ms inside a batch that is made for 3 ms, with samples all along."""

    def events(at: float) -> list[make.Event]:
        return [
            make.host_event("collate_fn", at + 500, 3_000, "collate"),
            make.host_event("gc", at + 1_000, 1_000, "gc"),
            make.sample("main (train.py:3)", at + 100, 4_800),
        ]

    trace = trace_of(tmp_path, repeated(STEPS, STEP, STEP_US), *each_step(events))
    idle = audit(trace).devices[0].kernel_gaps
    steps = (STEPS - 1) * 1_000_000
    assert idle.of_cause[Cause.GARBAGE_COLLECTION] == steps
    assert idle.of_cause[Cause.DATA_LOADING] == 2 * steps
    assert idle.total_ns == sum(idle.of_cause.values())


@pytest.mark.parametrize("recorded", ["nothing", "a range"])
def test_what_is_not_recorded_is_to_be_recorded(recorded: str, tmp_path: Path) -> None:
    def events(at: float) -> list[make.Event]:
        return [make.annotation("step", at, 9_990)] if recorded == "a range" else []

    finding = late(tmp_path, events)[0]
    assert finding.kind == ("host-work" if recorded == "a range" else "not-recorded")
    assert "overlapscope record" in finding.fix
    assert "ran no operator for" in finding.message
    assert finding.ran == ()


def test_another_thread_is_named_where_the_launching_one_waits(tmp_path: Path) -> None:
    """The autograd thread launches late, as the main thread, with most calls, collects garbage."""
    main = "thread 1: " + " | ".join(f"launch {at}-{at + 2} -> stream 7: {at + 3}-{at + 9}" for at in range(0, 100, 10))
    backward = "thread 2: launch 5010-5015 -> stream 7: 5020-9000"
    trace = trace_of(
        tmp_path, repeated(STEPS, main, STEP_US), repeated(STEPS, backward, STEP_US), *each_step(collecting)
    )
    idle = diagnose(trace).devices[0].idle
    rows = idle.cause == Cause.GARBAGE_COLLECTION
    assert rows.any()
    assert ran(trace, idle.take(rows), HostWorkKind.GC)[0].name == "gc.collect (train.py:30)"


def test_the_headline_and_the_screen_say_it_in_plain_words(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, repeated(STEPS, STEP, STEP_US), *each_step(collecting))
    audited = audit(trace)
    assert "mostly garbage collection (gc.collect at train.py:30; OVL008, " in audited.headline
    screen = plain_text(first_screen(audited, 100).parts, 100)
    assert "collected garbage: gc.collect (train.py:30) 100 %" in " ".join(screen.split())
    assert "gc.freeze()" in screen


def test_a_fix_of_another_cause_is_no_fix_of_the_largest(tmp_path: Path) -> None:
    """Batches take half of each step, launches a part of the rest, which a CUDA graph saves."""
    launches = " | ".join(f"op aten::add {at}-{at + 90} | launch {at + 40}-{at + 50} -> stream 7: {at + 52}-{at + 60}"
                          for at in range(6_000, 9_000, 100))  # fmt: skip
    trace = trace_of(tmp_path, repeated(STEPS, f"thread 1: {launches}", STEP_US), *each_step(collating), **make.H200)
    said = audit(trace).headline
    assert "the data loader (collate_fn; OVL008, " in said
    assert "% without it. Elsewhere, with cuda-graph: " in said


def test_text_of_a_trace_is_not_trusted(tmp_path: Path) -> None:
    def events(at: float) -> list[make.Event]:
        return [make.host_event("gc\x1b[31m{0} (a.py:1)", at + 100, 4_800, "gc")]

    trace = trace_of(tmp_path, repeated(STEPS, STEP, STEP_US), *each_step(events))
    audited = audit(trace)
    assert "\x1b" not in audited.headline + audited.conclusion.findings[0].message
    assert "{0} at a.py:1" in audited.headline


def test_calls_of_the_operating_system_are_named(tmp_path: Path) -> None:
    """Nsight Systems: a program without PyTorch sleeps for 4 ms before each launch."""
    names = {1: "cudaLaunchKernel_v7000", 2: "clock_nanosleep", 3: "kernel"}
    launches = [nsys_maker.call(5_000_000 * at, 5_000_000 * at + 5_000, 1, correlation=at) for at in range(1, 9)]
    sleeps = [nsys_maker.call(5_000_000 * at + 500_000, 5_000_000 * at + 4_500_000, 2) for at in range(1, 8)]
    kernels = [
        nsys_maker.work(5_000_000 * at + 8_000, 5_000_000 * at + 100_000, correlation=at, shortName=3)
        for at in range(1, 9)
    ]
    tables = {"CUPTI_ACTIVITY_KIND_RUNTIME": launches, "CUPTI_ACTIVITY_KIND_KERNEL": kernels, "OSRT_API": sleeps}
    trace = open_trace(nsys_maker.write(tmp_path / "t.sqlite", tables, names))
    first = diagnose(trace).findings[0]
    assert (first.kind, first.ran[0].name) == ("sleep", "clock_nanosleep")
    assert "condition variable" in first.fix


def test_a_bound_that_gains_nothing_is_not_said() -> None:
    assert Bound("no-host-work", 10_000_000, 9_000_000).words == "at most -10 % without it"
    assert not Bound("no-host-work", 10_000_000, 18_700_000).words
