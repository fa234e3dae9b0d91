"""Host work that takes no time: all of it, one kind, or at one place."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import Trace, what_if
from overlapscope.errors import ChangeNotUnderstood
from overlapscope.whatif.catalogue import parse, understood
from tests import kineto_maker as make
from tests.notation import trace_of
from tests.rules.traces import repeated

STEP_US, STEPS = 10_000, 6
LAUNCH = "thread 1: launch 0-5 -> stream 7: 10-110"


def program(tmp_path: Path) -> Trace:
    """Steps of 10 ms: garbage for 2 ms, a sleep of 3 ms in a range, 1 ms in a sampled function, and a kernel."""
    events = []
    for begin in range(0, STEPS * STEP_US, STEP_US):
        events += [
            make.host_event("gc.collect (train.py:30)", begin + 1_000, 2_000, "gc"),
            make.annotation("poll", begin + 4_000, 3_500),
            make.host_event("time.sleep (a.py:3)", begin + 4_000, 3_000, "sleep"),
            make.sample("main (train.py:1);prepare (train.py:9)", begin + 8_000, 1_000),
        ]
    return trace_of(tmp_path, repeated(STEPS, LAUNCH, STEP_US), *events)


@pytest.mark.parametrize(
    ("change", "step_us"),
    [
        ("no-gc", 2_000),
        ("no-host-work:kind=gc", 2_000),
        ("no-host-work:kind=sleep", 3_000),
        ("no-host-work:within=poll", 3_500),
        ("no-host-work:within=poll,kind=sleep", 3_000),
        ("no-host-work:within=poll,kind=gc", 0),
        ("no-host-work:source=train.py", 1_000),
        ("no-host-work:kind=other", 1_500),  # what is sampled, and the rest of the range
        ("no-host-work:kind=unrecorded", 3_495),
        ("no-host-work:kind=logging", 0),
        ("no-host-work", 9_995),
    ],
)
def test_the_time_of_the_work_is_gone(change: str, step_us: float, tmp_path: Path) -> None:
    found = what_if(program(tmp_path), [change])
    assert found.saving_ns == pytest.approx((STEPS - 1) * step_us * 1_000, rel=0.01, abs=10_000)
    assert ("the trace shows no such work" in " ".join(found.assumptions)) is (step_us == 0)


def test_kinds_add_up(tmp_path: Path) -> None:
    found = what_if(program(tmp_path), ["no-host-work:kind=gc", "no-host-work:kind=sleep"])
    assert found.saving_ns == pytest.approx((STEPS - 1) * 5_000_000, rel=0.01)


def test_python_between_two_launches_stays(tmp_path: Path) -> None:
    """Gaps of 35 us are what launches cost; only a CUDA graph saves them."""
    trace = trace_of(tmp_path, repeated(50, "thread 1: op aten::add 0-35 | launch 20-30 -> stream 7: 32-42", 40))
    assert what_if(trace, ["no-host-work"]).saving_ns == 0


def test_the_calls_inside_stay(tmp_path: Path) -> None:
    """A loader that pins for 2 of 4 ms: the call keeps its time."""
    step = "thread 1: range enumerate(DataLoader)#X 100-4100 | cudaHostAlloc 1000-3000"
    step += " | launch 4200-4205 -> stream 7: 4210-4300"
    trace = trace_of(tmp_path, repeated(STEPS, step, 5_000))
    saved = what_if(trace, ["no-host-work:kind=loading"]).saving_ns
    assert saved == pytest.approx(STEPS * 2_000_000, rel=0.2)


def test_the_hand_off_to_another_thread_is_shorter_too(tmp_path: Path) -> None:
    """The main thread collects garbage before backward(), whose launches are another thread's."""
    lines = [
        "thread 1: launch 0-5 -> stream 7: 10-110",
        "thread 2: op autograd::engine::evaluate_function 6000-6100 | launch 6010-6015 -> stream 7: 6020-6120",
    ]
    events = [
        make.host_event("gc.collect (train.py:30)", begin + 500, 5_000, "gc")
        for begin in range(0, STEPS * STEP_US, STEP_US)
    ]
    trace = trace_of(tmp_path, *(repeated(STEPS, line, STEP_US) for line in lines), *events)
    assert what_if(trace, ["no-gc"]).saving_ns >= 0.5 * STEPS * 5_000_000


@pytest.mark.parametrize("text", ["no-host-work:kind=tea", "no-gc:kind=gc", "no-host-work:stream=7", "pin:kind=gc"])
def test_limits_that_make_no_sense(text: str) -> None:
    with pytest.raises(ChangeNotUnderstood):
        parse(text)


def test_two_kinds_do_not_contradict_each_other() -> None:
    texts = ["no-host-work:kind=gc", "no-host-work:within=step,kind=sleep"]
    assert [str(change) for change in understood(texts)] == texts
