"""Small copies are packed into one buffer and sent as one: what packing takes, and which copies go together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overlapscope import what_if
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.whatif.prediction import Prediction
from tests import kineto_maker as make
from tests.bounds import by_order_ns
from tests.notation import trace_of

PINNED = [{"direction": "HtoD", "host_memory": "pinned", "size_bytes": 1 << 20, "copy_ns": 20_000}]


def pieces(sizes: Sequence[int], *, operator: str = "", call_us: int = 8) -> Iterator[make.Event]:
    """Small pageable copies, one after the other, each by itself or by an ``operator``."""
    for index, size in enumerate(sizes):
        if operator:
            yield make.cpu_op(operator, 20 * index - 2, 12)
        yield make.call(20 * index, call_us, name="cudaMemcpyAsync", correlation=index + 1)
        yield make.copy(20 * index + 10, 2, correlation=index + 1, size=size)


def packed(tmp_path: Path, *events: make.Event, **packing: Any) -> Prediction:
    """What becomes of copies that are sent as one, with such a calibration."""
    return what_if(trace_of(tmp_path, *events, **make.calibrated(copies=PINNED, packing=packing)), ["batch-copies"])


def longest_call_ns(found: Prediction) -> int:
    edges = found.simulation.graph.dependencies
    return int(edges.weight_ns[edges.of_kind(DependencyKind.API_CALL)].max())


def test_packing_takes_what_the_calibration_says(tmp_path: Path) -> None:
    measured = [{"size_bytes": 1024, "pack_ns": 1_000}, {"size_bytes": 3072, "pack_ns": 5_000}]
    found = packed(tmp_path, *pieces([2048] * 8), pieces=measured)
    assert longest_call_ns(found) == pytest.approx(8 * 3_000, abs=10_000)
    assert any("packing on the host: the calibration" in text for text in found.assumptions)


@pytest.mark.parametrize(
    ("sizes", "made", "takes"),
    [([2048] * 8, False, 3 + 8 * 2), ([2048, 2044] * 4, False, 3 + 8 * 6), ([2048] * 8, True, 3 + 8 * 2)],
    ids=["of one size", "ragged", "that were tensors"],
)
def test_pieces_of_several_sizes_take_longer_to_pack(
    sizes: list[int], made: bool, takes: float, tmp_path: Path
) -> None:
    """Views of each piece may come to it, or not, and views of what arrives, where those were tensors of their own."""
    measured = [{"size_bytes": size, "pack_ns": 2_000, "ragged_ns": 6_000} for size in (1024, 4096)]
    events = list(pieces(sizes, operator="aten::_to_copy" if made else "aten::copy_"))
    beside = {"start_ns": 3_000, "view_ns": 1_000}
    found = packed(tmp_path, *events, pieces=measured, **beside)
    assert by_order_ns(found.estimate)[1] - found.predicted_ns == pytest.approx(16_000 if made else 8_000)
    assert any("views" in text for text in found.assumptions)
    without = packed(tmp_path, *events, pieces=[], **beside)
    longer = longest_call_ns(found) - longest_call_ns(without)
    assert longer / 1e3 == pytest.approx(takes - 8 * 2, abs=0.01), "else as long as staging them"


@pytest.mark.parametrize(
    ("sizes", "usual_us", "more_us"), [([2048] * 8, 16, 24), ([2048, 2044] * 4, 24, 48)], ids=["of one size", "ragged"]
)
def test_pieces_that_went_out_of_the_caches_are_in_the_upper_bound(
    sizes: list[int], usual_us: int, more_us: int, tmp_path: Path
) -> None:
    """Eight that are packed in 2 us each right after each other, in 5 after other work; of two sizes in 3 and 9."""
    cold, warm = {"pack_ns": 5_000, "ragged_ns": 9_000}, {"warm_pack_ns": 2_000, "warm_ragged_ns": 3_000}
    found = packed(
        tmp_path, *pieces(sizes, call_us=5), pieces=[{"size_bytes": size, **cold, **warm} for size in (1024, 4096)]
    )
    assert longest_call_ns(found) == pytest.approx(1_000 * (5 + usual_us), abs=500), "and the call itself"
    assert by_order_ns(found.estimate)[1] - found.predicted_ns == pytest.approx(1_000 * more_us)
    assert any("in no cache" in text for text in found.assumptions)


def test_pieces_are_packed_as_fast_as_they_are_staged(tmp_path: Path) -> None:
    """Without a calibration: eight pieces that each took 3 us, though larger ones are staged far faster a byte."""
    small = "|".join(
        f"copy 2KiB pageable HtoD {begin}-{begin + 8} -> stream 13: {begin + 5}-{begin + 8}"
        for begin in range(300, 460, 20)
    )
    trace = trace_of(
        tmp_path,
        "copy 10MB pageable HtoD 0-110 -> stream 13: 5-105 | launch 200-205 -> stream 7: 210-215",
        small,
        **make.H200,
    )
    found = what_if(trace, ["batch-copies"])
    call = found.after.api_calls
    assert int((call.end_ns - call.start_ns)[2]) == pytest.approx(8 * 3_000 + 8_000, abs=3_000)
    assert any("as long as staging" in text for text in found.assumptions)


@pytest.mark.parametrize(("sizes", "usual_us"), [([65536] * 8, 56), ([65536, 65532] * 4, 65)], ids=["equal", "ragged"])
def test_without_any_staging_packing_takes_what_is_usual(sizes: list[int], usual_us: int, tmp_path: Path) -> None:
    """A start of 11 us, 0.5 a piece, 1.2 more where they are ragged, and 512 KiB at 13 GB/s."""
    copies = "|".join(
        f"copy {size}B pinned HtoD {20 * index}-{20 * index + 4} -> stream 13: {20 * index + 6}-{20 * index + 10}"
        for index, size in enumerate(sizes, 1)
    )
    found = what_if(trace_of(tmp_path, copies, **make.H200), ["batch-copies"])
    call = found.after.api_calls
    assert int((call.end_ns - call.start_ns)[0]) == pytest.approx((4 + usual_us) * 1_000, abs=1_000)
    assert any("as usual" in text for text in found.assumptions)
    assert by_order_ns(found.estimate)[1] > found.predicted_ns, "views of the pieces"


def test_what_is_packed_in_two_places_goes_into_two_buffers(tmp_path: Path) -> None:
    """Each of two ranges has four small copies, the last of one soon before the first of the other."""
    copies = "|".join(
        f"copy 4KiB pinned HtoD {begin + 2}-{begin + 6} -> stream 13: {begin + 8}-{begin + 9}"
        for begin in range(0, 80, 10)
    )
    trace = trace_of(tmp_path, "range a 0-40 | range b 40-80", copies, **make.H200)
    both = what_if(trace, ["batch-copies:within=a", "batch-copies:within=b"]).after.copies
    assert np.flatnonzero(both.duration_ns).tolist() == [0, 4]
    assert np.flatnonzero(what_if(trace, ["batch-copies"]).after.copies.duration_ns).tolist() == [0]
