"""The same change with less and with more order than a trace can show: bounds of a prediction."""

from __future__ import annotations

import numpy as np

from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import Direction
from overlapscope.whatif.config import SimulationConfig
from overlapscope.replay.edits.readers import tensors_known
from overlapscope.replay.edits.sent_back import sent_back
from overlapscope.dependencies.simulate import has_cycle
from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind


def with_less_order(before: Graph, after: Graph, kept: Dependencies) -> Graph:
    """Without what was kept, and with copies to the device that a change has moved waited for by what reads them only.

    Where the trace does not know what does, nothing waits for them. Coincidences order nothing then.
    """
    edges, moved = after.dependencies, _moved(before, after)
    gone = edges.among(kept) & edges.of_kind(DependencyKind.SYNCHRONISATION, DependencyKind.STAGING)
    if len(moved):
        gone |= edges.of_kind(DependencyKind.NOT_RECORDED)
        unknown = moved[~tensors_known(after)[moved]]
        gone |= np.isin(edges.source, after.work_end(unknown)) & edges.of_kind(DependencyKind.STREAM_ORDER)
    return after.with_dependencies(edges.take(~gone)) if gone.any() else after


def with_more_order(before: Graph, after: Graph, doubtful: Dependencies, config: SimulationConfig) -> Graph:
    """With what may have to stay, and copies that a change has moved go round two buffers.

    They wait for what was before the group before their own, and for earlier copies of as many bytes to the host, which
    may be what they bring back.
    """
    moved = _moved(before, after)
    buffers = _two_buffers(before, after, moved, config) if len(moved) else Dependencies.none()
    for extra in (Dependencies.together(doubtful, buffers), doubtful, buffers):
        ordered = after.with_dependencies(after.dependencies, extra)
        if len(extra) and not has_cycle(ordered):  # else it is more order than there can be
            return ordered
    return after


def _two_buffers(before: Graph, after: Graph, moved: Int64, config: SimulationConfig) -> Dependencies:
    work = before.work
    order = moved[np.lexsort((moved, work.stream[moved], work.device[moved], work.process[moved]))]
    ahead = _work_ahead(before, order)
    begins = ~np.isin(ahead, order)
    group = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    where = np.stack([work.process, work.device, work.stream])[:, order[first]]
    same = (where[:, 1:] == where[:, :-1]).all(axis=0)
    earlier = np.full(len(first), NO_ID)
    earlier[1:][same] = ahead[first][:-1][same]
    extra = Dependencies.of(after.work_end(earlier[group]), after.work_start(order), config.follow_ns, DependencyKind.EVENT)
    chosen = np.isin(np.arange(len(work)), moved)
    return Dependencies.together(extra, sent_back(before, chosen, config, inputs=True))


def _work_ahead(graph: Graph, some: Int64) -> Int64:
    """The work that each waited for on its stream."""
    edge = graph.into(graph.work_start(some), DependencyKind.STREAM_ORDER)
    work: Int64 = graph.work_of(np.append(graph.dependencies.source, 0)[edge])
    work[edge == NO_ID] = NO_ID
    return work


def _moved(before: Graph, after: Graph) -> Int64:
    """Copies to the device that are on another stream than before."""
    other = np.append(before.trace.copies.stream != after.trace.copies.stream, False)
    moved: Int64 = np.flatnonzero((before.work.engine == Direction.HTOD) & other[before.work.copy])
    return moved
