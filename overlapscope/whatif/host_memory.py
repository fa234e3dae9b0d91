"""The host memory of copies: who reads and fills it, where a recording shows it, and what else a trace tells of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from overlapscope.calibration.schema import Access
from overlapscope.dependencies.graph import Dependencies, Graph, issuing_operators
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.formatting import counted, safe, size
from overlapscope.measure.grouping import NEVER, at, each_value, last_before
from overlapscope.measure.places import enclosing
from overlapscope.measure.spans import each_of
from overlapscope.measure.waits import synchronised_copy
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind, Direction, MemoryKind
from overlapscope.ordering.accesses import copies_before_copies, copies_before_host, known_copies
from overlapscope.ordering.clocks import CLEAR_NS
from overlapscope.whatif.calls import Streams, codes, next_call, scalar_reads
from overlapscope.whatif.change import Editor

_LEAST_PUT_AWAY = 4
"""Copies of one size that go down before the first goes up, at least, where states are put away one after the other.

A loop that sends inputs and fetches results has one or two on their way.
"""
_LEAST_TURNS = 3
"""What goes up so often right after what a kernel made has gone down is no coincidence."""
_LEAST_SIZES = 3
"""The number of sizes that each go down first and up later from which it is no coincidence either."""


_NO_LANE = -2  # `NO_ID` is the lane of work without a call


@dataclass(frozen=True, eq=False)
class PutAway:
    """The copies of one size that go down and come up again, as work in the order of issue.

    ``sure`` says that they need no other sizes to be believed.
    """

    down: Int64
    up: Int64
    sure: bool

    def early(self, graph: Graph) -> Int64:
        """Copies up that start before as many copies down have ended: at least one came before its own."""
        work = graph.work
        up = self.up[np.argsort(work.start_ns[self.up], kind="stable")]
        arrived = np.searchsorted(np.sort(work.end_ns[self.down]), work.start_ns[up] + CLEAR_NS, "right")
        return np.compress(arrived < np.arange(1, len(up) + 1), up)


def put_away(graph: Graph, down: Int64, up: Int64) -> list[PutAway]:
    """Copies to the host that are uploaded again: of sizes that are sure, and others where there are enough sizes."""
    sizes = list(_by_size(graph, down, up))
    return sizes if len(sizes) >= _LEAST_SIZES else [each for each in sizes if each.sure]


def _by_size(graph: Graph, down: Int64, up: Int64) -> Iterator[PutAway]:
    """Sizes of which the first copy goes down, no more go up than down, and the order of issue fits a round trip."""
    work, issued = graph.work, graph.work.issued_ns(graph.calls)
    size, thread = at(graph.trace.copies.size_bytes, work.copy), at(graph.calls.owner, work.call)
    stream = codes(np.stack([work.process, work.device, work.stream]))
    behind = _last_issued(graph, thread, work.engine != Direction.HTOD)
    begins = at(work.engine, _last_issued(graph, thread, work.engine >= 0)) != Direction.DTOH
    follows_kernel = at(work.table, _last_issued(graph, stream, work.engine != Direction.DTOH)) == 0
    down, up = (rows[np.argsort(issued[rows], kind="stable")] for rows in (down, up))
    for each in np.intersect1d(size[down], size[up]).tolist():
        leaving, coming = down[size[down] == each], up[size[up] == each]
        first = leaving[: np.searchsorted(issued[leaving], issued[coming[0]])]
        if not len(first) or len(coming) > len(leaving):
            continue
        at_once = bool(np.isin(behind[coming], leaving).all())
        turns = np.unique(behind[coming]) if at_once else np.empty(0, np.int64)
        kept = len(first) >= _LEAST_PUT_AWAY and begins[first].sum() > 1
        sure = kept or (len(turns) >= _LEAST_TURNS and bool(follows_kernel[turns].all()))
        if sure or at_once or len(first) == len(leaving):
            yield PutAway(leaving, coming, sure)


def _last_issued(graph: Graph, lane: Int64, wanted: Bool) -> Int64:
    """For all work the last wanted one of its lane that was issued before it; `NO_ID` for none."""
    order = np.lexsort((graph.work.issued_ns(graph.calls), lane))
    last = np.append(NO_ID, np.maximum.accumulate(np.where(wanted[order], np.arange(len(order)), NO_ID))[:-1])
    work, result = at(order, last), np.full(len(lane), NO_ID, np.int64)
    result[order] = np.where(at(lane, work, _NO_LANE) == lane[order], work, NO_ID)
    return result


def first_consumers(graph: Graph, streams: Streams, copies: Int64, consumers: Bool) -> Int64:
    """For each of some copies the first of the ``consumers`` after it on its stream that may read what it brought.

    Work that torch's own operators issued reads only what these were given, where the trace knows that; all other
    work may read everything. `NO_ID` where nothing on the stream may.
    """
    work = graph.work
    order, place, stream = streams.order, streams.place, streams.stream
    known, owner, tensor = _given(graph)
    suspects = np.where(
        np.isin(copies, owner), _next(place[consumers & ~known], place[copies]), _next(place[consumers], place[copies])
    )
    brings, reads, key = np.isin(owner, copies), consumers[owner], tensor * len(work) + place[owner]
    sharing = _next(key[reads], key[brings])
    sharing = np.where(sharing // len(work) == tensor[brings], sharing % len(work), NEVER)
    first = np.full(len(work), NEVER)
    np.minimum.at(first, owner[brings], sharing)
    consumer = at(order, np.minimum(np.minimum(suspects, first[copies]), len(order)))
    return np.where(at(stream, consumer) == stream[copies], consumer, NO_ID)


def consumers_known(graph: Graph) -> Bool:
    """Which work was given copied tensors that are known."""
    known = np.zeros(len(graph.work), np.bool_)
    known[_given(graph)[1]] = True
    return known


def _next(values: Int64, after: Int64) -> Int64:
    """The smallest of the values beyond each."""
    values = np.sort(values)
    return at(values, np.searchsorted(values, after, "right"), NEVER)


def _given(graph: Graph) -> tuple[Bool, Int64, Int64]:
    """Which work has known arguments, and the pairs of work and the copied tensors that it was given."""
    consumers = graph.trace.calibration.copy_consumers
    if consumers is None:
        return np.zeros(len(graph.work), np.bool_), *np.empty((2, 0), np.int64)
    operator = issuing_operators(graph, np.arange(len(graph.work)))
    rows = np.flatnonzero(operator != NO_ID)
    start_ns = graph.trace.cpu_ops.start_ns[operator[rows]]
    owner, row = each_of(*(np.searchsorted(consumers.op_start_ns, start_ns, side) for side in ("left", "right")))
    return operator != NO_ID, rows[owner], consumers.tensor[row]


UNKNOWN_READER = "the trace does not say when the host reads what is copied to it"
AT_ONCE = "what .cpu() and .to() bring to the host is taken to be read at once"
_COPY = "aten::copy_"  # others may read by themselves what they copy
_MAKING = ("aten::_to_copy", "aten::to")
_WAITS = (DependencyKind.SYNCHRONISATION, DependencyKind.STAGING)
"""How the host waits for a copy."""


def keep_waits_of_readers(editor: Editor, before: Graph, copies: Int64) -> Dependencies:
    """Let the host still wait for some copies to it, of which a change took its waits out, before it reads them.

    Before the first call after an operator that is given what was copied, the copy is there. Where no such operator is
    known, the host may read it at once (the upper bound has that), and is taken to if ``.cpu()`` or ``.to()`` made a
    tensor of it: the program asked for that where it uses it, while it has set aside a buffer for what comes later.

    Returns:
        The waits of the host that a change took out.
    """
    waits, kept = (edges.take(edges.of_kind(*_WAITS)) for edges in (before.dependencies, editor.dependencies))
    gone = waits.take(~waits.among(kept))
    graph, source = editor.graph, editor.graph.work_of(gone.source)
    free = np.intersect1d(copies, source)
    reads, known = _before_readers(graph, free)
    unknown, ops = free[~known], graph.trace.cpu_ops
    around = at(enclosing(ops), issuing_operators(graph, unknown)) if len(unknown) else unknown
    new = np.isin(at(ops.name_id, around), graph.trace.names.find(*_MAKING))
    at_once, unread = (gone.take(np.isin(source, unknown[rows])) for rows in (new, ~new))
    editor.add(reads, at_once)
    editor.avoidable = Dependencies.concat(editor.avoidable, at_once)
    editor.possible = Dependencies.concat(editor.possible, unread)
    editor.assume(*[text for text, waits in ((AT_ONCE, at_once), (UNKNOWN_READER, unread)) if len(waits)])
    return gone


def _before_readers(graph: Graph, copies: Int64) -> tuple[Dependencies, Bool]:
    """The dependencies of reading threads' next calls on the end of copies, and which copies have a known reader."""
    consumers, ops = graph.trace.calibration.d2h_consumers, graph.trace.cpu_ops
    if consumers is None or not len(copies) or not len(ops):
        return Dependencies.none(), np.zeros(len(copies), np.bool_)
    operator = issuing_operators(graph, copies)
    issued = at(ops.start_ns, operator)
    row = np.searchsorted(consumers.copy_start_ns, issued)
    read = at(consumers.copy_start_ns, row) == issued
    read &= np.isin(at(ops.name_id, operator), graph.trace.names.find(_COPY))
    reader, call = _reading(graph, at(consumers.op_start_ns, np.where(read, row, NO_ID), 0))
    # What was read before it came is a race as it is.
    read &= (call != NO_ID) & (graph.time_ns[graph.work_end(copies)] <= graph.time_ns[graph.call_start(call)])
    return _waits_of_readers(graph, copies[read], call[read], ops.start_ns[reader[read]]), read


def _reading(graph: Graph, moment_ns: Int64) -> tuple[Int64, Int64]:
    """The operators that start at these times, and the next call of the thread of each."""
    ops = graph.trace.cpu_ops
    rows = np.minimum(np.searchsorted(ops.start_ns, moment_ns), len(ops) - 1)
    return rows, next_call(graph, ops.process[rows], ops.thread[rows], ops.start_ns[rows])


def _waits_of_readers(graph: Graph, copies: Int64, call: Int64, moment_ns: Int64) -> Dependencies:
    """The dependencies of calls on the end of copies, as long before each call as the operator at a time is."""
    start = graph.call_start(call)
    idle = at(graph.dependencies.weight_ns, graph.into(start, DependencyKind.PROGRAM_ORDER), 0)
    weight = np.clip(at(graph.calls.start_ns, call, 0) - moment_ns, 0, idle)
    return Dependencies.of(graph.work_end(copies), start, weight, DependencyKind.SYNCHRONISATION)


_ORDERED_PAIRS = (
    (Access.DOWNLOAD, Access.READ),
    (Access.DOWNLOAD, Access.WRITE),
    (Access.UPLOAD, Access.WRITE),
)
IN_ORDER = "copies from and to the same host tensor stay in their order, by an event between their streams"


def in_recorded_order(graph: Graph, moved: Int64) -> Dependencies:
    """Copies that are moved, and others from or to the same host tensor, each after the one before it."""
    parts = [Dependencies.none()]
    for first, then in ((Access.DOWNLOAD, Access.UPLOAD), (Access.UPLOAD, Access.DOWNLOAD)):
        one, other = copies_before_copies(graph, first, then)
        kept = graph.work.end_ns[one] <= graph.work.start_ns[other]  # else it is a race as it is
        kept &= np.isin(one, moved) | np.isin(other, moved)
        parts.append(graph.after_work(one[kept], other[kept], DependencyKind.EVENT))
    return Dependencies.concat(*parts)


def before_host(before: Graph, graph: Graph) -> Dependencies:
    """The dependencies on copies of the calls that, as recorded, next use their result or overwrite their source.

    Copies that are not made any more are left out. Those that were staged ``before`` left their memory to the host as
    soon as their calls returned, and do so no longer.
    """
    parts = (copies_before_host(graph, *pair) for pair in _ORDERED_PAIRS)
    copy, moment_ns = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    if not len(copy):
        return Dependencies.none()
    call = _reading(graph, moment_ns)[1]
    kept = graph.time_ns[graph.work_end(copy)] <= moment_ns  # else it is a race as it is
    kept |= (before.of_memory(MemoryKind.PAGEABLE) & ~graph.of_memory(MemoryKind.PAGEABLE))[copy]
    kept &= (call != NO_ID) & (at(graph.dependencies.weight_ns, graph.runs(copy), 0) > 0)
    return _waits_of_readers(graph, copy[kept], call[kept], moment_ns[kept])


def downloaded(graph: Graph) -> Bool:
    """Which rows of copies send a host tensor that a copy from the GPU has filled before."""
    rows = graph.work.copy[copies_before_copies(graph, Access.DOWNLOAD, Access.UPLOAD)[1]]
    return np.isin(np.arange(len(graph.trace.copies)), rows)


def round_trips(graph: Graph, up: Int64, *, inputs: bool) -> Dependencies:
    """Each copy to the GPU after the last one of as many bytes that its stream brought to the host before.

    Where the first of as many bytes goes up, what goes up comes from elsewhere, and what comes down are results, most
    likely; with ``inputs`` it waits all the same, and for copies without a size, which may have as many.
    """
    work, issued = graph.work, graph.work.issued_ns(graph.calls)
    size = at(graph.trace.copies.size_bytes, work.copy)
    down = np.flatnonzero((work.engine == Direction.DTOH) & (inputs & (size < 0) | (size > 0)))
    source = np.full(len(up), NO_ID, np.int64)
    kind = codes(np.stack([size, work.process, work.device, work.stream]))
    for each, rows in each_value(kind[up]):
        results = down[kind[down] == each]
        results = results[np.argsort(issued[results], kind="stable")]
        if len(results) and (inputs or issued[results[0]] <= issued[up[rows]].min()):
            source[rows] = last_before(results, issued[results], issued[up[rows]])
    source = np.where(work.end_ns[source] <= work.start_ns[up], source, NO_ID)  # else the trace shows no wait
    return graph.after_work(source, up, DependencyKind.EVENT)


_NOT_WAITED = "they are complete; no call waits for them"
_BY_STREAM = (DependencyKind.EVENT, DependencyKind.OTHER_DEVICE, DependencyKind.LEGACY_DEFAULT_STREAM)
_MOST_HOPS = 8  # from stream to stream; what is waited for through more of them counts as not waited for
_USES = {
    Direction.DTOH: "read the destination of {} to the host ({})",
    Direction.HTOD: "overwrite the source of {} to the GPU ({})",
}


def taken_for_granted(before: Graph, after: Graph, brought: Int64) -> list[str]:
    """The accesses of the host that must not come too early if results are to stay right, in words.

    ``brought`` are rows of copies whose values come with another copy.
    """
    if not len(before.trace.copies) or not len(before.calls):
        return []
    was, now = _first_waits(before), _first_waits(after)
    later = (now > was) & (before.work.engine > 0) & ~_ordered_use(after) & (now > _operators_waits(before))
    values = at(scalar_reads(before.trace), before.work.copy, False)
    texts = [text for direction in _USES for text in _of_direction(after, now, later & ~values, direction)]
    if unread := int((later & values & ~np.isin(before.work.copy, brought)).sum()):
        texts.append(f"assumes that the program needs none of {counted(unread, 'value')} where the host reads them now")
    return texts


def _of_direction(after: Graph, now: Int64, later: Bool, direction: Direction) -> Iterator[str]:
    """A sentence for the copies that some call still waits for, and one for the others."""
    for waited in (True, False):
        copies = np.flatnonzero(later & (after.work.engine == direction) & ((now < NEVER) == waited))
        if len(copies):
            known = after.trace.copies.size_bytes[after.work.row[copies]]
            sizes = size(int(known.sum())) if (known >= 0).all() else "of unknown size"
            use = _USES[direction].format(counted(len(copies), "copy", "copies"), sizes)
            until = f"{_waiting(after, now[copies])} has waited" if waited else _NOT_WAITED
            yield f"assumes that the host does not {use} before {until}"


def _waiting(graph: Graph, moment_ns: Int64) -> str:
    """The name of the call that starts or ends at the first of some moments."""
    calls = graph.calls
    row = calls.row[np.flatnonzero((calls.end_ns == moment_ns.min()) | (calls.start_ns == moment_ns.min()))[0]]
    return safe(graph.trace.names[int(graph.trace.api_calls.name_id[row])])


def _ordered_use(graph: Graph) -> Bool:
    """Which work has its use by the host recorded: the host waits right before that, or there is none."""
    edges = graph.dependencies
    before_use = edges.of_kind(DependencyKind.SYNCHRONISATION) & (edges.target % 2 == 0)
    before_use &= graph.work_of(edges.source) >= 0
    result = np.zeros(len(graph.work), np.bool_)
    result[graph.work_of(edges.source[before_use])] = True
    result[known_copies(graph, Access.UPLOAD)] = True
    return result


def _operators_waits(graph: Graph) -> Int64:
    """When the synchronisation ends that the operator of a copy makes right after it; below every time without one."""
    calls, ops, work = graph.calls, graph.trace.cpu_ops, graph.work
    copy = graph.work_of_copy[synchronised_copy(graph.trace)[calls.row]]
    operator = at(issuing_operators(graph, np.arange(len(work))), copy)
    waits = (copy != NO_ID) & (calls.kind == ApiKind.STREAM_SYNC)
    waits &= at(ops.end_ns, operator, NEVER) >= calls.end_ns
    result = np.full(len(work), NO_ID)
    result[copy[waits]] = calls.end_ns[waits]
    return result


def _first_waits(graph: Graph) -> Int64:
    """When the host first waits for each piece of work, by the times of the trace; the largest number for never."""
    work, edges = graph.work, graph.dependencies
    first = np.full(len(work), NEVER)
    of_work, to_call = graph.work_of(edges.source) >= 0, graph.work_of(edges.target) < 0
    hosts = edges.take(edges.of_kind(*_WAITS) & of_work & to_call)
    np.minimum.at(first, graph.work_of(hosts.source), graph.time_ns[hosts.target])
    staged = graph.of_memory(MemoryKind.PAGEABLE) & (work.call != NO_ID) & (work.engine == Direction.HTOD)
    first[staged] = np.minimum(first[staged], graph.calls.end_ns[work.call[staged]])
    return _through_streams(graph, first, edges.take(edges.of_kind(*_BY_STREAM)))


def _through_streams(graph: Graph, first: Int64, between: Dependencies) -> Int64:
    """First waits with those for later work of a stream, and for work of other streams that waited for it."""
    work, source, target = graph.work, graph.work_of(between.source), graph.work_of(between.target)
    known = (source >= 0) & (target >= 0)
    stream = np.where(work.table == 1, at(graph.trace.copies.stream, work.copy), work.stream)  # as changed
    lanes = [rows for _, rows in each_value(codes(np.stack([work.process, work.device, stream])))]
    for _ in range(_MOST_HOPS):
        before = first.copy()
        for rows in lanes:
            first[rows] = np.minimum.accumulate(first[rows][::-1])[::-1]
        np.minimum.at(first, source[known], first[target[known]])
        if (first == before).all():
            break
    return first
