"""The time that a prediction gives and its interval: each reason for which it may be off, and what they add together.

All times are in ns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import hypot

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.dependencies.simulate import CriticalPath, Simulation
from overlapscope.measure.copies import host_kind
from overlapscope.measure.grouping import at, distinct_columns, each_value
from overlapscope.measure.spans import EMPTY, Spans, intersect, merge, union
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Bool
from overlapscope.model.enums import LINK, Direction, Labelled, MemoryKind
from overlapscope.model.frames import Row
from overlapscope.model.tables import Copies
from overlapscope.model.trace import Trace
from overlapscope.whatif.copy_speeds import LEAST_NS


class Reason(Labelled):
    """Why a prediction may be off."""

    ORDER = 0, "the order of the work"
    FIX = 1, "what else the fix may change"
    PROFILER = 2, "the cost of the profiler"
    CONTENTION = 3, "memory contention: kernels that run beside copies"
    SIZE = 4, "the sizes of copies"
    HOST = 5, "the pace of the host"
    LINK = 6, "the speed of the link"
    DEVICE = 7, "the pace of the GPU"


TO_ONE_SIDE = (Reason.ORDER, Reason.FIX, Reason.PROFILER, Reason.CONTENTION, Reason.SIZE)
"""Each is so in all of a run: what they add is added up. The others vary by chance, and add in quadrature."""
_SIDES = ("less_ns", "more_ns")


@dataclass(frozen=True)
class Part(Row):
    """The part of one reason in an interval, in ns: by how much the time may be less, and by how much more."""

    reason: Reason
    less_ns: int
    more_ns: int

    @classmethod
    def between(cls, reason: Reason, predicted_ns: int, lengths: Sequence[int]) -> Part:
        """The part between the shortest and the longest of other lengths, against what is predicted."""
        shortest, longest = min(lengths, default=predicted_ns), max(lengths, default=predicted_ns)
        return cls(reason, max(predicted_ns - shortest, 0), max(longest - predicted_ns, 0))


@dataclass(frozen=True)
class Estimate:
    """A predicted time and the interval in which the time is expected, in ns, with the reasons for its width."""

    predicted_ns: int
    low_ns: int
    high_ns: int
    parts: tuple[Part, ...] = ()

    @classmethod
    def exact(cls, predicted_ns: int) -> Estimate:
        """Without an interval."""
        return cls(predicted_ns, predicted_ns, predicted_ns)

    @classmethod
    def of(cls, predicted_ns: int, parts: Sequence[Part], least_ns: int, most_ns: int | None) -> Estimate:
        """The estimate from its parts: between the least and the most possible, which never exclude what is predicted.

        >>> parts = (Part(Reason.ORDER, 10, 0), Part(Reason.HOST, 3, 3), Part(Reason.LINK, 4, 4))
        >>> estimate = Estimate.of(100, parts, least_ns=0, most_ns=103)
        >>> estimate.low_ns, estimate.high_ns
        (85, 103)
        """
        low = predicted_ns - _together([(part.reason, part.less_ns) for part in parts])
        high = predicted_ns + _together([(part.reason, part.more_ns) for part in parts])
        low = max(low, min(least_ns, predicted_ns))
        high = high if most_ns is None else min(high, max(most_ns, predicted_ns))
        return cls(predicted_ns, low, high, _by_reason(parts))

    @property
    def width(self) -> float:
        """The width of the interval, as a share of what is predicted."""
        return (self.high_ns - self.low_ns) / self.predicted_ns if self.predicted_ns else 0.0

    @property
    def widest(self) -> Reason | None:
        """The reason that adds most; None where there is none."""
        most = max(self.parts, key=lambda part: part.less_ns + part.more_ns, default=None)
        return None if most is None else most.reason


def _by_reason(parts: Sequence[Part]) -> tuple[Part, ...]:
    """One part for each reason that adds anything."""
    sums = (
        Part(reason, *(sum(getattr(part, name) for part in parts if part.reason is reason) for name in _SIDES))
        for reason in Reason
    )
    return tuple(part for part in sums if part.less_ns or part.more_ns)


def _together(added: Sequence[tuple[Reason, int]]) -> int:
    one_sided = sum(ns for reason, ns in added if reason in TO_ONE_SIDE)
    return round(one_sided + hypot(*(ns for reason, ns in added if reason not in TO_ONE_SIDE)))


HOST_SCATTER = 0.2
"""The share by which the work of the host may be off.

On hosts of H200s it takes 10 to 20 % longer in one second than in the next, and four host-bound programs took 17 to
33 % more in one of two processes than in the other.
"""
DEVICE_SCATTER = 0.05
"""The share by which kernels may be off: a GPU that never pauses lowers its clock by that much."""
BESIDE_COPIES = 0.05
"""The share by which kernels take longer beside copies.

Matrix products took up to 11 % longer (`activation_offload`, `offloaded_blocks` of ``benchmarks/pairs``, on an H200).
"""
LINK_SCATTER = 0.05
"""The share by which pinned copies may be off at least; 52 to 57 GB/s were seen in public over one kind of link."""
_LARGE_BYTES = 2**20
"""Copies from this size on are bound by no latency, so that their scatter is the link's."""
_ENOUGH_COPIES = 8
"""Copies of one size that tell how they scatter."""
_SPREAD_QUANTILE = 0.9
"""Quantile of their scatter that is taken."""
FREE_PAGE_NS = 125.0
"""Time to give a page of pageable memory back to the system, in ns.

Measured where 453 MB of gradients are freed in each step.
"""
_PAGE_BYTES = 4096


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
    """The parts of a predicted time along its critical path, as shares.

    ``host`` is work of the host, with what it stages of pageable copies; ``link`` are other copies over a link;
    ``device`` is the rest.
    """

    host: float
    link: float
    device: float

    @classmethod
    def of(cls, path: CriticalPath) -> Shares:
        """The shares of a critical path; all is on the device where there is none."""
        graph, added = path.simulation.graph, path.added_ns
        total = max(int(added.sum()), 1)
        kind = graph.dependencies.kind[path.rows]
        work = np.maximum(graph.work_of(graph.dependencies.target[path.rows]), NO_ID)
        linked = (kind == DependencyKind.EXECUTION) & np.isin(at(graph.work.engine, work, 0), LINK)
        staged = linked & at(graph.of_memory(MemoryKind.PAGEABLE), work, False)
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
        return np.isin(was, MemoryKind.PAGEABLE) & np.isin(became, MemoryKind.PINNED)

    @property
    def results(self) -> Copies:
        """The copies of the window to the host whose memory the changes pinned, as recorded."""
        copies = self.before.trace.copies
        rows = self.pinned & (copies.direction == Direction.DTOH)
        return copies.take(rows & self.window.touches(copies.process, copies.start_ns, copies.end_ns))

    def with_least_sizes(self) -> Graph | None:
        """The graph afterwards where pinned copies without a size are tiny; None where all have a size."""
        unsized = self.after.work_of_rows(self.pinned & (self.after.trace.copies.size_bytes < 0))
        if not len(unsized):
            return None
        run, weight = self.after.runs(unsized), self.after.dependencies.weight_ns.copy()
        weight[run] = np.minimum(weight[run], LEAST_NS)
        return replace(self.after, dependencies=replace(self.after.dependencies, weight_ns=weight))


def by_new_memory(predicted_ns: int, shares: Shares, edit: Edit) -> Part:
    """The time of freeing pages of new pageable memory for results: pinned memory is kept, so the host frees no pages.

    Results of unknown size may have any number of pages.
    """
    sizes, most_ns = edit.results.size_bytes, shares.host * predicted_ns
    pages_ns = int(sizes.sum()) / _PAGE_BYTES * FREE_PAGE_NS
    return Part(Reason.FIX, round(most_ns if (sizes < 0).any() else min(pages_ns, most_ns)), 0)


def by_unexplained(predicted_ns: int, unexplained: float) -> Part:
    """The time of steps without the profiler that its cost leaves unexplained."""
    off = round(abs(unexplained) * predicted_ns)
    return Part(Reason.PROFILER, off if unexplained > 0 else 0, off if unexplained < 0 else 0)


def by_contention(before_ns: int, after_ns: int) -> Part:
    """Kernels that run beside copies after the changes, and did not before, may take longer."""
    return Part(Reason.CONTENTION, 0, round(BESIDE_COPIES * max(after_ns - before_ns, 0)))


def by_pace(predicted_ns: int, shares: Shares, trace: Trace) -> tuple[Part, ...]:
    """The difference by chance from run to run: of host, link and GPU, by their shares of the critical path."""
    paces = {
        Reason.HOST: shares.host * HOST_SCATTER,
        Reason.LINK: shares.link * link_spread(trace),
        Reason.DEVICE: shares.device * DEVICE_SCATTER,
    }
    sides = {reason: round(share * predicted_ns) for reason, share in paces.items()}
    return tuple(Part(reason, side_ns, side_ns) for reason, side_ns in sides.items())


def link_spread(trace: Trace) -> float:
    """The share by which nine of ten pinned copies of one size differ from their median; at least `LINK_SCATTER`.

    It is `LINK_SCATTER` too where the trace has too few large copies of any size.
    """
    copies = trace.copies
    rows = np.isin(copies.direction, LINK) & (host_kind(copies) == MemoryKind.PINNED)
    rows &= copies.size_bytes >= _LARGE_BYTES
    key = np.stack([copies.direction[rows].astype(np.int64), copies.size_bytes[rows]])
    duration = copies.duration_ns[rows].astype(float)
    times = (duration[group] for _, group in each_value(distinct_columns(key)[1]))
    off = [np.abs(each / np.median(each) - 1) for each in times if len(each) >= _ENOUGH_COPIES]
    together = np.concatenate([*off, np.empty(0)])
    measured = float(np.quantile(together, _SPREAD_QUANTILE)) if len(together) else 0.0
    return min(max(measured, LINK_SCATTER), 1.0)


def busy_ns(simulated: Simulation, window: Window) -> int:
    """For how long the busiest engine of a GPU is busy in a window: kernels, and copies in each direction."""
    return max((spans.total_ns for spans in _busy(simulated, window).values()), default=0)


def beside_copies_ns(simulated: Simulation, window: Window) -> int:
    """For how long kernels of a window run beside copies over a link, on the GPU where that is longest."""
    busy = _busy(simulated, window)
    spans = ([busy.get((*gpu, int(engine)), EMPTY) for engine in (0, *LINK)] for gpu in {place[:2] for place in busy})
    return max((intersect(kernels, merge(*copies)).total_ns for kernels, *copies in spans), default=0)


def _busy(simulated: Simulation, window: Window) -> dict[tuple[int, int, int], Spans]:
    """When each engine of each GPU is busy with work of a window, by process, device and engine."""
    graph, work = simulated.graph, simulated.graph.work
    inside = np.flatnonzero(window.touches(work.process, work.start_ns, work.end_ns))
    start, end = simulated.time_ns[graph.work_start(inside)], simulated.time_ns[graph.work_end(inside)]
    engines, member = distinct_columns(np.stack([work.process[inside], work.device[inside], work.engine[inside]]))
    places = (tuple(place) for place in engines.T.tolist())
    return {place: union(start[rows], end[rows]) for place, (_, rows) in zip(places, each_value(member), strict=True)}
