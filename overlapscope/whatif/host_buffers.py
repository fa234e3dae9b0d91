"""What keeps a change from making a race: where a recording knows them, accesses to a host tensor stay in order."""

from __future__ import annotations

import numpy as np

from overlapscope.calibration.schema import Access
from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.measure.places import following
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.ordering.accesses import copies_before_copies, copies_before_host

IN_ORDER = "copies from and to the same host tensor stay in their order, by an event between their streams"


def in_their_order(graph: Graph, moved: Int64, follow_ns: int) -> Dependencies:
    """Copies that are moved, and others from or to the same host tensor, each after the one before it."""
    parts = [Dependencies.none()]
    for first, then in ((Access.DOWNLOAD, Access.UPLOAD), (Access.UPLOAD, Access.DOWNLOAD)):
        one, other = copies_before_copies(graph, first, then)
        apart = graph.work.end_ns[one] <= graph.work.start_ns[other]  # else it is a race as it is
        apart &= np.isin(one, moved) | np.isin(other, moved)
        ends, starts = graph.work_end(one[apart]), graph.work_start(other[apart])
        parts.append(Dependencies.of(ends, starts, follow_ns, DependencyKind.EVENT))
    return Dependencies.together(*parts)


def before_writers(graph: Graph, copies: Int64) -> Dependencies:
    """From the end of copies to the GPU to the next call of the thread that overwrites what they send."""
    ops = graph.trace.cpu_ops
    copy, moment_ns = copies_before_host(graph, Access.UPLOAD, Access.WRITE)
    mine = np.isin(copy, copies)
    copy, moment_ns = copy[mine], moment_ns[mine]
    if not len(copy):
        return Dependencies.none()
    writer = np.minimum(np.searchsorted(ops.start_ns, moment_ns), len(ops) - 1)
    call = following(graph.calls, ops.process[writer], ops.thread[writer], ops.start_ns[writer])
    end, start = graph.work_end(copy), graph.call_start(call)
    known = (call != NO_ID) & (graph.time_ns[end] <= moment_ns)  # else it is a race as it is
    since = np.append(graph.calls.start_ns, 0)[call] - moment_ns
    own = np.append(graph.dependencies.weight_ns, 0)[graph.into(start, DependencyKind.PROGRAM_ORDER)]
    weight = np.clip(since, 0, own)[known]
    return Dependencies.of(end[known], start[known], weight, DependencyKind.SYNCHRONISATION)


def downloaded(graph: Graph) -> Bool:
    """Which rows of copies send a host tensor that a copy from the GPU has filled before."""
    found = np.zeros(len(graph.trace.copies) + 1, np.bool_)
    found[graph.work.copy[copies_before_copies(graph, Access.DOWNLOAD, Access.UPLOAD)[1]]] = True
    return found[:-1]
