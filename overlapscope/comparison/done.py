"""What was done to a program, in words: what a part of the difference between two graphs consists of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from overlapscope.comparison import order
from overlapscope.comparison.inside import KERNEL
from overlapscope.comparison.matching import Matching, on_host
from overlapscope.comparison.operators import operator_behind
from overlapscope.comparison.parts import Parts, calls_alone, reads_alone
from overlapscope.comparison.swaps import Part
from overlapscope.dependencies.graph import Graph
from overlapscope.diagnosis.causes import Cause
from overlapscope.formatting import counted
from overlapscope.measure.copies import host_kind
from overlapscope.measure.windows import Window
from overlapscope.model.columns import Bool, Int64
from overlapscope.model.enums import ALLOCATIONS, SYNC_CALLS, ApiKind, MemoryKind

_WAITING = (("synchronisation", "synchronisations"), ("read of a single value", "reads of single values"))
_OF_HOST = (Cause.DATA_LOADING, Cause.FIRST_USE)
_MOST = 0.5  # of what the host saves: less than half of it is not what it is about
_FACTS = 2  # more than that is no sentence

Words = tuple[str, bool] | None
"""What to call a part, and whether something was done to it; None where nothing is known of it."""


@dataclass(frozen=True, eq=False)
class Done:
    """Two graphs, what they have in common, the window of each, and by how much less the GPU was idle by cause."""

    before: Graph
    after: Graph
    matching: Matching
    windows: tuple[Window, Window]
    idle_saved_ns: Mapping[Cause, float]

    def words(self, saved: dict[Part, float]) -> dict[Part, tuple[str, bool] | None]:
        """What to call each part; None for what is not known."""
        said: dict[Part, Callable[[], Words]] = {
            Part.MEMORY: self._memory,
            Part.COPY_TIMES: lambda: ("copy times", False),
            Part.WAITS: self._waits,
            Part.STREAMS: self._streams,
            Part.ALLOCATIONS: self._allocations,
            Part.KERNEL_TIMES: lambda: ("kernel times", False),
            Part.HOST: lambda: self._host(saved[Part.HOST]),
            Part.ORDER: lambda: self._order(saved[Part.ORDER]),
            Part.PROFILER: lambda: ("the profiler's own cost", False),
        }
        return {part: said[part]() for part in saved}

    def _memory(self) -> Words:
        work = self.matching.work.after[Parts(self.before, self.after, self.matching).other_memory]
        kinds = host_kind(self.after.trace.copies)[self.after.work.row[work]]
        copies = counted(len(kinds), "copy", "copies")
        if (kinds == MemoryKind.PINNED).all():
            return f"pinning {copies}", True
        return f"{'pageable' if (kinds == MemoryKind.PAGEABLE).all() else 'other'} memory for {copies}", True

    def _waits(self) -> Words:
        alone = [self._waiting(side) for side in range(len(self.windows))]
        gone, new = ([self._inside(side, calls) for calls in alone[side]] for side in range(len(self.windows)))
        names = [self._names(side, np.concatenate(alone[side])) for side in range(len(self.windows))]
        if gone == new and names[0] == names[1]:
            return "where the same synchronisations stand", False
        fewer = max(abs(one - two) for one, two in zip(gone, new, strict=True))
        kinds = zip(_WAITING, gone, new, strict=True)
        said = [_exchanged(name, *both) for name, *both in kinds if both[0] != both[1] or both[0] > fewer]
        return (" and ".join(_verb_once(said)), True) if said else None

    def _waiting(self, side: int) -> tuple[Int64, Int64]:
        """Synchronisations and reads that only one side has; the one that a read waits with is no further one."""
        graph, matching = (self.before, self.matching) if side == 0 else (self.after, self.matching.flipped)
        syncs, reads = calls_alone(graph, matching.calls.before, SYNC_CALLS), reads_alone(graph, matching)
        owner = graph.calls.owner
        of_reads = np.isin(syncs - 1, reads) & (syncs > 0) & (owner[syncs - 1] == owner[syncs])
        return syncs[~of_reads], reads

    def _names(self, side: int, calls: Int64) -> Counter[str]:
        """What some calls are called, with how often."""
        trace = (self.before, self.after)[side].trace
        rows = (self.before, self.after)[side].calls.row[calls[self._there(side, calls)]]
        return Counter(trace.names.decode(trace.api_calls.name_id[rows]))

    def _inside(self, side: int, calls: Int64) -> int:
        return int(self._there(side, calls).sum())

    def _there(self, side: int, calls: Int64) -> Bool:
        """Which calls are in the window of their side."""
        graph = (self.before, self.after)[side]
        times = graph.calls.process[calls], graph.calls.start_ns[calls], graph.calls.end_ns[calls]
        return on_host(graph.trace, self.windows[side]).touches(*times)

    def _streams(self) -> Words:
        beside = [self._with_kernels(graph, rows) for graph, rows in self._copies]
        off, onto = int((beside[0] & ~beside[1]).sum()), int((~beside[0] & beside[1]).sum())
        if off or onto:
            where = "off" if off >= onto else "to"
            return f"moving {counted(max(off, onto), 'copy', 'copies')} {where} the kernels' stream", True
        waits = [
            self._inside(side, np.flatnonzero(graph.calls.kind == ApiKind.WAIT_EVENT))
            for side, graph in enumerate((self.before, self.after))
        ]
        said = (
            _fewer("streams with copies", *(_streams_of(graph, rows) for graph, rows in self._copies))
            or _fewer("streams with kernels", *(_streams_of(graph, rows) for graph, rows in self._kernels))
            or _fewer("waits between streams", *waits)
        )
        one_each = all(_streams_of(graph) == 1 for graph in (self.before, self.after))
        return said or ("order of the work on its stream" if one_each else "where streams wait for each other", False)

    @cached_property
    def _copies(self) -> tuple[tuple[Graph, Int64], tuple[Graph, Int64]]:
        """The copies over a link that both graphs have."""
        return self._common(self.before.work.engine > 0)

    @cached_property
    def _kernels(self) -> tuple[tuple[Graph, Int64], tuple[Graph, Int64]]:
        """The kernels that both graphs have."""
        return self._common(self.before.work.table == KERNEL)

    def _common(self, wanted: Bool) -> tuple[tuple[Graph, Int64], tuple[Graph, Int64]]:
        """Each graph with its rows of some of the work before that both have."""
        work = self.matching.work
        some = wanted[work.before]
        return (self.before, work.before[some]), (self.after, work.after[some])

    @staticmethod
    def _with_kernels(graph: Graph, rows: Int64) -> Bool:
        """Which work is on a stream that kernels are on."""
        places = np.stack([graph.work.process, graph.work.device, graph.work.stream])
        _, number = np.unique(places, axis=1, return_inverse=True)
        number = number.reshape(-1)
        return np.isin(number[rows], number[graph.work.table == KERNEL])

    def _allocations(self) -> Words:
        counts = [
            self._inside(side, np.flatnonzero(np.isin(graph.calls.kind, ALLOCATIONS)))
            for side, graph in enumerate((self.before, self.after))
        ]
        return _fewer("allocations", *counts) or ("allocation times", False)

    def _host(self, saved_ns: float) -> Words:
        causes = [cause for cause in _OF_HOST if self.idle_saved_ns[cause] / (saved_ns or 1) >= _MOST]
        if causes:
            return f"host time between calls, mostly {causes[0].label}", False
        operator = operator_behind(self.before.trace, self.after.trace, self.windows, saved_ns)
        return "host time between calls" + (f", mostly in {operator}" if operator else ""), False

    def _order(self, saved_ns: float) -> Words:
        found = order.facts((self.before, self.after), self.matching, self.windows)
        facts = [words for words, sign in found if sign * saved_ns >= 0][:_FACTS]
        return (" and ".join(facts), True) if facts else None


def _streams_of(graph: Graph, rows: Int64 | slice = slice(None)) -> int:
    """The largest number of streams of one GPU with some of its work."""
    work = graph.work
    streams = np.unique(np.stack([work.process, work.device, work.stream])[:, rows], axis=1)
    return int(np.unique(streams[:2], axis=1, return_counts=True)[1].max(initial=0))


def _verb_once(said: list[str]) -> list[str]:
    """Phrases without the verb of the first one in the others."""
    return said[:1] + [each.removeprefix(f"{said[0].split(maxsplit=1)[0]} ") for each in said[1:]]


def _exchanged(names: tuple[str, str], gone: int, new: int) -> str:
    """That calls of a kind are gone, new, or both."""
    fewer = gone - new
    number = counted(abs(fewer), *names) if fewer else f"other {names[1]}"
    both = f" ({gone:,} gone, {new:,} new)" if gone and new else ""
    return f"{'dropping ' if fewer > 0 else 'adding ' if fewer else ''}{number}{both}"


def _fewer(what: str, before: int, after: int) -> Words:
    """That there are fewer of something, or more; None where there are as many."""
    if before == after:
        return None
    return f"{'fewer' if after < before else 'more'} {what} ({before:,} -> {after:,})", True
