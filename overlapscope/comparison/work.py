"""What both sides do: kernels and copies that only one has, and whether it is the same work at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from overlapscope.comparison.config import CompareConfig
from overlapscope.comparison.inside import COPY, KERNEL, Inside, inside
from overlapscope.comparison.matching import Matching, Pairs
from overlapscope.comparison.repetitions import repetitions
from overlapscope.dependencies.graph import Graph
from overlapscope.formatting import size
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import Direction
from overlapscope.model.frames import Row
from overlapscope.model.trace import Trace

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


@dataclass(frozen=True)
class Work:
    """What the traces have in common.

    ``matched`` is the number of kernels, copies and memsets that both have, ``only`` what has no counterpart.
    ``before_share`` and ``after_share`` are shares of the kernel time in kernels that both have; of the copied bytes
    that both copy where a side has no kernels. A kernel of a larger grid than its counterpart counts in proportion.
    ``data_share`` says how nearly both handle the same amount of data; ``before_bytes`` and ``after_bytes`` is what
    each copies over links. ``repeated`` says how often kernels run on each side, as the smallest numbers, where one
    of them runs nearly all more often.
    """

    matched: int
    only: tuple[OnlyOne, ...]
    before_share: float
    after_share: float
    data_share: float
    before_bytes: int
    after_bytes: int
    repeated: tuple[int, int] | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready data: ``work`` of a comparison."""
        return {
            "matched": self.matched,
            "before_share": self.before_share,
            "after_share": self.after_share,
            "data_share": self.data_share,
            "before_bytes": self.before_bytes,
            "after_bytes": self.after_bytes,
            "only": [entry.to_dict() for entry in self.only],
        }


def common_work(
    before: Graph, after: Graph, matching: Matching, windows: tuple[Window, Window], config: CompareConfig
) -> Work:
    """Compare the work of two traces within their windows."""
    sides = inside((before, after), matching, windows)
    one, two = (_alone(side) for side in sides)
    only = [_only(kind, name, one, two) for kind, name in dict.fromkeys((*one, *two))]
    only.sort(key=lambda entry: (-max(entry.before_ns, entry.after_ns), entry.name))
    shares = [
        _share(side, other, pairs)
        for side, other, pairs in ((*sides, matching.work), (*sides[::-1], matching.work.flipped))
    ]
    return Work(
        matched=int(sides[0].common.sum()),
        only=tuple(only[: config.listed]),
        before_share=shares[0],
        after_share=shares[1],
        data_share=_data_share(*sides),
        before_bytes=sides[0].copied_bytes,
        after_bytes=sides[1].copied_bytes,
        repeated=repetitions(*sides, config.same_share),
    )


def _data_share(before: Inside, after: Inside) -> float:
    """The ratio of what both handle, by the measure in which they are the most alike; 1 where a side has none.

    Fixes pack copies, which keeps their bytes; drop some, which keeps the size of each; or copy a smaller type, which
    keeps the kernels' time. Where all three differ, both handle other amounts of data.
    """
    copied, other_copied = before.copied_bytes, after.copied_bytes
    count, other_count = (int((side.there & side.over_link).sum()) for side in (before, after))
    kernel_ns = [int(side.kernel_ns[side.there].sum()) for side in (before, after)]
    if not (copied and other_copied and all(kernel_ns)):
        return 1.0
    pairs = (copied, other_copied), (copied / count, other_copied / other_count), kernel_ns
    return max(min(pair) / max(pair) for pair in pairs)


def _share(side: Inside, other: Inside, pairs: Pairs) -> float:
    """The share of a side's kernel time in kernels that the other has; of its bytes where one has no kernels."""
    if not all(each.kernel_ns[each.there].any() for each in (side, other)):
        mine, theirs = _bytes(side), _bytes(other)
        return float(np.minimum(mine, theirs).sum() / mine.sum()) if mine.any() else 1.0
    blocks = [_blocks(each.graph)[rows] for each, rows in ((side, pairs.before), (other, pairs.after))]
    known = (blocks[0] > 0) & (blocks[1] > 0)
    part = np.where(known, np.minimum(blocks[1] / np.maximum(blocks[0], 1), 1), 1)
    took = np.where(side.there, side.kernel_ns, 0)
    return float((took[pairs.before] * part).sum() / took.sum())


def _blocks(graph: Graph) -> Int64:
    """The grid of each kernel; `NO_ID` for other work."""
    rows = np.where(graph.work.table == KERNEL, graph.work.row, NO_ID)
    blocks: Int64 = np.append(graph.trace.kernels.blocks, NO_ID)[rows]
    return blocks


def _bytes(side: Inside) -> Int64:
    """Bytes copied in each direction."""
    trace, work = side.graph.trace, side.graph.work
    copies = trace.copies.take(work.row[side.there & (work.table == COPY)])
    total = np.zeros(max(Direction) + 1, np.int64)
    np.add.at(total, copies.direction, np.maximum(copies.size_bytes, 0))
    return total


Counts = dict[tuple[str, str], tuple[int, int]]
"""How often work of a kind and name occurs, and for how long."""


def _only(kind: str, name: str, before: Counts, after: Counts) -> OnlyOne:
    (one, one_ns), (two, two_ns) = (side.get((kind, name), (0, 0)) for side in (before, after))
    return OnlyOne(kind, name, one, two, one_ns, two_ns)


def _alone(side: Inside) -> Counts:
    """What only one side has."""
    found: Counts = {}
    work, trace = side.graph.work, side.graph.trace
    for index in np.flatnonzero(side.alone).tolist():
        number, row = int(work.table[index]), int(work.row[index])
        names = trace.names[int(trace.device_work[number].name_id[row])]
        key = _KINDS[number], _copy_name(trace, row) if number == COPY else names
        count, took = found.get(key, (0, 0))
        found[key] = count + 1, took + int(work.end_ns[index] - work.start_ns[index])
    return found


def _copy_name(trace: Trace, row: int) -> str:
    """Direction and size of a copy, by which it is matched."""
    direction, copied = Direction(int(trace.copies.direction[row])), int(trace.copies.size_bytes[row])
    return direction.label if copied == NO_ID else f"{direction.label} {size(copied)}"
