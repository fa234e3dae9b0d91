"""What a timeline is made of: lanes of bars and curves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from overlapscope.measure.spans import Spans
from overlapscope.model.columns import Bool, Int64
from overlapscope.model.tables import Timed


class Style(StrEnum):
    """What a bar stands for; whoever draws it gives each style its look."""

    RANGE = "range"
    CALL = "call"
    BLOCKED_BY_COPY = "blocked by a copy call"
    BLOCKED_BY_SYNC = "blocked by a synchronisation"
    BLOCKED_BY_OTHER = "blocked by another call"
    KERNEL = "kernel"
    COLLECTIVE = "collective"
    MEMSET = "memset"
    HTOD_PAGEABLE = "HtoD pageable"
    HTOD_PINNED = "HtoD pinned"
    DTOH_PAGEABLE = "DtoH pageable"
    DTOH_PINNED = "DtoH pinned"
    COPY_ON_DEVICE = "DtoD, PtoP"
    COPY_OTHER = "copy, memory unknown"
    HIDDEN = "copy hidden by kernels"
    EXPOSED = "copy exposed"
    KERNELS_ONLY = "kernels only"
    QUEUED = "work issued and not begun"
    IDLE = "GPU idle, no finding"
    OVL000 = "OVL000 insufficient-data"
    OVL001 = "OVL001 pageable-copy"
    OVL002 = "OVL002 one-stream"
    OVL003 = "OVL003 legacy-default-stream"
    OVL004 = "OVL004 host-synchronises"
    OVL005 = "OVL005 scalar-read"
    OVL006 = "OVL006 no-prefetch-distance"
    OVL007 = "OVL007 copy-engine-busy"
    OVL008 = "OVL008 host-late"
    OVL009 = "OVL009 allocation-in-loop"
    OVL010 = "OVL010 many-small-copies"
    OVL011 = "OVL011 nothing-to-hide-behind"
    OVL012 = "OVL012 blocking-launches"
    OVL013 = "OVL013 slow-link"
    OVL017 = "OVL017 another-device"
    OVL018 = "OVL018 pinned-allocation"
    OVL019 = "OVL019 head-of-line"
    OVL020 = "OVL020 issue-bound"


IDLE_STYLES = tuple(style for style in Style if style is Style.IDLE or style.name.startswith("OVL"))
"""Why a GPU was idle: one for each rule that idle time is attributed to, and one for the rest."""
COPIES = frozenset(
    (
        Style.HTOD_PAGEABLE,
        Style.HTOD_PINNED,
        Style.DTOH_PAGEABLE,
        Style.DTOH_PINNED,
        Style.COPY_ON_DEVICE,
        Style.COPY_OTHER,
    )
)
"""Copies of all kinds."""


class LaneKind(StrEnum):
    """What a lane is of."""

    RANGES = "ranges"
    THREAD = "thread"
    STREAM = "stream"
    OVERLAP = "overlap"
    WHY_IDLE = "why idle"
    QUEUE = "queue"
    NOTE = "note"


@dataclass(frozen=True, eq=False)
class Bars:
    """Bars of one style in one lane, with a text each where they have one.

    ``rows`` are those of the table that they stand for: of ranges, calls, kernels, copies or memsets. None for spans.
    """

    style: Style
    start_ns: Int64
    end_ns: Int64
    labels: tuple[str, ...] = ()
    rows: Int64 | None = None

    def take(self, rows: Bool) -> Bars:
        """Some of them."""
        labels = tuple(label for label, keep in zip(self.labels, rows.tolist(), strict=False) if keep)
        own = None if self.rows is None else self.rows[rows]
        return Bars(self.style, self.start_ns[rows], self.end_ns[rows], labels, own)

    def names(self) -> tuple[str, ...]:
        """What each is called: by its label, or by its style."""
        return self.labels or (self.style.value,) * len(self.start_ns)


@dataclass(frozen=True, eq=False)
class Curve:
    """A number that changes in steps: each value holds from its time to the next."""

    time_ns: Int64
    value: Int64


@dataclass(frozen=True, eq=False)
class Lane:
    """One horizontal lane: bars, or a curve.

    ``group`` is the name of what it belongs to, such as a device; lanes of one group are drawn under it. ``place`` is
    process and thread of a thread's lane, process, device and stream of a stream's, process and device of a strip.
    """

    kind: LaneKind
    title: str
    group: str
    bars: tuple[Bars, ...] = ()
    curve: Curve | None = None
    place: tuple[int, ...] = ()

    def busy_ns(self, styles: frozenset[Style] | None = None) -> int:
        """Time covered by its bars, or by those of some styles."""
        wanted = [bars for bars in self.bars if styles is None or bars.style in styles]
        return sum(int((bars.end_ns - bars.start_ns).sum()) for bars in wanted)


def bars_within(
    table: Timed, rows: Bool, style: Style, window: tuple[int, int], labels: list[str] | None = None
) -> list[Bars]:
    """The rows of a table that touch a window, cut to it, as bars of a style; nothing when there are none."""
    first, last = window
    index = np.flatnonzero(rows & (table.end_ns > first) & (table.start_ns < last))
    if not len(index):
        return []
    start, end = np.maximum(table.start_ns[index], first), np.minimum(table.end_ns[index], last)
    texts = tuple(labels[row] for row in index.tolist()) if labels is not None else ()
    return [Bars(style, start, end, texts, index)]


def bars_of_spans(spans: Spans, style: Style) -> list[Bars]:
    """Spans as bars of a style; nothing for none."""
    return [Bars(style, spans.start_ns, spans.end_ns)] if len(spans) else []


def edges_ns(parts: Iterable[Bars]) -> tuple[Int64, Int64]:
    """Begin and end of all bars of several styles, one style after the other."""
    nothing = np.empty(0, np.int64)
    found = list(parts)
    start = np.concatenate([nothing, *(bars.start_ns for bars in found)])
    return start, np.concatenate([nothing, *(bars.end_ns for bars in found)])


def styles_in(found: Iterable[Lane]) -> tuple[Style, ...]:
    """The styles that some lanes use, in the order of their declaration."""
    lanes = list(found)
    used = {bars.style for lane in lanes for bars in lane.bars}
    used |= {Style.QUEUED for lane in lanes if lane.curve is not None}
    return tuple(style for style in Style if style in used)
