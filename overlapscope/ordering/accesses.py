"""Accesses to the same memory that nothing may order: of host tensors, and of blocks of GPU memory.

Which operators used which memory is known from recordings only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.calibration.schema import Access, HostAccesses
from overlapscope.dependencies.graph import Graph, issuing_operators
from overlapscope.measure.copies import host_kind
from overlapscope.measure.grouping import at, distinct_columns
from overlapscope.model.columns import NO_ID, Bool, Columnar, Int8, Int64
from overlapscope.model.enums import MemoryKind
from overlapscope.ordering.order import Order, Race


@dataclass(frozen=True, eq=False)
class Races(Columnar):
    """Pairs of accesses to the same memory that nothing orders: work, and later work or, `NO_ID`, the host itself."""

    first: Int64
    then: Int64
    race: Int8

    @classmethod
    def known(cls, first: Int64, then: Int64, race: Int8) -> Races:
        """The pairs of accesses that nothing orders, as far as that is known."""
        return cls(first, then, race).take(race != Race.NOT_KNOWN)

    @property
    def seen(self) -> Bool:
        """Whether, in each pair, the later access began before the earlier one had ended."""
        return np.isin(self.race, Race.SEEN)


_NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class _OperatorWork:
    """Work by the start of the operator that issued it, in the order of issue."""

    start_ns: Int64
    work: Int64

    @classmethod
    def of(cls, graph: Graph) -> _OperatorWork:
        operator = issuing_operators(graph, np.arange(len(graph.work)))
        rows = np.flatnonzero(operator != NO_ID)
        starts = graph.trace.cpu_ops.start_ns[operator[rows]]
        order = np.lexsort((graph.work.issued_ns(graph.calls)[rows], starts))
        return cls(starts[order], rows[order])

    def first(self, start_ns: Int64) -> Int64:
        """The first work of the operators that start at these times; `NO_ID` for none."""
        return self._at(np.searchsorted(self.start_ns, start_ns), start_ns)

    def last(self, start_ns: Int64) -> Int64:
        """The last work of the operators that start at these times; `NO_ID` for none."""
        return self._at(np.searchsorted(self.start_ns, start_ns, "right") - 1, start_ns)

    def _at(self, place: Int64, start_ns: Int64) -> Int64:
        return np.where(at(self.start_ns, place) == start_ns, at(self.work, place), NO_ID)


def early_uploads(order: Order) -> Races:
    """Uploads from a host tensor whose download nothing orders before them."""
    return _of_copies(order, Access.DOWNLOAD, Access.UPLOAD)


def early_refills(order: Order) -> Races:
    """Downloads and writes of the host into a tensor of which an upload may still run."""
    return Races.concat(_of_copies(order, Access.UPLOAD, Access.DOWNLOAD), _of_host(order, Access.UPLOAD, Access.WRITE))


def early_reads(order: Order) -> Races:
    """Reads and writes of the host, such as ``add_``, of a tensor of which a download may still run."""
    return Races.concat(*(_of_host(order, Access.DOWNLOAD, then) for then in (Access.READ, Access.WRITE)))


def early_reuses(order: Order) -> Races:
    """Work that uses freed memory of a GPU, with work of another stream that used it before and may still run."""
    by_operator, blocks = _OperatorWork.of(order.graph), order.graph.trace.calibration.reused_blocks
    if blocks is None:
        return Races.none()
    return _unordered(order, by_operator.last(blocks.used_start_ns), by_operator.first(blocks.reused_start_ns))


def accesses_known(graph: Graph) -> bool:
    """Whether the trace says what operators did with host tensors."""
    return graph.trace.calibration.host_accesses is not None


def known_copies(graph: Graph, access: Access) -> Int64:
    """Copies of one kind of which the host tensor is known, as work."""
    accesses = _accesses(graph)
    if accesses is None:
        return _NOTHING
    work = _OperatorWork.of(graph).last(accesses.op_start_ns[accesses.access == access])
    return np.take(work, np.flatnonzero(work != NO_ID))


def filled_ns(graph: Graph) -> Int64:
    """For all work, when the operator starts that last fills the host tensor that it uploads; 0 where none is known."""
    result, accesses = np.zeros(len(graph.work) + 1, np.int64), _accesses(graph)
    if accesses is None:
        return result[:-1]
    by_operator, alike = _OperatorWork.of(graph), np.zeros(len(accesses.tensor), np.int64)
    for filling in (Access.DOWNLOAD, Access.WRITE):
        one, other = _pairs(accesses, alike, filling, Access.UPLOAD)
        upload = by_operator.first(accesses.op_start_ns[other])  # what is not known is the last entry
        np.maximum.at(result, upload, accesses.op_start_ns[one])
    return result[:-1]


def copies_before_copies(graph: Graph, first: Access, then: Access) -> tuple[Int64, Int64]:
    """Copies of one kind, and those of another kind before each from or to the same host tensor, as that first.

    Of each stream the latest copy since the access before; in any case the latest.
    """
    by_operator, one, other = _before(graph, first, then)
    after = by_operator.first(other)
    known = (one != NO_ID) & (after != NO_ID)
    return one[known], after[known]


def copies_before_host(graph: Graph, first: Access, then: Access) -> tuple[Int64, Int64]:
    """Copies of one kind before each access of the host to the same tensor, and when the accessing operator starts."""
    _, one, moment_ns = _before(graph, first, then)
    return one[one != NO_ID], moment_ns[one != NO_ID]


def _before(graph: Graph, first: Access, then: Access) -> tuple[_OperatorWork, Int64, Int64]:
    """Work by operator; the last work of some accesses, and the start of the operator of later ones."""
    accesses, by_operator = _accesses(graph), _OperatorWork.of(graph)
    if accesses is None:
        return by_operator, _NOTHING, _NOTHING
    work = by_operator.last(accesses.op_start_ns)
    place = np.stack([at(getattr(graph.work, name), work) for name in ("process", "device", "stream")])
    one, other = _pairs(accesses, distinct_columns(place)[1], first, then)
    return by_operator, work[one], accesses.op_start_ns[other]


def _of_copies(order: Order, first: Access, then: Access) -> Races:
    one, other = copies_before_copies(order.graph, first, then)
    free = ~_staged(order.graph, one)
    return _unordered(order, one[free], other[free])


def _of_host(order: Order, first: Access, then: Access) -> Races:
    work, moment_ns = copies_before_host(order.graph, first, then)
    free = ~_staged(order.graph, work)
    work, moment_ns = work[free], moment_ns[free]
    return Races.known(work, np.full(len(work), NO_ID), order.of_host(work, moment_ns))


def _staged(graph: Graph, copies: Int64) -> Bool:
    """Which copies may be done with their host memory when their call returns: those that may be of pageable memory.

    What goes up is in the driver's buffer by then, what comes down has come (CUDA Runtime API, API synchronization
    behavior).
    """
    kind = at(host_kind(graph.trace.copies), graph.work.copy[copies], MemoryKind.UNKNOWN)
    return np.isin(kind, (MemoryKind.PAGEABLE, MemoryKind.UNKNOWN))


def _accesses(graph: Graph) -> HostAccesses | None:
    accesses = graph.trace.calibration.host_accesses
    return accesses if accesses is not None and len(accesses.tensor) else None


def _pairs(accesses: HostAccesses, lane: Int64, first: Access, then: Access) -> tuple[Int64, Int64]:
    """The pairs of an access of one kind and earlier ones of another kind to the same tensor, as rows.

    The latest; and the latest of each other lane, unless an access as this one came after that: it has its own pair.
    """
    rows = np.lexsort((accesses.op_start_ns, accesses.tensor))
    tensor, access = accesses.tensor[rows], accesses.access[rows]
    places = np.arange(len(rows))
    latest, later = (np.maximum.accumulate(np.where(access == kind, places, NO_ID)) for kind in (first, then))
    before = np.append(NO_ID, later)[places]
    parts = [(places[:0], places[:0])]
    for each in np.unique(lane[accesses.access == first]).tolist():
        one = np.maximum.accumulate(np.where((access == first) & (lane[rows] == each), places, NO_ID))
        pairs = (access == then) & (one != NO_ID) & (tensor[one] == tensor) & ((one == latest) | (one > before))
        parts.append((rows[one[pairs]], rows[pairs]))
    ones, others = zip(*parts, strict=True)
    return np.concatenate(ones), np.concatenate(others)


def _unordered(order: Order, first: Int64, then: Int64) -> Races:
    stream, device = order.graph.work.stream, order.graph.work.device
    known = (first != NO_ID) & (then != NO_ID)
    first, then = first[known], then[known]
    other = (stream[first] != stream[then]) | (device[first] != device[then])
    first, then = first[other], then[other]
    return Races.known(first, then, order.of_work(first, then))
