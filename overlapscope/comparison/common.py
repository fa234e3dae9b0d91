"""Which call and which work of both graphs is next to what only one of them has."""

from __future__ import annotations

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.model.columns import NO_ID, Int64


def next_common_call(graph: Graph, common: Int64) -> Int64:
    """For each call the next of some calls on its thread; `NO_ID` where none follows."""
    return _nearest(graph.calls.owner[::-1], _marked(len(graph.calls), common)[::-1])[::-1]


def previous_common_call(graph: Graph, common: Int64) -> Int64:
    """For each call the last of some calls before it on its thread; `NO_ID` where there is none."""
    return _nearest(graph.calls.owner, _marked(len(graph.calls), common))


def last_common_work(graph: Graph, common: Int64) -> Int64:
    """For each piece of work itself if it is one of some, else the last of them before it on its stream."""
    work = graph.work
    order = np.lexsort((work.start_ns, work.stream, work.device, work.process))
    keys = np.stack([work.process, work.device, work.stream])[:, order]
    owner = np.cumsum(np.append(0, (np.diff(keys, axis=1) != 0).any(axis=0)))[: len(order)]
    marked = _marked(len(work), common)[order]
    before = np.empty(len(order), np.int64)
    before[order] = np.where(marked != NO_ID, marked, _nearest(owner, marked))
    return before


def host_gaps_ns(graph: Graph) -> Int64:
    """What threads do between calls, summed up to each call; the difference of two calls of a thread is theirs."""
    gap = graph.into(graph.call_start(np.arange(len(graph.calls))), DependencyKind.PROGRAM_ORDER)
    took: Int64 = np.cumsum(np.where(gap == NO_ID, 0, np.append(graph.dependencies.weight_ns, 0)[gap]))
    return took


def _marked(count: int, common: Int64) -> Int64:
    """The indices of some, `NO_ID` at the others."""
    marked = np.full(count, NO_ID, np.int64)
    marked[common] = common
    return marked


def _nearest(owner: Int64, marked: Int64) -> Int64:
    """For each entry the mark of the nearest earlier one that has a mark, of the same owner."""
    if not len(marked):
        return marked
    place = np.maximum.accumulate(np.where(marked != NO_ID, np.arange(len(marked)), NO_ID))
    place = np.append(NO_ID, place[:-1])
    same = (place != NO_ID) & (owner[place] == owner)
    return np.where(same, marked[place], NO_ID)
