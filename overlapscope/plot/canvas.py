"""Lanes on matplotlib's axes: rows of bars and curves, shades, arrows, texts, and the axis of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from overlapscope.formatting import safe
from overlapscope.model.columns import Int64
from overlapscope.plot.labels import LEGEND_SIZE, SMALL, BarText, is_stream_of, texts_in, told
from overlapscope.plot.style import DOTS_PER_IN, PALETTES, SHADES, Appearance
from overlapscope.timeline.bars import Bars, Lane, LaneKind, Style
from overlapscope.timeline.comparison import View
from overlapscope.timeline.lanes import Arrows
from overlapscope.timeline.pixels import Levels, deepest, for_pixels, highest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LANE_IN = 0.14
"""Height of a lane of height 1."""
BAR_HEIGHT = 0.84
"""Height of a bar in a lane of height 1."""
GAP = 0.35
"""Free space between groups, in lanes."""
_HEADING = 0.9
_HEIGHTS = {
    LaneKind.RANGES: 0.9,
    LaneKind.THREAD: 1.0,
    LaneKind.STREAM: 1.0,
    LaneKind.OVERLAP: 1.0,
    LaneKind.WHY_IDLE: 1.0,
    LaneKind.QUEUE: 1.1,
    LaneKind.MARK: 1.0,
    LaneKind.NOTE: 0.8,
}
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
_LARGEST_TICK = 10_000  # in the unit of the axis: larger numbers get the next unit
_HATCH_IN = 0.04  # width from which on a bar can show a hatch
_EDGED_IN = 0.2  # from which on one has a white edge at its end, which takes little of it
_MOST_VECTOR_BARS = 20_000  # with more, a vector file holds them as pixels: text and axes stay what they are
_BAR_SHARE = 0.25  # of the width: how long a scale bar is at most
_DARK = 0.5  # luma below which a bar's text is white
_ARROW = "#333333"
_ENDS = (0, (2, 2))  # dashes of the line where a stretch ends before the axis does
_TITLE_WIDTH = 34
_MARK_HEIGHT = 0.25  # of a bar below a mark, in a lane of height 1
_MARK_IN = 0.07  # between the middles of marks, which are as wide
_MARK_SIZE = 14.0  # square points
_TICK_INCHES = 0.6  # of the axis for each tick: its label has up to seven characters


@dataclass(frozen=True, eq=False)
class Row:
    """A lane, or the heading of a group, with its centre and height on the y axis, where a lane has height 1."""

    title: str
    lane: Lane | None
    centre: float
    height: float


def rows_of(lanes: Sequence[Lane], *, codes: bool = False) -> list[Row]:
    """Lanes and headings from top to bottom, with their roles; lanes whose group has no name have no heading.

    With ``codes`` the lanes of findings have the codes of their rules.
    """
    rows: list[Row] = []
    top, group = 0.0, None
    for lane in lanes:
        if lane.group != group:
            top -= GAP if rows else 0.0
            if lane.group:
                rows.append(Row(lane.group, None, top - _HEADING / 2, _HEADING))
                top -= _HEADING
            group = lane.group
        height = _HEIGHTS[lane.kind]
        marked = codes and lane.kind is LaneKind.MARK
        title = lane.bars[0].labels[0] if marked else f"{lane.title} ({lane.role})" if lane.role else lane.title
        rows.append(Row(title, lane, top - height / 2, height))
        top -= height
    return rows


def total_height(rows: Sequence[Row]) -> float:
    """The height of all rows, with some space below the last one."""
    return (rows[-1].height / 2 - rows[-1].centre if rows else 0.0) + GAP


class Canvas:
    """Axes, the lanes of a view to paint, and their places.

    `frame` comes first: how wide the axes are, and which texts have room in their bars, depends on the titles.
    """

    def __init__(
        self,
        ax: Axes,
        view: View,
        lanes: Sequence[Lane],
        look: Appearance,
        most: int = 0,
    ) -> None:
        self._most = max(most, deepest(lanes, *view.window), 1)
        self._ax = ax
        self._view = view
        self._window = view.axis
        self._look = look
        self._looks = PALETTES[look.palette]
        self._scale, self._unit = _unit(self._window, view.zero_ns)
        self._rows = rows_of(lanes, codes=look.codes)
        self._lanes = [(row.lane, row) for row in self._rows if row.lane is not None]
        self._measure()
        self.painted: set[Style] = set()
        self.shaded = False

    def _measure(self) -> None:
        self._inches = self._ax.get_window_extent().width / self._ax.figure.dpi
        self._pixels = max(1, round(self._inches * DOTS_PER_IN))
        as_pixels = sum(min(len(bars.start_ns), self._pixels) for lane, _ in self._lanes for bars in lane.bars)
        self._rasterized = as_pixels > _MOST_VECTOR_BARS

    def paint(self) -> None:
        """Paint the lanes; ``painted`` has the styles then, and ``shaded`` says whether there is a shade."""
        self._measure()
        if self._look.exposed:
            self._shade()
        for lane, row in self._lanes:
            if lane.curve is not None:
                self._curve(lane, row)
            else:
                self._lane(lane, row)
        if self._view.free_ns:
            self._ax.axvline(self._at(self._view.last_ns), color=_ARROW, linewidth=0.6, linestyle=_ENDS)

    @property
    def told(self) -> set[Style]:
        """The painted styles that the legend has."""
        return self.painted & told((lane for lane, _ in self._lanes), self._window, codes=self._look.codes)

    def paint_arrows(self, arrows: Arrows) -> None:
        """From each call to its work, where both lanes are shown."""
        where = {(lane.kind, lane.place): row for lane, row in self._lanes}
        segments, ends = [], []
        for number in range(len(arrows)):
            process = int(arrows.process[number])
            thread = where.get((LaneKind.THREAD, (process, int(arrows.thread[number]))))
            place = (process, int(arrows.device[number]), int(arrows.stream[number]))
            stream = where.get((LaneKind.STREAM, place))
            if thread is not None and stream is not None:
                end = (self._at(arrows.begun_ns[number]), stream.centre + stream.height * 0.42)
                segments.append([(self._at(arrows.issued_ns[number]), thread.centre - thread.height * 0.42), end])
                ends.append(end)
        self._ax.add_collection(LineCollection(segments, colors=_ARROW, linewidths=0.4, zorder=4))
        if ends:
            times, heights = zip(*ends, strict=True)
            self._ax.scatter(times, heights, s=3, marker="v", color=_ARROW, linewidths=0, zorder=4)

    def _at(self, time_ns: Any) -> Any:
        return (time_ns - self._view.zero_ns) / self._scale

    def _shade(self) -> None:
        """The streams of a device while its copies are exposed for a pixel or longer."""
        for strip, _ in self._lanes:
            streams = [row for lane, row in self._lanes if is_stream_of(lane, strip)]
            if strip.kind is not LaneKind.OVERLAP or not streams:
                continue
            top = max(row.centre + row.height / 2 for row in streams)
            low = min(row.centre - row.height / 2 for row in streams)
            for bars in for_pixels(strip, *self._window, self._pixels)[0]:
                if bars.style is Style.EXPOSED:
                    corners = self._corners(bars.start_ns, bars.end_ns, low, top)
                    shade = SHADES[self._look.palette]
                    self._add(PolyCollection(corners, facecolor=shade, edgecolor="none", linewidth=0, zorder=0.5))
                    self.shaded = True

    def _lane(self, lane: Lane, row: Row) -> None:
        drawn, levels = for_pixels(lane, *self._window, self._pixels)
        for bars in drawn:
            self._bars(bars, row)
        for level in levels:
            self._levels(level, row)
        for bars in lane.bars if lane.kind is LaneKind.MARK else ():
            self._marks(bars, row)
        for text in texts_in(lane, self._window, self._inches, self._look):
            self._write(text, lane, row)

    def _curve(self, lane: Lane, row: Row) -> None:
        """A curve as an area."""
        if lane.curve is None:
            return
        steps = highest(lane.curve, *self._window, self._pixels)
        low = row.centre - row.height / 2
        heights = low + steps.value / self._most * row.height * 0.9
        style: dict[str, Any] = {"step": "post", "color": self._looks[Style.QUEUED].color, "linewidth": 0}
        self._ax.fill_between(self._at(steps.time_ns), low, heights, where=steps.time_ns <= self._view.last_ns, **style)
        self.painted.add(Style.QUEUED)

    def _bars(self, bars: Bars, row: Row) -> None:
        look = self._looks[bars.style]
        least_ns = (self._window[1] - self._window[0]) / self._inches
        length = bars.end_ns - bars.start_ns
        half = row.height / 2 * (_MARK_HEIGHT if bars.style is Style.MARK else BAR_HEIGHT)
        low, high = row.centre - half, row.centre + half
        wide = length >= _HATCH_IN * least_ns
        for hatch, rows in ((look.hatch, wide), (None, ~wide)) if look.hatch else ((None, wide | ~wide),):
            corners = self._corners(bars.start_ns[rows], bars.end_ns[rows], low, high)
            if corners:
                edge = look.hatch_color
                self._add(PolyCollection(corners, facecolor=look.color, edgecolor=edge, linewidth=0, hatch=hatch))
                self.painted.add(bars.style)
        ends = self._at(bars.end_ns[length >= _EDGED_IN * least_ns])
        edges = [[(end, low), (end, high)] for end in ends.tolist()]
        self._ax.add_collection(LineCollection(edges, colors="white", linewidths=0.4), autolim=False)

    def _marks(self, bars: Bars, row: Row) -> None:
        """A sign at the begin of each bar, which may be too thin to be seen; those too near to another have none."""
        near_ns = (self._window[1] - self._window[0]) / self._inches * _MARK_IN
        at: list[int] = []
        for begin in np.sort(bars.start_ns).tolist():
            at += [begin] if not at or begin - at[-1] >= near_ns else []
        color = self._looks[bars.style].color
        style: dict[str, Any] = {"marker": "v", "linewidths": 0.4, "edgecolors": "white", "zorder": 5, "clip_on": False}
        self._ax.scatter(self._at(np.array(at)), [row.centre] * len(at), s=_MARK_SIZE, color=color, **style)

    def _levels(self, levels: Levels, row: Row) -> None:
        """Each run of neighbouring pixels as one shape: seams between pixels would show."""
        height = row.height * BAR_HEIGHT
        bottom = row.centre - height / 2
        left, right = self._at(levels.start_ns), self._at(levels.end_ns)
        low, high = bottom + levels.low * height, bottom + levels.high * height
        shapes = []
        for run in np.split(np.arange(len(left)), np.flatnonzero(levels.start_ns[1:] > levels.end_ns[:-1]) + 1):
            times = np.stack([left[run], right[run]], axis=1).ravel()
            upper, lower = np.repeat(high[run], 2), np.repeat(low[run], 2)
            shapes.append(np.column_stack([np.append(times, times[::-1]), np.append(upper, lower[::-1])]))
        color = self._looks[levels.style].color
        self.painted.add(levels.style)
        self._add(PolyCollection(shapes, facecolor=color, edgecolor="none", linewidth=0))

    def _add(self, collection: PolyCollection) -> None:
        collection.set_rasterized(self._rasterized)
        self._ax.add_collection(collection, autolim=False)

    def _corners(self, start_ns: Int64, end_ns: Int64, low: float, high: float) -> list[Any]:
        left, right = self._at(start_ns), self._at(end_ns)
        lows, highs = np.full(len(left), low), np.full(len(left), high)
        corners = np.stack([left, lows, left, highs, right, highs, right, lows], axis=1)
        return list(corners.reshape(-1, 4, 2))

    def _write(self, entry: BarText, lane: Lane, row: Row) -> None:
        color = self._looks[entry.style].color
        red, green, blue = to_rgb(color)
        style: dict[str, Any] = {"ha": "center", "va": "center_baseline", "clip_on": True, "parse_math": False}
        style["color"] = "white" if 0.299 * red + 0.587 * green + 0.114 * blue < _DARK else "black"
        if self._looks[entry.style].hatch or lane.kind is LaneKind.WHY_IDLE:  # what is thin there would cross it
            style["bbox"] = {"facecolor": color, "edgecolor": "none", "pad": 0.6}
        self._ax.text(self._at(entry.middle_ns), row.centre, entry.text, fontsize=SMALL, **style)

    def frame(self) -> None:
        """Set what surrounds the lanes: their titles, the greatest values of curves, the axis of time."""
        ax, (first, last) = self._ax, self._window
        ax.set_xlim(self._at(first), self._at(max(last, first + 1)))
        ax.set_ylim(-total_height(self._rows), GAP / 2)
        ax.set_yticks([row.centre for row in self._rows], [safe(row.title, _TITLE_WIDTH) for row in self._rows])
        for label, row in zip(ax.get_yticklabels(), self._rows, strict=True):
            label.set_parse_math(False)
            label.set_fontsize(LEGEND_SIZE)
            label.set_fontweight("bold" if row.lane is None else "normal")
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)
        for lane, row in self._lanes:
            if lane.curve is not None:
                place: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "ha": "left", "va": "center"}
                ax.text(1.005, row.centre, f"max {self._most}", fontsize=SMALL, **place)
        ax.tick_params(axis="y", length=0, pad=2)
        ax.tick_params(axis="x", length=2, pad=2, labelsize=LEGEND_SIZE)
        if self._look.scale_bar:
            self._scale_bar()
        else:
            ax.xaxis.set_major_locator(MaxNLocator(nbins=max(int(self._inches / _TICK_INCHES), 2)))
            ax.xaxis.set_major_formatter(ScalarFormatter(useOffset=False))
            ax.set_xlabel(
                f"time since the start of the {self._look.clock} ({self._unit})", labelpad=1, fontsize=LEGEND_SIZE
            )

    def _scale_bar(self) -> None:
        """Below the lanes, at the right."""
        first, last = self._window
        length = round_length(_BAR_SHARE * max(last - first, 1) / self._scale)
        self._ax.spines["bottom"].set_visible(False)
        self._ax.set_xticks([])
        right, axes = self._at(last), self._ax.get_xaxis_transform()
        style: dict[str, Any] = {"transform": axes, "clip_on": False}
        self._ax.plot([right - length, right], [-0.02, -0.02], color="black", linewidth=1.0, **style)
        middle = right - length / 2
        self._ax.text(middle, -0.04, f"{length:g} {self._unit}", ha="center", va="top", fontsize=LEGEND_SIZE, **style)


def _unit(window: tuple[int, int], zero_ns: int) -> tuple[float, str]:
    """The unit of the axis: the unit of the window's length, or a larger one where its numbers would be long."""
    first, last = window
    most = max(abs(first - zero_ns), abs(last - zero_ns))
    least = max((scale for scale, _ in _UNITS if scale <= last - first), default=1.0)
    usable = [(scale, unit) for scale, unit in _UNITS if scale >= least and most < _LARGEST_TICK * scale]
    return usable[-1] if usable else _UNITS[0]


def round_length(most: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is no more than this.

    >>> round_length(3.7), round_length(0.6), round_length(120)
    (2.0, 0.5, 100.0)
    """
    power = 10.0 ** np.floor(np.log10(most))
    return float(max(step * power for step in (1, 2, 5) if step * power <= most * (1 + 1e-9)))
