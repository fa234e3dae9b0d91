"""The times of copies, and of packing tensors for one copy: from a calibration, the trace, or measured hosts.

Pinned copies of both directions at once are slower than alone, though each direction has a copy engine of its own. By
how much, a recording calibrates: on H200s over PCIe 5, about 6 % to the device and 10 % to the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from overlapscope.calibration.schema import PackTime
from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.simulate import Chains, Simulation
from overlapscope.hardware import pinned_bandwidth
from overlapscope.measure.copies import host_kind
from overlapscope.measure.spans import covered, union
from overlapscope.model.columns import Bool, Float64, Int64
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.trace import Trace

LONGEST_NS = 7 * 24 * 3600 * 10**9
LEAST_NS = 1_500
"""What a tiny pinned copy takes; measured on an H200."""


@dataclass(frozen=True, eq=False)
class Speed:
    """Sizes and what moving each takes, by size; ``known_from`` says where that is known from."""

    size_bytes: Float64
    time_ns: Float64
    known_from: str

    def exact_ns(self, size_bytes: Int64) -> Float64:
        """The times of copies of these sizes, in ns: linear between measured sizes, then at the largest's bandwidth."""
        known = np.interp(size_bytes, self.size_bytes, self.time_ns)
        scaled: Float64 = known * np.maximum(size_bytes / self.size_bytes[-1], 1.0)
        return scaled

    def copy_time_ns(self, size_bytes: Int64) -> Int64:
        """The times of these sizes in whole ns, a week at most, so that those of a damaged calibration can be added."""
        return _whole_ns(self.exact_ns(size_bytes))


def pinned_speed(trace: Trace, direction: Direction, sizes: Int64) -> Speed | None:
    """The speed of pinned copies in a direction, for copies of these sizes; None where nothing tells.

    The trace's own pinned copies go first, if they are as large as half of the largest asked for; then the calibration,
    then the link, then smaller copies of its own.
    """
    recorded = _recorded_speed(trace, direction, MemoryKind.PINNED)
    if recorded is not None and recorded.size_bytes[-1] >= float(sizes.max(initial=0)) / 2:
        return recorded
    return calibrated_speed(trace, direction, MemoryKind.PINNED) or _link_speed(trace) or recorded


def staged_speed(trace: Trace, direction: Direction) -> Speed | None:
    """The speed of pageable copies in a direction: the trace's own, else the calibration; None where nothing tells."""
    recorded = _recorded_speed(trace, direction, MemoryKind.PAGEABLE)
    return recorded or calibrated_speed(trace, direction, MemoryKind.PAGEABLE)


def _recorded_speed(trace: Trace, direction: Direction, kind: MemoryKind) -> Speed | None:
    copies = trace.copies
    rows = (copies.direction == direction) & (host_kind(copies) == kind) & (copies.size_bytes > 0)
    if not rows.any():
        return None
    sizes, member = np.unique(copies.size_bytes[rows], return_inverse=True)
    times = np.array([np.median(copies.duration_ns[rows][member == index]) for index in range(len(sizes))])
    return _from_points(sizes.astype(float), times, f"{kind.label} copies of this trace")


def calibrated_speed(trace: Trace, direction: Direction, kind: MemoryKind) -> Speed | None:
    """The speed that the calibration of a trace measured; None where it has none."""
    entries = [
        (entry.size_bytes, entry.copy_ns)
        for entry in trace.calibration.copies
        if entry.direction == direction.label and entry.host_memory == kind.label
    ]
    if not entries:
        return None
    sizes, times = np.array(sorted(entries), float).T
    return _from_points(sizes, times, "the calibration in this trace")


def _link_speed(trace: Trace) -> Speed | None:
    """The speed over the slowest of the devices' links that are known."""
    known = [link for device in trace.metadata.devices if (link := pinned_bandwidth(device)) is not None]
    if not known:
        return None
    slowest = min(known, key=lambda link: (link.gb_s, link.source))
    sizes = np.array([1.0, 1e9])
    known_from = f"{slowest.gb_s:.0f} GB/s, what {slowest.source} reaches"
    return _from_points(sizes, LEAST_NS + sizes / slowest.gb_s, known_from)


def _from_points(sizes: Float64, times: Float64, known_from: str) -> Speed:
    """Larger copies take longer: what scatters the other way is smoothed."""
    return Speed(np.append(0.0, sizes), np.maximum.accumulate(np.append(min(times[0], LEAST_NS), times)), known_from)


# What packing tensors into a pinned buffer takes the host where a trace has no calibration of it. Measured on hosts of
# H200s (benchmarks/packing.py), after other work of the host, with 4 to 256 tensors of one size.
_START_NS = 11_000
"""A call of ``torch.stack`` or ``torch.cat`` without its pieces, in ns."""
_PIECE_NS = 500
"""A piece without its bytes, in ns."""
_RAGGED_NS = 1_200
"""Extra time for each piece where pieces have several sizes, which torch copies one by one, in ns."""
PACKING_GB_S = 13.0
"""The bytes of pieces, by one thread; for megabytes torch takes several threads, and is up to five times as fast."""
_VIEW_NS = 1_000
"""A view of a piece, in ns; ``torch.split`` makes them."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """The time of a piece where all are of one size, and where they are not, in ns.

    torch packs pieces of one size faster: with one loop over all, where others are copied one by one.
    """

    equal: Speed
    ragged: Speed

    def of_groups_ns(self, size_bytes: Int64, group: Int64) -> Float64:
        """The time of all pieces of each group, in ns."""
        count = int(group.max(initial=-1)) + 1
        least, most = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
        np.minimum.at(least, group, size_bytes)
        np.maximum.at(most, group, size_bytes)
        one_size = (least == most)[group]
        each = np.where(one_size, self.equal.exact_ns(size_bytes), self.ragged.exact_ns(size_bytes))
        return np.bincount(group, each, count).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Packing:
    """The times of packing: of pieces in the caches, of pieces after other work of the host, and beside pieces.

    That is what packing takes without its pieces, and a view of a piece.
    """

    warm: Pieces
    cold: Pieces
    start_ns: int
    view_ns: int

    @property
    def known_from(self) -> str:
        """The source of the times, as a phrase."""
        return self.warm.equal.known_from

    def host_ns(self, size_bytes: Int64, group: Int64) -> Int64:
        """The least time of packing each group of pieces, without views of them, in ns; a week at most."""
        return _whole_ns(float(self.start_ns) + self.warm.of_groups_ns(size_bytes, group))

    def more_ns(self, size_bytes: Int64, made: Bool, group: Int64) -> Int64:
        """The time that cold pieces and views of them may add to packing, in ns; a week at most.

        One of each piece, to pack its bytes, and one of what arrives where a tensor was ``made`` for it.
        """
        later = self.cold.of_groups_ns(size_bytes, group) - self.warm.of_groups_ns(size_bytes, group)
        return _whole_ns(np.maximum(later, 0) + float(self.view_ns) * np.bincount(group, 1 + made))


_COLD = ("pack_ns",), ("ragged_ns", "pack_ns")
_WARM = ("warm_pack_ns", "pack_ns"), ("warm_ragged_ns", "ragged_ns", "pack_ns")
"""Figures of a calibration, and what stands for them where they are not there: of equal and of ragged pieces."""


def packing(trace: Trace) -> Packing:
    """The times of packing on the host: from the calibration, else those of pageable copies of the pieces' size.

    Those are copied on the host too, before they are sent. Else as fast as on hosts where it was measured.
    """
    calibrated = trace.calibration.packing
    measured = sorted(calibrated.pieces, key=lambda entry: entry.size_bytes)
    if measured:
        warm, cold = (Pieces(*(_calibrated(measured, key) for key in keys)) for keys in (_WARM, _COLD))
        return Packing(warm, cold, calibrated.start_ns or 0, calibrated.view_ns or 0)
    staged = staged_speed(trace, Direction.HTOD)
    if staged is not None:  # each of these copies has a latency, which stands for a start
        each = replace(staged, known_from=f"packing on the host: as long as staging, {staged.known_from}")
        return Packing(Pieces(each, each), Pieces(each, each), 0, _VIEW_NS)
    pieces = Pieces(_measured(_PIECE_NS), _measured(_PIECE_NS + _RAGGED_NS))
    return Packing(pieces, pieces, _START_NS, _VIEW_NS)


def _measured(piece_ns: int) -> Speed:
    sizes = np.array([0.0, 1e9])
    return Speed(sizes, piece_ns + sizes / PACKING_GB_S, "packing on the host: as usual on hosts of H200s")


def _whole_ns(time_ns: Any) -> Int64:
    whole: Int64 = np.rint(np.minimum(time_ns, LONGEST_NS)).astype(np.int64)
    return whole


def _calibrated(measured: list[PackTime], key: tuple[str, ...]) -> Speed:
    """The first of these figures that there is, of each size."""
    times = [next(filter(None, (getattr(entry, each) for each in key))) for entry in measured]
    sizes = np.array([entry.size_bytes for entry in measured], float)
    return Speed(
        sizes, np.maximum.accumulate(np.array(times, float)), "packing on the host: the calibration in this trace"
    )


_OPPOSITE = {Direction.HTOD: Direction.DTOH, Direction.DTOH: Direction.HTOD}
_ROUNDS = 4  # a slower copy overlaps more, a tenth of a tenth at a time


@dataclass(frozen=True, eq=False)
class Link:
    """The share of each direction's time that copies lose beside copies of the other direction on one link.

    ``alone`` is the share of its time in the trace that each op would have taken with nothing beside it.
    """

    lost: Mapping[Direction, float]
    alone: Float64

    @classmethod
    def of(cls, graph: Graph) -> Link:
        """The link as calibrated; nothing is lost where that is not known."""
        named = {direction.label: direction for direction in _OPPOSITE}
        lost = {
            named[entry.direction]: 1 - entry.alone_ns / entry.beside_ns
            for entry in graph.trace.calibration.duplex
            if entry.direction in named and entry.beside_ns > entry.alone_ns
        }
        took = graph.dependencies.weight_ns[graph.runs(np.arange(len(graph.work)))]
        return cls(lost, 1 - _lost_ns(graph, graph.time_ns, lost) / np.maximum(took, 1))

    def simulate(self, after: Graph) -> Simulation:
        """Simulate a changed graph with copies as long as what then runs beside them makes them."""
        chains = Chains.of(after)
        simulated = Simulation(after, chains.times(after))
        if not self.lost:
            return simulated
        run = after.runs(np.arange(len(after.work)))
        alone = after.dependencies.weight_ns[run] * self.alone
        for _ in range(_ROUNDS):
            weight = simulated.graph.dependencies.weight_ns.copy()
            weight[run] = np.rint(alone + _lost_ns(after, simulated.time_ns, self.lost)).astype(np.int64)
            if (np.abs(weight - simulated.graph.dependencies.weight_ns) <= 1).all():
                break
            weighed = after.with_dependencies(replace(after.dependencies, weight_ns=weight))
            simulated = Simulation(weighed, chains.times(weighed))
        return simulated


def _lost_ns(graph: Graph, time_ns: Int64, lost: Mapping[Direction, float]) -> Float64:
    """The time that each copy loses to copies of the other direction beside it on its device, in ns."""
    work, pinned = graph.work, graph.of_memory(MemoryKind.PINNED)
    starts, ends = (time_ns[node(np.arange(len(work)))] for node in (graph.work_start, graph.work_end))
    result = np.zeros(len(work))
    for process, device in set(zip(work.process[pinned].tolist(), work.device[pinned].tolist(), strict=True)):
        here = pinned & (work.process == process) & (work.device == device)
        for direction, share in lost.items():
            one, other = (here & (work.engine == each) for each in (direction, _OPPOSITE[direction]))
            result[one] = share * covered(starts[one], ends[one], union(starts[other], ends[other]))
    return result
