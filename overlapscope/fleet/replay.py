"""What the job would save if one rank were like the others: its collectives replayed in their order.

Between two collectives a rank does work of its own; a collective begins when the last rank has come to it, and then
takes as long as it took. This is the whole model: what a rank does between its collectives stays as long as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.fleet.lateness import Arrivals
from overlapscope.model.columns import Bool, Float64, Int64


@dataclass(frozen=True)
class Replay:
    """The time from the first begin to the end of the last collective, as recorded and as replayed."""

    recorded_ns: int
    saving_ns: int


def replay(arrived: Arrivals, begin_ns: Int64, member: int, share: float) -> Replay:
    """Replay the collectives with one member's own work shortened towards that of the others.

    Args:
        arrived: collectives on aligned clocks.
        begin_ns: when each member begins, on the same clocks.
        member: the one that changes.
        share: which part of its excess over the middle of the others goes.
    """
    rows, judged = arrived.rows, np.flatnonzero(arrived.counts)
    first = np.searchsorted(rows.collective, judged)
    last = np.searchsorted(rows.collective, judged, "right")
    there = np.unique(rows.member)
    origin = int(begin_ns[there].min()) if len(judged) else 0  # floats hold what passes, not the time of day
    before = np.where(np.isin(np.arange(rows.members), there), begin_ns - origin, 0).astype(np.float64)
    after = before.copy()
    for index in np.argsort(arrived.arrival_ns[judged], kind="stable").tolist():
        here = slice(int(first[index]), int(last[index]))
        members, end = rows.member[here], rows.end_ns[here] - origin
        own = rows.start_ns[here] - origin - before[members]
        begins = after[members] + own - share * _excess(own, members == member)
        after[members] = begins.max() + end - (arrived.arrival_ns[judged[index]] - origin)
        before[members] = end
    return Replay(int(before.max(initial=0)), int(before.max(initial=0) - after.max(initial=0)))


def _excess(own: Float64, mine: Bool) -> Float64:
    """How much longer one member's own work is than that of the middle one of the others."""
    if not mine.any() or mine.all():
        return np.zeros(len(own))
    return np.where(mine, np.maximum(own - np.median(own[~mine]), 0), 0)
