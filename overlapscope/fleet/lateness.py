"""When each rank comes to each collective, how late it is, and how long the others wait for the last one.

A rank is late at a collective by the time from the arrival of the median rank to its own. Its lateness in a step is the
sum over the collectives of that step. This is the only measure of lateness of a job.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.fleet.clocks import Clocks
from overlapscope.fleet.config import FleetConfig
from overlapscope.fleet.groups import largest, quantile, smallest, total
from overlapscope.fleet.matching import Matched
from overlapscope.model.columns import Bool, Int64


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Each matched collective on aligned clocks, and its rows.

    ``counts`` says which collectives can be judged: at least two ranks with aligned clocks, whose kernels all ran at
    one moment. ``late_ns`` is the lateness of the last rank, ``wait_ns`` the waiting of all ranks together,
    ``transfer_ns`` from the last arrival to the end. Lateness up to ``error_ns`` is within the error of the clocks.
    """

    rows: Matched
    counts: Bool
    last: Int64
    ranks: Int64
    arrival_ns: Int64
    end_ns: Int64
    late_ns: Int64
    wait_ns: Int64
    transfer_ns: Int64
    error_ns: Int64

    @property
    def late(self) -> Bool:
        """Collectives to which the last rank comes clearly late."""
        return self.counts & (self.late_ns > self.error_ns)

    def behind_ns(self, start_ns: Int64) -> Int64:
        """The lateness of the rank of each row, if ranks come at these times; 0 where it is not clearly late."""
        number = self.rows.collective
        behind = start_ns - quantile(start_ns, number, self.rows.collectives)[number]
        return np.where(self.counts[number] & (behind > self.error_ns[number]), behind, 0)

    @property
    def waits_ns(self) -> Int64:
        """How long the rank of each row waits for the last one."""
        waits: Int64 = self.arrival_ns[self.rows.collective] - self.rows.start_ns
        return np.maximum(waits, 0)


def arrivals(matched: Matched, clocks: Clocks, config: FleetConfig) -> Arrivals:
    """Judge each matched collective on aligned clocks."""
    aligned = clocks.aligned[matched.member]
    rows = _on_one_clock(matched if aligned.all() else matched.take(aligned), clocks)
    number, size = rows.collective, rows.collectives
    ranks = np.bincount(number, minlength=size)
    arrival, end = (np.where(ranks > 0, found, 0) for found in _edges(rows))
    middle = quantile(rows.start_ns, number, size)
    error = np.where(ranks > 0, largest(clocks.error_ns[rows.member], number, size), 0)
    error = np.ceil(config.clearly * error).astype(np.int64)
    return Arrivals(
        rows=rows,
        counts=(ranks > 1) & (arrival - np.where(ranks > 0, smallest(rows.end_ns, number, size), 0) <= error),
        last=_last(rows, arrival),
        ranks=ranks,
        arrival_ns=arrival,
        end_ns=end,
        late_ns=arrival - middle,
        wait_ns=total(arrival[number] - rows.start_ns, number, size),
        transfer_ns=np.maximum(end - arrival, 0),
        error_ns=error,
    )


def _on_one_clock(rows: Matched, clocks: Clocks) -> Matched:
    offset = clocks.offset_ns[rows.member]
    start, end = rows.start_ns - offset, rows.end_ns - offset
    return Matched(rows.collective, rows.member, rows.row, start, end, rows.collectives, rows.members)


def _edges(rows: Matched) -> tuple[Int64, Int64]:
    return (
        largest(rows.start_ns, rows.collective, rows.collectives),
        quantile(rows.end_ns, rows.collective, rows.collectives),
    )


def _last(rows: Matched, arrival: Int64) -> Int64:
    """The member that comes last to each collective, the first of several; -1 where there is none."""
    is_last = rows.start_ns == arrival[rows.collective]
    found = smallest(np.where(is_last, rows.member, rows.members), rows.collective, rows.collectives)
    return np.where(found >= rows.members, -1, found)
