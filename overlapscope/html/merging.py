"""Fewer bars for a page: where a trace has too many, the shortest ones are merged."""

from __future__ import annotations

import numpy as np

from overlapscope.html.page_bars import PageBars
from overlapscope.model.columns import NO_ID


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
            return PageBars.together(bars.take(~short), few).ordered()
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
    return PageBars(sole.lane, start, end, sole.style, names, **hidden, busy_ns=busy, count=count)
