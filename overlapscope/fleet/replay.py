"""What the job would save if late ranks were like the others: its collectives replayed in their order.

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


def replay(arrived: Arrivals, begin_ns: Int64, judged: Int64, shares: Float64) -> Replay:
    """Replay collectives with the own work of some members shortened towards that of the others.

    Args:
        arrived: collectives on aligned clocks.
        begin_ns: when each member begins, on the same clocks.
        judged: the collectives to replay, which are on one clock.
        shares: for each member, which part of its excess over the median of the others goes; 0 for those others.
    """
    rows = arrived.rows
    first, last = (np.searchsorted(rows.collective, judged, side) for side in ("left", "right"))
    there = np.unique(rows.member[np.isin(rows.collective, judged)])
    origin = int(begin_ns[there].min()) if len(there) else 0  # floats hold what passes, not the time of day
    before = np.zeros(rows.members)
    before[there] = begin_ns[there] - origin
    after = before.copy()
    for index in np.argsort(arrived.arrival_ns[judged], kind="stable").tolist():
        here = slice(int(first[index]), int(last[index]))
        members, end = rows.member[here], rows.end_ns[here] - origin
        own = rows.start_ns[here] - origin - before[members]
        begins = after[members] + own - shares[members] * _excess(own, shares[members] > 0)
        after[members] = begins.max() + end - (arrived.arrival_ns[judged[index]] - origin)
        before[members] = end
    return Replay(int(before.max(initial=0)), int(before.max(initial=0) - after.max(initial=0)))


def _excess(own: Float64, late: Bool) -> Float64:
    """How much longer the own work of late members is than that of the median of the others."""
    if not late.any() or late.all():
        return np.zeros(len(own))
    return np.where(late, np.maximum(own - np.median(own[~late]), 0), 0)
