"""The words for each part of the difference between two programs: what was done to the program, where it is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from overlapscope.comparison.matching import KERNEL, Matching, queue_numbers
from overlapscope.comparison.parts import Parts, calls_alone, reads_alone
from overlapscope.comparison.swaps import Part
from overlapscope.comparison.work import WindowWork, window_work
from overlapscope.dependencies.graph import Graph
from overlapscope.diagnosis.causes import OF_HOST_WORK, Cause
from overlapscope.formatting import counted, size
from overlapscope.measure.copies import host_kind
from overlapscope.measure.grouping import sums_by
from overlapscope.measure.places import enclosing, innermost
from overlapscope.measure.windows import Window, on_host
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ALLOCATIONS, SYNC_CALLS, ApiKind, Direction, MemoryKind
from overlapscope.model.trace import Trace

_WAITING = (("synchronisation", "synchronisations"), ("read of a single value", "reads of single values"))
_OF_HOST = (*OF_HOST_WORK.values(), Cause.FIRST_USE)
_MOST = 0.5  # of the time that the host saves: less than half of it is not what the difference comes from
_FACTS = 2  # more than that is no sentence
_OTHER_SHARE = 0.01  # kernels that take less than this share of the time are not what was changed

Said = tuple[str, bool] | None
"""What to call a part, and whether something was done to it; None where nothing is known of it."""
Fact = tuple[str, int]
"""What differs, and whether it can save time (1), cost time (-1), or either (0)."""


@dataclass(frozen=True, eq=False)
class Words:
    """Two graphs with what they have in common, and by how much less the GPU was idle by cause."""

    matching: Matching
    idle_saved_ns: Mapping[Cause, float]

    def of(self, part: Part, saved_ns: float) -> Said:
        """What to call a part that saves this much time; None for what is not known."""
        said: dict[Part, Callable[[], Said]] = {
            Part.MEMORY: self._memory,
            Part.COPY_TIMES: lambda: ("copy times", False),
            Part.WAITS: self._waits,
            Part.STREAMS: self._streams,
            Part.ALLOCATIONS: self._allocations,
            Part.KERNEL_TIMES: lambda: ("kernel times", False),
            Part.HOST: lambda: self._host(saved_ns),
            Part.ORDER: lambda: self._order(saved_ns),
            Part.PROFILER: lambda: ("the profiler's own cost", False),
        }
        return said[part]()

    @property
    def _graphs(self) -> tuple[Graph, Graph]:
        return self.matching.before, self.matching.after

    def _memory(self) -> Said:
        work, after = self.matching.work.after[Parts(self.matching).other_memory], self.matching.after
        kinds = host_kind(after.trace.copies)[after.work.row[work]]
        copies = counted(len(kinds), "copy", "copies")
        if (kinds == MemoryKind.PINNED).all():
            return f"pinning {copies}", True
        return f"{'pageable' if (kinds == MemoryKind.PAGEABLE).all() else 'other'} memory for {copies}", True

    def _waits(self) -> Said:
        alone = [self._waiting(side) for side in range(2)]
        gone, new = ([self._count(side, calls) for calls in alone[side]] for side in range(2))
        names = [self._names(side, np.concatenate(alone[side])) for side in range(2)]
        if gone == new and names[0] == names[1]:
            return "where the same synchronisations stand", False
        fewer = max(abs(one - two) for one, two in zip(gone, new, strict=True))
        kinds = zip(_WAITING, gone, new, strict=True)
        said = [_exchanged(name, *both) for name, *both in kinds if both[0] != both[1] or both[0] > fewer]
        return (" and ".join(_verb_once(said)), True) if said else None

    def _waiting(self, side: int) -> tuple[Int64, Int64]:
        """The synchronisations and reads that only one side has, without the synchronisation that a read waits with."""
        graph = self._graphs[side]
        common = (self.matching.calls.before, self.matching.calls.after)[side]
        syncs, reads = calls_alone(graph, common, SYNC_CALLS), reads_alone(graph, common)
        owner = graph.calls.owner
        of_reads = np.isin(syncs - 1, reads) & (syncs > 0) & (owner[syncs - 1] == owner[syncs])
        return syncs[~of_reads], reads

    def _names(self, side: int, calls: Int64) -> Counter[str]:
        """The names of calls in the window of a side, with how often each occurs."""
        graph = self._graphs[side]
        rows = graph.calls.row[calls[self._in_window(side, calls)]]
        return Counter(graph.trace.names.decode(graph.trace.api_calls.name_id[rows]))

    def _count(self, side: int, calls: Int64) -> int:
        return int(self._in_window(side, calls).sum())

    def _in_window(self, side: int, calls: Int64) -> Bool:
        """The calls in the window of their side."""
        graph = self._graphs[side]
        times = graph.calls.process[calls], graph.calls.start_ns[calls], graph.calls.end_ns[calls]
        return on_host(graph.trace, self.matching.windows[side]).touches(*times)

    def _kind_counts(self, *kinds: ApiKind) -> list[int]:
        """The number of calls of these kinds on each side."""
        return [
            self._count(side, np.flatnonzero(np.isin(graph.calls.kind, kinds)))
            for side, graph in enumerate(self._graphs)
        ]

    def _streams(self) -> Said:
        one, two = (_with_kernels(graph, rows) for graph, rows in self._copies)
        off, onto = int((one & ~two).sum()), int((~one & two).sum())
        if off or onto:
            where = "off" if off >= onto else "to"
            return f"moving {counted(max(off, onto), 'copy', 'copies')} {where} the kernels' stream", True
        said = (
            _fewer("streams with copies", *(_streams_of(graph, rows) for graph, rows in self._copies))
            or _fewer("streams with kernels", *(_streams_of(graph, rows) for graph, rows in self._kernels))
            or _fewer("waits between streams", *self._kind_counts(ApiKind.WAIT_EVENT))
        )
        one_each = all(_streams_of(graph) == 1 for graph in self._graphs)
        return said or ("order of the work on its stream" if one_each else "where streams wait for each other", False)

    @cached_property
    def _copies(self) -> list[tuple[Graph, Int64]]:
        """The copies over a link that both graphs have."""
        return self._common(self.matching.before.work.engine > 0)

    @cached_property
    def _kernels(self) -> list[tuple[Graph, Int64]]:
        """The kernels that both graphs have."""
        return self._common(self.matching.before.work.table == KERNEL)

    def _common(self, wanted: Bool) -> list[tuple[Graph, Int64]]:
        """Each graph with its rows of the wanted work before that both have."""
        work = self.matching.work
        rows = wanted[work.before]
        return list(zip(self._graphs, (work.before[rows], work.after[rows]), strict=True))

    def _allocations(self) -> Said:
        return _fewer("allocations", *self._kind_counts(*ALLOCATIONS)) or ("allocation times", False)

    def _host(self, saved_ns: float) -> Said:
        causes = [cause for cause in _OF_HOST if self.idle_saved_ns[cause] / (saved_ns or 1) >= _MOST]
        if causes:
            return f"host time between calls, mostly {causes[0].label}", False
        operator = self._operator(saved_ns)
        return "host time between calls" + (f", mostly in {operator}" if operator else ""), False

    def _operator(self, saved_ns: float) -> str | None:
        """The operator whose host time differs most, where that is at least half of the time saved; else None."""
        sides = zip(self._graphs, self.matching.windows, strict=True)
        took = [_operator_ns(graph.trace, window) for graph, window in sides]
        saved = {name: (took[0][name] - took[1][name]) * np.sign(saved_ns) for name in took[0].keys() | took[1].keys()}
        name = max(sorted(saved), key=lambda each: saved[each], default=None)
        return name if name is not None and saved[name] >= _MOST * abs(saved_ns) > 0 else None

    def _order(self, saved_ns: float) -> Said:
        facts = [words for words, sign in _order_facts(self.matching) if sign * saved_ns >= 0][:_FACTS]
        return (" and ".join(facts), True) if facts else None


def _with_kernels(graph: Graph, rows: Int64) -> Bool:
    """The work on a stream that kernels are on."""
    places = np.stack([graph.work.process, graph.work.device, graph.work.stream])
    _, number = np.unique(places, axis=1, return_inverse=True)
    number = number.reshape(-1)
    return np.isin(number[rows], number[graph.work.table == KERNEL])


def _streams_of(graph: Graph, rows: Int64 | slice = slice(None)) -> int:
    """The largest number of streams of one GPU with this work."""
    work = graph.work
    streams = np.unique(np.stack([work.process, work.device, work.stream])[:, rows], axis=1)
    return int(np.unique(streams[:2], axis=1, return_counts=True)[1].max(initial=0))


def _verb_once(said: list[str]) -> list[str]:
    """Phrases without the verb of the first one in the others."""
    return said[:1] + [each.removeprefix(f"{said[0].split(maxsplit=1)[0]} ") for each in said[1:]]


def _exchanged(names: tuple[str, str], gone: int, new: int) -> str:
    """The words for calls of a kind that are gone, new, or both."""
    fewer = gone - new
    number = counted(abs(fewer), *names) if fewer else f"other {names[1]}"
    both = f" ({gone:,} gone, {new:,} new)" if gone and new else ""
    return f"{'dropping ' if fewer > 0 else 'adding ' if fewer else ''}{number}{both}"


def _fewer(what: str, before: int, after: int) -> Said:
    """The words for fewer or more of something; None where there are as many."""
    if before == after:
        return None
    return f"{'fewer' if after < before else 'more'} {what} ({before:,} -> {after:,})", True


def _operator_ns(trace: Trace, window: Window) -> Counter[str]:
    """The time in outermost operators of each name on threads that issue work, without the CUDA calls in them."""
    calls, operators = trace.api_calls, trace.cpu_ops
    operators = operators.take(_on_issuing_threads(trace))
    if not len(operators):
        return Counter()
    duration_ns, around = operators.duration_ns.copy(), enclosing(operators)
    inside = innermost(operators, calls.process, calls.thread, calls.start_ns)
    outer = np.append(np.where(around == NO_ID, np.arange(len(operators)), around), NO_ID)
    while (outer != outer[outer]).any():
        outer = outer[outer]
    in_operator = (inside != NO_ID) & (calls.parent == NO_ID)
    np.subtract.at(duration_ns, outer[inside[in_operator]], calls.duration_ns[in_operator])
    outermost = window.touches(operators.process, operators.start_ns, operators.end_ns) & (around == NO_ID)
    names, member = np.unique(operators.name_id, return_inverse=True)
    total = sums_by(member.reshape(-1), np.where(outermost, duration_ns, 0), len(names)).tolist()
    return Counter({trace.names[number]: took for number, took in zip(names.tolist(), total, strict=True)})


def _on_issuing_threads(trace: Trace) -> Bool:
    """The operators on threads that issue device work; operators of other threads delay nothing."""
    calls, operators = trace.api_calls, trace.cpu_ops
    issuing = np.unique(np.concatenate([table.call[table.call != NO_ID] for table in trace.device_work]))
    threads = set(zip(calls.process[issuing].tolist(), calls.thread[issuing].tolist(), strict=True))
    result = np.zeros(len(operators), np.bool_)
    for process, thread in threads:
        result |= (operators.process == process) & (operators.thread == thread)
    return result


def _order_facts(matching: Matching) -> Iterator[Fact]:
    """The facts in the calls and their order: number and size of copies, CUDA graphs, other kernels, order of issue."""
    sides = window_work(matching)
    yield from _other_copies(*sides)
    launched = [bool((side.graph.calls.kind == ApiKind.GRAPH_LAUNCH)[_issuing_calls(side)].any()) for side in sides]
    if launched[0] != launched[1]:
        yield ("a CUDA graph", 1) if launched[1] else ("no CUDA graph", -1)
    if any(side.kernel_ns[side.alone].sum() > _OTHER_SHARE * side.kernel_ns[side.in_window].sum() for side in sides):
        yield "other kernels", 0
    yield from _issue_order(matching)


def _issuing_calls(side: WindowWork) -> Int64:
    """The calls that issue work of the window."""
    call = side.graph.work.call[side.in_window]
    issuing: Int64 = call[call != NO_ID]
    return issuing


def _other_copies(before: WindowWork, after: WindowWork) -> Iterator[Fact]:
    """Other copies over a link: fewer, smaller, or in the other direction."""
    if not any((side.alone & side.over_link).any() for side in (before, after)):
        return
    engines = [side.graph.work.engine[side.in_window & side.over_link] for side in (before, after)]
    numbers, amounts = [len(each) for each in engines], [before.copied_bytes, after.copied_bytes]
    if numbers[0] != numbers[1]:
        yield _less(("fewer copies", "more copies"), numbers, "{:,}".format)
    elif amounts[0] != amounts[1]:
        yield _less(("smaller copies", "larger copies"), amounts, size)
    else:
        yield _turned(*engines), 0


def _less(words: tuple[str, str], values: Sequence[int], form: Callable[[int], str]) -> Fact:
    """The fact that there is less of something, or more."""
    less = values[1] < values[0]
    return f"{words[0] if less else words[1]} ({form(values[0])} -> {form(values[1])})", 1 if less else -1


def _turned(before: Int64, after: Int64) -> str:
    """The copies that go in another direction, of as many copies of as many bytes."""
    counts = [np.bincount(each, minlength=max(Direction) + 1) for each in (before, after)]
    fewer = counts[0] - counts[1]
    if not fewer.any():
        return "other copies"
    gone, new = (Direction(int(np.argmax(each))).label for each in (fewer, -fewer))
    return f"{counted(int(fewer.max()), 'copy', 'copies')} {new} instead of {gone}"


def _issue_order(matching: Matching) -> Iterator[Fact]:
    """The fact that copies are issued before or after other kernels; where that is as it was, than other copies."""
    work = matching.before.work
    copies, kernels = work.engine[matching.work.before] > 0, work.table[matching.work.before] == KERNEL
    sides = (matching.before, matching.work.before), (matching.after, matching.work.after)
    moments = [graph.work.issued_ns(graph.calls)[rows] for graph, rows in sides]
    ranks = [np.searchsorted(np.sort(moment[kernels]), moment[copies]) for moment in moments]
    earlier, later = int((ranks[1] < ranks[0]).sum()), int((ranks[1] > ranks[0]).sum())
    if earlier or later:
        when, sign = ("earlier", 1) if earlier >= later else ("later", -1)
        yield f"issuing {counted(max(earlier, later), 'copy', 'copies')} {when}", sign
        return
    places = [_places(graph, rows[copies]) for graph, rows in sides]
    ahead, behind = int((places[1] < places[0]).sum()), int((places[1] > places[0]).sum())
    if ahead and behind:  # what moves far are the fewer ones
        where = "ahead of" if ahead <= behind else "behind"
        yield f"issuing {counted(min(ahead, behind), 'copy', 'copies')} {where} others", 0


def _places(graph: Graph, copies: Int64) -> Int64:
    """The place of each copy among these copies, in the order of issue on its engine."""
    engine, issued = queue_numbers(graph.work, "engine")[copies], graph.work.issued_ns(graph.calls)[copies]
    order = np.lexsort((copies, issued, engine))
    place = np.empty(len(copies), np.int64)
    place[order] = np.arange(len(copies))
    return place
