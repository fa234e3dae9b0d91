"""Bars for a picture of some width: what is thinner than a pixel shares it, each style as high as the time it fills."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from overlapscope.measure.spans import Spans, covered, intersect, subtract, union
from overlapscope.model.columns import Columnar, Float64, Int64
from overlapscope.timeline.bars import Bars, Curve, Lane, Style, edges_ns

_MOST_ADDED = 0.01  # of a lane, by which marks that are too low to see are raised in all: no false share
_RARE = 0.05  # of the window: what fills more of it is seen as it is
_HIGHEST_MARK = 0.4  # of a lane, to which a low mark is raised at most: it must not look like a full bar


@dataclass(frozen=True, eq=False)
class Levels(Columnar):
    """Bars of one style that are thinner than a pixel, as pieces of time, disjoint and by begin, each with its heights.

    Heights are parts of the lane's: 0 is its bottom, 1 its top.
    """

    style: Style
    start_ns: Int64
    end_ns: Int64
    low: Float64
    high: Float64


def for_pixels(lane: Lane, first: int, last: int, pixels: int) -> tuple[list[Bars], list[Levels]]:
    """A lane's bars for a picture ``pixels`` wide: those of a pixel or more as they are, thinner ones as levels.

    What wide bars leave of a pixel is divided by height: each style is as high as the part of the time that it fills,
    stacked from the last style at the bottom to the first. So the painted share of a style is its share of the time.
    Marks of rare styles, which nobody would see, are raised a little: by `_MOST_ADDED` of the lane at most.
    """
    wide = [(bars.end_ns - bars.start_ns) * pixels >= last - first for bars in lane.bars]
    drawn = [bars.take(rows) for bars, rows in zip(lane.bars, wide, strict=True)]
    thin = [bars.take(~rows) for bars, rows in zip(lane.bars, wide, strict=True)]
    cells = _cells(drawn, first, last, pixels)
    lengths = cells.end_ns - cells.start_ns
    fills = [covered(cells.start_ns, cells.end_ns, union(bars.start_ns, bars.end_ns)) / lengths for bars in thin]
    rare = [float(fill @ lengths) < _RARE * (last - first) for fill in fills]
    budget = _MOST_ADDED * (last - first) / max(sum(rare), 1)
    raised = [_raised(fill, lengths, budget) if few else fill for fill, few in zip(fills, rare, strict=True)]
    heights = np.array(raised).reshape(len(fills), len(cells))
    heights /= np.maximum(heights.sum(axis=0), 1)
    tops = np.cumsum(heights[::-1], axis=0)[::-1]
    levels = []
    for bars, height, top in zip(thin, heights, tops, strict=True):
        level = Levels(bars.style, cells.start_ns, cells.end_ns, top - height, top).take(height > 0)
        levels += [level] if len(level) else []
    return [bars for bars in drawn if len(bars)], levels


def _cells(wide: Sequence[Bars], first: int, last: int, pixels: int) -> Spans:
    """The time that wide bars leave of each pixel."""
    edges = np.unique(np.linspace(first, last, pixels + 1).astype(np.int64))
    free = subtract(union(edges[:1], edges[-1:]), union(*edges_ns(wide)))
    return intersect(free, Spans(edges[:-1], edges[1:]))


def _raised(heights: Float64, lengths: Int64, budget: float) -> Float64:
    """Raise the lowest marks to one height, as far as the area that this adds allows.

    >>> _raised(np.array([0.0, 0.1, 0.3, 0.9]), np.full(4, 10), 2.0).round(2).tolist()
    [0.0, 0.3, 0.3, 0.9]
    """
    order = np.argsort(heights, kind="stable")
    order = order[heights[order] > 0]
    if not len(order):
        return heights
    low, width = heights[order], lengths[order]
    area, length = np.cumsum(low * width), np.cumsum(width)
    added = low * length - area  # by raising to each height all that are lower
    last = int(np.searchsorted(added, budget, "right")) - 1
    level = min((budget + area[last]) / length[last], _HIGHEST_MARK)
    return np.where(heights > 0, np.maximum(heights, level), 0.0)


def highest(curve: Curve, first: int, last: int, pixels: int) -> Curve:
    """A curve with one value for each pixel: the highest that it has there."""
    edges = np.unique(np.linspace(first, last, pixels + 1).astype(np.int64))
    before = np.searchsorted(curve.time_ns, edges[:-1], "right") - 1
    values = np.append(0, curve.value)
    at_edge = values[before + 1]
    begin, end = before + 1, np.searchsorted(curve.time_ns, edges[1:])
    inside: Int64 = at_edge.copy()
    changes = end > begin
    if changes.any():
        cuts = np.stack([begin[changes], end[changes]], axis=1).ravel()
        inside[changes] = np.maximum(at_edge[changes], np.maximum.reduceat(np.append(curve.value, 0), cuts)[::2])
    return Curve(edges, np.append(inside, inside[-1:]))


def deepest(lanes: Sequence[Lane], first: int, last: int) -> int:
    """The highest value of any curve within a window; 0 without one."""
    curves = [lane.curve for lane in lanes if lane.curve is not None]
    return max((int(highest(curve, first, last, 1).value.max(initial=0)) for curve in curves), default=0)
