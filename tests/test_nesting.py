"""Which range is open at a moment: as a stack says, for ranges that nest, cross, touch and take no time."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from overlapscope.measure.grouping import distinct_columns
from overlapscope.measure.places import enclosing, innermost
from overlapscope.model.columns import NO_ID, Names
from overlapscope.model.tables import Ranges

TIMES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(1, 2)), max_size=12)


def ranges(times: list[tuple[int, int, int]]) -> Ranges:
    rows = np.array(sorted(times, key=lambda each: (each[0], -each[1])), np.int64).reshape(-1, 3)
    columns = {"start_ns": rows[:, 0], "end_ns": rows[:, 0] + rows[:, 1], "thread": rows[:, 2]}
    zero = np.zeros(len(rows), np.int64)
    return Ranges.build(Names(("range",)), len(rows), columns | {"process": zero, "name_id": zero})


def last_open(table: Ranges, thread: int, moment: int) -> int:
    """The one that began last of those that are still open."""
    rows = range(len(table))
    some = [row for row in rows if table.thread[row] == thread and table.start_ns[row] <= moment < table.end_ns[row]]
    return max(some, default=NO_ID)


@given(TIMES, st.lists(st.tuples(st.integers(0, 45), st.integers(1, 3)), max_size=8))
def test_the_innermost_range_is_the_one_that_began_last(
    times: list[tuple[int, int, int]], at: list[tuple[int, int]]
) -> None:
    table, (moment, thread) = ranges(times), np.array(at, np.int64).reshape(-1, 2).T
    found = innermost(table, np.zeros(len(at), np.int64), thread, moment)
    assert found.tolist() == [last_open(table, other, time) for time, other in at]


@given(TIMES)
def test_what_encloses_a_range_is_open_when_it_begins(times: list[tuple[int, int, int]]) -> None:
    table = ranges(times)
    for row, around in enumerate(enclosing(table).tolist()):
        before = [other for other in range(row) if table.thread[other] == table.thread[row]]
        still = [other for other in before if table.end_ns[other] > table.start_ns[row]]
        assert around == max(still, default=NO_ID)  # within the tolerance, none ends too early


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2)), max_size=20))
def test_different_columns_are_those_of_numpy(columns: list[tuple[int, int]]) -> None:
    keys = np.array(columns, np.int64).reshape(-1, 2).T
    found, member = distinct_columns(keys)
    expected, which = np.unique(keys, axis=1, return_inverse=True)
    assert found.tolist() == expected.tolist()
    assert member.tolist() == which.reshape(-1).tolist()
