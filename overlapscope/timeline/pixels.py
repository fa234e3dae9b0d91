"""Bars for a picture of some width: what is thinner than a pixel is merged, and nothing that matters vanishes.

The report's script (``html/assets/timeline.js``) merges in the same way, because its width changes as one looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from overlapscope.measure.spans import covered, union
from overlapscope.model.columns import Int64
from overlapscope.timeline.bars import COPIES, Bars, Curve, Lane, bars_of_spans


def for_pixels(lane: Lane, first: int, last: int, pixels: int) -> Iterator[tuple[Bars, Bars, Bars]]:
    """A lane's bars for a picture ``pixels`` wide, by style: to draw in full, as low marks, and as the lowest marks.

    A bar of a pixel or more stays as it is. Thinner ones are gathered by pixel: where they fill at least
    half of it, it is drawn in full; where they fill less it is marked, low, so that thousands of short
    copies neither vanish nor look like one long one. Where another style fills more of a pixel, the mark is the lowest;
    work that is not a copy has none there.
    """
    edges = np.linspace(first, last, pixels + 1).astype(np.int64)
    fills = [covered(edges[:-1], edges[1:], union(bars.start_ns, bars.end_ns)) for bars in lane.bars]
    most = np.max(fills, axis=0, initial=0) if fills else np.zeros(pixels, np.int64)
    for bars, fill in zip(lane.bars, fills, strict=True):
        wide = (bars.end_ns - bars.start_ns) * pixels >= last - first
        start, end = bars.start_ns[~wide], bars.end_ns[~wide]
        filled = covered(edges[:-1], edges[1:], union(start, end)) * 2 >= np.diff(edges)
        touched = np.zeros(pixels, np.bool_)
        touched[np.clip(np.searchsorted(edges, start, "right") - 1, 0, pixels - 1)] = True
        slight, less = touched & ~filled & (fill >= most), touched & ~filled & (fill < most)
        full, low = (union(edges[:-1][rows], edges[1:][rows]) for rows in (filled, slight))
        lowest = union(edges[:-1][less], edges[1:][less]) if bars.style in COPIES else union(edges[:0], edges[:0])
        labels = tuple(label for label, keep in zip(bars.labels, wide.tolist(), strict=False) if keep)
        drawn = Bars(
            bars.style,
            np.concatenate([bars.start_ns[wide], full.start_ns]),
            np.concatenate([bars.end_ns[wide], full.end_ns]),
            labels,
        )
        low_marks, lowest_marks = (Bars(bars.style, spans.start_ns, spans.end_ns) for spans in (low, lowest))
        yield drawn, low_marks, lowest_marks


def binned(lane: Lane, first: int, last: int, bins: int) -> tuple[Lane, Lane]:
    """A lane whose bars exclude each other, for a picture: what fills most of each bin, and what else is in it.

    Without this, thousands of slivers drawn a pixel wide would cover each other and show a false share.
    """
    edges = np.linspace(first, last, bins + 1).astype(np.int64)
    filled = np.stack([covered(edges[:-1], edges[1:], union(bars.start_ns, bars.end_ns)) for bars in lane.bars])
    empty = (edges[1:] - edges[:-1]) - filled.sum(axis=0)
    most = np.argmax(np.vstack([empty, filled]), axis=0) - 1
    main, minor = [], []
    for number, bars in enumerate(lane.bars):
        main += bars_of_spans(union(edges[:-1][most == number], edges[1:][most == number]), bars.style)
        less = (most != number) & (filled[number] > 0)
        minor += bars_of_spans(union(edges[:-1][less], edges[1:][less]), bars.style)
    return Lane(lane.kind, lane.title, lane.group, tuple(main)), Lane(lane.kind, lane.title, lane.group, tuple(minor))


def highest(curve: Curve, first: int, last: int, pixels: int) -> Curve:
    """A curve with one value for each pixel: the highest that it has there."""
    edges = np.unique(np.linspace(first, last, pixels + 1).astype(np.int64))
    before = np.searchsorted(curve.time_ns, edges[:-1], "right") - 1
    values = np.append(0, curve.value)
    at_edge = values[before + 1]
    begin, end = before + 1, np.searchsorted(curve.time_ns, edges[1:])
    inside: Int64 = at_edge.copy()
    some = end > begin
    if some.any():
        cuts = np.stack([begin[some], end[some]], axis=1).ravel()
        inside[some] = np.maximum(at_edge[some], np.maximum.reduceat(np.append(curve.value, 0), cuts)[::2])
    return Curve(edges, np.append(inside, inside[-1:]))


def deepest(found: Sequence[Lane], first: int, last: int) -> int:
    """The highest value of any curve within a window; 0 without one."""
    curves = [lane.curve for lane in found if lane.curve is not None]
    return max((int(highest(curve, first, last, 1).value.max(initial=0)) for curve in curves), default=0)
