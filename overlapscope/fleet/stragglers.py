"""Which ranks are late, where and why, and what the job would save if they were like the others.

Ranks are late first as recorded, then in the replay without these, until the rest are even. The replay is the whole
model: between two collectives a rank does work of its own, which stays as long as it was; a collective begins when the
last rank has come to it, and then takes as long as it took. A rank whose record begins after others have been replayed
begins earlier by as much as these do by then. Kernels that ran beside a collective and do not fit any more run beside
the next ones, and what is left of them comes before the next collective that the rank was not ready for when the one
before ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from overlapscope.diagnosis.catalogue import RULES
from overlapscope.fleet.clocks import Arrivals, largest, total
from overlapscope.fleet.figures import Figures
from overlapscope.fleet.schema import KERNELS, STEP
from overlapscope.model.columns import Bool, Float64, Int64

if TYPE_CHECKING:
    from overlapscope.fleet.job import Job

LEAST_SHARE = 0.01
"""Of the job's time, below which a late rank is not named: ranks of a job differ by as much without a reason."""
LEAST_OF_LATEST = 0.5
"""Of the lateness of the latest rank, from which on another one is named beside it.

It bounds the step as soon as the latest is fixed. Others are looked at again in the replay without those named before.
"""
MOST_ROUNDS = 5
"""Times that ranks are looked at again; each takes a replay."""
MOST_SIMULATED = 100
"""Late ranks whose savings are simulated; the replay takes as many times the memory of a rank."""
LEAST_CAUSE = 0.2
"""Of a late rank's lateness, below which a difference to the other ranks is no cause of it."""
QUEUED_NS = 50_000
"""A collective that begins so soon after the one before was ready already and stood in its stream's queue."""
_OF_COPIES = frozenset(rule.code for rule in RULES if rule.about_copies)


@dataclass(frozen=True)
class Cause:
    """A time in which a rank differs from the others, in an average step.

    ``code`` and ``kind`` are those of a rule for idle time; without a code it is the time of kernels.
    """

    code: str
    kind: str
    own_ns: int
    others_ns: int

    @property
    def excess_ns(self) -> int:
        """The time beyond that of the median of the other ranks."""
        return self.own_ns - self.others_ns


@dataclass(frozen=True)
class CopiesDiffer:
    """Copies whose host memory is of another kind than in the other ranks."""

    direction: str
    memory: str
    others_memory: str
    others: int
    of: int


@dataclass(frozen=True)
class Place:
    """The collective at which a rank is latest, by its place in a step.

    ``late_ns`` is its lateness there in the median step; it is late in ``steps`` of the ``of`` steps in which it has
    this collective.
    """

    op: str
    position: int | None
    late_ns: int
    steps: int
    of: int


@dataclass(frozen=True)
class Straggler:
    """A late rank.

    ``late_ns`` is its lateness in all its ``steps``: as recorded in ``round`` 1, else in the replay without the ranks
    of earlier rounds, in the steps that all ranks have. ``wait_ns`` is what all ranks together wait at the collectives
    to which it comes last, as recorded. ``began_late_ns`` is how much later than the median rank it began, where that
    is a part of its lateness worth saying, else 0. ``share`` is the part of its lateness that its causes explain; with
    no cause, all of it goes in a replay. ``saving_ns`` is what the job would save over ``saving_steps`` by fixing this
    rank alone, ``with_earlier_ns`` with all those named before it; None where it is not simulated.
    """

    member: int
    round: int
    late_ns: int
    steps: int
    wait_ns: int
    place: Place
    began_late_ns: int
    causes: tuple[Cause, ...]
    copies: tuple[CopiesDiffer, ...]
    share: float
    saving_ns: int | None = None
    with_earlier_ns: int | None = None
    saving_steps: int | None = None

    @property
    def late_a_step_ns(self) -> float:
        """Its lateness in an average step."""
        return self.late_ns / self.steps


@dataclass(frozen=True)
class Late:
    """All late ranks in the order in which they bound the step, and what the job saves without their lateness.

    The saving is of the ranks that collectives connect with the first one, over the ``steps`` that all of these have; 0
    where no rank is late.
    """

    ranks: tuple[Straggler, ...] = ()
    saving_ns: int = 0
    steps: int = 0


@dataclass(frozen=True, eq=False)
class Replay:
    """The time from the first begin to the end of the last collective, and what each of several replays saves of it.

    ``start_ns`` is when the rank of each row comes to its collective in the first replay; as recorded for rows that are
    not replayed.
    """

    recorded_ns: int
    saving_ns: Int64
    start_ns: Int64


def stragglers(job: Job) -> Late:
    """The late ranks of a job, and what fixing each and all of them would save."""
    rounds = _rounds(job) if job.on_one_clock else []
    late = np.zeros(len(job.members), np.bool_)
    late[[member for members, _ in rounds for member in members]] = True
    ranks = {
        member: _straggler(job, number, member, behind_ns, late)
        for number, (members, behind_ns) in enumerate(rounds, 1)
        for member in members
    }
    totals = list[tuple[int, int]]()
    for part in dict.fromkeys(job.clocks.part[list(ranks)].tolist()):
        of_part = [each for each in ranks.values() if job.clocks.part[each.member] == part]
        simulated = of_part[:MOST_SIMULATED]
        of_all, *savings = _replayed(job, part, late, _shares(of_part, len(simulated), len(late))).saving_ns.tolist()
        steps = max(int(job.common.steps[of_part[0].member]), 1)
        totals.append((of_all, steps))
        for each, alone_ns, earlier_ns in zip(simulated, savings, savings[len(simulated) :], strict=False):
            ranks[each.member] = replace(each, saving_ns=alone_ns, with_earlier_ns=earlier_ns, saving_steps=steps)
    return Late(tuple(ranks.values()), *(totals[0] if totals else (0, 0)))


def _shares(late: Sequence[Straggler], simulated: int, members: int) -> Float64:
    """The replays of a part: with all its late ranks fixed, with each alone, and with each and those before it."""
    each = np.zeros((len(late), members))
    each[np.arange(len(late)), [straggler.member for straggler in late]] = [straggler.share for straggler in late]
    return np.vstack([each.sum(axis=0), each[:simulated], each.cumsum(axis=0)[:simulated]])


def _rounds(job: Job) -> list[tuple[list[int], Int64]]:
    """All late ranks by round, the latest first, with the lateness of the rank of each row.

    The first round is as recorded; ranks of the next one bound the step once those before are like the others.
    """
    rows = job.arrived.rows
    late, start_ns, rounds = np.zeros(rows.members, np.bool_), rows.start_ns, list[tuple[list[int], Int64]]()
    while len(rounds) < MOST_ROUNDS:
        behind = job.arrived.behind_ns(start_ns)
        behind = np.where(job.common.shared[rows.collective], behind, 0) if rounds else behind
        members = _named(job, total(behind, rows.member, rows.members), late)
        if not members:
            break
        rounds.append((members, behind))
        late[members] = True
        start_ns = rows.start_ns.copy()
        for part in np.unique(job.clocks.part[late]).tolist():
            of_part = np.isin(rows.collective, _judged(job, part))
            start_ns[of_part] = _replayed(job, part, late, late[np.newaxis].astype(np.float64)).start_ns[of_part]
    return rounds


def _named(job: Job, behind_ns: Int64, late: Bool) -> list[int]:
    """The next late ranks: their lateness is a part of the job's time, and close to that of the latest."""
    steps = job.common.steps if late.any() else job.figures.steps
    part, members = job.clocks.part, len(job.members)
    latest = largest(np.where(late, 0, behind_ns), part, members)[part]
    least = np.maximum(LEAST_SHARE * steps * job.figures.times[STEP], LEAST_OF_LATEST * latest)
    named = ~late & (behind_ns > 0) & (behind_ns >= least)
    if late.any():  # where more than half of the ranks are late, it is the others that are early
        counts = total((late | named).astype(np.int64), part, members)
        named &= 2 * counts[part] <= np.bincount(part, minlength=members)[part]
    return sorted(np.flatnonzero(named).tolist(), key=lambda member: (-int(behind_ns[member]), member))


def _judged(job: Job, part: int) -> Int64:
    """The collectives of a part of which it is known when each rank came, and that all may have."""
    return np.flatnonzero(job.arrived.counts & job.common.shared & (job.clocks.part[job.arrived.last] == part))


def _replayed(job: Job, part: int, late: Bool, shares: Float64) -> Replay:
    """Replays of the collectives of a part, see `replay`."""
    late = late & (job.clocks.part == part)
    return replay(job.arrived, job.begin_ns, job.beside_ns, _judged(job, part), late, shares)


def _straggler(job: Job, number: int, member: int, behind_ns: Int64, late: Bool) -> Straggler:
    """A late rank of the round with this number, and its lateness there; ``late`` has the late ranks of all rounds."""
    arrived, figures = job.arrived, job.figures
    rows = np.flatnonzero((arrived.rows.member == member) & (behind_ns > 0))
    steps = max(int((figures if number == 1 else job.common).steps[member]), 1)
    late_ns = int(behind_ns[rows].sum())
    others = (job.clocks.part == job.clocks.part[member]) & (figures.steps > 0)
    others[member] = False
    others = others & ~late if (others & ~late).any() else others  # those that are on time, where there are some
    causes = tuple(_causes(figures, member, others, LEAST_CAUSE * late_ns / steps)) if others.any() else ()
    explained = _net_excess_ns(figures, member, others, causes) * steps / late_ns if causes else 1.0
    at_once = others.any() and not (job.common.lacking or job.common.outside)
    began = int(job.begin_ns[member] - np.median(job.begin_ns[others])) if at_once else 0
    return Straggler(
        member,
        number,
        late_ns,
        steps,
        int(arrived.wait_ns[arrived.counts & (arrived.late_ns > arrived.error_ns) & (arrived.last == member)].sum()),
        _place(job, member, arrived.rows.collective[rows], behind_ns[rows]),
        began if began >= LEAST_CAUSE * late_ns else 0,
        causes,
        tuple(_copies_differ(job.copies, member, others)),
        min(max(explained, 0.0), 1.0),
    )


def _causes(figures: Figures, member: int, others: Bool, least_ns: float) -> Sequence[Cause]:
    """Differences of a member from the median of others that are at least so long, the longest first."""
    times = {("", KERNELS): figures.times[KERNELS]} | dict(figures.idle)
    causes = (
        Cause(code, kind, int(values[member]), int(np.median(values[others]))) for (code, kind), values in times.items()
    )
    return sorted((each for each in causes if each.excess_ns >= least_ns), key=lambda each: -each.excess_ns)


def _net_excess_ns(figures: Figures, member: int, others: Bool, causes: Sequence[Cause]) -> int:
    """The excess of all causes without what the others have in their place: pinned copies take time too."""
    of_copies = sum(cause.excess_ns for cause in causes if cause.code in _OF_COPIES)
    copies = [values for (code, _), values in figures.idle.items() if code in _OF_COPIES]
    times = np.sum(copies, axis=0) if copies else np.zeros(len(others))
    net = min(of_copies, int(times[member] - np.median(times[others])))
    return net + sum(cause.excess_ns for cause in causes if cause.code not in _OF_COPIES)


def _copies_differ(copies: pd.DataFrame, member: int, others: Bool) -> Iterator[CopiesDiffer]:
    """Directions in which most bytes of a member come from another kind of memory than those of most others."""
    mostly = copies.sort_values(["member", "direction", "size_bytes"], kind="stable")
    mostly = mostly[mostly["member"] >= 0].drop_duplicates(["member", "direction"], keep="last")
    for row in mostly[mostly["member"] == member].itertuples():
        same = mostly[(mostly["direction"] == row.direction) & others[mostly["member"].to_numpy(np.int64)]]
        counts = same["memory"].value_counts()
        if len(counts) and str(counts.index[0]) != row.memory:
            most = str(counts.index[0]), int(counts.iloc[0])
            yield CopiesDiffer(str(row.direction), str(row.memory), *most, int(others.sum()))


def _place(job: Job, member: int, collective: Int64, behind_ns: Int64) -> Place:
    """The collective at which a member is latest, of those at which it is behind, by these times."""
    labels, rows = job.labels.assign(position=job.labels["position"].fillna(0)), job.arrived.rows
    late = labels.iloc[collective].assign(late_ns=behind_ns)
    most = late.groupby(["op", "position"])["late_ns"].sum().reset_index().sort_values("late_ns", kind="stable")
    op, position = str(most["op"].iloc[-1]), int(most["position"].iloc[-1])
    here, everywhere = (frame[(frame["op"] == op) & (frame["position"] == position)] for frame in (late, labels))
    taking_part = np.zeros(len(labels), np.bool_)
    taking_part[rows.collective[rows.member == member]] = True
    everywhere = everywhere[(taking_part & job.arrived.counts)[everywhere.index.to_numpy(np.int64)]]
    return Place(
        op=op,
        position=position or None,
        late_ns=int(here["late_ns"].median()),
        steps=int(here["step"].nunique(dropna=False)),
        of=int(everywhere["step"].nunique(dropna=False)),
    )


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
        work = rows.start_ns[here] - origin - before[members]
        waiting = np.where(work > QUEUED_NS, pending[:, members], 0)
        work = work + waiting
        begins = after[:, members] + work - shares[:, members] * _excess(work, late[members])
        moved = begins.max(axis=1, keepdims=True) - (arrived.arrival_ns[judged[index]] - origin)
        ends, until = moved + end, float(end.max())
        after[:, members], before[members] = ends, end
        left = pending[:, members] - waiting + beside_ns[here]
        pending[:, members] = np.maximum(left - (ends - begins), 0)
        starts[here] = begins[0].astype(np.int64) + origin
    recorded = before.max(initial=0)
    saving = recorded - (after + pending).max(axis=1, initial=0)
    return Replay(int(recorded), saving.astype(np.int64), starts)


def _excess(work: Float64, late: Bool) -> Float64:
    """How much longer the own work of late members is than that of the median of the others, or of all if all are."""
    if not late.any():
        return np.zeros_like(work)
    middle = np.quantile(work, 0.5, axis=1, method="lower") if late.all() else np.median(work[:, ~late], axis=1)
    return np.where(late, np.maximum(work - middle[:, np.newaxis], 0), 0)
