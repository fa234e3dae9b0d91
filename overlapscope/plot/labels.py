"""Texts in bars, and the legend below a figure.

Bars have the names of ranges and kernels, or the meaning of their colour, wherever there is room. The legend has the
colours that are drawn, but for those that are hardly seen, and that of ranges, whose lanes say what they are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.legend_handler import HandlerTuple
from matplotlib.patches import Patch
from matplotlib.textpath import TextPath
from matplotlib.transforms import ScaledTranslation

from overlapscope.formatting import safe
from overlapscope.measure.spans import covered, union
from overlapscope.model.columns import Float64, Int64
from overlapscope.plot.style import PALETTES, SHADES, Appearance, Look
from overlapscope.timeline.bars import Bars, Lane, LaneKind, Style
from overlapscope.timeline.names import short_name

SMALL = 5.5
"""Size of texts in bars, in points."""
LEGEND_SIZE = 6.0
"""Size of the legend and of titles of lanes, in points."""
_MARGIN_IN = 0.05  # around a text
_LEAST_IN = 0.12  # the narrowest room for a text
_GAP_IN = 0.01  # between bars that look like one
_LEAST_FILLED = 0.8  # of such a bar
_MOST_NAME = 80  # characters; no bar has room for more
_LEAST_KEPT = 0.5  # of a name that is shortened
_WORD = re.compile(r"[A-Z]*[a-z]+|[A-Z]+|\d+|[^\W\d_]+")
_KERNELS = frozenset((Style.KERNEL, Style.COLLECTIVE))
_LEAST_TOLD = 0.01  # of a figure's time: 0.6 mm in a column, of which a colour can hardly be told
_ALWAYS_TOLD = frozenset((Style.MARK, Style.QUEUED))  # a sign is seen however short its bar is; a curve has no bars
_ROW_IN = 0.12
_HANDLE_IN = 0.24  # of an entry of the legend, beside its text: the patch, and the gaps
_EDGE = "#A0A0A0"  # of a patch, which may be as light as the ground


@dataclass(frozen=True)
class BarText:
    """A text in a bar of some style, around a time."""

    style: Style
    middle_ns: float
    text: str


def texts_in(lane: Lane, window: tuple[int, int], inches: float, look: Appearance) -> Iterator[BarText]:
    """The texts that have room in a lane's bars, in a window that is some inches wide.

    Ranges and kernels have their names: those of ranges are shortened where they must, those of kernels with
    ``kernel_names``. The widest bar of a copy, a blocked thread or a strip has the meaning of its colour. Each bar of a
    GPU's idle time has its reason; there, bars that almost touch are one. Texts of a lane never overlap.
    """
    per_ns, taken_to = inches / max(window[1] - window[0], 1), -math.inf
    for text in sorted(_texts(lane, per_ns, look), key=lambda text: text.middle_ns):
        half_ns = width_in(text.text, mpl.rcParams["font.family"][0]) / per_ns / 2
        if text.middle_ns - half_ns >= taken_to:
            taken_to = text.middle_ns + half_ns
            yield text


def _texts(lane: Lane, per_ns: float, look: Appearance) -> Iterator[BarText]:
    for part in lane.bars if lane.kind is not LaneKind.MARK else ():
        bars = _joined(part, _GAP_IN / per_ns) if lane.kind is LaneKind.WHY_IDLE else part
        rooms: Float64 = (bars.end_ns - bars.start_ns).astype(np.float64) * per_ns - _MARGIN_IN
        for row in _rows_with_text(lane.kind, bars, rooms).tolist():
            text = _text(lane.kind, bars, row, float(rooms[row]), look)
            if text:
                yield BarText(bars.style, (int(bars.start_ns[row]) + int(bars.end_ns[row])) / 2, text)


def _joined(bars: Bars, gap_ns: float) -> Bars:
    """Bars with no more than a gap between them as one, where they fill most of it."""
    spans = union(bars.start_ns, bars.end_ns)
    opens = np.append(True, spans.start_ns[1:] - spans.end_ns[:-1] > gap_ns)
    first = np.flatnonzero(opens)
    start, end = spans.start_ns[first], spans.end_ns[np.append(first[1:], len(spans)) - 1]
    filled = covered(start, end, spans) >= _LEAST_FILLED * (end - start)
    return Bars(bars.style, start[filled], end[filled])


def _rows_with_text(kind: LaneKind, bars: Bars, rooms: Float64) -> Int64:
    rows: Int64 = np.flatnonzero(rooms >= _LEAST_IN)
    each = kind in {LaneKind.RANGES, LaneKind.WHY_IDLE} or bars.style in _KERNELS
    return rows if each or not len(rows) else rows[[np.argmax(rooms[rows])]]


def _text(kind: LaneKind, bars: Bars, row: int, room_in: float, look: Appearance) -> str:
    family = mpl.rcParams["font.family"][0]
    if kind is LaneKind.RANGES:
        return fitting(safe(bars.labels[row]), room_in, family)
    if bars.style in _KERNELS and bars.labels:
        name = safe(short_name(bars.labels[row]))
        return fitting(name, room_in, family) if look.kernel_names or width_in(name, family) <= room_in else ""
    return next((text for text in _meanings(bars.style, codes=look.codes) if width_in(text, family) <= room_in), "")


def _meanings(style: Style, *, codes: bool) -> Iterator[str]:
    """What a colour stands for, and for findings the code alone, or the words without what their lane says."""
    meaning = meaning_of(style, codes=codes)
    yield meaning
    if style.is_of_rule:
        yield meaning.split()[0] if codes else meaning.removeprefix("idle: ")


def fitting(name: str, room_in: float, family: str) -> str:
    """A name, or its first words and the number at its end; empty without room for half of the name.

    >>> fitting("ProfilerStep#12", 0.55, "DejaVu Sans")
    'Profiler…#12'
    """
    if width_in(name[:_MOST_NAME], family) <= room_in:
        return name[:_MOST_NAME]
    number = re.search(r"\W?\d+$", name)
    end = number[0] if number else ""
    words = [match.end() for match in _WORD.finditer(name, 0, min(len(name) - len(end), _MOST_NAME))]
    shorter = (f"{name[:kept]}\N{HORIZONTAL ELLIPSIS}{end}" for kept in reversed(words))
    text = next((text for text in shorter if len(text) < len(name) and width_in(text, family) <= room_in), "")
    return text if len(text) > _LEAST_KEPT * len(name) else ""


@lru_cache(maxsize=4096)
def width_in(text: str, family: str) -> float:
    """The width of a text in the small font; 0 of blanks, which have no outline."""
    if not text.strip():
        return 0.0
    escaped = text.replace("$", r"\$")
    return float(TextPath((0, 0), escaped, size=SMALL, prop=FontProperties(family=[family])).get_extents().width / 72)


def meaning_of(style: Style, *, codes: bool) -> str:
    """What a colour stands for: in words, or with the code of its rule."""
    return style.value if codes else style.words


def is_stream_of(lane: Lane, strip: Lane) -> bool:
    """Whether a lane is a stream of a strip's device."""
    return lane.kind is LaneKind.STREAM and lane.place[:2] == strip.place


def told(lanes: Iterable[Lane], window: tuple[int, int], *, codes: bool) -> set[Style]:
    """The styles that a legend has: those that fill enough of a lane, and what fills most of each.

    With ``codes`` it has all rules, since one looks for the codes that an audit names.
    """
    least_ns = _LEAST_TOLD * (window[1] - window[0])
    found = {style for style in Style if style in _ALWAYS_TOLD or (codes and style.is_of_rule)}
    for lane in lanes:
        filled_ns = {bars.style: lane.busy_ns(frozenset((bars.style,))) for bars in lane.bars}
        enough_ns = min(least_ns, max(filled_ns.values(), default=0))
        found |= {style for style, busy_ns in filled_ns.items() if busy_ns >= enough_ns}
    return found


@dataclass(frozen=True, eq=False)
class Legend:
    """The entries of a legend: styles in their order.

    Exposed copies have the shade behind streams beside their colour.
    """

    styles: Collection[Style]
    look: Appearance
    shaded: bool = False

    @property
    def texts(self) -> list[str]:
        """The text of each entry."""
        return [meaning_of(style, codes=self.look.codes) for style in self._entries]

    @property
    def _entries(self) -> list[Style]:
        return [style for style in Style if style in self.styles and style is not Style.RANGE]

    def columns(self, inches: float) -> int:
        """The number of columns in a figure of some width."""
        family = mpl.rcParams["font.family"][0]
        widths = [width_in(text, family) * LEGEND_SIZE / SMALL + _HANDLE_IN for text in self.texts]
        fits = (number for number in range(len(widths), 1, -1) if _together(widths, number) <= inches)
        return next(fits, 1)

    def height_in(self, inches: float) -> float:
        """The height below a figure of some width."""
        return -(-len(self.texts) // self.columns(inches)) * _ROW_IN

    def add(self, ax: Axes, *, of_axes: bool = False) -> None:
        """Put the legend below the figure, or below the axes with ``of_axes``."""
        if not self.texts or not isinstance(ax.figure, Figure):
            return
        width = ax.get_window_extent().width / ax.figure.dpi if of_axes else ax.figure.get_figwidth()
        place: dict[str, Any] = {"loc": "outside lower center"}
        if of_axes:
            tight, dots = ax.get_tightbbox(), ax.figure.dpi
            below_in = 0.0 if tight is None else (tight.y0 - ax.get_window_extent().y0) / dots  # of labels of the axis
            under = ax.transAxes + ScaledTranslation(0, below_in, ax.figure.dpi_scale_trans)
            place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": under, "borderaxespad": 0.3}
        (ax if of_axes else ax.figure).legend(
            [self._handle(style) for style in self._entries],
            self.texts,
            handler_map={tuple: HandlerTuple(ndivide=None, pad=0)},
            **place,
            ncols=self.columns(width),
            frameon=False,
            fontsize=LEGEND_SIZE,
            handlelength=1.2,
            handleheight=0.8,
            handletextpad=0.5,
            columnspacing=1.0,
            labelspacing=0.25,
            borderpad=0.1,
        )

    def _handle(self, style: Style) -> Any:
        patch = _patch(PALETTES[self.look.palette][style])
        is_shaded = style is Style.EXPOSED and self.shaded
        return (patch, _patch(Look(SHADES[self.look.palette]))) if is_shaded else patch


def _patch(look: Look) -> Patch:
    if look.hatch:
        return Patch(facecolor=look.color, hatch=look.hatch, edgecolor=look.hatch_color, linewidth=0)
    return Patch(facecolor=look.color, edgecolor=_EDGE, linewidth=0.3)


def _together(widths: Sequence[float], columns: int) -> float:
    """The width of some columns, which are filled one after the other."""
    return sum(float(part.max()) for part in np.array_split(np.array(widths), columns))
