"""Times and ids from loosely typed JSON: exact, or known to be missing."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from overlapscope.model.columns import NO_ID, NO_TIME
from overlapscope.read.values import (
    NeedsExact,
    integers,
    nanoseconds,
    nanoseconds_of,
    products,
    usable_times,
    whole_numbers,
)


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


@given(st.lists(st.decimals(-(4 * 10**15), 4 * 10**15, places=3), min_size=1, max_size=20))
def test_texts_are_exact_at_any_size(times: list[Decimal]) -> None:
    """As they are written, and without the zeros at their end."""
    expected = [int(time * 1000) for time in times]
    short = [f"{time:f}".rstrip("0").rstrip(".") or "0" for time in times]
    assert nanoseconds_of([f"{time:f}".encode() for time in times]).tolist() == expected
    assert nanoseconds_of([("0" if text == "-" else text).encode() for text in short]).tolist() == expected


ODD_TEXTS = [
    b"1e3", b"2.5E-1", b'"5.25"', b'"1716974123616068.123"', b"null", b"", b"[]", b'"abc"', b"5000000000000000",
    b"9" * 19, b"9" * 40, b"-" + b"9" * 19, b"9" * 5000, b"1e999999999", b"0.0004999", b"1716974123616068.12345",
    b"true", b"NaN",
]  # fmt: skip


@pytest.mark.parametrize("text", ODD_TEXTS, ids=lambda text: text[:24].decode())
def test_what_a_text_becomes_does_not_depend_on_its_neighbours(text: bytes) -> None:
    alone = nanoseconds_of([text]).tolist()
    assert nanoseconds_of([b"7.5", text, b"1716974123616068.123"]).tolist() == [7500, *alone, 1_716_974_123_616_068_123]
    known = {b"1e3": 10**6, b"2.5E-1": 250, b'"5.25"': 5250, b'"1716974123616068.123"': 1_716_974_123_616_068_123,
             b"0.0004999": 0, b"1716974123616068.12345": 1_716_974_123_616_068_123, b"true": 1000}  # fmt: skip
    assert alone == [known.get(text, NO_TIME)]


@pytest.mark.parametrize("value", [0.0005, 5.0015, 123456.7895, 8_000_000_000_000.0005])
def test_text_and_float_round_alike(value: float) -> None:
    assert nanoseconds_of([repr(value).encode()]).tolist() == nanoseconds([value]).tolist()
    assert nanoseconds([value, "5"]).tolist() == [*nanoseconds([value]).tolist(), 5000]


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
