"""Interval algebra on half-open integer intervals.

`Spans` are sorted and disjoint. Every operation is a sort, a prefix sum or a binary search, without a loop over
intervals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.model.columns import Bool, Columnar, Int64
from overlapscope.model.tables import Timed


@dataclass(frozen=True, eq=False)
class Spans(Columnar):
    """Sorted, disjoint, non-empty intervals [start, end), in ns; touching intervals are one."""

    start_ns: Int64
    end_ns: Int64

    @property
    def total_ns(self) -> int:
        """The total length of the spans, in ns."""
        return int((self.end_ns - self.start_ns).sum())


EMPTY = Spans.none()


def spans_of(table: Timed, rows: Int64 | Bool | slice = slice(None)) -> Spans:
    """The time covered by at least one row of a table, or by at least one of some rows."""
    return union(table.start_ns[rows], table.end_ns[rows])


def union(start_ns: Int64, end_ns: Int64) -> Spans:
    """The time covered by at least one interval.

    >>> spans = union(np.array([0, 5, 8]), np.array([6, 7, 9]))
    >>> list(zip(spans.start_ns.tolist(), spans.end_ns.tolist()))
    [(0, 7), (8, 9)]
    """
    positive = end_ns > start_ns
    order = np.argsort(start_ns[positive], kind="stable")
    start, end = start_ns[positive][order], end_ns[positive][order]
    if not len(start):
        return EMPTY
    reached = np.maximum.accumulate(end)
    opens = np.ones(len(start), np.bool_)
    opens[1:] = start[1:] > reached[:-1]
    closes = np.append(opens[1:], True)
    return Spans(start[opens], reached[closes])


def merge(*parts: Spans) -> Spans:
    """The union of several spans."""
    if not parts:
        return EMPTY
    starts, ends = zip(*((part.start_ns, part.end_ns) for part in parts), strict=True)
    return union(np.concatenate(starts), np.concatenate(ends))


def at_depth(start_ns: Int64, end_ns: Int64, depth: int) -> Spans:
    """The time covered by at least ``depth`` intervals at once."""
    times, counts = profile(start_ns, end_ns)
    deep = counts >= depth
    return union(times[:-1][deep[:-1]], times[1:][deep[:-1]]) if len(times) else EMPTY


def profile(start_ns: Int64, end_ns: Int64) -> tuple[Int64, Int64]:
    """The number of intervals over time, as a step function: each count holds until the next time."""
    positive = end_ns > start_ns
    times = np.concatenate([start_ns[positive], end_ns[positive]])
    change = np.ones(len(times), np.int64)
    change[len(times) // 2 :] = -1
    moments, position = np.unique(times, return_inverse=True)
    return moments, np.cumsum(np.bincount(position, change, len(moments)).astype(np.int64))


def intersect(one: Spans, other: Spans) -> Spans:
    """The time in both."""
    left, right = meeting(one.start_ns, one.end_ns, other.start_ns, other.end_ns)
    begin = np.maximum(one.start_ns[left], other.start_ns[right])
    return Spans(begin, np.minimum(one.end_ns[left], other.end_ns[right]))


def meeting(begin_ns: Int64, until_ns: Int64, start_ns: Int64, end_ns: Int64) -> tuple[Int64, Int64]:
    """Every pair of an interval [begin, until) and a segment [start, end) that share time, as their indices.

    Intervals may come in any order and overlap; segments are sorted and disjoint.
    """
    first = np.searchsorted(end_ns, begin_ns, "right")
    return each_of(first, np.searchsorted(start_ns, until_ns, "left"))


def each_of(first: Int64, last: Int64) -> tuple[Int64, Int64]:
    """All numbers from ``first`` to ``last``, exclusive, for each pair of these: index of the pair, and the number."""
    count = np.maximum(last - first, 0)
    pair = np.repeat(np.arange(len(first)), count)
    within = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count)
    return pair, first[pair] + within


def subtract(one: Spans, other: Spans) -> Spans:
    """The time in ``one`` and not in ``other``."""
    if not len(one) or not len(other):
        return one
    start = np.concatenate([one.start_ns[:1], other.end_ns])
    end = np.concatenate([other.start_ns, one.end_ns[-1:]])
    free = end > start
    return intersect(one, Spans(start[free], end[free]))


def covered(start_ns: Int64, end_ns: Int64, spans: Spans) -> Int64:
    """For each interval, the length of its part within ``spans``.

    >>> covered(np.array([0, 4]), np.array([3, 9]), union(np.array([2, 6]), np.array([5, 7]))).tolist()
    [1, 2]
    """
    if not len(spans):
        return np.zeros(len(start_ns), np.int64)
    result: Int64 = _before(end_ns, spans) - _before(start_ns, spans)
    return np.where(end_ns > start_ns, result, 0)


def _before(moment_ns: Int64, spans: Spans) -> Int64:
    """Time within ``spans`` before each moment."""
    lengths = spans.end_ns - spans.start_ns
    done = np.concatenate([[0], np.cumsum(lengths)])
    index = np.searchsorted(spans.start_ns, moment_ns, "right") - 1
    inside = np.maximum(index, 0)
    partial = np.minimum(moment_ns - spans.start_ns[inside], lengths[inside])
    return np.where(index < 0, 0, done[inside] + partial)


def contains(spans: Spans, start_ns: Int64, end_ns: Int64) -> Bool:
    """Which intervals overlap ``spans``; an empty interval does where it begins within ``spans``."""
    index = np.searchsorted(spans.end_ns, start_ns, "right")
    inside = index < len(spans)
    begin = spans.start_ns[np.minimum(index, len(spans) - 1)] if len(spans) else start_ns
    return inside & ((begin < end_ns) | (begin <= start_ns))
