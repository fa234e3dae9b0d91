"""Times and ids from loosely typed JSON: exact, or known to be missing."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlapscope.model.columns import NO_ID, NO_TIME
from overlapscope.read.values import NeedsExact, integers, nanoseconds, products, usable_times, whole_numbers


@given(st.lists(st.integers(0, 2**43 * 1000 - 1), min_size=1, max_size=20))
def test_relative_times_are_exact_through_floats(times: list[int]) -> None:
    written = [float(f"{time // 1000}.{time % 1000:03d}") for time in times]
    assert nanoseconds(written).tolist() == times


@given(st.lists(st.integers(0, 4 * 10**15), min_size=1, max_size=20))
def test_whole_microseconds_are_exact(times: list[int]) -> None:
    assert nanoseconds(times).tolist() == [time * 1000 for time in times]


def test_large_floats_ask_for_their_text() -> None:
    with pytest.raises(NeedsExact):
        nanoseconds([1_606_910_596_297_023.123])
    with pytest.raises(NeedsExact):
        nanoseconds([1_606_910_596_297_023.0, 5])  # a fraction may have been rounded away
    assert nanoseconds([Decimal("1606910596297023.123")]).tolist() == [1_606_910_596_297_023_123]


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "abc",
        float("nan"),
        float("inf"),
        1e300,
        [],
        "0.-660",
        -(2**63),
        2**63,
        10**30,
        Decimal("1e999999999"),
        "1e99999999",
        "9" * 5000,
        Decimal("NaN"),
        {},
        5 * 10**15,
    ],
)
def test_unreadable_times_are_no_time(value: Any) -> None:
    assert nanoseconds([value, 7]).tolist() == [NO_TIME, 7000]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("stream 7", 7), ("12", 12), ("0x10", 16), (7.0, 7), (None, NO_ID), ("Spans", NO_ID),
        (float("nan"), NO_ID), (float("inf"), NO_ID), (10**400, 10**400 % 2**64), ([1], NO_ID), (Decimal(5), 5),
        (10159970886766084423, 10159970886766084423 - 2**64), ({}, NO_ID), ("x" * 100_000, NO_ID),
        ("1" * 100_000 + "x", NO_ID), (Decimal("1e99999"), NO_ID), (1e30, NO_ID),
    ],
)  # fmt: skip
def test_ids(value: Any, expected: int) -> None:
    assert integers([value, 3]).tolist() == [expected if expected < 2**63 else expected - 2**64, 3]


def test_databases_hold_whole_numbers_or_nothing() -> None:
    assert whole_numbers([5, "7", "1000.5", "12:34", None, b"9", 2.5, " 8 "], NO_TIME).tolist() == [
        5, 7, NO_TIME, NO_TIME, NO_TIME, NO_TIME, NO_TIME, 8,
    ]  # fmt: skip


def test_ids_all_missing() -> None:
    assert integers([None, None]).tolist() == [NO_ID, NO_ID]
    assert integers([]).tolist() == []


def test_ids_beyond_int64_stay_apart() -> None:
    assert len(set(integers([2**63 + number for number in range(5)]).tolist())) == 5


def test_products() -> None:
    assert products([[2, 3, 4], [1, 1, 1]]).tolist() == [24, 1]
    assert products([[2, 3, 4], None, [2**40, 2**40], ["x"], []]).tolist() == [24, NO_ID, NO_ID, NO_ID, NO_ID]
    assert products([]).tolist() == []


def test_usable_times() -> None:
    start = np.array([0, NO_TIME, 5, 5, np.iinfo(np.int64).max - 1], np.int64)
    duration = np.array([3, 1, -1, NO_TIME, 5], np.int64)
    usable, no_time, backwards = usable_times(start, duration)
    assert usable.tolist() == [True, False, False, False, False]
    assert (no_time, backwards) == (3, 1)
