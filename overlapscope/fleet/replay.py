"""What the job would save if late ranks were like the others: its collectives replayed in their order.

Between two collectives a rank does work of its own; a collective begins when the last rank has come to it, and then
takes as long as it took. This is the whole model: what a rank does between its collectives stays as long as it was.
A rank whose record begins after others have been replayed begins earlier by as much as these do by then.
Kernels that ran beside a collective and do not fit any more run beside the next ones, and what is left of them comes
before the next collective that the rank was not ready for when the one before ended.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.fleet.lateness import Arrivals
from overlapscope.model.columns import Bool, Float64, Int64

QUEUED_NS = 50_000
"""A collective that begins so soon after the one before was ready already and stood in its stream's queue."""


@dataclass(frozen=True, eq=False)
class Replay:
    """The time from the first begin to the end of the last collective, and what each of several replays saves of it.

    ``start_ns`` is when the rank of each row comes to its collective in the first replay; as recorded for rows that are
    not replayed.
    """

    recorded_ns: int
    saving_ns: Int64
    start_ns: Int64


def replay(arrived: Arrivals, begin_ns: Int64, beside_ns: Int64, judged: Int64, late: Bool, shares: Float64) -> Replay:
    """Replay collectives several times, with the own work of late members shortened towards that of the others.

    Args:
        arrived: collectives on aligned clocks.
        begin_ns: when each member begins, on the same clocks.
        beside_ns: the time of other kernels beside the collective of each row.
        judged: the collectives to replay, which are on one clock.
        late: the members whose work is shortened in any of the replays.
        shares: for each replay and member, which part of its excess over the others goes; 0 for those not late.
    """
    rows = arrived.rows
    first, last = (np.searchsorted(rows.collective, judged, side) for side in ("left", "right"))
    there = np.unique(rows.member[np.isin(rows.collective, judged)])
    origin = int(begin_ns[there].min()) if len(there) else 0  # floats hold what passes, not the time of day
    before = np.zeros(rows.members)
    before[there] = begin_ns[there] - origin
    after, pending = np.tile(before, (len(shares), 1)), np.zeros((len(shares), rows.members))
    starts, unseen = rows.start_ns.copy(), np.ones(rows.members, np.bool_)
    moved, until = np.zeros((len(shares), 1)), 0.0
    for index in np.argsort(arrived.arrival_ns[judged], kind="stable").tolist():
        here = slice(int(first[index]), int(last[index]))
        members, end = rows.member[here], rows.end_ns[here] - origin
        new = members[unseen[members] & (before[members] >= until)]
        after[:, new] += moved
        unseen[members] = False
        own = rows.start_ns[here] - origin - before[members]
        waiting = np.where(own > QUEUED_NS, pending[:, members], 0)
        own = own + waiting
        begins = after[:, members] + own - shares[:, members] * _excess(own, late[members])
        moved = begins.max(axis=1, keepdims=True) - (arrived.arrival_ns[judged[index]] - origin)
        ends, until = moved + end, float(end.max())
        after[:, members], before[members] = ends, end
        left = pending[:, members] - waiting + beside_ns[here]
        pending[:, members] = np.maximum(left - (ends - begins), 0)
        starts[here] = begins[0].astype(np.int64) + origin
    recorded = before.max(initial=0)
    saving = recorded - (after + pending).max(axis=1, initial=0)
    return Replay(int(recorded), saving.astype(np.int64), starts)


def _excess(own: Float64, late: Bool) -> Float64:
    """How much longer the own work of late members is than that of the median of the others, or of all if all are."""
    if not late.any():
        return np.zeros_like(own)
    usual = np.quantile(own, 0.5, axis=1, method="lower") if late.all() else np.median(own[:, ~late], axis=1)
    return np.where(late, np.maximum(own - usual[:, np.newaxis], 0), 0)
