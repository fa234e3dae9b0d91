"""Calls of one kind in a row, which a change makes one of."""

from __future__ import annotations

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind


def leaders(graph: Graph, mine: Bool, beside: tuple[ApiKind, ...], place: Int64) -> Int64:
    """For each call of a run its first call; `NO_ID` for calls of none.

    A run is several of ``mine`` on one thread and of one ``place``, with only calls of the kinds ``beside`` between.
    """
    calls, count = graph.calls, len(graph.calls)
    latest = np.maximum.accumulate(np.where(mine, np.arange(count), 0))
    free = mine | np.isin(calls.kind, beside)
    begins = np.ones(count, np.bool_)
    begins[1:] = ~free[1:] | ~free[:-1] | (calls.owner[1:] != calls.owner[:-1]) | (np.diff(place[latest]) != 0)
    run = np.cumsum(begins) - 1
    members = np.bincount(run[mine], minlength=count + 1)
    first, last = np.full(count + 1, count, np.int64), np.full(count + 1, NO_ID, np.int64)
    np.minimum.at(first, run[mine], np.flatnonzero(mine))
    np.maximum.at(last, run[mine], np.flatnonzero(mine))
    index = np.arange(count)
    inside = (members[run] > 1) & free & (index >= first[run]) & (index <= last[run])
    return np.where(inside, first[run], NO_ID)
