"""Kernels that fill a GPU run one after the other, from whatever streams they come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from overlapscope import what_if
from overlapscope.model.trace import Trace
from tests import kineto_maker as make
from tests.notation import trace_of

FEW, MANY = 131, 132
H200 = {"id": 0, "name": "NVIDIA H200"}
GPU = {"deviceProperties": [H200 | {"numSms": 132}]}
CHANGES = ["pin", "non-blocking"]


def two_streams(tmp_path: Path, *more: str, blocks: int, beside_us: int = 0, **header: Any) -> Trace:
    """A kernel of 1 ms on stream 7, and one on stream 9 that is late, since a pageable copy blocked the host before it.

    Before a last synchronisation, two others run at once for ``beside_us``.
    """
    return trace_of(
        tmp_path,
        f"""
        thread 1: launch 0-4 -> stream 7: 10-1_010 of {blocks} blocks
                  copy 1MB pageable HtoD 10-1_990 -> stream 13: 12-1_982
                  launch 2_000-2_004 -> stream 9: 2_006-3_000 of {blocks} blocks
                  launch 2_010-2_014 -> stream 7: {3_000 - beside_us}-3_010 of {blocks} blocks | sync 2_020-3_020
        """,
        *more,
        **(GPU | header),
    )


@pytest.mark.parametrize(
    ("blocks", "header", "takes_us"),
    [(MANY, {}, 2_020), (FEW, {}, 1_040), (MANY, {"deviceProperties": [H200]}, 1_040)],
    ids=["they fill it", "they do not", "how large it is, is not known"],
)
def test_kernels_that_could_start_at_once_take_turns_where_each_fills_the_gpu(
    blocks: int, header: dict[str, Any], takes_us: float, tmp_path: Path
) -> None:
    found = what_if(two_streams(tmp_path, blocks=blocks, **header), CHANGES)
    assert found.predicted_ns / 1e3 == pytest.approx(takes_us, abs=60)
    assert found.low_ns / 1e3 == pytest.approx(1_040, abs=60), "if they do run at once"
    kernels = found.after.kernels
    apart = (kernels.start_ns[1:] >= kernels.end_ns[:-1]).all()
    assert apart == (takes_us > 2_000) == any("one after the other" in text for text in found.assumptions)


def test_they_may_run_at_once_for_as_long_as_they_did(tmp_path: Path) -> None:
    """The last blocks of one run beside the first of the next: here for 300 us."""
    found = what_if(two_streams(tmp_path, blocks=MANY, beside_us=300), CHANGES)
    kernels = found.after.kernels
    assert int((kernels.end_ns[0] - kernels.start_ns[1]) / 1e3) == 300


def after_a_copy(*, tiny: bool) -> str:
    """1 ms on stream 7, and on 9 after a pageable copy, behind a ``tiny`` kernel or not; then 20 us of both at once."""
    behind = f"launch 2_000-2_004 -> stream 9: 2_006-2_016 of {MANY} blocks |" if tiny else ""
    return f"""
        thread 1: launch 4-8 -> stream 7: 10-1_010 of {MANY} blocks
                  copy 1MB pageable HtoD 14-1_994 -> stream 13: 16-1_986
                  {behind} launch 2_014-2_018 -> stream 9: 2_020-3_020 of {MANY} blocks | sync 2_030-3_030
                  launch 3_104-3_108 -> stream 7: 3_110-3_210 of {MANY} blocks
                  launch 3_184-3_188 -> stream 9: 3_190-3_290 of {MANY} blocks | sync 3_200-3_300
    """


@pytest.mark.parametrize("tiny", [False, True])
def test_what_comes_between_changes_nothing(tiny: bool, tmp_path: Path) -> None:
    """A kernel that starts just before the next one of its stream: that waits for its turn as well."""
    found = what_if(trace_of(tmp_path, after_a_copy(tiny=tiny), **GPU), CHANGES)
    assert found.predicted_ns / 1e3 == pytest.approx(2_270, abs=30)


def test_what_ran_at_once_in_the_trace_may_do_so_whatever_started_between(tmp_path: Path) -> None:
    """9's second kernel ran beside 7's for 900 us, and its first one for 10."""
    trace = trace_of(
        tmp_path,
        f"""
        thread 1: launch 4-8 -> stream 7: 10-1_010 of {MANY} blocks | launch 14-18 -> stream 9: 20-30 of {MANY} blocks
                  launch 34-38 -> stream 9: 40-940 of {MANY} blocks | sync 45-1_100
                  launch 1_104-1_108 -> stream 7: 1_110-1_610 of {MANY} blocks
                  copy 1MB pageable HtoD 1_112-1_702 -> stream 13: 1_114-1_694
                  launch 1_714-1_718 -> stream 9: 1_720-2_220 of {MANY} blocks | sync 1_722-2_232
        """,
        **GPU,
    )
    found = what_if(trace, CHANGES)
    assert found.predicted_ns == found.low_ns < found.measured_ns - 400_000


@pytest.mark.parametrize("waited_for", [0, 1], ids=["first in the file", "later in the file"])
def test_kernels_of_no_length_keep_none_from_its_turn(waited_for: int, tmp_path: Path) -> None:
    """Two start at one moment, and one waits for the other."""
    calls = [
        make.call(0, 1, correlation=107),
        make.call(1, 0.5, name="cudaEventRecord", correlation=102),
        make.call(2, 0.5, name="cudaStreamWaitEvent", correlation=103),
        make.call(3, 0.5, correlation=109),
    ]
    none = [make.kernel(5, 0, stream=stream, correlation=100 + stream, grid=[MANY, 1, 1]) for stream in (7, 9)]
    trace = trace_of(tmp_path, after_a_copy(tiny=False), *calls, *(none[::-1] if waited_for else none), **GPU)
    assert what_if(trace, []).predicted_ns == what_if(trace, []).measured_ns
    assert what_if(trace, CHANGES).predicted_ns / 1e3 == pytest.approx(2_280, abs=40)


@pytest.mark.parametrize("beside_us", [0, 300])
def test_with_nothing_changed_they_are_where_they_were(beside_us: int, tmp_path: Path) -> None:
    trace = two_streams(tmp_path, blocks=MANY, beside_us=beside_us)
    found = what_if(trace, [])
    assert found.predicted_ns == found.simulated_ns == found.measured_ns
    assert found.after.kernels.start_ns.tolist() == trace.kernels.start_ns.tolist()


def test_kernels_of_two_gpus_run_at_once(tmp_path: Path) -> None:
    """A second GPU's kernels are as many, and as large."""
    other = f"launch 5-9 -> gpu 1 stream 20: 14-2_914 of {MANY} blocks"
    devices = [H200 | {"id": number, "numSms": 132} for number in (0, 1)]
    found = what_if(two_streams(tmp_path, other, blocks=MANY, deviceProperties=devices), CHANGES)
    assert found.predicted_ns / 1e3 == pytest.approx(2_920, abs=60)
