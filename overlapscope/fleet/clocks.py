"""The collectives of all ranks on one clock, and how late each rank comes to each of them.

The kernels of one collective end together in all ranks, within the time of its last messages: none can end before all
have sent. They begin when each rank comes to it. So clocks are aligned on the ends, and begins say who is late.

A rank is late at a collective by the time from the arrival of the median rank to its own. Its lateness in a step is the
sum over the collectives of that step. This is the only measure of lateness of a job.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from overlapscope.model.columns import Bool, Columnar, Int64

LEAST_MATCHED = 3
"""Collectives that a rank shares with others before its clock is aligned; with fewer, a wrong match is not noticed."""
MOST_MATCHED = 200
"""Collectives of the same ranks on which clocks are aligned, where there are more.

Medians of so many are within a few percent of the spread of all, in bounded memory.
"""
ERROR_QUANTILE = 0.9
"""The error of a clock is this quantile of the distances of its collectives' ends from those of the other ranks.

The rest are collectives that end earlier in some ranks by their nature.
"""
CLEARLY = 2.0
"""A rank is late where it comes later than the others by this many times the clocks' error."""
ROWS_AT_ONCE = 200_000
"""Rows of which quantiles are taken at once, where groups are sorted: sorting all takes as much memory again."""
_ROUNDS = 3  # of refining offsets: medians of medians settle after one or two


@dataclass(frozen=True, eq=False)
class Matched(Columnar):
    """Collectives that at least two ranks have, sorted by collective and member.

    ``collective`` numbers them from 0, ``member`` the ranks; ``row`` is the row in the table of collectives. Times are
    on each rank's own clock.
    """

    collective: Int64
    member: Int64
    row: Int64
    start_ns: Int64
    end_ns: Int64
    collectives: int
    members: int


@dataclass(frozen=True, eq=False)
class Clocks:
    """The clock of each member.

    Subtracting ``offset_ns`` gives times on the clock of the first member of its ``part``. Parts are sets of ranks that
    no matched collective connects; between them times are not comparable. ``error_ns`` is how far the ends of its
    collectives lie from those of the other ranks, ``matched`` how many collectives it shares with them.
    """

    offset_ns: Int64
    error_ns: Int64
    matched: Int64
    aligned: Bool
    part: Int64


@dataclass(frozen=True, eq=False)
class Arrivals:
    """The times of each matched collective on aligned clocks, and its rows.

    ``counts`` says which collectives can be judged: at least two ranks with aligned clocks, whose kernels all ran at
    one moment. ``last`` is the member that comes last, the first of several; -1 where there is none. ``late_ns`` is its
    lateness, ``wait_ns`` the waiting of all ranks together, ``transfer_ns`` from the last arrival to the end. Lateness
    up to ``error_ns`` is within the error of the clocks.
    """

    rows: Matched
    counts: Bool
    last: Int64
    ranks: Int64
    arrival_ns: Int64
    late_ns: Int64
    wait_ns: Int64
    transfer_ns: Int64
    error_ns: Int64

    def behind_ns(self, start_ns: Int64) -> Int64:
        """The lateness of the rank of each row, if ranks come at these times; 0 where it is not clearly late."""
        number = self.rows.collective
        behind = start_ns - quantile(start_ns, number, self.rows.collectives)[number]
        return np.where(self.counts[number] & (behind > self.error_ns[number]), behind, 0)


def shared(number: Int64, known: Bool, member: Int64) -> tuple[Int64, Int64]:
    """The collective of each row whose number several rows have, and these rows, sorted by collective and member.

    A number counts where it is known and the member is one (not negative).
    """
    rows = np.flatnonzero(known & (member >= 0))
    number = number[rows]
    unique = np.unique(number)
    collective = np.searchsorted(unique, number)  # a fraction of the memory of the inverse of `unique`
    several = np.bincount(collective, minlength=len(unique)) > 1
    kept = several[collective]
    rows, collective = rows[kept], (np.cumsum(several) - 1)[collective[kept]]
    order = np.lexsort((member[rows], collective))
    return collective[order], rows[order]


def align(matched: Matched, most_matched: int = MOST_MATCHED) -> Clocks:
    """Align the clocks of all members with enough matched collectives."""
    counts = np.bincount(matched.member, minlength=matched.members)
    rows = _limited(matched, most_matched)
    rows = rows.take(counts[rows.member] >= LEAST_MATCHED)
    part = _parts(rows)
    aligned = (part == np.arange(matched.members)) & (counts >= LEAST_MATCHED)
    offset, aligned = _spread(rows, aligned)
    rows = rows.take(aligned[rows.member])
    for _ in range(_ROUNDS):
        offset = quantile(rows.end_ns - _ends(rows, offset)[rows.collective], rows.member, rows.members)
        offset = np.where(aligned, offset - offset[part], 0)
    distance = np.abs(rows.end_ns - offset[rows.member] - _ends(rows, offset)[rows.collective])
    error = quantile(distance, rows.member, rows.members, ERROR_QUANTILE)
    return Clocks(offset, error, counts, aligned, part)


def _limited(matched: Matched, most: int) -> Matched:
    """At most so many collectives of the same ranks: the first by number, which says nothing about when they ran."""
    if matched.collectives <= most:
        return matched
    begin = np.searchsorted(matched.collective, np.arange(matched.collectives + 1))
    ends = np.stack([matched.member[begin[:-1]], matched.member[begin[1:] - 1], np.diff(begin)])
    place = pd.DataFrame(ends.T).groupby([0, 1, 2]).cumcount().to_numpy(np.int64)
    return matched.take((place < most)[matched.collective])


def _parts(rows: Matched) -> Int64:
    """The first member that collectives connect each member with, also through others."""
    part = np.arange(rows.members)
    while True:
        first = smallest(part[rows.member], rows.collective, rows.collectives)
        joined = np.minimum(part, smallest(first[rows.collective], rows.member, rows.members))
        if (joined == part).all():
            return part
        part = joined


def _spread(rows: Matched, aligned: Bool) -> tuple[Int64, Bool]:
    """Offsets from the first member of each part to those that share enough collectives with them, and so on."""
    offset = np.zeros(rows.members, np.int64)
    while True:
        known = rows.take(aligned[rows.member])
        ends, has_end = _ends(known, offset), np.bincount(known.collective, minlength=rows.collectives) > 0
        others = rows.take(~aligned[rows.member] & has_end[rows.collective])
        enough = np.bincount(others.member, minlength=rows.members) >= LEAST_MATCHED
        if not enough.any():
            return offset, aligned
        distance = quantile(others.end_ns - ends[others.collective], others.member, rows.members)
        offset, aligned = np.where(enough, distance, offset), aligned | enough


def _ends(rows: Matched, offset: Int64) -> Int64:
    """The end of each collective, in the middle of what the ranks say."""
    return quantile(rows.end_ns - offset[rows.member], rows.collective, rows.collectives)


def arrivals(matched: Matched, clocks: Clocks) -> Arrivals:
    """The arrivals of all ranks at each matched collective."""
    aligned = clocks.aligned[matched.member]
    rows = matched if aligned.all() else matched.take(aligned)
    offset = clocks.offset_ns[rows.member]
    rows = replace(rows, start_ns=rows.start_ns - offset, end_ns=rows.end_ns - offset)
    number, size = rows.collective, rows.collectives
    ranks = np.bincount(number, minlength=size)
    arrival, first_end, error = (
        np.where(ranks > 0, values, 0)
        for values in (
            largest(rows.start_ns, number, size),
            smallest(rows.end_ns, number, size),
            largest(clocks.error_ns[rows.member], number, size),
        )
    )
    error = np.ceil(CLEARLY * error).astype(np.int64)
    is_last = rows.start_ns == arrival[number]
    last = smallest(np.where(is_last, rows.member, rows.members), number, size)
    return Arrivals(
        rows=rows,
        counts=(ranks > 1) & (arrival - first_end <= error),
        last=np.where(last >= rows.members, -1, last),
        ranks=ranks,
        arrival_ns=arrival,
        late_ns=arrival - quantile(rows.start_ns, number, size),
        wait_ns=total(arrival[number] - rows.start_ns, number, size),
        transfer_ns=np.maximum(quantile(rows.end_ns, number, size) - arrival, 0),
        error_ns=error,
    )


def quantile(values: Int64, group: Int64, groups: int, share: float = 0.5) -> Int64:
    """A quantile of the values of each group, one of them; the lower median by default, 0 for an empty group.

    >>> quantile(np.array([5, 1, 3, 7]), np.array([0, 0, 0, 2]), 3).tolist()
    [3, 0, 7]
    """
    if len(values) <= ROWS_AT_ONCE or (group[1:] < group[:-1]).any():
        return _quantile(values, group, groups, share)
    result, begin = np.zeros(groups, np.int64), 0
    while begin < len(group):
        first, last = group[begin], group[min(begin + ROWS_AT_ONCE, len(group)) - 1]
        rows = slice(begin, int(np.searchsorted(group, last, "right")))
        result[first : last + 1] = _quantile(values[rows], group[rows] - first, last + 1 - first, share)
        begin = rows.stop
    return result


def _quantile(values: Int64, group: Int64, groups: int, share: float) -> Int64:
    counts = np.bincount(group, minlength=groups)
    order = np.lexsort((values, group))
    place = np.cumsum(counts) - counts + ((counts - 1) * share).astype(np.int64)
    result: Int64 = np.append(values[order], 0)[np.where(counts > 0, place, len(values))]
    return result


def _reduced(combine: Any, empty: int, values: Int64, group: Int64, groups: int) -> Int64:
    result = np.full(groups, empty, np.int64)
    combine.at(result, group, values)
    return result


smallest = partial(_reduced, np.minimum, np.iinfo(np.int64).max)
"""The smallest of the values of each group, by the number of its group; the largest possible number without a value."""
largest = partial(_reduced, np.maximum, np.iinfo(np.int64).min)
"""The largest of the values of each group; the smallest possible number without a value."""
total = partial(_reduced, np.add, 0)
"""The sum of the values of each group."""
