"""What is missing in a job: ranks without a whole trace, and steps or collectives that some ranks did not record.

A rank may begin to record later than the others, or end earlier. In a collective that it may take part in and has not
recorded, nobody knows whether the others wait for it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from overlapscope.fleet.clocks import CLEARLY, Arrivals, Clocks, Matched, largest, smallest
from overlapscope.fleet.figures import numbered
from overlapscope.fleet.ranks import ORDER, Ranks
from overlapscope.model.columns import NO_ID, Bool, Int64

_LISTED = re.compile(r"\[([\d, ]*)\]")


@dataclass(frozen=True, eq=False)
class Absent:
    """Ranks without a whole trace, and the collectives that are incomplete for it.

    ``untraced`` ranks have no usable trace, ``cut`` ones a damaged trace: those that take part in collectives, as far
    as these say. ``complete`` says for each matched collective whether all ranks that may take part in it have it.
    """

    untraced: tuple[int, ...]
    cut: tuple[int, ...]
    complete: Bool

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks without a whole trace."""
        return tuple(sorted({*self.untraced, *self.cut}))


@dataclass(frozen=True, eq=False)
class SharedSteps:
    """The part of a job in the steps that all ranks have which collectives connect.

    ``lacking`` has the members that lack steps of the others, with these. ``shared`` says for each matched collective
    whether it is of a step that none of its ranks lacks, ``steps`` for each member how many such steps there are. Where
    none lacks any, or none is left, all collectives and all steps of a member count. ``numbers`` has the step of each
    collective. ``outside`` has the members whose record begins after collectives without a step that they may take part
    in, or ends before them, with these.
    """

    lacking: Mapping[int, tuple[int, ...]]
    shared: Bool
    steps: Int64
    numbers: Int64
    outside: Mapping[int, Bool] = field(default_factory=dict)


class Groups:
    """The process groups of matched collectives, as recorded: which ranks may take part in which collectives."""

    def __init__(self, names: Sequence[str]) -> None:
        unique, self._group = np.unique(np.array(names, dtype=object).astype(str), return_inverse=True)
        self._ranks = [_ranks_in(name) for name in unique.tolist()]

    @property
    def ranks(self) -> set[int]:
        """All ranks that a group names."""
        return {rank for ranks in self._ranks for rank in ranks or ()}

    def with_rank(self, rank: int | None) -> Bool:
        """The collectives that a rank may take part in: also all whose ranks are not recorded, or not all."""
        may: Bool = np.array([ranks is None or rank in ranks for ranks in self._ranks], np.bool_)[self._group]
        return may


def _ranks_in(group: str) -> frozenset[int] | None:
    """The ranks that the name of a process group lists; None where it does not list all.

    >>> sorted(_ranks_in("12 [0, 4]")), _ranks_in("0 [0, 1, ..., 63]"), _ranks_in("")
    ([0, 4], None, None)
    """
    listed = _LISTED.search(group)
    return frozenset(map(int, listed[1].replace(",", " ").split())) if listed else None


def absent(ranks: Ranks, damaged: Collection[int], rows: Matched, groups: Groups) -> Absent:
    """The ranks without a whole trace, and the collectives that they may take part in.

    Args:
        ranks: the members of the job.
        damaged: numbers of the traces that lost data.
        rows: the matched collectives on aligned clocks.
        groups: the process groups of these.
    """
    members = ranks.members
    traced = {member.rank: number for number, member in enumerate(members) if member.used and member.rank is not None}
    cut = {rank: number for rank, number in traced.items() if members[number].trace in damaged}
    complete, taking_part = np.ones(rows.collectives, np.bool_), set[int]()
    for rank in (*_untraced(ranks, traced, groups), *cut):
        may = groups.with_rank(rank)
        if rank in cut:
            may[rows.collective[rows.member == cut[rank]]] = False
        complete &= ~may
        if may.any() or not rows.collectives:
            taking_part.add(rank)
    return Absent(tuple(sorted(taking_part - set(cut))), tuple(sorted(taking_part & set(cut))), complete)


def _untraced(ranks: Ranks, traced: Collection[int], groups: Groups) -> set[int]:
    """Ranks without a usable trace: missing ones, those that failed, and those that only a process group names."""
    if not traced:
        return set()
    named = {member.rank for member in ranks.members if member.rank is not None}
    if ranks.world_size is None and not any(member.origin == ORDER for member in ranks.members):
        named |= groups.ranks
    return {*named, *ranks.missing} - set(traced)


def without_steps(known: Absent, ranks: Ranks, groups: Groups, common: SharedSteps) -> Absent:
    """Absence with more collectives incomplete: a rank may take part in them and has not recorded their step."""
    complete = known.complete.copy()
    for number, steps in common.lacking.items():
        complete &= ~(groups.with_rank(ranks.members[number].rank) & np.isin(common.numbers, steps))
    for outside in common.outside.values():
        complete &= ~outside
    return replace(known, complete=complete)


def shared_steps(
    steps: pd.DataFrame, arrived: Arrivals, numbers: Int64, part: Int64, steps_of_member: Int64
) -> SharedSteps:
    """The steps that all ranks have, and the collectives of these.

    Args:
        steps: the table of steps, with a column ``member``.
        arrived: collectives on aligned clocks.
        numbers: the step of each of them; `NO_ID` where it is not known.
        part: the first of the members that collectives connect each with.
        steps_of_member: how many steps each member has.
    """
    rows = arrived.rows
    names, code = np.unique(np.where(arrived.ranks > 0, numbers, NO_ID), return_inverse=True)
    of_steps = numbered(steps)
    there = np.zeros((rows.members, len(names)), np.bool_)  # a member has a step: itself, or a collective of it
    there[rows.member, code[rows.collective]] = True
    known = of_steps[of_steps["step"].isin(names.tolist())]
    there[known["member"].to_numpy(np.int64), np.searchsorted(names, known["step"].to_numpy(np.int64))] = True
    members = np.intersect1d(rows.member, of_steps["member"].to_numpy(np.int64))
    recorded = _of_parts(there, part, members) & (names != NO_ID)
    lacks = np.zeros_like(there)
    lacks[members] = recorded[part[members]] & ~there[members]
    uneven = _of_parts(lacks, part, members)
    left = recorded & ~uneven
    fewer = uneven.any(axis=1) & left.any(axis=1)
    of = part[arrived.last]
    return SharedSteps(
        {member: tuple(names[lacks[member]].tolist()) for member in members.tolist() if lacks[member].any()},
        ~fewer[of] | left[of, code],
        np.where(fewer[part], left.sum(axis=1)[part], steps_of_member),
        numbers,
    )


def _of_parts(flags: Bool, part: Int64, members: Int64) -> Bool:
    """The flags that any member of a part has, for the first member of each part."""
    result = np.zeros_like(flags)
    np.logical_or.at(result, part[members], flags[members])
    return result


def within_records(
    common: SharedSteps, steps: pd.DataFrame, arrived: Arrivals, clocks: Clocks, ranks: Ranks, groups: Groups
) -> SharedSteps:
    """Shared steps without the collectives, of no step, that lie outside of the record of a rank which may take part.

    Args:
        common: what steps tell.
        steps: the table of steps in Unix time, with a column ``member``; without profiler steps, a trace is one row.
        arrived: collectives on aligned clocks.
        clocks: the clocks of all members.
        ranks: the members of the job.
        groups: the process groups of the collectives.
    """
    rows, whole, outside = arrived.rows, np.ones(arrived.rows.collectives, np.bool_), dict[int, Bool]()
    unnumbered = (common.numbers == NO_ID) & (arrived.ranks > 0)
    first = smallest(rows.start_ns, rows.collective, rows.collectives)
    last = largest(rows.end_ns, rows.collective, rows.collectives)
    for member, begin, end in _records(steps, clocks):
        error = int(CLEARLY * clocks.error_ns[member])
        beyond = unnumbered & ((first > end + error) | (last < begin - error))
        if beyond.any():
            beyond &= groups.with_rank(ranks.members[member].rank) & (clocks.part[arrived.last] == clocks.part[member])
            outside |= {member: beyond} if beyond.any() else {}
            whole &= ~beyond
    left = common.shared & whole
    return replace(common, shared=left if left.any() else common.shared, outside=outside)


def _records(steps: pd.DataFrame, clocks: Clocks) -> Iterator[tuple[int, int, int]]:
    """Begin and end of the record of each member with an aligned clock, as times of the common clock."""
    unnumbered = steps[(steps["member"] >= 0) & steps["step"].isna()]
    for member, start, end in unnumbered.groupby("member").agg({"start_ns": "min", "end_ns": "max"}).itertuples():
        if clocks.aligned[member]:
            offset = int(clocks.offset_ns[member])
            yield int(member), int(start) - offset, int(end) - offset
