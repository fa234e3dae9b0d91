"""Ranks without a whole trace, and the collectives in which one of them may be the last."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from overlapscope.fleet.matching import Matched
from overlapscope.fleet.ranks import ORDER, Member, Ranks
from overlapscope.fleet.shared_steps import SharedSteps
from overlapscope.model.columns import Bool

_LISTED = re.compile(r"\[([\d, ]*)\]")


@dataclass(frozen=True, eq=False)
class Absent:
    """What is not known of a job for lack of traces.

    ``untraced`` ranks have no usable trace, ``cut`` ones a damaged trace: those that take part in collectives, as far
    as these say. ``complete`` says for each matched collective whether all ranks that may take part in it have it.
    """

    untraced: tuple[int, ...]
    cut: tuple[int, ...]
    complete: Bool

    @property
    def ranks(self) -> tuple[int, ...]:
        """All of them."""
        return tuple(sorted({*self.untraced, *self.cut}))


def absent(ranks: Ranks, damaged: Collection[int], rows: Matched, groups: Sequence[str]) -> Absent:
    """The ranks that nothing, or not everything, is known of.

    Args:
        ranks: the members of the job.
        damaged: numbers of the traces that lost data.
        rows: the matched collectives on aligned clocks.
        groups: the process group of each of them, as recorded.
    """
    members = ranks.members
    group, listed = _listed(groups)
    known = {member.rank: number for number, member in enumerate(members) if member.used and member.rank is not None}
    untraced = _untraced(ranks, known, listed)
    cut = {rank: number for rank, number in known.items() if members[number].trace in damaged}
    complete, seen = np.ones(rows.collectives, np.bool_), set[int]()
    for rank in (*untraced, *cut):
        may = np.array([names is None or rank in names for names in listed], np.bool_)[group]
        if rank in cut:
            may[rows.collective[rows.member == cut[rank]]] = False
        complete &= ~may
        if may.any() or not rows.collectives:
            seen.add(rank)
    return Absent(tuple(rank for rank in untraced if rank in seen), tuple(sorted(seen & set(cut))), complete)


def without_steps(found: Absent, members: Sequence[Member], groups: Sequence[str], common: SharedSteps) -> Absent:
    """The same, with the collectives incomplete in which a rank may take part whose record lacks them."""
    complete = found.complete.copy()
    for number, steps in common.lacking.items():
        complete &= ~(may_take_part(members[number].rank, groups) & np.isin(common.numbers, steps))
    for mine in common.outside.values():
        complete &= ~mine
    return replace(found, complete=complete)


def may_take_part(rank: int | None, groups: Sequence[str]) -> Bool:
    """In which collectives of these process groups a rank may take part: in all whose ranks are not recorded."""
    group, listed = _listed(groups)
    may: Bool = np.array([names is None or rank in names for names in listed], np.bool_)[group]
    return may


def _listed(groups: Sequence[str]) -> tuple[np.ndarray, list[frozenset[int] | None]]:
    """The number of each group, and the ranks of each number; None where they are not recorded, or not all."""
    names, group = np.unique(np.array(groups, dtype=object).astype(str), return_inverse=True)
    return group, [_ranks_in(name) for name in names.tolist()]


def _ranks_in(group: str) -> frozenset[int] | None:
    """The ranks in a group's name.

    >>> sorted(_ranks_in("12 [0, 4]")), _ranks_in("0 [0, 1, ..., 63]"), _ranks_in("")
    ([0, 4], None, None)
    """
    found = _LISTED.search(group)
    return frozenset(map(int, found[1].replace(",", " ").split())) if found else None


def _untraced(ranks: Ranks, known: Mapping[int, int], listed: Sequence[frozenset[int] | None]) -> list[int]:
    """Ranks without a usable trace: missing ones, those that failed, and those that only a process group names."""
    if not known:
        return []
    named = {member.rank for member in ranks.members if member.rank is not None}
    if ranks.world_size is None and not any(member.origin == ORDER for member in ranks.members):
        named |= {rank for names in listed for rank in names or ()}
    return sorted({*named, *ranks.missing} - set(known))
