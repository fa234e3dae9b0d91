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
    assert apart == (takes_us > 2_000)


def test_they_may_run_at_once_for_as_long_as_they_did(tmp_path: Path) -> None:
    """The last blocks of one run beside the first of the next: here for 300 us."""
    found = what_if(two_streams(tmp_path, blocks=MANY, beside_us=300), ["pin", "non-blocking"])
    kernels = found.after.kernels
    assert int((kernels.end_ns[0] - kernels.start_ns[1]) / 1e3) == 300


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
