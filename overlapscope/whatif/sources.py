"""Each reason for which a prediction may be off, as a function that says how much it adds. All times are in ns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from overlapscope.dependencies.critical_path import CriticalPath
from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.dependencies.simulate import Simulation
from overlapscope.measure.copies import host_kind
from overlapscope.measure.distinct import distinct_columns
from overlapscope.measure.spans import EMPTY, Spans, intersect, merge, union
from overlapscope.measure.windows import Window
from overlapscope.model.columns import Bool
from overlapscope.model.enums import LINK, Direction, MemoryKind
from overlapscope.model.tables import Copies
from overlapscope.model.trace import Trace
from overlapscope.whatif.config import UncertaintyConfig
from overlapscope.whatif.copy_speeds import LEAST_NS
from overlapscope.whatif.uncertainty import Part, Reason

Length = Callable[[Graph], int]
"""How long the window takes in the simulation of a graph."""
_BY_HOST = (
    DependencyKind.PROGRAM_ORDER,
    DependencyKind.THREAD_HANDOFF,
    DependencyKind.STAGING,
    DependencyKind.SYNCHRONISATION,
    DependencyKind.DRIVER_LOCK,
    *OWN_DURATION,
)


@dataclass(frozen=True)
class Shares:
    """What a predicted time is made of along its critical path, as shares.

    ``host`` is work of the host, with what it stages of pageable copies; ``link`` are other copies over a link;
    ``device`` is the rest.
    """

    host: float
    link: float
    device: float

    @classmethod
    def of(cls, path: CriticalPath) -> Shares:
        """Those of a critical path; all on the device where there is none."""
        graph, added = path.simulation.graph, path.added_ns
        total = max(int(added.sum()), 1)
        kind, work = graph.dependencies.kind[path.rows], graph.work_of(graph.dependencies.target[path.rows])
        runs, some = kind == DependencyKind.EXECUTION, np.maximum(work, -1)
        linked = runs & np.isin(np.append(graph.work.engine, 0)[some], LINK)
        staged = linked & np.append(graph.of_memory(MemoryKind.PAGEABLE), np.False_)[some]
        host = int(added[np.isin(kind, _BY_HOST) | staged].sum()) / total
        link = int(added[linked & ~staged].sum()) / total
        return cls(host, link, max(1 - host - link, 0.0))


@dataclass(frozen=True, eq=False)
class Edit:
    """A graph before and after some changes, and the window that is predicted."""

    before: Graph
    after: Graph
    window: Window

    @cached_property
    def pinned(self) -> Bool:
        """The copies whose host memory the changes pinned; one per row."""
        was, became = (host_kind(graph.trace.copies) for graph in (self.before, self.after))
        pinned: Bool = (was == MemoryKind.PAGEABLE) & (became == MemoryKind.PINNED)
        return pinned

    @property
    def results(self) -> Copies:
        """Of these the window's to the host, as recorded."""
        copies = self.before.trace.copies
        rows = self.pinned & (copies.direction == Direction.DTOH)
        return copies.take(rows & self.window.touches(copies.process, copies.start_ns, copies.end_ns))

    def with_least_sizes(self) -> Graph | None:
        """The graph afterwards where these copies, if they have no size, are tiny; None where all have one."""
        graph = self.after
        some = np.append(self.pinned & (graph.trace.copies.size_bytes < 0), np.False_)[graph.work.copy]
        if not some.any():
            return None
        edges = graph.dependencies
        run = edges.of_kind(DependencyKind.EXECUTION) & np.isin(edges.target, graph.work_end(np.flatnonzero(some)))
        weight = np.where(run, np.minimum(edges.weight_ns, LEAST_NS), edges.weight_ns)
        return replace(graph, dependencies=replace(edges, weight_ns=weight))


def by_order(predicted_ns: int, length: Length, less: Graph, more: Graph, after: Graph) -> Part:
    """The changed graph with the least order, and with the most, where they differ from what is predicted."""
    shortest, longest = (predicted_ns if graph is after else length(graph) for graph in (less, more))
    return _between(Reason.ORDER, predicted_ns, (shortest, longest))


def by_profiler(predicted_ns: int, lengths: Sequence[int]) -> Part:
    """The same where an event cost the profiler more, and less, than is taken out."""
    return _between(Reason.PROFILER, predicted_ns, lengths)


def by_fix(predicted_ns: int, length: Length, also: Graph | None) -> Part:
    """With what else the fix may bring along, where that saves time."""
    return _between(Reason.FIX, predicted_ns, () if also is None else (min(length(also), predicted_ns),))


def by_new_memory(predicted_ns: int, shares: Shares, edit: Edit, config: UncertaintyConfig) -> Part:
    """Results that came to new pageable memory each time: pinned, it is kept, and the host frees no pages.

    Results of unknown size may have any number of pages.
    """
    sizes, most_ns = edit.results.size_bytes, shares.host * predicted_ns
    pages_ns = int(sizes.sum()) / config.page_bytes * config.free_page_ns
    return Part(Reason.FIX, round(most_ns if (sizes < 0).any() else min(pages_ns, most_ns)), 0)


def by_size(predicted_ns: int, shortest_ns: int) -> Part:
    """With pinned copies of unknown size as short as they can be: those keep their duration in what is predicted."""
    return _between(Reason.SIZE, predicted_ns, (min(shortest_ns, predicted_ns),))


def by_unexplained(predicted_ns: int, unexplained: float) -> Part:
    """What the cost of the profiler leaves unexplained of the steps that were timed without it."""
    off = round(abs(unexplained) * predicted_ns)
    return Part(Reason.PROFILER, off if unexplained > 0 else 0, off if unexplained < 0 else 0)


def by_contention(before_ns: int, after_ns: int, config: UncertaintyConfig) -> Part:
    """Kernels that run beside copies after the changes, and did not before, may take longer."""
    return Part(Reason.CONTENTION, 0, round(config.beside * max(after_ns - before_ns, 0)))


def by_pace(predicted_ns: int, shares: Shares, trace: Trace, config: UncertaintyConfig) -> tuple[Part, Part, Part]:
    """What differs by chance from run to run: the host, the link, the GPU, by their shares of the critical path."""
    paces = (
        (Reason.HOST, shares.host * config.host),
        (Reason.LINK, shares.link * link_spread(trace, config)),
        (Reason.DEVICE, shares.device * config.device),
    )
    host, link, device = (
        Part(reason, round(share * predicted_ns), round(share * predicted_ns)) for reason, share in paces
    )
    return host, link, device


def link_spread(trace: Trace, config: UncertaintyConfig) -> float:
    """By which share pinned copies of one size differ from their median, in nine of ten; at least the usual one.

    The usual one where the trace has too few large ones of any size.
    """
    copies = trace.copies
    rows = np.isin(copies.direction, LINK) & (host_kind(copies) == MemoryKind.PINNED)
    rows &= copies.size_bytes >= config.large_bytes
    key = np.stack([copies.direction[rows].astype(np.int64), copies.size_bytes[rows]])
    groups, member = distinct_columns(key)
    took, off = copies.duration_ns[rows].astype(float), [np.empty(0)]
    for group in range(groups.shape[1]):
        mine = took[member == group]
        if len(mine) >= config.enough_copies:
            off.append(np.abs(mine / np.median(mine) - 1))
    together = np.concatenate(off)
    measured = float(np.quantile(together, config.usual)) if len(together) else 0.0
    return min(max(measured, config.link), 1.0)


def busy_ns(simulated: Simulation, window: Window) -> int:
    """For how long the busiest engine of a GPU is busy in a window: kernels, and copies in each direction."""
    return max((spans.total_ns for spans in _busy(simulated, window).values()), default=0)


def beside_copies_ns(simulated: Simulation, window: Window) -> int:
    """For how long kernels of a window run beside copies over a link, on the GPU where that is longest."""
    busy, longest = _busy(simulated, window), 0
    for process, device in {(process, device) for process, device, _ in busy}:
        kernels, *copies = (busy.get((process, device, int(engine)), EMPTY) for engine in (0, *LINK))
        longest = max(longest, intersect(kernels, merge(*copies)).total_ns)
    return longest


def _busy(simulated: Simulation, window: Window) -> dict[tuple[int, int, int], Spans]:
    """When each engine of each GPU is busy with work of a window, by process, device and engine."""
    graph, work = simulated.graph, simulated.graph.work
    inside = np.flatnonzero(window.touches(work.process, work.start_ns, work.end_ns))
    start, end = simulated.time_ns[graph.work_start(inside)], simulated.time_ns[graph.work_end(inside)]
    keys = np.stack([work.process[inside], work.device[inside], work.engine[inside]])
    engines, member = distinct_columns(keys)
    groups = (np.flatnonzero(member == number) for number in range(engines.shape[1]))
    places = (tuple(place) for place in engines.T.tolist())
    return {place: union(start[mine], end[mine]) for place, mine in zip(places, groups, strict=True)}


def _between(reason: Reason, predicted_ns: int, lengths: Sequence[int]) -> Part:
    shortest, longest = min(lengths, default=predicted_ns), max(lengths, default=predicted_ns)
    return Part(reason, max(predicted_ns - shortest, 0), max(longest - predicted_ns, 0))
