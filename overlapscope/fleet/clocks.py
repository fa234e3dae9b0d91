"""Align the clocks of ranks on the ends of matched collectives, with the error that remains.

The kernels of one collective end together in all ranks, within the time of its last messages: none can end before all
have sent. They begin when each rank comes to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.fleet.config import FleetConfig
from overlapscope.fleet.groups import quantile, smallest
from overlapscope.fleet.matching import Matched
from overlapscope.model.columns import Bool, Int64

_ROUNDS = 3  # of refining: medians of medians settle after one or two


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

    @property
    def largest_error_ns(self) -> int:
        """The error of the worst clock that is aligned."""
        return int(self.error_ns[self.aligned].max(initial=0))


def align(matched: Matched, config: FleetConfig) -> Clocks:
    """Align the clocks of all members with enough matched collectives."""
    counts = np.bincount(matched.member, minlength=matched.members)
    rows = _some(matched, config.most_matched)
    rows = rows.take(counts[rows.member] >= config.least_matched)
    part = _parts(rows)
    aligned = (part == np.arange(matched.members)) & (counts >= config.least_matched)
    offset, aligned = _spread(rows, aligned, config.least_matched)
    rows = rows.take(aligned[rows.member])
    for _ in range(_ROUNDS):
        offset = quantile(rows.end_ns - _ends(rows, offset)[rows.collective], rows.member, rows.members)
        offset = np.where(aligned, offset - offset[part], 0)
    apart = np.abs(rows.end_ns - offset[rows.member] - _ends(rows, offset)[rows.collective])
    error = quantile(apart, rows.member, rows.members, config.error_quantile)
    return Clocks(offset, error, counts, aligned, part)


def _some(matched: Matched, most: int) -> Matched:
    """At most so many collectives of the same ranks: the first by number, which says nothing about when they ran."""
    begin = np.searchsorted(matched.collective, np.arange(matched.collectives + 1))
    if matched.collectives <= most:
        return matched
    ends = np.stack([matched.member[begin[:-1]], matched.member[begin[1:] - 1], np.diff(begin)])
    _, ranks = np.unique(ends, axis=1, return_inverse=True)
    order = np.argsort(ranks, kind="stable")
    counts = np.bincount(ranks)
    place = np.empty(matched.collectives, np.int64)
    place[order] = np.arange(matched.collectives) - np.repeat(np.cumsum(counts) - counts, counts)
    return matched.take((place < most)[matched.collective])


def _parts(rows: Matched) -> Int64:
    """For each member, the first one that collectives connect it with, through others."""
    part = np.arange(rows.members)
    while True:
        first = smallest(part[rows.member], rows.collective, rows.collectives)
        joined = np.minimum(part, smallest(first[rows.collective], rows.member, rows.members))
        if (joined == part).all():
            return part
        part = joined


def _spread(rows: Matched, aligned: Bool, least: int) -> tuple[Int64, Bool]:
    """Offsets from the first member of each part to those that share enough collectives with them, and so on."""
    offset = np.zeros(rows.members, np.int64)
    while True:
        known = rows.take(aligned[rows.member])
        ends, has_end = _ends(known, offset), np.bincount(known.collective, minlength=rows.collectives) > 0
        others = rows.take(~aligned[rows.member] & has_end[rows.collective])
        enough = np.bincount(others.member, minlength=rows.members) >= least
        if not enough.any():
            return offset, aligned
        found = quantile(others.end_ns - ends[others.collective], others.member, rows.members)
        offset, aligned = np.where(enough, found, offset), aligned | enough


def _ends(rows: Matched, offset: Int64) -> Int64:
    """The end of each collective, in the middle of what the ranks say."""
    return quantile(rows.end_ns - offset[rows.member], rows.collective, rows.collectives)
