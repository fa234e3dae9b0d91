"""The kernels, copies, memsets and calls that two traces have in common, matched by name and sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from overlapscope.dependencies.graph import Graph, Work
from overlapscope.measure.grouping import distinct_columns, each_value
from overlapscope.measure.windows import Window, on_host
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind
from overlapscope.model.trace import DEVICE_WORK, Trace
from overlapscope.timeline.names import short_name

KERNEL, COPY = 0, 1
"""Numbers of the tables in the work of a graph."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of indices, one of each side."""

    before: Int64
    after: Int64

    @property
    def flipped(self) -> Pairs:
        """The pairs with the sides exchanged."""
        return Pairs(self.after, self.before)


@dataclass(frozen=True, eq=False)
class Matching:
    """Two graphs, the window of each, and what they have in common: pairs of work and of calls, as indices of each."""

    before: Graph
    after: Graph
    windows: tuple[Window, Window]
    work: Pairs
    calls: Pairs

    @cached_property
    def flipped(self) -> Matching:
        """The matching with the sides exchanged."""
        return Matching(self.after, self.before, self.windows[::-1], self.work.flipped, self.calls.flipped)

    def between(self, before: Graph, after: Graph) -> Matching:
        """The matching of two graphs with the same nodes as these."""
        return replace(self, before=before, after=after)

    @cached_property
    def nodes(self) -> Int64:
        """The node of ``before`` for each node of ``after``; `NO_ID` where there is none."""
        node_before = np.full(len(self.after.time_ns), NO_ID, np.int64)
        for node in ("call_start", "call_end"):
            node_before[getattr(self.after, node)(self.calls.after)] = getattr(self.before, node)(self.calls.before)
        for node in ("work_start", "work_end"):
            node_before[getattr(self.after, node)(self.work.after)] = getattr(self.before, node)(self.work.before)
        return node_before


def first(window: Window, count: int) -> Window:
    """The first occurrences of a window."""
    return window.take(np.argsort(window.start_ns, kind="stable")[:count])


def match(before: Graph, after: Graph, windows: tuple[Window, Window]) -> Matching:
    """Match work by GPU, occurrence of the windows, name or size, and number; calls by what they issue and follow.

    The n-th kernel of a name in an occurrence is the n-th of that name in the same one of the other trace, in the order
    of issue; copies likewise by direction and size, whatever memory they are from.
    """
    sides, codes = (before, after), codes_of(before.trace, after.trace)
    keys = [_work_keys(graph, window, code) for graph, window, code in zip(sides, windows, codes, strict=True)]
    work = _paired(*keys)
    calls = _issuing(before, after, work)
    for unique_sequence in (True, False):
        keys = _call_keys(sides, calls, codes, unique_sequence=unique_sequence)
        others = _paired(*keys)
        calls = Pairs(np.append(calls.before, others.before), np.append(calls.after, others.after))
    return Matching(before, after, windows, work, calls)


def codes_of(*traces: Trace) -> list[Int64]:
    """A number for each name of each trace, the same for the same name; `NO_ID` appended.

    Profilers write templates and parameters in different ways: between two of them the function's name alone counts.
    """
    number: dict[str, int] = {}
    same_format = len({trace.metadata.format for trace in traces}) == 1
    key = str if same_format else short_name
    return [
        np.array([*(number.setdefault(key(name), len(number)) for name in trace.names.values), NO_ID], np.int64)
        for trace in traces
    ]


def _work_keys(graph: Graph, window: Window, codes: Int64) -> Int64:
    """The keys by which work is matched, one column for each piece."""
    work, trace = graph.work, graph.trace
    what, size = np.empty(len(work), np.int64), np.zeros(len(work), np.int64)
    for number, name in enumerate(DEVICE_WORK):
        of_table, table = work.table == number, getattr(trace, name)
        rows = work.row[of_table]
        what[of_table] = trace.copies.direction[rows] if name == "copies" else codes[table.name_id[rows]]
        size[of_table] = table.size_bytes[rows] if name != "kernels" else 0
    place = np.stack([_ranks(work.process), _ranks(work.device), occurrences(graph, window)])
    keys = np.concatenate([place, np.stack([work.table, what, size])])
    return _numbered(keys, np.lexsort((work.start_ns, _issued_ns(graph))), np.ones(len(work), np.bool_))


def _issued_ns(graph: Graph) -> Int64:
    """The time at which each piece of work was issued; where that is not recorded, at which it began."""
    work = graph.work
    return np.where(work.call == NO_ID, work.start_ns, work.issued_ns(graph.calls))


def occurrences(graph: Graph, window: Window) -> Int64:
    """The number of the occurrence of a window in which each piece of work was issued; `NO_ID` outside of them.

    Occurrences that overlap, such as nested ranges that one pattern matches, count as one.
    """
    work, moment = graph.work, _issued_ns(graph)
    if window.is_whole:
        return np.zeros(len(work), np.int64)
    host, occurrence = on_host(graph.trace, window), np.full(len(work), NO_ID, np.int64)
    for process, rows in each_value(work.process):
        counts = host.counts_for(process)
        if not counts.any():
            continue
        starts, ends = _outermost(host.start_ns[counts], host.end_ns[counts])
        number = np.searchsorted(starts, moment[rows], side="right") - 1
        occurrence[rows] = np.where((number >= 0) & (moment[rows] < ends[number]), number, NO_ID)
    return occurrence


def _outermost(start_ns: Int64, end_ns: Int64) -> tuple[Int64, Int64]:
    """The begins and ends of intervals in their order; intervals that overlap are one, those that touch are two."""
    order = np.argsort(start_ns, kind="stable")
    starts, ends = start_ns[order], np.maximum.accumulate(end_ns[order])
    begins = np.flatnonzero(np.append(True, starts[1:] >= ends[:-1]))
    return starts[begins], ends[np.append(begins[1:], len(ends)) - 1]


def _ranks(values: Int64) -> Int64:
    """The place of each value among the distinct values."""
    ranks: Int64 = np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return ranks


def _numbered(keys: Int64, order: Int64, usable: Bool) -> Int64:
    """The keys with a further row: the number of equal keys before each, in this order; `NO_ID` if not usable."""
    member = distinct_columns(keys)[1]
    by_key = order[np.argsort(member[order], kind="stable")]
    begins = np.flatnonzero(np.append(True, np.diff(member[by_key]) != 0))[: len(member)]
    number = np.empty(len(member), np.int64)
    number[by_key] = np.arange(len(member)) - np.repeat(begins, np.diff(np.append(begins, len(member))))
    return np.concatenate([keys, np.where(usable, number, NO_ID)[None]])


def _paired(before: Int64, after: Int64) -> Pairs:
    """The usable columns of two sets of keys that are equal."""
    usable = [np.flatnonzero(keys[-1] != NO_ID) for keys in (before, after)]
    both = np.concatenate([keys[:, rows] for keys, rows in zip((before, after), usable, strict=True)], axis=1)
    member = distinct_columns(both)[1]
    one, two = member[: len(usable[0])], member[len(usable[0]) :]
    _, row_before, row_after = np.intersect1d(one, two, assume_unique=True, return_indices=True)
    return Pairs(usable[0][row_before], usable[1][row_after])


def _issuing(before: Graph, after: Graph, work: Pairs) -> Pairs:
    """The calls that issued the same work, each once: what a graph launch issues was issued by many calls before."""
    calls = np.stack([before.work.call[work.before], after.work.call[work.after]])
    calls = calls[:, (calls != NO_ID).all(axis=0)]
    once = [np.isin(np.arange(calls.shape[1]), np.unique(side, return_index=True)[1]) for side in calls]
    return Pairs(*calls[:, once[0] & once[1]])


def _call_keys(
    sides: tuple[Graph, Graph], matched: Pairs, codes: Sequence[Int64], *, unique_sequence: bool
) -> list[Int64]:
    """The keys by which calls that issue no work are matched: the call that they follow, their kind, and their number.

    ``unique_sequence`` leaves out those of which another number follows the same call on the other side: which of them
    are the same is told by what lies between them.
    """
    calls = matched.before, matched.after
    every = [_followed(graph, rows, code) for graph, rows, code in zip(sides, calls, codes, strict=True)]
    usable = [unmatched for _, unmatched in every]
    if unique_sequence:
        usable = _as_often([keys for keys, _ in every], usable)
    return [_numbered(keys, np.arange(keys.shape[1]), rows) for (keys, _), rows in zip(every, usable, strict=True)]


def _as_often(keys: Sequence[Int64], usable: Sequence[Bool]) -> list[Bool]:
    """The usable columns of two sets of keys that occur as often in the other set."""
    member = distinct_columns(np.concatenate(keys, axis=1))[1]
    members = np.split(member, [keys[0].shape[1]])
    most = int(member.max(initial=NO_ID)) + 1
    one, two = (np.bincount(of[rows], minlength=most) for of, rows in zip(members, usable, strict=True))
    return [rows & (one == two)[of] for of, rows in zip(members, usable, strict=True)]


def _followed(graph: Graph, matched: Int64, codes: Int64) -> tuple[Int64, Bool]:
    """The pair that each call follows on its thread, with its kind and name; and the calls that are to be matched."""
    calls = graph.calls
    pair = np.full(len(calls), NO_ID, np.int64)
    pair[matched] = np.arange(len(matched))
    anchor = np.append(pair, NO_ID)[previous_common_call(graph, matched)]
    name = np.where(calls.kind == ApiKind.OTHER, codes[graph.trace.api_calls.name_id[calls.row]], NO_ID)
    unmatched = (pair == NO_ID) & ~np.isin(np.arange(len(calls)), graph.work.call)
    return np.stack([anchor, calls.kind.astype(np.int64), name]), unmatched


def next_common_call(graph: Graph, common: Int64) -> Int64:
    """The next common call after each call on its thread; `NO_ID` where none follows."""
    return _nearest(graph.calls.owner[::-1], _marked(len(graph.calls), common)[::-1])[::-1]


def previous_common_call(graph: Graph, common: Int64) -> Int64:
    """The last common call before each call on its thread; `NO_ID` where there is none."""
    return _nearest(graph.calls.owner, _marked(len(graph.calls), common))


def last_common_work(graph: Graph, common: Int64) -> Int64:
    """Each piece of common work itself, and for other work the last common one before it on its stream."""
    work = graph.work
    order = np.lexsort((work.start_ns, work.stream, work.device, work.process))
    keys = np.stack([work.process, work.device, work.stream])[:, order]
    owner = np.cumsum(np.append(0, (np.diff(keys, axis=1) != 0).any(axis=0)))[: len(order)]
    marked = _marked(len(work), common)[order]
    before = np.empty(len(order), np.int64)
    before[order] = np.where(marked != NO_ID, marked, _nearest(owner, marked))
    return before


def _marked(count: int, common: Int64) -> Int64:
    """The index of each common entry, and `NO_ID` at the others."""
    marked = np.full(count, NO_ID, np.int64)
    marked[common] = common
    return marked


def _nearest(owner: Int64, marked: Int64) -> Int64:
    """The mark of the nearest earlier entry of the same owner that has a mark, for each entry."""
    if not len(marked):
        return marked
    place = np.maximum.accumulate(np.where(marked != NO_ID, np.arange(len(marked)), NO_ID))
    place = np.append(NO_ID, place[:-1])
    same_owner = (place != NO_ID) & (owner[place] == owner)
    return np.where(same_owner, marked[place], NO_ID)


def reordered(matching: Matching, queue: str) -> Bool:
    """The work of ``before`` in a queue where work that shares one in both graphs comes in another order after.

    ``queue`` is the column that names it: ``stream`` or ``engine``. The order of a queue is the order of issue.
    """
    numbers, numbers_after = queue_numbers(matching.before.work, queue), queue_numbers(matching.after.work, queue)
    rows, rows_after = matching.work.before, matching.work.after
    order = np.lexsort((rows, numbers_after[rows_after], numbers[rows]))
    queues = np.stack([numbers[rows], numbers_after[rows_after]])[:, order]
    back = (np.diff(queues, axis=1) == 0).all(axis=0) & (np.diff(rows_after[order]) < 0)
    moved: Bool = (numbers != NO_ID) & np.isin(numbers, queues[0, 1:][back])
    return moved


def queue_numbers(work: Work, queue: str) -> Int64:
    """The number of the stream or copy engine of each piece of work; `NO_ID` for work on no copy engine."""
    kind = getattr(work, queue)
    number = distinct_columns(np.stack([work.process, work.device, kind]))[1]
    return np.where((queue == "engine") & (kind == 0), NO_ID, number)
