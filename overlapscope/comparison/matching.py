"""Which kernels, copies, memsets and calls of two traces are the same: by name and sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from overlapscope.comparison.common import previous_common_call
from overlapscope.dependencies.graph import Graph
from overlapscope.measure.distinct import distinct_columns
from overlapscope.measure.windows import Window, rows_called
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind
from overlapscope.model.trace import DEVICE_WORK, Trace
from overlapscope.timeline.kernel_names import short_name


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of indices, one of each side."""

    before: Int64
    after: Int64

    @property
    def flipped(self) -> Pairs:
        """The same with the sides exchanged."""
        return Pairs(self.after, self.before)


@dataclass(frozen=True, eq=False)
class Matching:
    """What two graphs have in common: pairs of work and pairs of calls, as indices of each graph."""

    work: Pairs
    calls: Pairs

    @property
    def flipped(self) -> Matching:
        """The same with the sides exchanged."""
        return Matching(self.work.flipped, self.calls.flipped)

    def nodes(self, before: Graph, after: Graph) -> Int64:
        """For each node of ``after`` the one of ``before``; `NO_ID` where there is none."""
        found = np.full(len(after.time_ns), NO_ID, np.int64)
        for node in ("call_start", "call_end"):
            found[getattr(after, node)(self.calls.after)] = getattr(before, node)(self.calls.before)
        for node in ("work_start", "work_end"):
            found[getattr(after, node)(self.work.after)] = getattr(before, node)(self.work.before)
        return found


def first(window: Window, count: int) -> Window:
    """The first occurrences of a window."""
    rows = np.argsort(window.start_ns, kind="stable")[:count]
    start, end, process = window.start_ns[rows], window.end_ns[rows], window.process[rows]
    return replace(window, start_ns=start, end_ns=end, process=process)


def match(before: Graph, after: Graph, windows: tuple[Window, Window]) -> Matching:
    """Match work by GPU, occurrence of the windows, name or size, and number; calls by what they issue and follow.

    The n-th kernel of a name in an occurrence is the n-th of that name in the same one of the other trace, in the order
    of issue; copies likewise by direction and size, whatever memory they are from.
    """
    sides, codes = (before, after), codes_of(before.trace, after.trace)
    keys = [_work_keys(graph, window, code) for graph, window, code in zip(sides, windows, codes, strict=True)]
    work = _paired(*keys)
    issuing = _issuing(before, after, work)
    known = _with_others(issuing, *_call_keys(sides, issuing, codes, alike=True))
    return Matching(work, _with_others(known, *_call_keys(sides, known, codes, alike=False)))


def codes_of(*traces: Trace) -> list[Int64]:
    """For each trace a number of each of its names, the same for the same name; `NO_ID` appended.

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
    """What says which work is the same, one column each."""
    work, trace = graph.work, graph.trace
    what, size = np.empty(len(work), np.int64), np.zeros(len(work), np.int64)
    for number, name in enumerate(DEVICE_WORK):
        mine, table = work.table == number, getattr(trace, name)
        rows = work.row[mine]
        what[mine] = trace.copies.direction[rows] if name == "copies" else codes[table.name_id[rows]]
        size[mine] = table.size_bytes[rows] if name != "kernels" else 0
    place = np.stack([_ranks(work.process), _ranks(work.device), occurrences(graph, window)])
    keys = np.concatenate([place, np.stack([work.table, what, size])])
    return _numbered(keys, np.lexsort((work.start_ns, _issued_ns(graph))), np.ones(len(work), np.bool_))


def _issued_ns(graph: Graph) -> Int64:
    """When each piece of work was issued; where that is not recorded, when it began."""
    work = graph.work
    return np.where(work.call == NO_ID, work.start_ns, work.issued_ns(graph.calls))


def on_host(trace: Trace, window: Window) -> Window:
    """The occurrences of a range on the host alone, without the work that runs on; a window without one as it is."""
    if window.name is None:
        return window
    ranges = trace.ranges.take(rows_called(trace, window.name))
    whole = replace(window, start_ns=ranges.start_ns, end_ns=ranges.end_ns, process=ranges.process)
    return first(whole, len(window.start_ns))


def occurrences(graph: Graph, window: Window) -> Int64:
    """In which occurrence of a window, by number, each piece of work was issued; `NO_ID` outside of them.

    Occurrences that overlap, such as nested ranges that one pattern matches, count as one.
    """
    work, moment = graph.work, _issued_ns(graph)
    if window.name is None:
        return np.zeros(len(work), np.int64)
    host, found = on_host(graph.trace, window), np.full(len(work), NO_ID, np.int64)
    for process in np.unique(host.process).tolist():
        own, mine = host.process == process, work.process == process
        starts, ends = _outermost(host.start_ns[own], host.end_ns[own])
        number = np.searchsorted(starts, moment[mine], side="right") - 1
        found[mine] = np.where((number >= 0) & (moment[mine] < ends[number]), number, NO_ID)
    return found


def _outermost(start_ns: Int64, end_ns: Int64) -> tuple[Int64, Int64]:
    """Begin and end of intervals, in their order, those that overlap as one; those that only touch stay apart."""
    order = np.argsort(start_ns, kind="stable")
    starts, ends = start_ns[order], np.maximum.accumulate(end_ns[order])
    begins = np.flatnonzero(np.append(True, starts[1:] >= ends[:-1]))
    return starts[begins], ends[np.append(begins[1:], len(ends)) - 1]


def _ranks(values: Int64) -> Int64:
    """Each value's place among the different ones."""
    ranks: Int64 = np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return ranks


def _numbered(keys: Int64, order: Int64, usable: Bool) -> Int64:
    """The keys with a further row: how many of the same key come before each, in this order; `NO_ID` if not usable."""
    member = distinct_columns(keys)[1]
    by_key = order[np.argsort(member[order], kind="stable")]
    first = np.flatnonzero(np.append(True, np.diff(member[by_key]) != 0))[: len(member)]
    number = np.empty(len(member), np.int64)
    number[by_key] = np.arange(len(member)) - np.repeat(first, np.diff(np.append(first, len(member))))
    return np.concatenate([keys, np.where(usable, number, NO_ID)[None]])


def _paired(before: Int64, after: Int64) -> Pairs:
    """Which columns of two sets of keys are equal, of those that are usable."""
    usable = [np.flatnonzero(keys[-1] != NO_ID) for keys in (before, after)]
    both = np.concatenate([keys[:, rows] for keys, rows in zip((before, after), usable, strict=True)], axis=1)
    member = distinct_columns(both)[1]
    mine, other = member[: len(usable[0])], member[len(usable[0]) :]
    _, first, second = np.intersect1d(mine, other, assume_unique=True, return_indices=True)
    return Pairs(usable[0][first], usable[1][second])


def _issuing(before: Graph, after: Graph, work: Pairs) -> Pairs:
    """Calls that issued the same work, each once: what a graph launch issues was issued by many calls before."""
    calls = np.stack([before.work.call[work.before], after.work.call[work.after]])
    calls = calls[:, (calls != NO_ID).all(axis=0)]
    first = [np.isin(np.arange(calls.shape[1]), np.unique(side, return_index=True)[1]) for side in calls]
    return Pairs(*calls[:, first[0] & first[1]])


def _with_others(known: Pairs, before: Int64, after: Int64) -> Pairs:
    """Pairs of calls, and those whose keys are equal."""
    others = _paired(before, after)
    return Pairs(np.append(known.before, others.before), np.append(known.after, others.after))


def _call_keys(sides: tuple[Graph, Graph], known: Pairs, codes: Sequence[Int64], *, alike: bool) -> tuple[Int64, Int64]:
    """What says which calls are the same that issue no work: what they follow on their thread, kind, and number.

    ``alike`` leaves out those that follow the same call in other numbers: which of them are the same is told by what
    lies between them.
    """
    every = [
        _followed(graph, mine, code)
        for graph, mine, code in zip(sides, (known.before, known.after), codes, strict=True)
    ]
    usable = [usable for _, usable in every]
    if alike:
        usable = _as_often([keys for keys, _ in every], usable)
    one, two = (_numbered(keys, np.arange(keys.shape[1]), some) for (keys, _), some in zip(every, usable, strict=True))
    return one, two


def _as_often(keys: Sequence[Int64], usable: Sequence[Bool]) -> list[Bool]:
    """Which usable columns of two sets of keys occur as often in the other set."""
    member = distinct_columns(np.concatenate(keys, axis=1))[1]
    members = np.split(member, [keys[0].shape[1]])
    most = int(member.max(initial=NO_ID)) + 1
    one, two = (np.bincount(of[some], minlength=most) for of, some in zip(members, usable, strict=True))
    return [some & (one == two)[of] for of, some in zip(members, usable, strict=True)]


def _followed(graph: Graph, known: Int64, codes: Int64) -> tuple[Int64, Bool]:
    """For each call which pair it follows on its thread, its kind and name; and whether it is to be matched."""
    calls = graph.calls
    pair = np.full(len(calls), NO_ID, np.int64)
    pair[known] = np.arange(len(known))
    anchor = np.append(pair, NO_ID)[previous_common_call(graph, known)]
    name = np.where(calls.kind == ApiKind.OTHER, codes[graph.trace.api_calls.name_id[calls.row]], NO_ID)
    usable = (pair == NO_ID) & ~np.isin(np.arange(len(calls)), graph.work.call)
    return np.stack([anchor, calls.kind.astype(np.int64), name]), usable
