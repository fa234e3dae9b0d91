"""Pinned copies reach the bandwidth of a faster link."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import what_if
from tests import kineto_maker as make
from tests.notation import trace_of


@pytest.mark.parametrize("rate", [10, 10.1, 12, 21])
def test_a_faster_link_makes_copies_beside_each_other_no_slower(rate: float, tmp_path: Path) -> None:
    """Each way four copies of 1 MB in 100 us, all of it beside the other way: 10 GB/s."""
    duplex = [
        {"direction": "HtoD", "alone_ns": 100, "beside_ns": 125},
        {"direction": "DtoH", "alone_ns": 100, "beside_ns": 200},
    ]
    pairs = "|".join(
        f"copy 1MB pinned HtoD {number}-{number + 0.5} -> stream 7: {50 * number}-{50 * number + 100} |"
        f"copy 1MB pinned DtoH {number + 0.6}-{number + 0.9} -> stream 9: {50 * number}-{50 * number + 100}"
        for number in range(1, 9, 2)
    )
    found = what_if(trace_of(tmp_path, pairs, **make.calibrated(duplex=duplex)), [f"faster-link={rate}"])
    assert found.predicted_ns <= found.simulated_ns
    assert found.predicted_ns == pytest.approx(found.simulated_ns * 10 / rate, rel=0.15)


def test_a_link_that_is_faster_already_stays_and_pageable_copies_do_too(tmp_path: Path) -> None:
    """55 MB in 1 ms are 55 GB/s."""
    text = """
        thread 1: copy 55MB pinned HtoD 0-4 -> stream 7: 6-1_006
                  copy 55MB pageable HtoD 10-5_010 -> stream 7: 1_008-5_008
    """
    trace = trace_of(tmp_path, text)
    assert what_if(trace, ["faster-link=50"]).predicted_ns == what_if(trace, []).simulated_ns
    assert what_if(trace, ["faster-link=100"]).after.copies.duration_ns.tolist() == [550_000, 4_000_000]
