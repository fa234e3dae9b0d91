"""Each late rank with its place, its causes, and what the job would save without them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from overlapscope.fleet.causes import Cause, CopiesDiffer, causes, copies_differ, net_excess_ns
from overlapscope.fleet.config import FleetConfig
from overlapscope.fleet.late_ranks import Compared, Round, late_ranks
from overlapscope.model.columns import Bool, Int64

if TYPE_CHECKING:
    import pandas


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
class Saving:
    """What the job would save over so many steps: by fixing one rank alone, and with all those named before it."""

    alone_ns: int
    with_earlier_ns: int
    steps: int


@dataclass(frozen=True)
class Straggler:
    """A late rank.

    ``late_ns`` is its lateness in all its ``steps``: as recorded in ``round`` 1, else in the replay without the ranks
    of earlier rounds, in the steps that all ranks have. ``wait_ns`` is what all ranks together wait at the collectives
    to which it comes last, as recorded. ``began_late_ns`` is how much later than the median rank it began, where that
    is a part of its lateness worth saying, else 0. ``share`` is the part of its lateness that its causes explain; with
    no cause, all of it goes in a replay. ``saving`` is None where it is not simulated.
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
    saving: Saving | None = None

    @property
    def late_a_step_ns(self) -> float:
        """Its lateness in an average step."""
        return self.late_ns / self.steps


@dataclass(frozen=True)
class Late:
    """All late ranks in the order in which they bound the step, and the job's time with and without their lateness.

    The times are those of the ranks that collectives connect with the first one, over the ``steps`` that all of these
    have; 0 where no rank is late.
    """

    ranks: tuple[Straggler, ...] = ()
    job_ns: int = 0
    saving_ns: int = 0
    steps: int = 0


def stragglers(compared: Compared, config: FleetConfig) -> Late:
    """The late ranks of a job, and what fixing each and all of them would save."""
    rounds = late_ranks(compared, config)
    late = np.zeros(len(compared.part), np.bool_)
    late[[member for each in rounds for member in each.members]] = True
    found = [
        _straggler(compared, number, each, member, late, config)
        for number, each in enumerate(rounds, 1)
        for member in each.members
    ]
    return _simulated(compared, found, late, config) if found else Late()


def _straggler(compared: Compared, number: int, at: Round, member: int, late: Bool, config: FleetConfig) -> Straggler:
    arrived, figures = compared.arrived, compared.figures
    mine = np.flatnonzero((arrived.rows.member == member) & (at.behind_ns > 0))
    steps = max(int((figures if number == 1 else compared.common).steps[member]), 1)
    late_ns = int(at.behind_ns[mine].sum())
    others = _others(compared, member, late)
    found = causes(figures, member, others, config.least_cause * late_ns / steps) if others.any() else ()
    explained = net_excess_ns(figures, member, others, found) * steps / late_ns if found else 1.0
    at_once = others.any() and not (compared.common.lacking or compared.common.outside)
    began = int(compared.begin_ns[member] - np.median(compared.begin_ns[others])) if at_once else 0
    return Straggler(
        member,
        number,
        late_ns,
        steps,
        int(arrived.wait_ns[arrived.late & (arrived.last == member)].sum()),
        _place(compared, member, arrived.rows.collective[mine], at.behind_ns[mine]),
        began if began >= config.least_cause * late_ns else 0,
        found,
        tuple(copies_differ(compared.copies, member, others)),
        min(max(explained, 0.0), 1.0),
    )


def _simulated(compared: Compared, found: Sequence[Straggler], late: Bool, config: FleetConfig) -> Late:
    """The late ranks with their savings, those of each part by replays of its own."""
    ranks, first = dict(enumerate(found)), Late()
    for part in dict.fromkeys(int(compared.part[each.member]) for each in found):
        mine = [number for number, each in ranks.items() if compared.part[each.member] == part]
        numbers = mine[: config.most_simulated]
        replayed = compared.replayed(part, late, _shares([ranks[number] for number in mine], len(numbers), len(late)))
        job, alone, earlier = replayed.saving_ns[0], *np.split(replayed.saving_ns[1:], 2)
        steps = max(int(compared.common.steps[ranks[mine[0]].member]), 1)
        for number, by_itself, with_earlier in zip(numbers, alone.tolist(), earlier.tolist(), strict=True):
            ranks[number] = replace(ranks[number], saving=Saving(by_itself, with_earlier, steps))
        first = first if first.job_ns else Late((), replayed.recorded_ns, int(job), steps)
    return replace(first, ranks=tuple(ranks.values()))


def _shares(late: Sequence[Straggler], simulated: int, members: int) -> np.ndarray:
    """The replays of a part: with all its late ranks fixed, with each alone, and with each and those before it."""
    shares = np.zeros((1 + 2 * simulated, members))
    for number, each in enumerate(late):
        shares[0, each.member] = each.share
        shares[1 + simulated + number :, each.member] = each.share
        if number < simulated:
            shares[1 + number, each.member] = each.share
    return shares


def _others(compared: Compared, member: int, late: Bool) -> Bool:
    """The ranks to compare with: those of the same part that are not late; all of it where there are none."""
    beside = (compared.part == compared.part[member]) & (compared.figures.steps > 0)
    beside[member] = False
    on_time: Bool = beside & ~late
    return on_time if on_time.any() else beside


def _place(compared: Compared, member: int, collective: Int64, behind_ns: Int64) -> Place:
    labels, arrived = compared.labels, compared.arrived
    own = np.zeros(len(labels), np.bool_)
    own[arrived.rows.collective[arrived.rows.member == member]] = True
    late = labels.iloc[collective].assign(late_ns=behind_ns)
    late["position"] = late["position"].fillna(0)
    most = late.groupby(["op", "position"])["late_ns"].sum().reset_index().sort_values("late_ns", kind="stable")
    op, position = str(most["op"].iloc[-1]), int(most["position"].iloc[-1])
    here = late[_at(late, op, position)]
    everywhere = labels[own & arrived.counts & _at(labels, op, position)]
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
