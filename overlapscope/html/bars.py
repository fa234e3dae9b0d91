"""The bars of an interactive timeline, packed for a page."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from overlapscope.formatting import safe
from overlapscope.html.colours import colour_of
from overlapscope.model.columns import Int64
from overlapscope.timeline.bars import COPIES, Lane, LaneKind, Style, edges_ns, styles_in
from overlapscope.timeline.comparison import View
from overlapscope.timeline.lanes import lanes
from overlapscope.timeline.shown import Shown

_SHOWN = Shown(labels=True, range_depth=4, most_streams=24, most_threads=8)
_STYLES = tuple(Style)
_TITLE_WIDTH = 22
_KINDS = ("<f8", "<f4", "<u4", "u1")


@dataclass(frozen=True, eq=False)
class Packed:
    """What the page's script has to know, the bars of each view as base64 of gzip, and the styles that occur.

    The bars of a view are four arrays one after the other: begin (f8) and length (f4) in ns since its zero,
    number of the name (u4), number of the style (u1); lane after lane, each by begin.
    """

    about: dict[str, Any]
    data: tuple[str, ...]
    styles: tuple[Style, ...]


def packed(views: Sequence[View]) -> Packed:
    """Pack some views of the same program."""
    numbers: dict[str, int] = {}
    found = [[lane for lane in lanes(view.trace, view.window, _SHOWN) if lane.bars] for view in views]
    data = tuple(_data(shown, view.zero_ns, numbers) for shown, view in zip(found, views, strict=True))
    entries = [_view(number, view, shown) for number, (view, shown) in enumerate(zip(views, found, strict=True))]
    styles = [{"name": style.value, "color": f"--{colour_of(style)}", "copy": style in COPIES} for style in _STYLES]
    about = {"views": entries, "names": list(numbers), "styles": styles}
    return Packed(about, data, styles_in(lane for shown in found for lane in shown))


def _view(number: int, view: View, shown: Sequence[Lane]) -> dict[str, Any]:
    """What the script has to know of a view, whose bars are the page's ``number``."""
    rows = [
        {"title": safe(lane.full_title, _TITLE_WIDTH), "bars": _count(lane), "named": lane.kind is LaneKind.RANGES}
        for lane in shown
    ]
    begin, end = (edge - view.zero_ns for edge in view.window)
    about = {"label": view.label, "bars": sum(map(_count, shown)), "begin": begin, "end": end}
    return about | {"lanes": rows, "data": f"timeline-bars-{number}"}


def _count(lane: Lane) -> int:
    return sum(len(bars.start_ns) for bars in lane.bars)


def _data(shown: Sequence[Lane], zero_ns: int, numbers: dict[str, int]) -> str:
    """The bars of a view as text; new names get new numbers."""
    nothing = np.empty((len(_KINDS), 0), np.int64)
    together = np.concatenate([nothing, *(_columns(lane, zero_ns, numbers) for lane in shown)], axis=1)
    raw = b"".join(row.astype(kind).tobytes() for row, kind in zip(together, _KINDS, strict=True))
    return base64.b64encode(gzip.compress(raw, 6, mtime=0)).decode()


def _columns(lane: Lane, zero_ns: int, numbers: dict[str, int]) -> Int64:
    """Begin, length, name and style of a lane's bars, by begin."""
    start, end = edges_ns(lane.bars)
    texts = [text for bars in lane.bars for text in bars.names()]
    names = np.array([numbers.setdefault(safe(text), len(numbers)) for text in texts], np.int64)
    styles = np.concatenate([np.full(len(bars.start_ns), _STYLES.index(bars.style)) for bars in lane.bars])
    order = np.lexsort((-end, start))
    return np.stack([start - zero_ns, end - start, names, styles])[:, order]
