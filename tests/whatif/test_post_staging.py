"""The host after copies that are staged no more: as fast as it usually is, as far as the calibration says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overlapscope import what_if
from overlapscope.whatif.prediction import Prediction
from tests import kineto_maker as make
from tests.notation import trace_of

SLOW = [
    {"size_bytes": 1 << 20, "issue_ns": [20_000, 100_000], "usual_ns": [20_000, 100_000]},
    {"size_bytes": 1 << 24, "issue_ns": [40_000, 140_000], "usual_ns": [20_000, 100_000]},
]
"""After 16 MiB what usually takes 20 us took 40, and what takes 100 took 140; after 1 MiB as long as usual."""
BETWEEN = (1 << 20) + 15 * (1 << 19)
LARGE = 1 << 24


def staging(begin: float, gaps: Sequence[float], sizes: Sequence[int], stream: int = 13) -> list[make.Event]:
    """Pageable copies that block their calls for 1 ms, and launches (of size 0), with so much time before each."""
    events, at = [], begin
    for number, (gap, size) in enumerate(zip(gaps, sizes, strict=True), round(begin) + 1):
        at += gap
        name, work = ("cudaMemcpyAsync", make.copy(at + 4, 990, correlation=number, size=size, stream=stream))
        if not size:
            name, work = ("cudaLaunchKernel", make.kernel(at + 10, 50, correlation=number))
        blocked = 1_000 if size else 4
        events += [make.call(at, blocked, name=name, correlation=number), work]
        at += blocked
    return events


def on_thread(tid: int, events: list[make.Event]) -> list[make.Event]:
    return [event | {"tid": tid} if event["cat"] == "cuda_runtime" else event for event in events]


def gaps_us(found: Prediction) -> list[float]:
    """What passes between calls, thread by thread, in us."""
    calls = found.after.api_calls.take(np.argsort(found.after.api_calls.thread, kind="stable"))
    return ((calls.start_ns[1:] - calls.end_ns[:-1]) / 1e3).tolist()


def pinned(
    tmp_path: Path, *events: make.Event, change: str = "pin", slow: Sequence[Any] = SLOW, **header: Any
) -> list[float]:
    """What passes between calls once copies are pinned, in us."""
    trace = trace_of(tmp_path, *events, **make.calibrated(post_staging=list(slow)), **header)
    return gaps_us(what_if(trace, [change]))


@pytest.mark.parametrize(
    ("size", "gap", "less"),
    [
        (LARGE, 1_000, 0),
        (LARGE, 180, 40),
        (LARGE, 140, 40),
        (LARGE, 90, 30),
        (LARGE, 40, 20),
        (LARGE, 10, 5),
        (1 << 26, 140, 40),
        (BETWEEN, 180, 20),
        (BETWEEN, 30, 10),
        (1 << 18, 100, 0),
    ],
)
def test_what_follows_a_copy_that_is_staged_no_more_is_as_fast_as_usual(
    size: int, gap: float, less: float, tmp_path: Path
) -> None:
    """After half as much, half as long. A millisecond is other work."""
    assert pinned(tmp_path, *staging(0, [0, gap], [size, 0])) == [pytest.approx(gap - less, abs=0.01)]


def test_the_host_is_slow_until_it_has_done_as_much_as_the_calibration(tmp_path: Path) -> None:
    """36 us, a call of 4, 100 us: the 140 us that usually take 100; then as long as it took."""
    events = staging(0, [0, 36, 100, 150], [LARGE, 0, 0, 0])
    assert pinned(tmp_path, *events) == pytest.approx([18, 80, 150], abs=0.01)


@pytest.mark.parametrize("second", [LARGE, 0], ids=["another copy", "a launch"])
def test_a_copy_slows_the_host_until_the_next_one(second: int, tmp_path: Path) -> None:
    """40 us usually take 20. A second copy slows what follows it anew, 140 us that usually take 100.

    After a call of 4 us instead, 44 us since the copy usually take 23.2, and 184 us as much as 144.
    """
    gaps = pinned(tmp_path, *staging(0, [0, 40, 140], [LARGE, second, 0]))
    assert gaps == pytest.approx([20, 100 if second else 144 - 23.2], abs=0.01)


def test_what_follows_a_copy_that_is_staged_as_before_is_as_slow_as_before(tmp_path: Path) -> None:
    events = staging(0, [0, 140], [LARGE, 0]) + staging(5_000, [0, 140], [LARGE, 0], stream=14)
    assert pinned(tmp_path, *events, change="pin:stream=14")[::2] == pytest.approx([140, 100], abs=0.01)


def test_until_a_thread_stages_the_next_copy(tmp_path: Path) -> None:
    """The second stays as it is, and the host is slow after it."""
    events = staging(0, [0, 20], [LARGE, 0]) + staging(1_030, [0, 90], [LARGE, 0], stream=14)
    assert pinned(tmp_path, *events, change="pin:stream=13")[2] == pytest.approx(90, abs=0.01)


@pytest.mark.parametrize("first", [LARGE, 0])
def test_each_thread_has_its_own_copies(first: int, tmp_path: Path) -> None:
    """One stages a copy and does not do much after it; then the other does something, or stages one itself."""
    other = on_thread(99, staging(5_000, [0, 90], [first, 0]))
    gaps = pinned(tmp_path, *staging(0, [0, 90], [LARGE, 0]), *other)
    assert gaps[::2] == pytest.approx([60, 60 if first else 90], abs=0.01)


def test_a_copy_that_is_pinned_already_does_not_slow_the_host(tmp_path: Path) -> None:
    """30 us usually take 15; with them and a call of 4, the 90 us after it are 124 us since the pageable copy."""
    events = [
        *staging(0, [0], [LARGE]),
        make.call(1_030, 4, name="cudaMemcpyAsync", correlation=50),
        make.copy(1_040, 300, correlation=50, size=LARGE, kinds="HtoD (Pinned -> Device)"),
        make.call(1_124, 4, correlation=51),
        make.kernel(1_350, 50, correlation=51),
    ]
    assert pinned(tmp_path, *events) == pytest.approx([15, 0.8 * (124 - 40) + 20 - 17], abs=0.01)


@pytest.mark.parametrize("before", [1, 90])
def test_from_a_copy_that_is_synchronised_with_the_host_comes_back_there(before: int, tmp_path: Path) -> None:
    """What passes before the synchronisation stays; 140 us after it usually take 100."""
    at = 1_000 + before
    text = f"""
        thread 1: copy 16MiB pageable HtoD 0-1_000 -> stream 13: 4-994 | stream-sync {at}-{at + 4} -> stream 13
                  launch {at + 144}-{at + 148} -> stream 7: {at + 154}-{at + 204}
    """
    trace = trace_of(tmp_path, text, **make.calibrated(post_staging=SLOW))
    assert gaps_us(what_if(trace, ["pin"])) == pytest.approx([before, 100], abs=0.01)


def test_what_was_quicker_after_a_copy_slowed_nothing(tmp_path: Path) -> None:
    """The first operators of the calibration took 15 us instead of 20, because a copy had come right before them."""
    rows = [{"size_bytes": LARGE, "issue_ns": [15_000, 20_000], "usual_ns": [20_000, 20_000]}]
    assert pinned(tmp_path, *staging(0, [0, 60, 10], [LARGE, 0, 0]), slow=rows) == pytest.approx([60, 10], abs=0.01)


def test_what_was_lost_is_not_won_back(tmp_path: Path) -> None:
    """As it was measured, the operators after the first two took less long than usual: that was noise."""
    rows = [{"size_bytes": 1 << 20, "issue_ns": [60_000, 130_000], "usual_ns": [20_000, 100_000]}]
    events = staging(0, [0, 60, 66, 80], [1 << 20, 0, 0, 0])
    assert pinned(tmp_path, *events, slow=rows) == pytest.approx([20, 66, 80], abs=0.01)


def test_the_order_of_a_calibration_s_rows_does_not_matter(tmp_path: Path) -> None:
    assert pinned(tmp_path, *staging(0, [0, 140], [BETWEEN, 0]), slow=SLOW[::-1]) == pytest.approx([120], abs=0.01)


@pytest.mark.parametrize(("size", "gap"), [(LARGE, 100), (LARGE - 1, 140)])
def test_smaller_copies_than_were_calibrated_slow_nothing(size: int, gap: float, tmp_path: Path) -> None:
    assert pinned(tmp_path, *staging(0, [0, 140], [size, 0]), slow=SLOW[1:]) == pytest.approx([gap], abs=0.01)


def test_several_changes_of_a_kind_are_one(tmp_path: Path) -> None:
    """What one half of the copies takes when it is pinned, is no measurement of what pinned copies take."""
    events = staging(0, [0, 100], [LARGE, 0]) + staging(2_104, [100, 140], [LARGE, 0], stream=14)
    trace = trace_of(tmp_path, *events, **make.calibrated(post_staging=SLOW), **make.H200)
    whole = what_if(trace, ["pin"])
    for changes in (["pin:stream=13", "pin:stream=14"], ["pin:stream=14", "pin:stream=13"], ["pin:stream=14", "pin"]):
        found = what_if(trace, changes)
        assert (found.predicted_ns, gaps_us(found)) == (whole.predicted_ns, gaps_us(whole))
        assert (found.after.copies.duration_ns == whole.after.copies.duration_ns).all()
    for changes in (["pin:stream=9", "pin:stream=8"], ["prefetch=2:stream=13", "prefetch=1:stream=14"]):
        one, other = (what_if(trace, order) for order in (changes, changes[::-1]))
        assert (one.assumptions, one.predicted_ns) == (other.assumptions, other.predicted_ns)
