"""Collectives before or after the record of a rank that may take part in them, where no profiler steps tell it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from overlapscope.fleet.clocks import Clocks
from overlapscope.fleet.config import FleetConfig
from overlapscope.fleet.groups import largest, smallest
from overlapscope.fleet.lateness import Arrivals
from overlapscope.fleet.shared_steps import SharedSteps
from overlapscope.model.columns import NO_ID, Bool

if TYPE_CHECKING:
    import pandas


def within_records(
    common: SharedSteps,
    steps: pandas.DataFrame,
    arrived: Arrivals,
    clocks: Clocks,
    may: Callable[[int], Bool],
    config: FleetConfig,
) -> SharedSteps:
    """What is of steps that all ranks have, less collectives without a step that lie outside of a rank's record.

    Args:
        common: as steps tell it.
        steps: the table of steps in Unix time, with a column ``member``; without profiler steps, a trace is one row.
        arrived: collectives on aligned clocks.
        clocks: the clocks of all members.
        may: for a member, in which collectives it may take part.
        config: how far clocks are apart.
    """
    rows, whole, outside = arrived.rows, np.ones(arrived.rows.collectives, np.bool_), dict[int, Bool]()
    unnumbered = (common.numbers == NO_ID) & (arrived.ranks > 0)
    first = smallest(rows.start_ns, rows.collective, rows.collectives)
    last = largest(rows.end_ns, rows.collective, rows.collectives)
    for member, begin, end in _records(steps, clocks):
        error = int(config.clearly * clocks.error_ns[member])
        beyond = unnumbered & ((first > end + error) | (last < begin - error))
        if beyond.any():
            mine = beyond & may(member) & (clocks.part[arrived.last] == clocks.part[member])
            outside |= {member: mine} if mine.any() else {}
            whole &= ~mine
    left = common.shared & whole
    return replace(common, shared=left if left.any() else common.shared, outside=outside)


def _records(steps: pandas.DataFrame, clocks: Clocks) -> Iterator[tuple[int, int, int]]:
    """Begin and end of the record of each member with an aligned clock, on the common one."""
    own = steps[(steps["member"] >= 0) & steps["step"].isna()]
    found = own.groupby("member").agg({"start_ns": "min", "end_ns": "max"})
    for member, start, end in found.itertuples():
        if clocks.aligned[member]:
            offset = int(clocks.offset_ns[member])
            yield int(member), int(start) - offset, int(end) - offset
