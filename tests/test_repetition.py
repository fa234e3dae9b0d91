"""What repeats in a trace without steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from overlapscope.measure.ranges import period, repetition
from tests.notation import trace_of


@pytest.mark.parametrize(
    ("sequence", "found"),
    [
        ([], None),
        ([1], None),
        ([1, 2, 1, 2], None),
        ([1, 2, 1, 2, 1, 2], (0, 2, 3)),
        ([9, 8, *[1, 1, 2] * 5, 7], (2, 3, 5)),
        ([1] * 8, (0, 1, 8)),
        (list(range(40)), None),
        ([*range(30), *[1, 2, 3] * 4], None),  # not the larger part of it
    ],
)
def test_the_period_of_a_sequence(sequence: list[int], found: tuple[int, int, int] | None) -> None:
    assert period(np.array(sequence, np.int64)) == found


def test_a_sequence_of_chance_does_not_repeat() -> None:
    assert period(np.random.default_rng(0).integers(4, size=1000)) is None


def test_launches_that_repeat(tmp_path: Path) -> None:
    calls = " | ".join(
        f"launch {name} {10 * number}-{10 * number + 2} -> stream 7: {10 * number + 3}-{10 * number + 8}"
        for number, name in enumerate(["init", *["gemm", "relu"] * 4, "end"])
    )
    found = repetition(trace_of(tmp_path, f"thread 1: {calls}"))
    assert found is not None
    assert (found.what, found.count, found.length, found.range) == ("launches", 4, 2, None)
    assert found.end_ns - found.start_ns == 80_000


def test_a_range_that_repeats_is_named(tmp_path: Path) -> None:
    parts = " | ".join(
        f"range step {10 * number}-{10 * number + 9} | launch {10 * number + 1}-{10 * number + 2} -> stream 7: "
        f"{10 * number + 3}-{10 * number + 8}"
        for number in range(3)
    )
    found = repetition(trace_of(tmp_path, f"thread 1: {parts}"))
    assert found is not None
    assert (found.range, found.count) == ("step", 3)
