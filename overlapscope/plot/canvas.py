"""Lanes on matplotlib's axes: places, bars, strips, curves, shades, arrows, names, legend."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Patch
from matplotlib.textpath import TextPath

from overlapscope.formatting import safe
from overlapscope.model.columns import Int64
from overlapscope.plot.style import PALETTES, SHADES, WIDTHS_IN, Appearance
from overlapscope.timeline.arrows import Arrows
from overlapscope.timeline.bars import Bars, Lane, LaneKind, Style, styles_in
from overlapscope.timeline.pixels import Levels, deepest, for_pixels, highest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Place = tuple[float, float]
"""Centre and height of bars on the y axis."""

_LANE_IN = 0.17
_LEGEND_ROW_IN = 0.14
_AXIS_IN = 0.42
_GROUP_GAP = 0.45  # lanes of free space between groups
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
_SMALL = 5.5  # points
_MARGIN_IN = 0.04  # around the name of a range
_LEAST_IN = 0.12  # no name has room in less
_MOST_NAME = 80  # characters; no bar has room for more
_HEIGHTS = {
    LaneKind.RANGES: 0.85,
    LaneKind.THREAD: 1.0,
    LaneKind.STREAM: 1.0,
    LaneKind.OVERLAP: 0.75,
    LaneKind.WHY_IDLE: 1.0,
    LaneKind.QUEUE: 1.1,
    LaneKind.NOTE: 0.8,
}
_HATCH_IN = 0.04  # width from which on bars can show a hatch, at the median
_FRAME_IN = 0.015  # from which on one can be framed in white
_SHORTEST_NAME = 4  # characters of a name that still say something
_BAR_HEIGHT = 0.8  # of its lane
_MOST_VECTOR_BARS = 20_000  # with more, a vector file holds them as pixels: text and axes stay what they are
_BAR_SHARE = 0.25  # of the width: how long a scale bar is at most
_ARROW = "#333333"


class Canvas:
    """Some axes, the lanes to paint and where they go."""

    def __init__(
        self,
        ax: Axes,
        found: Sequence[Lane],
        window: tuple[int, int],
        look: Appearance,
        dots_per_in: int,
        most: int = 0,
    ) -> None:
        self._most = max(most, deepest(found, *window), 1)
        self._ax = ax
        self._window = window
        self._look = look
        self._looks = PALETTES[look.palette]
        first, last = window
        self._scale, self._unit = next((s, u) for s, u in _UNITS if last - first >= s or u == "ns")
        self._inches = ax.get_window_extent().width / ax.figure.dpi
        self._pixels = max(1, round(self._inches * dots_per_in))
        self._places = list(_places(found))
        self._hatched: set[Style] = set()
        self._bottom = -_total_height(found)
        self._as_pixels = sum(min(len(bars.start_ns), self._pixels) for lane in found for bars in lane.bars)
        self._rasterized = self._as_pixels > _MOST_VECTOR_BARS

    def paint(self) -> None:
        """Everything but arrows and legend."""
        if self._look.exposed:
            self._shade()
        for lane, place in self._places:
            if lane.curve is not None:
                self._curve(lane, place)
            else:
                self._lane(lane, place)
            if lane.kind is LaneKind.RANGES:
                self._name_ranges(lane, place[0])
        self._axes()

    @property
    def hatched(self) -> set[Style]:
        """The styles that were painted with a hatch."""
        return self._hatched

    def paint_arrows(self, arrows: Arrows) -> None:
        """From each call to its work, where both lanes are shown."""
        where = {(lane.kind, lane.place): place for lane, place in self._places}
        segments, ends = [], []
        for row in range(len(arrows)):
            process = int(arrows.process[row])
            thread = where.get((LaneKind.THREAD, (process, int(arrows.thread[row]))))
            stream = where.get((LaneKind.STREAM, (process, int(arrows.device[row]), int(arrows.stream[row]))))
            if thread is not None and stream is not None:
                end = (self._at(arrows.begun_ns[row]), stream[0] + stream[1] * 0.42)
                segments.append([(self._at(arrows.issued_ns[row]), thread[0] - thread[1] * 0.42), end])
                ends.append(end)
        self._ax.add_collection(LineCollection(segments, colors=_ARROW, linewidths=0.4, zorder=4))
        if ends:
            times, heights = zip(*ends, strict=True)
            self._ax.scatter(times, heights, s=3, marker="v", color=_ARROW, linewidths=0, zorder=4)

    def _at(self, time_ns: Any) -> Any:
        return (time_ns - self._window[0]) / self._scale

    def _shade(self) -> None:
        """The streams of a device while its copies are exposed, as far as that can be seen."""
        for lane, _ in self._places:
            streams = [place for other, place in self._places if _is_stream_of(other, lane)]
            if lane.kind is not LaneKind.OVERLAP or not streams:
                continue
            top = max(centre + height / 2 for centre, height in streams)
            low = min(centre - height / 2 for centre, height in streams)
            for bars in for_pixels(lane, *self._window, self._pixels)[0]:
                if bars.style is Style.EXPOSED:
                    corners = self._corners(bars.start_ns, bars.end_ns, low, top)
                    shade = SHADES[self._look.palette]
                    self._add(PolyCollection(corners, facecolor=shade, edgecolor="none", linewidth=0, zorder=0.5))

    def _lane(self, lane: Lane, place: Place) -> None:
        drawn, levels = for_pixels(lane, *self._window, self._pixels)
        for bars in drawn:
            self._bars(bars, place)
        for level in levels:
            self._levels(level, place)

    def _levels(self, levels: Levels, place: Place) -> None:
        """Each run of neighbouring pixels as one shape: seams between pixels would show."""
        centre, height = place[0], place[1] * _BAR_HEIGHT
        bottom = centre - height / 2
        left, right = self._at(levels.start_ns), self._at(levels.end_ns)
        low, high = bottom + levels.low * height, bottom + levels.high * height
        shapes = []
        for run in np.split(np.arange(len(left)), np.flatnonzero(levels.start_ns[1:] > levels.end_ns[:-1]) + 1):
            times = np.stack([left[run], right[run]], axis=1).ravel()
            upper, lower = np.repeat(high[run], 2), np.repeat(low[run], 2)
            shapes.append(np.column_stack([np.append(times, times[::-1]), np.append(upper, lower[::-1])]))
        self._add(PolyCollection(shapes, facecolor=self._looks[levels.style].color, edgecolor="none", linewidth=0))

    def _curve(self, lane: Lane, place: Place) -> None:
        """A curve as an area, the value of its full height written at its right."""
        if lane.curve is None:
            return
        centre, height = place
        steps = highest(lane.curve, *self._window, self._pixels)
        low = centre - height / 2
        heights = low + steps.value / self._most * height * 0.9
        color = self._looks[Style.QUEUED].color
        self._ax.fill_between(self._at(steps.time_ns), low, heights, step="post", color=color, linewidth=0)
        axes = self._ax.get_yaxis_transform()
        self._ax.text(1.005, centre, f"max {self._most}", transform=axes, fontsize=_SMALL, ha="left", va="center")

    def _bars(self, bars: Bars, place: Place) -> None:
        if not len(bars.start_ns):
            return
        look = self._looks[bars.style]
        least_ns = (self._window[1] - self._window[0]) / self._inches
        length = bars.end_ns - bars.start_ns
        hatched = bool(look.hatch) and float(np.median(length)) >= _HATCH_IN * least_ns  # all of a kind, or none
        wide = length >= (_FRAME_IN if hatched or bars.style is Style.RANGE else np.inf) * least_ns
        self._hatched |= {bars.style} if hatched else set()
        centre, half = place[0], _BAR_HEIGHT * place[1] / 2
        # White edges and hatches would erase what is thinner than they are.
        for rows, frame in ((wide, True), (~wide, False)):
            if rows.any():
                self._add(
                    PolyCollection(
                        self._corners(bars.start_ns[rows], bars.end_ns[rows], centre - half, centre + half),
                        facecolor=look.color,
                        edgecolor="white" if frame else "none",
                        linewidth=0.3 if frame else 0.0,
                        hatch=look.hatch if frame and hatched else None,
                    )
                )

    def _add(self, collection: PolyCollection) -> None:
        collection.set_rasterized(self._rasterized)
        self._ax.add_collection(collection, autolim=False)

    def _corners(self, start_ns: Int64, end_ns: Int64, low: float, high: float) -> list[Any]:
        left, right = self._at(start_ns), self._at(end_ns)
        lows, highs = np.full(len(left), low), np.full(len(left), high)
        corners = np.stack([left, lows, left, highs, right, highs, right, lows], axis=1)
        return list(corners.reshape(-1, 4, 2))

    def _name_ranges(self, lane: Lane, centre: float) -> None:
        """Write a range's name into its bar where there is room for it."""
        per_ns = self._inches / max(self._window[1] - self._window[0], 1)
        for bars in lane.bars:
            for start, end, name in zip(bars.start_ns.tolist(), bars.end_ns.tolist(), bars.labels, strict=False):
                text = fitting(safe(name), (end - start) * per_ns - _MARGIN_IN, mpl.rcParams["font.family"][0])
                if text:
                    middle = self._at((start + end) / 2)
                    style: dict[str, Any] = {"ha": "center", "va": "center", "clip_on": True, "parse_math": False}
                    self._ax.text(middle, centre, text, fontsize=_SMALL, **style)

    def _axes(self) -> None:
        ax, span = self._ax, max(self._window[1] - self._window[0], 1)
        ax.set_xlim(0, span / self._scale)
        ax.set_ylim(self._bottom, _GROUP_GAP / 2)
        ax.set_yticks([place[0] for _, place in self._places], [safe(lane.title, 24) for lane, _ in self._places])
        for label in ax.get_yticklabels():
            label.set_parse_math(False)
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)
        ax.tick_params(axis="y", length=0, pad=2)
        ax.tick_params(axis="x", length=2, pad=2)
        if self._look.scale_bar:
            self._scale_bar(span)
        else:
            ax.set_xlabel(f"time ({self._unit})", labelpad=1)

    def _scale_bar(self, span: int) -> None:
        """Below the lanes, at the right."""
        length = round_length(_BAR_SHARE * span / self._scale)
        self._ax.spines["bottom"].set_visible(False)
        self._ax.set_xticks([])
        right, axes = span / self._scale, self._ax.get_xaxis_transform()
        style: dict[str, Any] = {"transform": axes, "clip_on": False}
        self._ax.plot([right - length, right], [-0.02, -0.02], color="black", linewidth=1.0, **style)
        middle = right - length / 2
        self._ax.text(middle, -0.04, f"{length:g} {self._unit}", ha="center", va="top", **style)


def fitting(name: str, room_in: float, family: str) -> str:
    """A name, or as much of it as there is room for: what comes last often tells one from the next."""
    if room_in < _LEAST_IN:
        return ""
    if _width_in(name[:_MOST_NAME], family) <= room_in:
        return name[:_MOST_NAME]
    tail = re.search(r"\W?\d*$", name)
    end = tail[0] if tail else ""
    for length in range(min(len(name) - len(end), _MOST_NAME) - 1, _SHORTEST_NAME - 2, -1):
        shorter = f"{name[:length]}\N{HORIZONTAL ELLIPSIS}{end}"
        if _width_in(shorter, family) <= room_in:
            return shorter
    return ""


@lru_cache(maxsize=4096)
def _width_in(text: str, family: str) -> float:
    """How wide a text is in the small font."""
    escaped = text.replace("$", r"\$")
    return float(TextPath((0, 0), escaped, size=_SMALL, prop=FontProperties(family=[family])).get_extents().width / 72)


def round_length(most: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is no more than this.

    >>> round_length(3.7), round_length(0.6), round_length(120)
    (2.0, 0.5, 100.0)
    """
    power = 10.0 ** np.floor(np.log10(most))
    return float(max(step * power for step in (1, 2, 5) if step * power <= most * (1 + 1e-9)))


def size_in(found: Sequence[Lane], look: Appearance) -> tuple[float, float]:
    """Width and height of a figure for some lanes, in inches."""
    width = WIDTHS_IN[look.width]
    entries = len(_styles(found)) + _is_shaded(found, look)
    legend = -(-entries // _legend_columns(width)) * _LEGEND_ROW_IN if look.legend else 0.0
    return width, _total_height(found) * _LANE_IN + legend + _AXIS_IN


def add_legend(ax: Axes, found: Sequence[Lane], look: Appearance, hatched: Collection[Style]) -> None:
    """Put a legend below the figure: all styles that some lanes use, hatched where they are, and the shade."""
    looks = PALETTES[look.palette]
    handles = [
        Patch(
            facecolor=looks[style].color,
            hatch=looks[style].hatch if style in hatched else None,
            edgecolor="white" if style in hatched else "none",
            label=style.value,
        )
        for style in _styles(found)
    ]
    if _is_shaded(found, look):
        handles.append(Patch(facecolor=SHADES[look.palette], edgecolor="none", label="no kernel, copy exposed"))
    if not handles or not isinstance(ax.figure, Figure):
        return
    ax.figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=_legend_columns(ax.figure.get_figwidth()),
        frameon=False,
        fontsize=6,
        handlelength=1.2,
        handleheight=0.8,
        columnspacing=1.0,
        labelspacing=0.25,
        borderpad=0.1,
    )


def _legend_columns(width_in: float) -> int:
    return max(1, int(width_in / 1.6))


def _is_shaded(found: Sequence[Lane], look: Appearance) -> bool:
    """Whether there are streams behind which exposed copies are shaded."""
    strips = [lane for lane in found if any(bars.style is Style.EXPOSED for bars in lane.bars)]
    return look.exposed and any(_is_stream_of(lane, strip) for strip in strips for lane in found)


def _styles(found: Sequence[Lane]) -> list[Style]:
    """The styles that need an entry in the legend, in the order of their declaration."""
    return [style for style in styles_in(found) if style is not Style.RANGE]


def _total_height(found: Sequence[Lane]) -> float:
    return sum(height for _, height in _rows(found)) + _GROUP_GAP


def _rows(found: Sequence[Lane]) -> list[tuple[Lane, float]]:
    """Each lane with its height, the gap above a new group included."""
    rows = []
    for index, lane in enumerate(found):
        new_group = index > 0 and found[index - 1].group != lane.group
        rows.append((lane, _HEIGHTS[lane.kind] + (_GROUP_GAP if new_group else 0.0)))
    return rows


def _places(found: Sequence[Lane]) -> Iterator[tuple[Lane, Place]]:
    top = 0.0
    for lane, height in _rows(found):
        own = _HEIGHTS[lane.kind]
        yield lane, (top - (height - own) - own / 2, own)
        top -= height


def _is_stream_of(lane: Lane, strip: Lane) -> bool:
    return lane.kind is LaneKind.STREAM and lane.place[:2] == strip.place
