"""What a timeline is made of: lanes of bars, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from overlapscope.model.columns import Int64


class Style(StrEnum):
    """What a bar stands for; the drawing gives each its look."""

    RANGE = "range"
    CALL = "call"
    HELD_COPY = "held by a copy call"
    HELD_SYNC = "held by a synchronisation"
    HELD_OTHER = "held by another call"
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
HELD = frozenset((Style.HELD_COPY,))
"""What one looks for on a host thread."""


class LaneKind(StrEnum):
    """What a lane is of."""

    RANGES = "ranges"
    THREAD = "thread"
    STREAM = "stream"
    OVERLAP = "overlap"
    QUEUE = "queue"
    NOTE = "note"


@dataclass(frozen=True, eq=False)
class Bars:
    """Bars of one style in one lane, with a text each where they have one."""

    style: Style
    start_ns: Int64
    end_ns: Int64
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Curve:
    """A number that changes in steps: each value holds from its time to the next."""

    time_ns: Int64
    value: Int64


@dataclass(frozen=True, eq=False)
class Lane:
    """One horizontal lane: bars, or a curve.

    ``group`` is what it belongs to: lanes of one group are drawn close together. ``place`` is process and thread of a
    thread's lane, process, device and stream of a stream's, process and device of a strip.
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
