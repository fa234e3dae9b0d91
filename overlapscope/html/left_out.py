"""What a timeline on a page leaves out, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from overlapscope.formatting import counted
from overlapscope.html.names import PageNames
from overlapscope.html.page_bars import PageBars
from overlapscope.html.stacks import Stacks
from overlapscope.model.columns import NO_ID, Bool
from overlapscope.model.tables import Timed
from overlapscope.timeline.bars import Lane, LaneKind
from overlapscope.timeline.comparison import View


def lanes_left_out(view: View, every: Sequence[Lane]) -> Iterator[str]:
    """Lanes, ranges and calls of a view that its lanes do not show."""
    trace = view.trace
    shown = sum(len(bars.start_ns) for lane in every if lane.kind is LaneKind.RANGES for bars in lane.bars)
    ranges = int(_within(trace.ranges, view.window).sum()) - shown
    calls = int((_within(trace.api_calls, view.window) & (trace.api_calls.parent != NO_ID)).sum())
    missing = [lane.title for lane in every if lane.kind is LaneKind.NOTE]
    missing += [f"{counted(ranges, 'range')} of other threads or nested deeper"] if ranges else []
    missing += [f"{counted(calls, 'call')} within other calls"] if calls else []
    if missing:
        yield f"Not shown: {', '.join(missing)}."


def bars_left_out(count: int, bars: PageBars) -> Iterator[str]:
    """How many of ``count`` bars were merged."""
    several = bars.count[bars.count > 1]
    if len(several):
        yield f"Of {count:,} bars, the {int(several.sum()):,} shortest are merged into {len(several):,}."
        yield "A merged bar is as high as the share of it that is filled, and a search does not find what is in it."


def texts_left_out(open_at: Stacks, names: PageNames) -> Iterator[str]:
    """Stacks and names for which there was no room."""
    if not open_at.complete:
        yield "There are too many different stacks: the innermost entries of some are left out."
    if names.left_out:
        yield f"There are more than {len(names.texts):,} different names: the others are shown as a question mark."


def _within(table: Timed, window: tuple[int, int]) -> Bool:
    inside: Bool = (table.end_ns > window[0]) & (table.start_ns < window[1])
    return inside
