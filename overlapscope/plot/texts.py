"""Texts in bars: names of ranges and kernels, and what a colour stands for, wherever there is room."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import matplotlib as mpl
import numpy as np
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from overlapscope.formatting import safe
from overlapscope.measure.spans import covered, union
from overlapscope.model.columns import Float64, Int64
from overlapscope.timeline.bars import Bars, Lane, LaneKind, Style
from overlapscope.timeline.kernel_names import short_name

SMALL = 5.5
"""Size of texts in bars, in points."""
_MARGIN_IN = 0.05  # around a text
_LEAST_IN = 0.12  # no text has room in less
_GAP_IN = 0.01  # between bars that look like one
_LEAST_FILLED = 0.8  # of such a bar
_MOST_NAME = 80  # characters; no bar has room for more
_SHORTEST_NAME = 4  # characters of a name that still say something
_KERNELS = frozenset((Style.KERNEL, Style.COLLECTIVE))


@dataclass(frozen=True)
class BarText:
    """A text in a bar of some style, around a time."""

    style: Style
    middle_ns: float
    text: str

    @property
    def explains(self) -> bool:
        """Whether it says what the bar's colour stands for."""
        return self.text == self.style.value


def texts_in(lane: Lane, window: tuple[int, int], inches: float, *, shorten: bool) -> Iterator[BarText]:
    """The texts that have room in a lane's bars, in a window that is some inches wide.

    Ranges and kernels have their names: those of ranges are shortened where they must, those of kernels with
    ``shorten``. What a copy, a blocked thread or a strip is, is said in the widest bar. Why a GPU was idle is said in
    each; there, bars that almost touch are one.
    """
    per_ns = inches / max(window[1] - window[0], 1)
    for part in lane.bars:
        bars = _joined(part, _GAP_IN / per_ns) if lane.kind is LaneKind.WHY_IDLE else part
        rooms: Float64 = (bars.end_ns - bars.start_ns).astype(np.float64) * per_ns - _MARGIN_IN
        for row in _rows_with_text(lane.kind, bars, rooms).tolist():
            text = _text(lane.kind, bars, row, float(rooms[row]), shorten=shorten)
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


def _text(kind: LaneKind, bars: Bars, row: int, room_in: float, *, shorten: bool) -> str:
    family = mpl.rcParams["font.family"][0]
    if kind is LaneKind.RANGES:
        return fitting(safe(bars.labels[row]), room_in, family)
    if bars.style in _KERNELS and bars.labels:
        name = safe(short_name(bars.labels[row]))
        return fitting(name, room_in, family) if shorten or width_in(name, family) <= room_in else ""
    said = (bars.style.value, bars.style.value.split()[0]) if kind is LaneKind.WHY_IDLE else (bars.style.value,)
    return next((text for text in said if width_in(text, family) <= room_in), "")


def fitting(name: str, room_in: float, family: str) -> str:
    """A name, or as much of it as there is room for: what comes last often tells one from the next."""
    if room_in < _LEAST_IN:
        return ""
    if width_in(name[:_MOST_NAME], family) <= room_in:
        return name[:_MOST_NAME]
    tail = re.search(r"\W?\d*$", name)
    end = tail[0] if tail else ""
    for length in range(min(len(name) - len(end), _MOST_NAME) - 1, _SHORTEST_NAME - 2, -1):
        shorter = f"{name[:length]}\N{HORIZONTAL ELLIPSIS}{end}"
        if width_in(shorter, family) <= room_in:
            return shorter
    return ""


@lru_cache(maxsize=4096)
def width_in(text: str, family: str) -> float:
    """How wide a text is in the small font; 0 of blanks, which have no outline."""
    if not text.strip():
        return 0.0
    escaped = text.replace("$", r"\$")
    return float(TextPath((0, 0), escaped, size=SMALL, prop=FontProperties(family=[family])).get_extents().width / 72)
