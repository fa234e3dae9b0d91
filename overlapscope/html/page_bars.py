"""Lanes of a timeline as one table of bars, as a page stores them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from overlapscope.html.names import PageNames
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import Direction
from overlapscope.model.tables import ApiCalls, Copies, DeviceWork, HostWork, Kernels, Memsets
from overlapscope.model.trace import Trace
from overlapscope.timeline.bars import COPIES, Bars, Lane, LaneKind, Style

STYLES = tuple(Style)
"""The number of a style is its place here."""


@dataclass(frozen=True, eq=False)
class PageBars:
    """Bars of all lanes, lane after lane, each by begin.

    ``name`` and ``style`` are numbers. ``own_call`` is the row of the call that a bar is, ``call`` of the one that
    issued it, `NO_ID` for none. A merged bar stands for ``count`` bars that are there for ``busy_ns`` of its length.
    """

    lane: Int64
    start_ns: Int64
    end_ns: Int64
    style: Int64
    name: Int64
    own_call: Int64
    call: Int64
    size_bytes: Int64
    busy_ns: Int64
    count: Int64

    def __len__(self) -> int:
        return len(self.start_ns)

    def take(self, rows: Int64 | Bool) -> PageBars:
        """Some of the bars."""
        return PageBars(*(getattr(self, entry.name)[rows] for entry in fields(self)))

    def ordered(self) -> PageBars:
        """The bars lane after lane, each by begin, longer ones first."""
        return self.take(np.lexsort((-self.end_ns, self.start_ns, self.lane)))

    @classmethod
    def together(cls, *parts: PageBars) -> PageBars:
        """Several tables, one after the other."""
        nothing = np.empty(0, np.int64)
        return cls(
            *(np.concatenate([nothing, *(getattr(part, entry.name) for part in parts)]) for entry in fields(cls))
        )


def page_bars(trace: Trace, shown: Sequence[Lane], names: PageNames) -> PageBars:
    """The bars of some lanes of a trace."""
    parts = [_of(trace, number, lane, bars, names) for number, lane in enumerate(shown) for bars in lane.bars]
    return PageBars.together(*parts).ordered()


def _of(trace: Trace, number: int, lane: Lane, bars: Bars, names: PageNames) -> PageBars:
    table = None if bars.rows is None else _table(trace, lane, bars.style).take(bars.rows)
    nothing = np.full(len(bars.start_ns), NO_ID, np.int64)
    own = bars.rows if isinstance(table, ApiCalls) and bars.rows is not None else nothing
    return PageBars(
        lane=np.full(len(nothing), number),
        start_ns=bars.start_ns,
        end_ns=bars.end_ns,
        style=np.full(len(nothing), STYLES.index(bars.style)),
        name=_names(trace, table, names) if isinstance(table, ApiCalls | DeviceWork) else names.of(_labels(lane, bars)),
        own_call=own,
        call=table.call.astype(np.int64) if isinstance(table, DeviceWork) else own,
        size_bytes=table.size_bytes if isinstance(table, Copies | Memsets) else nothing,
        busy_ns=bars.end_ns - bars.start_ns,
        count=np.ones(len(nothing), np.int64),
    )


def _table(trace: Trace, lane: Lane, style: Style) -> DeviceWork | HostWork:
    """The table that bars of a style are rows of."""
    if lane.kind in (LaneKind.RANGES, LaneKind.THREAD):
        return trace.ranges if lane.kind is LaneKind.RANGES else trace.api_calls
    if style in COPIES:
        return trace.copies
    return trace.memsets if style is Style.MEMSET else trace.kernels


def _labels(lane: Lane, bars: Bars) -> Sequence[str]:
    """What each bar is called; idle time by its finding and its cause."""
    named = lane.kind is LaneKind.WHY_IDLE and bars.labels
    return [f"{bars.style}: {label}" for label in bars.labels] if named else bars.names()


def _names(trace: Trace, table: ApiCalls | DeviceWork, names: PageNames) -> Int64:
    """What each row is called: copies by their direction, since not every profiler names them."""
    if isinstance(table, Copies):
        used, which = np.unique(table.direction, return_inverse=True)
        return names.of([f"{Direction(way).label} copy" for way in used.tolist()])[which.reshape(-1)]
    if isinstance(table, Memsets):
        return names.of(["memset"] * len(table))
    return (names.of_kernels if isinstance(table, Kernels) else names.of_ids)(trace, table.name_id)
