"""Which ranks are late: first as recorded, then in the replay without these, until the rest are even."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from overlapscope.fleet.config import FleetConfig
from overlapscope.fleet.figures import STEP, Figures
from overlapscope.fleet.groups import largest, total
from overlapscope.fleet.lateness import Arrivals
from overlapscope.fleet.replay import Replay, replay
from overlapscope.fleet.shared_steps import SharedSteps
from overlapscope.model.columns import Bool, Float64, Int64

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Compared:
    """What late ranks are looked for in: arrivals, times of ranks, their copies, and labels of collectives.

    ``labels`` has ``op``, ``position`` and ``step`` of each matched collective; ``begin_ns`` is when each member
    begins what is replayed, ``beside_ns`` the time of other kernels beside the collective of each row, ``part`` the
    first of the members that its collectives connect each with. Only the ``common`` steps of all ranks are replayed.
    """

    arrived: Arrivals
    figures: Figures
    copies: pandas.DataFrame
    labels: pandas.DataFrame
    begin_ns: Int64
    beside_ns: Int64
    part: Int64
    common: SharedSteps

    def judged(self, part: int) -> Int64:
        """The collectives of a part of which it is known when each rank came, and that all may have."""
        return np.flatnonzero(self.arrived.counts & self.common.shared & (self.part[self.arrived.last] == part))

    def replayed(self, part: int, late: Bool, shares: Float64) -> Replay:
        """Replays of the collectives of a part, see `replay`."""
        return replay(
            self.arrived, self.begin_ns, self.beside_ns, self.judged(part), late & (self.part == part), shares
        )


@dataclass(frozen=True, eq=False)
class Round:
    """Ranks that are late together: as recorded, or in the replay in which those of earlier rounds are like the others.

    ``members`` has them, the latest first; ``behind_ns`` is the lateness of the rank of each row in that replay.
    """

    members: tuple[int, ...]
    behind_ns: Int64


def late_ranks(compared: Compared, config: FleetConfig) -> tuple[Round, ...]:
    """All late ranks by round: those of the next bound the step once those of the rounds before are fixed."""
    rows = compared.arrived.rows
    late, start_ns, rounds = np.zeros(rows.members, np.bool_), rows.start_ns, list[Round]()
    while len(rounds) < config.most_rounds:
        behind = compared.arrived.behind_ns(start_ns)
        behind = np.where(compared.common.shared[rows.collective], behind, 0) if rounds else behind
        named = _named(compared, total(behind, rows.member, rows.members), late, config)
        if not named:
            break
        rounds.append(Round(tuple(named), behind))
        late[named] = True
        start_ns = _without(compared, late)
    return tuple(rounds)


def _named(compared: Compared, behind_ns: Int64, late: Bool, config: FleetConfig) -> list[int]:
    """The next late ranks: their lateness is a part of the job's time, and close to that of the latest."""
    steps = compared.common.steps if late.any() else compared.figures.steps
    step_ns, part = compared.figures.times[STEP], compared.part
    members = len(part)
    latest = largest(np.where(late, 0, behind_ns), part, members)[part]
    least = np.maximum(config.least_share * steps * step_ns, config.least_of_latest * latest)
    named = ~late & (behind_ns > 0) & (behind_ns >= least)
    if late.any():  # where more than half of the ranks are late, it is the others that are early
        counts = total((late | named).astype(np.int64), part, members)
        named &= 2 * counts[part] <= np.bincount(part, minlength=members)[part]
    return sorted(np.flatnonzero(named).tolist(), key=lambda member: (-int(behind_ns[member]), member))


def _without(compared: Compared, late: Bool) -> Int64:
    """When the rank of each row comes to its collective where late ranks are like the others."""
    start_ns = compared.arrived.rows.start_ns.copy()
    for part in np.unique(compared.part[late]).tolist():
        mine = np.isin(compared.arrived.rows.collective, compared.judged(part))
        start_ns[mine] = compared.replayed(part, late, late[np.newaxis].astype(np.float64)).start_ns[mine]
    return start_ns
