"""The ranks that the others wait for, and what the job would save without their lateness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from overlapscope.fleet.causes import Cause, CopiesDiffer, causes, copies_differ, net_excess_ns
from overlapscope.fleet.config import FleetConfig
from overlapscope.fleet.figures import STEP, Figures
from overlapscope.fleet.groups import total
from overlapscope.fleet.lateness import Arrivals
from overlapscope.fleet.replay import Replay, replay
from overlapscope.model.columns import Bool, Int64

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Place:
    """The collective to which a straggler comes late most: its place in a step, and in how many of these."""

    op: str
    position: int | None
    late_ns: int
    steps: int
    of: int


@dataclass(frozen=True)
class Straggler:
    """A rank that comes last, and late, to collectives.

    ``late_ns`` is its lateness against the median rank, summed over the collectives to which it comes last;
    ``wait_ns`` what all ranks together wait there. ``began_late_ns`` is how much later than the median rank it began,
    where that is a part of its lateness worth saying, else 0. ``replay`` has the job without what its first cause adds,
    or, with no cause, with a rank like the others.
    """

    member: int
    late_ns: int
    wait_ns: int
    place: Place
    began_late_ns: int
    causes: tuple[Cause, ...]
    copies: tuple[CopiesDiffer, ...]
    replay: Replay


@dataclass(frozen=True, eq=False)
class Compared:
    """What stragglers are looked for in: arrivals, times of ranks, their copies, and labels of collectives.

    ``labels`` has ``op``, ``position`` and ``step`` of each matched collective; ``begin_ns`` is when each member
    begins, ``part`` the first of the members that its collectives connect it with.
    """

    arrived: Arrivals
    figures: Figures
    copies: pandas.DataFrame
    labels: pandas.DataFrame
    begin_ns: Int64
    part: Int64


def stragglers(compared: Compared, config: FleetConfig) -> tuple[Straggler, ...]:
    """Ranks whose lateness is a part of the job's time worth naming, the latest first."""
    arrived, members = compared.arrived, compared.arrived.rows.members
    late = np.flatnonzero(arrived.late)
    behind = total(arrived.late_ns[late], arrived.last[late], members)
    steps, step_ns = compared.figures.steps, compared.figures.times[STEP]
    job_ns = np.maximum(steps * step_ns, 1)
    named = np.flatnonzero(behind >= config.least_share * job_ns)
    named = named[behind[named] > 0]
    ordered = sorted(named.tolist(), key=lambda member: (-int(behind[member]), member))
    return tuple(_straggler(compared, member, set(ordered), config) for member in ordered)


def _straggler(compared: Compared, member: int, late_ones: set[int], config: FleetConfig) -> Straggler:
    arrived, figures = compared.arrived, compared.figures
    mine = arrived.late & (arrived.last == member)
    late_ns = int(arrived.late_ns[mine].sum())
    each_ns = late_ns / max(int(figures.steps[member]), 1)
    others = _others(compared, member, late_ones)
    found = causes(figures, member, others, config.least_cause * each_ns) if others.any() else ()
    share = min(1.0, net_excess_ns(figures, member, others, found[0]) / each_ns) if found else 1.0
    began = int(compared.begin_ns[member] - np.median(compared.begin_ns[others])) if others.any() else 0
    return Straggler(
        member,
        late_ns,
        int(arrived.wait_ns[mine].sum()),
        _place(compared, mine),
        began if began >= config.least_cause * late_ns else 0,
        found,
        tuple(copies_differ(compared.copies, member, others)),
        _replayed(compared, {member: share}),
    )


def together(compared: Compared, late: tuple[Straggler, ...]) -> Replay | None:
    """The job with all stragglers of the first one's part like the others; None where it is the only one."""
    mine = {each.member: 1.0 for each in late if compared.part[each.member] == compared.part[late[0].member]}
    return _replayed(compared, mine) if len(mine) > 1 else None


def _replayed(compared: Compared, shares: Mapping[int, float]) -> Replay:
    """The replay of the collectives on the clock of some members, of one part, with their work shortened."""
    arrived, part = compared.arrived, compared.part
    judged = np.flatnonzero(arrived.counts & (part[arrived.last] == part[next(iter(shares))]))
    share_of = np.zeros(arrived.rows.members)
    share_of[list(shares)] = list(shares.values())
    return replay(arrived, compared.begin_ns, judged, share_of)


def _others(compared: Compared, member: int, late_ones: set[int]) -> Bool:
    """The ranks to compare with: those of the same part that are no stragglers; all of it where there are none."""
    beside = (compared.part == compared.part[member]) & (compared.figures.steps > 0)
    beside[member] = False
    on_time: Bool = beside.copy()
    on_time[sorted(late_ones)] = False
    return on_time if on_time.any() else beside


def _place(compared: Compared, mine: Bool) -> Place:
    labels, arrived = compared.labels, compared.arrived
    late = labels[mine].assign(late_ns=arrived.late_ns[mine])
    late["position"] = late["position"].fillna(0)
    most = late.groupby(["op", "position"])["late_ns"].sum().reset_index().sort_values("late_ns", kind="stable")
    op, position = str(most["op"].iloc[-1]), int(most["position"].iloc[-1])
    here = late[_at(late, op, position)]
    everywhere = labels[arrived.counts & _at(labels, op, position)]
    return Place(
        op=op,
        position=position or None,
        late_ns=int(here["late_ns"].median()),
        steps=int(here["step"].nunique(dropna=False)),
        of=int(everywhere["step"].nunique(dropna=False)),
    )


def _at(labels: pandas.DataFrame, op: str, position: int) -> Bool:
    """Which collectives are at this place of their step."""
    there = labels["position"].fillna(0) == position
    return ((labels["op"] == op) & there).to_numpy(np.bool_)
