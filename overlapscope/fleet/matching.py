"""Collectives of all ranks, matched: the same one in each rank has the same number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.model.columns import Bool, Int64


@dataclass(frozen=True, eq=False)
class Matched:
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

    def take(self, rows: Bool | Int64) -> Matched:
        """Some of the rows, with the same numbers."""
        own = self.collective[rows], self.member[rows], self.row[rows]
        return Matched(*own, self.start_ns[rows], self.end_ns[rows], self.collectives, self.members)


def match(number: Int64, known: Bool, member: Int64, start_ns: Int64, end_ns: Int64, members: int) -> Matched:
    """Match rows by their numbers, where these are known and the member is one (not negative)."""
    collective, rows = shared(number, known, member)
    found = int(collective[-1]) + 1 if len(collective) else 0
    return Matched(collective, member[rows], rows, start_ns[rows], end_ns[rows], found, members)


def shared(number: Int64, known: Bool, member: Int64) -> tuple[Int64, Int64]:
    """The rows with numbers that several have, sorted by collective and member, and the collective of each."""
    rows = np.flatnonzero(known & (member >= 0))
    number = number[rows]
    unique = np.unique(number)
    collective = np.searchsorted(unique, number)  # a fraction of the memory of the inverse of `unique`
    several = np.bincount(collective, minlength=len(unique)) > 1
    found = several[collective]
    rows, collective = rows[found], (np.cumsum(several) - 1)[collective[found]]
    order = np.lexsort((member[rows], collective))
    return collective[order], rows[order]
