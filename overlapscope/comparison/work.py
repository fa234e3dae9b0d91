"""`Work`: the kernels and copies that only one side has, and whether both sides do the same work at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from overlapscope.comparison.matching import COPY, KERNEL, Matching, Pairs, codes_of, occurrences
from overlapscope.dependencies.graph import Graph
from overlapscope.formatting import size
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import LINK, Direction
from overlapscope.model.frames import Row
from overlapscope.model.trace import Trace

SAME_SHARE = 0.95
"""Below this share of a side's kernel time in kernels that both sides have, the comparison says so first; what most
fixes add or replace, such as kernels that pack or convert, is smaller."""
COMPARABLE_SHARE = 0.55
"""Below this share the two sides do other work, and the change of the time is none of the program; twice as many steps
or layers on one side leave half of its time without a counterpart."""
LISTED = 50
"""Kernels, copies and ranges that are listed, those with the longest time; a screen holds fewer."""
_KINDS = ("kernel", "copy", "memset")


@dataclass(frozen=True)
class OnlyOne(Row):
    """Kernels, copies or memsets of one name that have no counterpart: how many on each side, and for how long."""

    kind: str
    name: str
    before: int
    after: int
    before_ns: int
    after_ns: int

    @property
    def sides(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The number and the time on each side."""
        return (self.before, self.before_ns), (self.after, self.after_ns)


@dataclass(frozen=True)
class Work(Row):
    """The work that the traces have in common.

    Attributes:
        matched: the number of kernels, copies and memsets that both have.
        before_share: the share of the kernel time in kernels that both have; of the copied bytes that both copy where a
            side has no kernels. A kernel of a larger grid than its counterpart counts in proportion.
        after_share: the share for the side after.
        data_share: how nearly both handle the same amount of data.
        before_bytes: the bytes that are copied over links before.
        after_bytes: the bytes that are copied over links after.
        only: the work without a counterpart.
        repeated: how often kernels run on each side, as the smallest numbers, where one of them runs nearly all more
            often.
    """

    matched: int
    before_share: float
    after_share: float
    data_share: float
    before_bytes: int
    after_bytes: int
    only: tuple[OnlyOne, ...]
    repeated: tuple[int, int] | None

    @property
    def comparable(self) -> bool:
        """Whether the sides do so much of the same work, and as often, that a change of the program can be told."""
        shares = self.before_share, self.after_share, self.data_share
        return min(shares) >= COMPARABLE_SHARE and self.repeated is None

    def to_dict(self) -> dict[str, Any]:
        """The work as JSON-ready data: ``work`` of a comparison."""
        plain = super().to_dict()
        del plain["repeated"]  # a remark says it
        return plain


@dataclass(frozen=True, eq=False)
class WindowWork:
    """The work of a graph: which of it is in the window, and which the other graph has too."""

    graph: Graph
    in_window: Bool
    matched: Bool

    @property
    def alone(self) -> Bool:
        """The work of the window that only this graph has."""
        return self.in_window & ~self.matched

    @property
    def over_link(self) -> Bool:
        """The copies over a link."""
        link: Bool = np.isin(self.graph.work.engine, LINK) & (self.graph.work.table == COPY)
        return link

    @property
    def copied_bytes(self) -> int:
        """The bytes copied over links in the window."""
        sizes = self.graph.trace.copies.size_bytes[self.graph.work.row[self.in_window & self.over_link]]
        return int(np.maximum(sizes, 0).sum())

    @property
    def kernel_ns(self) -> Int64:
        """The time of each kernel; 0 for other work."""
        work = self.graph.work
        return np.where(work.table == KERNEL, work.end_ns - work.start_ns, 0)


def window_work(matching: Matching) -> tuple[WindowWork, WindowWork]:
    """The work of both sides within their windows."""
    one, two = (
        WindowWork(graph, _in_window(graph, window), np.isin(np.arange(len(graph.work)), rows))
        for graph, window, rows in (
            (matching.before, matching.windows[0], matching.work.before),
            (matching.after, matching.windows[1], matching.work.after),
        )
    )
    return one, two


def _in_window(graph: Graph, window: Window) -> Bool:
    """The work in the window: of a range what is issued in it, though it may run when other occurrences do."""
    work = graph.work
    if window.name is None:
        return window.touches(work.process, work.start_ns, work.end_ns)
    issued: Bool = occurrences(graph, window) != NO_ID
    return issued


def common_work(matching: Matching) -> Work:
    """Compare the work of two traces within their windows."""
    before, after = sides = window_work(matching)
    one, two = (_alone(side) for side in sides)
    only = [_only(kind, name, one, two) for kind, name in dict.fromkeys((*one, *two))]
    only.sort(key=lambda entry: (-max(entry.before_ns, entry.after_ns), entry.name))
    return Work(
        matched=int((before.in_window & before.matched).sum()),
        only=tuple(only[:LISTED]),
        before_share=_share(before, after, matching.work),
        after_share=_share(after, before, matching.work.flipped),
        data_share=_data_share(*sides),
        before_bytes=before.copied_bytes,
        after_bytes=after.copied_bytes,
        repeated=_repetitions(*sides),
    )


def _data_share(before: WindowWork, after: WindowWork) -> float:
    """The ratio of what both handle, by the measure in which they are the most alike; 1 where a side has none.

    Fixes pack copies, which keeps their bytes; drop some, which keeps the size of each; or copy a smaller type, which
    keeps the kernels' time. Where all three differ, both handle other amounts of data.
    """
    copied, other_copied = before.copied_bytes, after.copied_bytes
    count, other_count = (int((side.in_window & side.over_link).sum()) for side in (before, after))
    kernel_ns = [int(side.kernel_ns[side.in_window].sum()) for side in (before, after)]
    if not (copied and other_copied and all(kernel_ns)):
        return 1.0
    pairs = (copied, other_copied), (copied / count, other_copied / other_count), kernel_ns
    return max(min(pair) / max(pair) for pair in pairs)


def _share(side: WindowWork, other: WindowWork, pairs: Pairs) -> float:
    """The share of a side's kernel time in kernels that the other has; of its bytes where one has no kernels."""
    if not all(each.kernel_ns[each.in_window].any() for each in (side, other)):
        copied, other_copied = _bytes(side), _bytes(other)
        return float(np.minimum(copied, other_copied).sum() / copied.sum()) if copied.any() else 1.0
    blocks = [_blocks(each.graph)[rows] for each, rows in ((side, pairs.before), (other, pairs.after))]
    known = (blocks[0] > 0) & (blocks[1] > 0)
    part = np.where(known, np.minimum(blocks[1] / np.maximum(blocks[0], 1), 1), 1)
    took = np.where(side.in_window, side.kernel_ns, 0)
    return float((took[pairs.before] * part).sum() / took.sum())


def _blocks(graph: Graph) -> Int64:
    """The number of blocks in the grid of each kernel; `NO_ID` for other work."""
    rows = np.where(graph.work.table == KERNEL, graph.work.row, NO_ID)
    blocks: Int64 = np.append(graph.trace.kernels.blocks, NO_ID)[rows]
    return blocks


def _bytes(side: WindowWork) -> Int64:
    """The bytes copied in each direction."""
    trace, work = side.graph.trace, side.graph.work
    copies = trace.copies.take(work.row[side.in_window & (work.table == COPY)])
    total = np.zeros(max(Direction) + 1, np.int64)
    np.add.at(total, copies.direction, np.maximum(copies.size_bytes, 0))
    return total


Counts = dict[tuple[str, str], tuple[int, int]]
"""How often work of a kind and name occurs, and for how long."""


def _only(kind: str, name: str, before: Counts, after: Counts) -> OnlyOne:
    (one, one_ns), (two, two_ns) = (side.get((kind, name), (0, 0)) for side in (before, after))
    return OnlyOne(kind, name, one, two, one_ns, two_ns)


def _alone(side: WindowWork) -> Counts:
    """The work that only one side has, by name."""
    counts: Counts = {}
    work, trace = side.graph.work, side.graph.trace
    for index in np.flatnonzero(side.alone).tolist():
        number, row = int(work.table[index]), int(work.row[index])
        names = trace.names[int(trace.device_work[number].name_id[row])]
        key = _KINDS[number], _copy_name(trace, row) if number == COPY else names
        count, took = counts.get(key, (0, 0))
        counts[key] = count + 1, took + int(work.end_ns[index] - work.start_ns[index])
    return counts


def _copy_name(trace: Trace, row: int) -> str:
    """The direction and size of a copy, by which it is matched."""
    direction, copied = Direction(int(trace.copies.direction[row])), int(trace.copies.size_bytes[row])
    return direction.label if copied == NO_ID else f"{direction.label} {size(copied)}"


def _repetitions(before: WindowWork, after: WindowWork) -> tuple[int, int] | None:
    """How often kernels run before and after, where it is one ratio for nearly all of both sides' kernel time.

    None where they run as often, and where no ratio holds for so large a share of the time.
    """
    codes = codes_of(before.graph.trace, after.graph.trace)
    kernels = [_kernels(side, code) for side, code in zip((before, after), codes, strict=True)]
    names = max((int(code.max(initial=0)) for code, _ in kernels), default=0) + 1
    counts = np.stack([np.bincount(code, minlength=names) for code, _ in kernels])
    took = np.stack([np.bincount(code, ns, names) for code, ns in kernels])
    if not took.sum(axis=1).all():
        return None
    divisor = np.maximum(np.gcd(*counts), 1)
    ratios, member = np.unique(counts // divisor, axis=1, return_inverse=True)
    shares = [np.bincount(member.reshape(-1), ns) / ns.sum() for ns in took]
    common = np.minimum(*shares)
    one, two = ratios[:, int(common.argmax())].tolist()
    return (one, two) if one != two and one and two and common.max() >= SAME_SHARE else None


def _kernels(side: WindowWork, codes: Int64) -> tuple[Int64, Int64]:
    """The name of each kernel in the window, as a number, and its time."""
    rows = np.flatnonzero(side.in_window & (side.graph.work.table == KERNEL))
    return codes[side.graph.trace.kernels.name_id[side.graph.work.row[rows]]], side.kernel_ns[rows]
