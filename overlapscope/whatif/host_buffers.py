"""What keeps a change from making a race: where a recording knows them, accesses to a host tensor stay in order."""

from __future__ import annotations

import numpy as np

from overlapscope.calibration.schema import Access
from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.measure.places import following
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import MemoryKind
from overlapscope.ordering.accesses import copies_before_copies, copies_before_host

_BEFORE_HOST = (
    (Access.DOWNLOAD, Access.READ),
    (Access.DOWNLOAD, Access.WRITE),
    (Access.UPLOAD, Access.WRITE),
)
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


def before_host(before: Graph, graph: Graph) -> Dependencies:
    """From the end of copies to the next call of the thread that, as recorded, uses what came or overwrites what went.

    Copies that are not made any more are left out. Those that were staged ``before`` left their memory to the host as
    soon as their calls returned, and do so no longer.
    """
    ops = graph.trace.cpu_ops
    parts = (copies_before_host(graph, *pair) for pair in _BEFORE_HOST)
    copy, moment_ns = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    if not len(copy):
        return Dependencies.none()
    at = np.minimum(np.searchsorted(ops.start_ns, moment_ns), len(ops) - 1)
    call = following(graph.calls, ops.process[at], ops.thread[at], ops.start_ns[at])
    end, start = graph.work_end(copy), graph.call_start(call)
    weight_ns = np.append(graph.dependencies.weight_ns, 0)
    known = graph.time_ns[end] <= moment_ns  # else it is a race as it is
    known |= (before.of_memory(MemoryKind.PAGEABLE) & ~graph.of_memory(MemoryKind.PAGEABLE))[copy]
    known &= call != NO_ID
    known &= weight_ns[graph.into(end, DependencyKind.EXECUTION)] > 0
    since = np.append(graph.calls.start_ns, 0)[call] - moment_ns
    weight = np.clip(since, 0, weight_ns[graph.into(start, DependencyKind.PROGRAM_ORDER)])[known]
    return Dependencies.of(end[known], start[known], weight, DependencyKind.SYNCHRONISATION)


def downloaded(graph: Graph) -> Bool:
    """Which rows of copies send a host tensor that a copy from the GPU has filled before."""
    found = np.zeros(len(graph.trace.copies) + 1, np.bool_)
    found[graph.work.copy[copies_before_copies(graph, Access.DOWNLOAD, Access.UPLOAD)[1]]] = True
    return found[:-1]
