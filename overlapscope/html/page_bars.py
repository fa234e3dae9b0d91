"""Lanes of a timeline as one table of bars, as a page stores them, with each name once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from overlapscope.formatting import safe
from overlapscope.model.columns import NO_ID, Columnar, Int32, Int64
from overlapscope.model.enums import Direction
from overlapscope.model.tables import ApiCalls, Copies, DeviceWork, HostWork, Kernels, Memsets
from overlapscope.model.trace import Trace
from overlapscope.timeline.bars import COPIES, Bars, Lane, LaneKind, Style
from overlapscope.timeline.names import short_name

STYLES = tuple(Style)
"""The number of a style is its place here."""
_WIDTH = 300  # characters that are kept of a name
_MOST = 100_000  # names of a page, so that it stays small


class PageNames:
    """Numbers of names, in the order in which they are first seen, each made safe once; 0 is a name not known.

    ``short`` has what kernels are called in their bars; ``left_out`` says whether there were too many names.
    """

    def __init__(self, most: int = _MOST) -> None:
        self.texts = {"?": 0}
        self.short: dict[int, str] = {}
        self.left_out = False
        self._most = most

    def of(self, texts: Sequence[str]) -> Int64:
        """The number of each text; 0 for new ones where there are too many."""
        numbers = {text: self._number(safe(text, _WIDTH) or "?") for text in dict.fromkeys(texts)}
        return np.array([numbers[text] for text in texts], np.int64)

    def of_ids(self, trace: Trace, name_id: Int32 | Int64) -> Int64:
        """The number of each name of a trace."""
        used, which = np.unique(name_id, return_inverse=True)
        return self.of([trace.names[number] for number in used.tolist()])[which.reshape(-1)]

    def of_kernels(self, trace: Trace, name_id: Int32 | Int64) -> Int64:
        """The number of each name of a kernel, whose short name is kept too."""
        numbers = self.of_ids(trace, name_id)
        used, first = np.unique(numbers, return_index=True)
        names = trace.names.decode(name_id[first].astype(np.int32))
        short = {number: safe(short_name(name)) for number, name in zip(used.tolist(), names, strict=True) if number}
        self.short |= short
        return numbers

    def _number(self, text: str) -> int:
        if text not in self.texts and len(self.texts) < self._most:
            self.texts[text] = len(self.texts)
        self.left_out |= text not in self.texts
        return self.texts.get(text, 0)


@dataclass(frozen=True, eq=False)
class PageBars(Columnar):
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

    def ordered(self) -> PageBars:
        """The bars lane after lane, each by begin, longer ones first."""
        return self.take(np.lexsort((-self.end_ns, self.start_ns, self.lane)))


def page_bars(trace: Trace, shown: Sequence[Lane], names: PageNames) -> PageBars:
    """The bars of some lanes of a trace."""
    parts = [_of(trace, number, lane, bars, names) for number, lane in enumerate(shown) for bars in lane.bars]
    return PageBars.concat(PageBars.none(), *parts).ordered()


def _of(trace: Trace, number: int, lane: Lane, bars: Bars, names: PageNames) -> PageBars:
    table = None if bars.rows is None else _table(trace, lane, bars.style).take(bars.rows)
    nothing = np.full(len(bars.start_ns), NO_ID, np.int64)
    calls = bars.rows if isinstance(table, ApiCalls) and bars.rows is not None else nothing
    return PageBars(
        lane=np.full(len(nothing), number),
        start_ns=bars.start_ns,
        end_ns=bars.end_ns,
        style=np.full(len(nothing), STYLES.index(bars.style)),
        name=_names(trace, table, names) if isinstance(table, ApiCalls | DeviceWork) else names.of(_labels(lane, bars)),
        own_call=calls,
        call=table.call.astype(np.int64) if isinstance(table, DeviceWork) else calls,
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
    """The name of each bar; idle time is named by its finding and its cause."""
    named = lane.kind is LaneKind.WHY_IDLE and bars.labels
    return [f"{bars.style}: {label}" for label in bars.labels] if named else bars.names()


def _names(trace: Trace, table: ApiCalls | DeviceWork, names: PageNames) -> Int64:
    """The name of each row; copies are named by their direction, since not every profiler names them."""
    if isinstance(table, Copies):
        used, which = np.unique(table.direction, return_inverse=True)
        return names.of([f"{Direction(way).label} copy" for way in used.tolist()])[which.reshape(-1)]
    if isinstance(table, Memsets):
        return names.of(["memset"] * len(table))
    return (names.of_kernels if isinstance(table, Kernels) else names.of_ids)(trace, table.name_id)


def merged(bars: PageBars, most: int, name: int) -> PageBars:
    """At most about ``most`` bars: the shortest of a lane and style become one where they are close.

    ``name`` is what merged bars are called. Bars shorter than a stretch of time are merged within it; the stretch
    doubles until few enough are left.
    """
    if len(bars) <= most:
        return bars
    span = int(bars.end_ns.max() - bars.start_ns.min())
    stretch = 1 << max((span // most).bit_length() - 1, 0)
    while True:
        short = bars.end_ns - bars.start_ns < stretch
        few = _merged(bars.take(short), stretch, name)
        if len(few) + int((~short).sum()) <= most or stretch > span:
            return PageBars.concat(bars.take(~short), few).ordered()
        stretch *= 2


def _merged(bars: PageBars, stretch: int, name: int) -> PageBars:
    """Bars of the same lane and style that begin in the same stretch become one."""
    keys = np.stack([bars.lane, bars.style, bars.start_ns // stretch])
    order = np.lexsort(keys)
    new = np.append(True, (np.diff(keys[:, order], axis=1) != 0).any(axis=0))[: len(order)]
    first = np.flatnonzero(new)
    count = np.diff(np.append(first, len(order)))
    sole = bars.take(order[first])
    if not len(sole):
        return sole
    several = count > 1
    start = np.minimum.reduceat(bars.start_ns[order], first)
    end = np.maximum.reduceat(bars.end_ns[order], first)
    busy = np.minimum(np.add.reduceat(bars.busy_ns[order], first), end - start)
    hidden = {key: np.where(several, NO_ID, getattr(sole, key)) for key in ("own_call", "call", "size_bytes")}
    names = np.where(several, name, sole.name)
    return replace(sole, start_ns=start, end_ns=end, name=names, **hidden, busy_ns=busy, count=count)
