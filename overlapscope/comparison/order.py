"""In what else two programs differ: in the calls that they make and the order of these, which no swap puts in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from overlapscope.comparison import queues
from overlapscope.comparison.inside import KERNEL, Inside, inside
from overlapscope.comparison.matching import Matching
from overlapscope.dependencies.graph import Graph
from overlapscope.formatting import counted, size
from overlapscope.measure.windows import Window
from overlapscope.model.columns import Bool, Int64
from overlapscope.model.enums import ApiKind, Direction

_OTHER_SHARE = 0.01  # kernels that take less than this share of the time are not what was changed

Fact = tuple[str, int]
"""What differs, and whether it can save time (1), cost time (-1), or either (0)."""


def facts(graphs: tuple[Graph, Graph], matching: Matching, windows: tuple[Window, Window]) -> Iterator[Fact]:
    """The number and size of copies, CUDA graphs, other kernels, and the order of issue."""
    sides = inside(graphs, matching, windows)
    yield from _copies(*sides)
    launched = [(side.graph.calls.kind == ApiKind.GRAPH_LAUNCH) & _issues_there(side) for side in sides]
    if launched[0].any() != launched[1].any():
        yield ("a CUDA graph", 1) if launched[1].any() else ("no CUDA graph", -1)
    if any(side.kernel_ns[side.alone].sum() > _OTHER_SHARE * side.kernel_ns[side.there].sum() for side in sides):
        yield "other kernels", 0
    yield from _issued(*graphs, matching)


def _issues_there(side: Inside) -> Bool:
    """Which calls issue work of the window."""
    there: Bool = np.isin(np.arange(len(side.graph.calls)), side.graph.work.call[side.there])
    return there


def _copies(before: Inside, after: Inside) -> Iterator[Fact]:
    """Other copies over a link: fewer, smaller, or in the other direction."""
    if not any((side.alone & side.over_link).any() for side in (before, after)):
        return
    engines = [side.graph.work.engine[side.there & side.over_link] for side in (before, after)]
    numbers, amounts = [len(each) for each in engines], [before.copied_bytes, after.copied_bytes]
    if numbers[0] != numbers[1]:
        yield _less(("fewer copies", "more copies"), numbers, "{:,}".format)
    elif amounts[0] != amounts[1]:
        yield _less(("smaller copies", "larger copies"), amounts, size)
    else:
        yield _turned(*engines), 0


def _less(words: tuple[str, str], values: Sequence[int], form: Callable[[int], str]) -> Fact:
    """That there is less of something, or more."""
    less = values[1] < values[0]
    return f"{words[0] if less else words[1]} ({form(values[0])} -> {form(values[1])})", 1 if less else -1


def _turned(before: Int64, after: Int64) -> str:
    """Of as many copies of as many bytes, how many go in another direction."""
    counts = [np.bincount(each, minlength=max(Direction) + 1) for each in (before, after)]
    fewer = counts[0] - counts[1]
    if not fewer.any():
        return "other copies"
    gone, new = (Direction(int(np.argmax(each))).label for each in (fewer, -fewer))
    return f"{counted(int(fewer.max()), 'copy', 'copies')} {new} instead of {gone}"


def _issued(before: Graph, after: Graph, matching: Matching) -> Iterator[Fact]:
    """Whether copies are issued before or after other kernels; if that is as it was, before or after other copies."""
    mine, theirs = matching.work.before, matching.work.after
    copies, kernels = before.work.engine[mine] > 0, before.work.table[mine] == KERNEL
    moments = [graph.work.issued_ns(graph.calls)[rows] for graph, rows in ((before, mine), (after, theirs))]
    ranks = [np.searchsorted(np.sort(moment[kernels]), moment[copies]) for moment in moments]
    earlier, later = int((ranks[1] < ranks[0]).sum()), int((ranks[1] > ranks[0]).sum())
    if earlier or later:
        when, sign = ("earlier", 1) if earlier >= later else ("later", -1)
        yield f"issuing {counted(max(earlier, later), 'copy', 'copies')} {when}", sign
        return
    places = [_places(graph, rows[copies]) for graph, rows in ((before, mine), (after, theirs))]
    ahead, behind = int((places[1] < places[0]).sum()), int((places[1] > places[0]).sum())
    if ahead and behind:  # what moves far are the fewer ones
        where = "ahead of" if ahead <= behind else "behind"
        yield f"issuing {counted(min(ahead, behind), 'copy', 'copies')} {where} others", 0


def _places(graph: Graph, copies: Int64) -> Int64:
    """The place of each of some copies among them, in the order of issue on its engine."""
    engine, issued = queues.numbers(graph.work, "engine")[copies], graph.work.issued_ns(graph.calls)[copies]
    order = np.lexsort((copies, issued, engine))
    place = np.empty(len(copies), np.int64)
    place[order] = np.arange(len(copies))
    return place
