"""What a change assumes of the host: copies that it waited for before, and now waits for later or never.

A wait covers the work before it on its stream, and what that waited for. Where the host was free to use the memory of a
copy before, only the program can tell when it does.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from overlapscope.calibration.schema import Access
from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.dependencies.operators import issuing_operators
from overlapscope.formatting import counted, safe, size
from overlapscope.measure.issue import synchronised_copy
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind, Direction, MemoryKind
from overlapscope.ordering.accesses import known_copies
from overlapscope.whatif.calls import scalar_reads
from overlapscope.whatif.streams import codes

_NEVER = np.iinfo(np.int64).max
_BY_HOST = (DependencyKind.SYNCHRONISATION, DependencyKind.STAGING)
_BY_STREAM = (DependencyKind.EVENT, DependencyKind.OTHER_DEVICE, DependencyKind.LEGACY_DEFAULT_STREAM)
_MOST_HOPS = 8  # from stream to stream; what is waited for through more of them counts as not waited for
_USES = {
    Direction.DTOH: "read the destination of {} to the host ({})",
    Direction.HTOD: "overwrite the source of {} to the GPU ({})",
}


def taken_for_granted(before: Graph, after: Graph) -> list[str]:
    """What the host must not do too early if results are to stay right, in words."""
    if not len(before.trace.copies) or not len(before.calls):
        return []
    was, now = _first_waits(before), _first_waits(after)
    later = (now > was) & (before.work.engine > 0) & ~_ordered_use(after)
    later &= now > _own_waits(before)
    values = np.append(scalar_reads(before.trace), False)[before.work.copy]
    found = [text for direction in _USES for text in _of_direction(after, now, later & ~values, direction)]
    unread = int((later & values).sum())
    if unread:
        found.append(f"assumes that the program needs none of {counted(unread, 'value')} where the host reads them now")
    return found


def _of_direction(after: Graph, now: Int64, later: Bool, direction: Direction) -> Iterator[str]:
    """A sentence for the copies that some call still waits for, and one for the others."""
    mine = later & (after.work.engine == direction)
    for some, waited in ((mine & (now < _NEVER), True), (mine & (now == _NEVER), False)):
        copies = after.work.row[some]
        if not len(copies):
            continue
        known = after.trace.copies.size_bytes[copies]
        sizes = size(int(known.sum())) if (known >= 0).all() else "of unknown size"
        use = _USES[direction].format(counted(len(copies), "copy", "copies"), sizes)
        until = f"{_waiting(after, now[some])} has waited" if waited else "they are complete; no call waits for them"
        yield f"assumes that the host does not {use} before {until}"


def _waiting(graph: Graph, moment_ns: Int64) -> str:
    """The name of the call that starts or ends at the first of some moments."""
    calls = graph.calls
    row = calls.row[np.flatnonzero((calls.end_ns == moment_ns.min()) | (calls.start_ns == moment_ns.min()))[0]]
    return safe(graph.trace.names[int(graph.trace.api_calls.name_id[row])])


def _ordered_use(graph: Graph) -> Bool:
    """Of which work the host's use is recorded: it waits right before that, or there is none."""
    edges = graph.dependencies
    before_use = edges.of_kind(DependencyKind.SYNCHRONISATION) & (edges.target % 2 == 0)
    before_use &= graph.work_of(edges.source) >= 0
    result = np.zeros(len(graph.work), np.bool_)
    result[graph.work_of(edges.source[before_use])] = True
    result[known_copies(graph, Access.UPLOAD)] = True
    return result


def _own_waits(graph: Graph) -> Int64:
    """When the synchronisation ends that the operator of a copy makes right after it; below every time without one."""
    calls, ops, work = graph.calls, graph.trace.cpu_ops, graph.work
    copy = graph.work_of_copy[synchronised_copy(graph.trace)[calls.row]]
    operator = np.append(issuing_operators(graph, np.arange(len(work))), NO_ID)[copy]
    own = (copy != NO_ID) & (calls.kind == ApiKind.STREAM_SYNC)
    own &= (operator == NO_ID) | (np.append(ops.end_ns, 0)[operator] >= calls.end_ns)
    result = np.full(len(work), NO_ID)
    result[copy[own]] = calls.end_ns[own]
    return result


def _first_waits(graph: Graph) -> Int64:
    """When the host first waits for each piece of work, by the times of the trace; the largest number for never."""
    work, edges = graph.work, graph.dependencies
    first = np.full(len(work), _NEVER)
    of_work, to_call = graph.work_of(edges.source) >= 0, graph.work_of(edges.target) < 0
    hosts = edges.take(edges.of_kind(*_BY_HOST) & of_work & to_call)
    np.minimum.at(first, graph.work_of(hosts.source), graph.time_ns[hosts.target])
    staged = graph.of_memory(MemoryKind.PAGEABLE) & (work.call != NO_ID) & (work.engine == Direction.HTOD)
    first[staged] = np.minimum(first[staged], graph.calls.end_ns[work.call[staged]])
    return _through_streams(graph, first, edges.take(edges.of_kind(*_BY_STREAM)))


def _through_streams(graph: Graph, first: Int64, between: Dependencies) -> Int64:
    """The same with waits for later work of a stream, and for work of other streams that waited for it."""
    source, target = graph.work_of(between.source), graph.work_of(between.target)
    known = (source >= 0) & (target >= 0)
    lanes = _streams(graph)
    for _ in range(_MOST_HOPS):
        before = first.copy()
        for rows in lanes:
            first[rows] = np.minimum.accumulate(first[rows][::-1])[::-1]
        np.minimum.at(first, source[known], first[target[known]])
        if (first == before).all():
            break
    return first


def _streams(graph: Graph) -> list[Int64]:
    """The work of each stream in its order, copies on the streams that they have by now."""
    work = graph.work
    moved = np.append(graph.trace.copies.stream, NO_ID)[work.copy]
    stream = np.where(work.table == 1, moved, work.stream)
    lane = codes(np.stack([work.process, work.device, stream]))
    order = np.argsort(lane, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(lane[order])) + 1)
