"""The interval algebra against sets of integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from overlapscope.measure import spans as algebra
from overlapscope.measure.spans import Spans
from overlapscope.model.columns import Int64

Arrays = tuple[Int64, Int64]

intervals = st.lists(st.tuples(st.integers(-40, 40), st.integers(0, 12)), max_size=12).map(
    lambda pairs: (
        np.array([start for start, _ in pairs], np.int64),
        np.array([start + length for start, length in pairs], np.int64),
    )
)


def cells(arrays: Arrays) -> set[int]:
    return {cell for start, end in zip(*(part.tolist() for part in arrays), strict=True) for cell in range(start, end)}


def of(spans: Spans) -> set[int]:
    assert (spans.end_ns > spans.start_ns).all()
    assert (spans.start_ns[1:] > spans.end_ns[:-1]).all(), "spans must be sorted, disjoint and apart"
    return cells((spans.start_ns, spans.end_ns))


@given(intervals, intervals)
def test_set_operations(one: Arrays, other: Arrays) -> None:
    a, b = algebra.union(*one), algebra.union(*other)
    assert of(a) == cells(one)
    assert a.total_ns == len(cells(one))
    assert of(algebra.intersect(a, b)) == cells(one) & cells(other)
    assert of(algebra.subtract(a, b)) == cells(one) - cells(other)
    assert of(algebra.merge(a, b)) == cells(one) | cells(other)


@given(intervals, intervals)
def test_covered_and_contains(one: Arrays, other: Arrays) -> None:
    spans, inside = algebra.union(*other), cells(other)
    rows = list(zip(*(part.tolist() for part in one), strict=True))
    assert algebra.covered(*one, spans).tolist() == [len(set(range(*row)) & inside) for row in rows]
    touched = [bool(set(range(*row)) & inside) or (row[0] == row[1] and row[0] in inside) for row in rows]
    assert algebra.contains(spans, *one).tolist() == touched


@given(intervals, st.integers(1, 4))
def test_depth(one: Arrays, depth: int) -> None:
    counts: dict[int, int] = {}
    for start, end in zip(*(part.tolist() for part in one), strict=True):
        for cell in range(start, end):
            counts[cell] = counts.get(cell, 0) + 1
    assert of(algebra.at_depth(*one, depth)) == {cell for cell, count in counts.items() if count >= depth}
    times, depths = algebra.profile(*one)
    for moment, following, value in zip(times[:-1].tolist(), times[1:].tolist(), depths[:-1].tolist(), strict=True):
        assert all(counts.get(cell, 0) == value for cell in range(moment, following))


def test_exact_at_epoch_nanoseconds() -> None:
    base = 1_790_857_026_000_000_001  # beyond what a float can hold to the nanosecond
    start = np.array([base, base + 2], np.int64)
    spans = algebra.union(start, start + 3)
    assert spans.total_ns == 5
    assert algebra.covered(np.array([base + 1]), np.array([base + 4]), spans).tolist() == [3]
