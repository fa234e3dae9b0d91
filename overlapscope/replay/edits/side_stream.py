"""Copies get a stream of their own.

A copy to the device waits for its launch, its engine and the copies before it; the next work of its old stream waits
for it, because a trace does not show what reads it. A copy to the host waits for the work before it on its old stream,
and later work of that stream does not wait for it.
"""

from __future__ import annotations

import numpy as np

from overlapscope.model.columns import Bool, Int64
from overlapscope.model.enums import Direction
from overlapscope.replay.config import ReplayConfig
from overlapscope.replay.edits.common import Edited, Where
from overlapscope.replay.graph import Because, Edges, Graph


def side_stream(graph: Graph, where: Where, config: ReplayConfig) -> Edited:
    """Only copies over a link are moved."""
    work, edges = graph.work, graph.edges
    moved = np.zeros(len(work), np.bool_)
    moved[where.work(graph)] = True
    moved &= work.engine > 0
    index = np.arange(len(work))
    down = work.engine == Direction.DTOH
    ordered = edges.of_kind(Because.STREAM, Because.DEVICE)
    gone = ordered & np.isin(edges.target, graph.work_start(index[moved & ~down]))
    gone |= ordered & np.isin(edges.source, graph.work_end(index[moved & down]))
    return Edited(graph.with_edges(edges.take(~gone), *_new_order(graph, moved, config)))


def _new_order(graph: Graph, moved: Bool, config: ReplayConfig) -> list[Edges]:
    """What stays on a stream keeps its order; copies to the device stay before, those to the host after their work."""
    work = graph.work
    order = np.lexsort((np.arange(len(work)), work.stream, work.device, work.process))
    down = moved & (work.engine == Direction.DTOH)
    up = moved & ~down
    staying = _chain(graph, order[~moved[order]], config)
    with_up, with_down = _chain(graph, order[~down[order]], config), _chain(graph, order[~up[order]], config)
    before = up[graph.work_of(with_up.source)] & ~moved[graph.work_of(with_up.target)]
    after = down[graph.work_of(with_down.target)] & ~moved[graph.work_of(with_down.source)]
    return [staying, with_up.take(before), with_down.take(after)]


def _chain(graph: Graph, order: Int64, config: ReplayConfig) -> Edges:
    """Each op after the one before it in ``order`` on its stream, where in the trace another was between them."""
    work, before, after = graph.work, order[:-1], order[1:]
    same = np.ones(len(before), np.bool_)
    for values in (work.stream, work.device, work.process):
        same &= values[before] == values[after]
    known = set(zip(graph.edges.source.tolist(), graph.edges.target.tolist(), strict=True))
    source, target = graph.work_end(before[same]), graph.work_start(after[same])
    new = np.array([pair not in known for pair in zip(source.tolist(), target.tolist(), strict=True)], np.bool_)
    return Edges.of(source[new], target[new], config.follow_ns, Because.STREAM)
