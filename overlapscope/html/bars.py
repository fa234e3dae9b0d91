"""The bars of an interactive timeline, packed for a page."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from overlapscope.html.colours import colour_of
from overlapscope.model.columns import Int64
from overlapscope.model.trace import Trace
from overlapscope.timeline.bars import COPIES, Lane, LaneKind, Style
from overlapscope.timeline.lanes import Shown, lanes
from overlapscope.words import safe

_SHOWN = Shown(labels=True, range_depth=4, most_streams=24, most_threads=8)
_STYLES = tuple(Style)
_TITLE_WIDTH = 22
_KINDS = ("<f8", "<f4", "<u4", "u1")


@dataclass(frozen=True, eq=False)
class View:
    """A stretch of a trace under a label; times are shown from ``zero_ns`` on."""

    label: str
    trace: Trace
    zero_ns: int
    first_ns: int
    last_ns: int


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
    told, data, used = [], [], set()
    for index, view in enumerate(views):
        found = [lane for lane in lanes(view.trace, (view.first_ns, view.last_ns), _SHOWN) if lane.bars]
        columns = [_columns(lane, view.zero_ns, numbers) for lane in found]
        together = np.concatenate(columns, axis=1) if columns else np.empty((len(_KINDS), 0), np.int64)
        raw = b"".join(row.astype(kind).tobytes() for row, kind in zip(together, _KINDS, strict=True))
        data.append(base64.b64encode(gzip.compress(raw, 6, mtime=0)).decode())
        used |= {bars.style for lane in found for bars in lane.bars}
        entry: dict[str, Any] = {"label": view.label, "bars": together.shape[1]}
        entry |= {"begin": view.first_ns - view.zero_ns, "end": view.last_ns - view.zero_ns}
        entry |= {"lanes": [_about(lane) for lane in found], "data": f"timeline-bars-{index}"}
        told.append(entry)
    styles = [{"name": style.value, "color": f"--{colour_of(style)}", "copy": style in COPIES} for style in _STYLES]
    about = {"views": told, "names": list(numbers), "styles": styles}
    return Packed(about, tuple(data), tuple(style for style in Style if style in used))


def _about(lane: Lane) -> dict[str, Any]:
    count = sum(len(bars.start_ns) for bars in lane.bars)
    return {"title": safe(lane.title, _TITLE_WIDTH), "bars": count, "named": lane.kind is LaneKind.RANGES}


def _columns(lane: Lane, zero_ns: int, numbers: dict[str, int]) -> Int64:
    """Begin, length, name and style of a lane's bars, by begin; new names get new numbers."""
    start, end = (np.concatenate([getattr(bars, edge) for bars in lane.bars]) for edge in ("start_ns", "end_ns"))
    texts = [text for bars in lane.bars for text in bars.labels or (bars.style.value,) * len(bars.start_ns)]
    names = np.array([numbers.setdefault(safe(text), len(numbers)) for text in texts], np.int64)
    styles = np.concatenate([np.full(len(bars.start_ns), _STYLES.index(bars.style)) for bars in lane.bars])
    order = np.lexsort((-end, start))
    return np.stack([start - zero_ns, end - start, names, styles])[:, order]
