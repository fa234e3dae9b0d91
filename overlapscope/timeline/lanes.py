"""A trace as lanes of bars: what a timeline shows, before anything is drawn.

Process by process: host threads with their named ranges and calls, then each device with its streams and strips: where
copies and kernels ran together, why it was idle, how much work was queued.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter

from overlapscope.diagnosis.finding import DeviceDiagnosis
from overlapscope.diagnosis.idle_by_rule import idle_by_rule
from overlapscope.measure.windows import Window
from overlapscope.model.trace import Trace
from overlapscope.timeline.bars import COPIES, Lane, LaneKind, Style
from overlapscope.timeline.device_lanes import overlap_lanes, queue_lanes, stream_lanes
from overlapscope.timeline.host_lanes import range_lanes, thread_lanes
from overlapscope.timeline.idle_lanes import idle_lanes
from overlapscope.timeline.roles import thread_titles
from overlapscope.timeline.shown import Shown
from overlapscope.timeline.view import edges_of, measured_window

_BLOCKED_BY_COPY = frozenset((Style.BLOCKED_BY_COPY,))
"""What one looks for on a host thread."""


def lanes(
    trace: Trace,
    window: tuple[int, int] | Window | None = None,
    shown: Shown = Shown(),
    idle: Sequence[DeviceDiagnosis] | None = None,
) -> list[Lane]:
    """The lanes of ``trace`` in [start, end) of ``window``, in ns; of all device work without one.

    ``idle`` says why devices were idle, as a diagnosis does; without it, the idle time of the window is attributed
    here, as an audit of the window does.
    """
    part = Window.between(*window) if isinstance(window, tuple) else window
    if idle is None:
        idle = idle_by_rule(trace, measured_window(trace, part)) if shown.why_idle else ()
    return _lanes(trace, edges_of(trace, part), shown, idle)


def _lanes(trace: Trace, window: tuple[int, int], shown: Shown, idle: Sequence[DeviceDiagnosis]) -> list[Lane]:
    threads = thread_lanes(trace, window, shown) if shown.calls else ()
    host = [*range_lanes(trace, window, shown), *_first_lanes(threads, shown.most_threads, _BLOCKED_BY_COPY, "threads")]
    devices = [
        *_first_lanes(stream_lanes(trace, window, shown), shown.most_streams, COPIES, "streams"),
        *(overlap_lanes(trace, window) if shown.overlap else ()),
        *(idle_lanes(trace, window, shown, idle) if shown.why_idle else ()),
        *(queue_lanes(trace, window) if shown.queue else ()),
    ]
    return _by_process(trace, host, devices)


def _by_process(trace: Trace, host: Iterable[Lane], devices: Iterable[Lane]) -> list[Lane]:
    """For each process its threads one after the other, then its devices."""
    rank = {place: number for number, place in enumerate(thread_titles(trace))}
    placed = [((lane.place[0], 0, rank[lane.place[0], lane.place[1]]), lane) for lane in host]
    placed += [((lane.place[0], 1, lane.place[1]), lane) for lane in devices]
    return [lane for _, lane in sorted(placed, key=itemgetter(0))]


def _first_lanes(lanes_of: Iterable[Lane], most: int, wanted: frozenset[Style], what: str) -> list[Lane]:
    """Those with most of the wanted styles, then the busiest, in their order; and notes of those left out."""
    found = list(lanes_of)

    def rank(index: int) -> tuple[int, int]:
        return -found[index].busy_ns(wanted), -found[index].busy_ns()

    keep = set(sorted(range(len(found)), key=rank)[:most])
    shown = [lane for index, lane in enumerate(found) if index in keep]
    left_out = [lane for index, lane in enumerate(found) if index not in keep]
    for group in dict.fromkeys(lane.group for lane in left_out):
        mine = [lane for lane in left_out if lane.group == group]
        title = f"{len(mine)} more {what if len(mine) > 1 else what.removesuffix('s')}"
        shown.append(Lane(LaneKind.NOTE, title, group, place=mine[-1].place[:2]))
    return shown
