"""The steps that all ranks have: a rank may begin to record later than the others, or end earlier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from overlapscope.fleet.lateness import Arrivals
from overlapscope.fleet.matching import Matched
from overlapscope.model.columns import NO_ID, Bool, Int64

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class SharedSteps:
    """What of a job is of steps that all ranks have which collectives connect.

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


def shared_steps(
    steps: pandas.DataFrame, arrived: Arrivals, numbers: Int64, part: Int64, own_steps: Int64
) -> SharedSteps:
    """The steps that all ranks have.

    Args:
        steps: the table of steps, with a column ``member``.
        arrived: collectives on aligned clocks.
        numbers: the step of each of them; `NO_ID` where it is not known.
        part: the first of the members that collectives connect each with.
        own_steps: how many steps each member has.
    """
    rows = arrived.rows
    names, code = np.unique(np.where(arrived.ranks > 0, numbers, NO_ID), return_inverse=True)
    numbered = steps[(steps["member"] >= 0) & steps["step"].notna()]
    there = _there(numbered, rows, names, code)
    counts = np.bincount(rows.member, minlength=rows.members) > 0
    members = np.intersect1d(np.flatnonzero(counts), numbered["member"].to_numpy(np.int64))
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
        np.where(fewer[part], left.sum(axis=1)[part], own_steps),
        numbers,
    )


def _there(numbered: pandas.DataFrame, rows: Matched, names: Int64, code: Int64) -> Bool:
    """Which members have which of the steps with these numbers: the step itself, or a collective of it."""
    there = np.zeros((rows.members, len(names)), np.bool_)
    there[rows.member, code[rows.collective]] = True
    known = numbered[numbered["step"].isin(names.tolist())]
    there[known["member"].to_numpy(np.int64), np.searchsorted(names, known["step"].to_numpy(np.int64))] = True
    return there


def _of_parts(flags: Bool, part: Int64, members: Int64) -> Bool:
    """For the first member of each part, which flags any of its members has."""
    result = np.zeros_like(flags)
    np.logical_or.at(result, part[members], flags[members])
    return result
