"""Kernels that fill a device run one after the other, from whatever streams they come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from overlapscope import open_trace, what_if
from overlapscope.model.trace import Trace
from tests import kineto_maker as make

FEW, MANY = 131, 132
UNKNOWN = [{"id": 0, "name": "NVIDIA H200"}]
GPU = {"deviceProperties": [{"id": 0, "name": "NVIDIA H200", "numSms": 132}]}


def two_streams(tmp_path: Path, *events: make.Event, blocks: int, beside_us: float = 0, **header: Any) -> Trace:
    """A kernel of 1 ms on stream 7, and one on stream 9 that is late, since a pageable copy held the host until then.

    Before these, two others run at once for ``beside_us``.
    """
    grid = {"grid": [blocks, 1, 1]}
    late = 3_000 - beside_us
    return open_trace(
        make.write(
            tmp_path / "t.json",
            make.call(0, 4, correlation=1),
            make.kernel(10, 1_000, correlation=1, **grid),
            make.call(10, 1_980, name="cudaMemcpyAsync", correlation=2),
            make.copy(12, 1_970, correlation=2, size=1_000_000),
            make.call(2_000, 4, correlation=3),
            make.kernel(2_006, 994, stream=9, correlation=3, **grid),
            make.call(2_010, 4, correlation=4),
            make.kernel(late, 10 + beside_us, correlation=4, **grid),
            make.call(2_020, late + 20 + beside_us - 2_020, name="cudaDeviceSynchronize"),
            *events,
            **(GPU | header),
        )
    )


@pytest.mark.parametrize(
    ("blocks", "header", "takes_us"),
    [(MANY, {}, 2_020), (FEW, {}, 1_040), (MANY, {"deviceProperties": UNKNOWN}, 1_040)],
    ids=["they fill it", "they do not", "how large it is, is not known"],
)
def test_kernels_that_could_begin_at_once_take_turns_where_each_fills_the_device(
    blocks: int, header: dict[str, Any], takes_us: float, tmp_path: Path
) -> None:
    found = what_if(two_streams(tmp_path, blocks=blocks, **header), ["pin", "non-blocking"])
    assert found.predicted_ns / 1e3 == pytest.approx(takes_us, abs=60)
    assert found.low_ns / 1e3 == pytest.approx(1_040, abs=60), "if they do run at once"
    kernels = found.after.kernels
    apart = (kernels.start_ns[1:] >= kernels.end_ns[:-1]).all()
    assert apart == (takes_us > 2_000) == any("one after the other" in text for text in found.basis)


def test_they_may_run_at_once_for_as_long_as_they_did(tmp_path: Path) -> None:
    """The last blocks of one run beside the first of the next: here for 300 us."""
    found = what_if(two_streams(tmp_path, blocks=MANY, beside_us=300), ["pin", "non-blocking"])
    kernels = found.after.kernels
    assert int((kernels.end_ns[0] - kernels.start_ns[1]) / 1e3) == 300


def after_a_hold(*, tiny: bool) -> list[make.Event]:
    """1 ms on stream 7, and on 9 after a pageable copy, behind a ``tiny`` kernel or not; then 20 us of both at once."""
    return [
        *launched(10, 1_000, 7, 21),
        make.call(14, 1_980, name="cudaMemcpyAsync", correlation=22),
        make.copy(16, 1_970, correlation=22, size=1_000_000),
        *(launched(2_006, 10, 9, 23) if tiny else ()),
        *launched(2_020, 1_000, 9, 24),
        make.call(2_030, 1_000, name="cudaDeviceSynchronize"),
        *launched(3_110, 100, 7, 25),
        *launched(3_190, 100, 9, 26),
        make.call(3_200, 100, name="cudaDeviceSynchronize"),
    ]


def launched(at: float, takes: float, stream: int, correlation: int) -> tuple[make.Event, make.Event]:
    """A kernel that fills the device, and its call, 6 us before."""
    grid = {"grid": [MANY, 1, 1]}
    return make.call(at - 6, 4, correlation=correlation), make.kernel(
        at, takes, stream=stream, correlation=correlation, **grid
    )


@pytest.mark.parametrize("tiny", [False, True])
def test_what_comes_between_changes_nothing(tiny: bool, tmp_path: Path) -> None:
    """A kernel that begins just before the next one of its stream: that waits for its turn as well."""
    trace = open_trace(make.write(tmp_path / "t.json", *after_a_hold(tiny=tiny), **GPU))
    found = what_if(trace, ["pin", "non-blocking"])
    assert found.predicted_ns / 1e3 == pytest.approx(2_270, abs=30)


def test_what_ran_at_once_in_the_trace_may_do_so_whatever_began_between(tmp_path: Path) -> None:
    """9's second kernel ran beside 7's for 900 us, and its first one for 10."""
    pairs = (
        *launched(10, 1_000, 7, 1),
        *launched(20, 10, 9, 2),
        *launched(40, 900, 9, 3),
        make.call(45, 1_055, name="cudaDeviceSynchronize"),
        *launched(1_110, 500, 7, 4),
        make.call(1_112, 590, name="cudaMemcpyAsync", correlation=5),
        make.copy(1_114, 580, correlation=5, size=1_000_000),
        *launched(1_720, 500, 9, 6),
        make.call(1_722, 510, name="cudaDeviceSynchronize"),
    )
    found = what_if(open_trace(make.write(tmp_path / "t.json", *pairs, **GPU)), ["pin", "non-blocking"])
    assert found.predicted_ns == found.low_ns < found.measured_ns - 400_000


@pytest.mark.parametrize("waited_for", [0, 1], ids=["first in the file", "later in the file"])
def test_kernels_of_no_length_keep_none_from_its_turn(waited_for: int, tmp_path: Path) -> None:
    """Two begin at one moment, and one waits for the other."""
    none = [make.kernel(5, 0, stream=stream, correlation=stream, grid=[MANY, 1, 1]) for stream in (7, 9)]
    before = [
        make.call(0, 1, correlation=7),
        make.call(1, 0.5, name="cudaEventRecord", correlation=2),
        make.call(2, 0.5, name="cudaStreamWaitEvent", correlation=3),
        make.call(3, 0.5, correlation=9),
        *(none if waited_for == 0 else none[::-1]),
    ]
    trace = open_trace(make.write(tmp_path / "t.json", *before, *after_a_hold(tiny=False), **GPU))
    assert what_if(trace, []).predicted_ns == what_if(trace, []).measured_ns
    assert what_if(trace, ["pin", "non-blocking"]).predicted_ns / 1e3 == pytest.approx(2_280, abs=40)


@pytest.mark.parametrize("beside_us", [0, 300])
def test_with_nothing_changed_they_are_where_they_were(beside_us: float, tmp_path: Path) -> None:
    trace = two_streams(tmp_path, blocks=MANY, beside_us=beside_us)
    found = what_if(trace, [])
    assert found.predicted_ns == found.replayed_ns == found.measured_ns
    assert found.after.kernels.start_ns.tolist() == trace.kernels.start_ns.tolist()


def test_kernels_of_two_devices_or_processes_run_at_once(tmp_path: Path) -> None:
    """A second device's kernels are as many, and as large."""
    grid = {"grid": [MANY, 1, 1], "device": 1, "stream": 20}
    other = [make.call(5, 4, correlation=9), make.kernel(14, 2_900, correlation=9, **grid)]
    devices = [{"id": number, "name": "NVIDIA H200", "numSms": 132} for number in (0, 1)]
    found = what_if(two_streams(tmp_path, *other, blocks=MANY, deviceProperties=devices), ["pin", "non-blocking"])
    assert found.predicted_ns / 1e3 == pytest.approx(2_920, abs=60)
