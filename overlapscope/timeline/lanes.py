"""A trace as lanes of bars: what a timeline shows, before anything is drawn.

Top to bottom: named ranges, host threads with their calls, streams grouped by device, and strips of each
device: where copies and kernels ran together, how much work was queued.
"""

from __future__ import annotations

from overlapscope.model.trace import Trace
from overlapscope.timeline.bars import COPIES, Lane, LaneKind, Style
from overlapscope.timeline.device_lanes import overlap_lanes, queue_lanes, stream_lanes
from overlapscope.timeline.host_lanes import range_lanes, thread_lanes
from overlapscope.timeline.shown import Shown
from overlapscope.timeline.view import work_window

_BLOCKED_BY_COPY = frozenset((Style.BLOCKED_BY_COPY,))
"""What one looks for on a host thread."""


def lanes(trace: Trace, window: tuple[int, int] | None = None, shown: Shown = Shown()) -> list[Lane]:
    """The lanes of ``trace`` in [start, end) of ``window``, in ns; in `work_window` without one."""
    window = window if window is not None else work_window(trace)
    threads = list(thread_lanes(trace, window, shown)) if shown.calls else []
    streams = list(stream_lanes(trace, window, shown))
    return [
        *range_lanes(trace, window, shown),
        *_first_lanes(threads, shown.most_threads, _BLOCKED_BY_COPY, "threads"),
        *_first_lanes(streams, shown.most_streams, COPIES, "streams"),
        *(overlap_lanes(trace, window) if shown.overlap else ()),
        *(queue_lanes(trace, window) if shown.queue else ()),
    ]


def _first_lanes(found: list[Lane], most: int, wanted: frozenset[Style], what: str) -> list[Lane]:
    """Those with most of the wanted styles, then the busiest, in their order; and a note of those left out."""

    def rank(index: int) -> tuple[int, int]:
        return -found[index].busy_ns(wanted), -found[index].busy_ns()

    keep = sorted(sorted(range(len(found)), key=rank)[:most])
    shown = [found[index] for index in keep]
    left_out = len(found) - len(shown)
    if left_out:
        shown.append(Lane(LaneKind.NOTE, f"{left_out} more {what}", shown[-1].group, ()))
    return shown
