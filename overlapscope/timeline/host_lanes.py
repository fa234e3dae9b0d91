"""Lanes of the host: named ranges, and threads with their calls."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import chain

import numpy as np

from overlapscope.measure.host import blocked_from_ns
from overlapscope.model.columns import NO_ID, Bool
from overlapscope.model.enums import SYNC_CALLS, ApiKind
from overlapscope.model.tables import HostWork
from overlapscope.model.trace import Trace
from overlapscope.timeline.bars import Lane, LaneKind, Style, bars_within
from overlapscope.timeline.nesting import depths
from overlapscope.timeline.roles import process_titles, thread_titles
from overlapscope.timeline.shown import Shown


def range_lanes(trace: Trace, window: tuple[int, int], shown: Shown) -> Iterator[Lane]:
    """A lane for each depth of nested ranges, of the threads with most ranges."""
    inside = (trace.ranges.end_ns > window[0]) & (trace.ranges.start_ns < window[1])
    table, names = trace.ranges, trace.names.decode(trace.ranges.name_id)
    wanted = inside & _named(trace, shown.ranges)
    places = [place for place in table.take(wanted).threads if shown.has_thread(place[1])]
    rows = {place: np.flatnonzero(wanted & _of_thread(table, *place)) for place in places}
    titles, groups = thread_titles(trace), process_titles(trace)
    for process, thread in sorted(sorted(places, key=lambda place: -len(rows[place]))[: shown.most_range_threads]):
        mine = rows[process, thread]
        depth = np.full(len(table), NO_ID, np.int64)
        depth[mine] = depths(table.start_ns[mine], table.end_ns[mine])
        for level in range(min(shown.range_depth, int(depth.max(initial=-1)) + 1)):
            bars = bars_within(table, depth == level, Style.RANGE, window, names)
            if bars:
                title = f"{titles[process, thread]} ranges" if len(places) > 1 else "ranges"
                title = "" if level else title
                yield Lane(LaneKind.RANGES, title, groups[process], tuple(bars), place=(process, thread))


def _of_thread(table: HostWork, process: int, thread: int) -> Bool:
    mine: Bool = (table.process == process) & (table.thread == thread)
    return mine


def _named(trace: Trace, patterns: tuple[str, ...] | None) -> Bool:
    """Which ranges have one of these names."""
    if patterns is None:
        return np.ones(len(trace.ranges), np.bool_)
    used = np.unique(trace.ranges.name_id).tolist()
    wanted = [number for number in used if any(fnmatchcase(trace.names[number], pattern) for pattern in patterns)]
    return np.isin(trace.ranges.name_id, wanted)


def thread_lanes(trace: Trace, window: tuple[int, int], shown: Shown) -> Iterator[Lane]:
    """A lane for each thread, with its calls by what they blocked it for."""
    calls = trace.api_calls
    blocks = blocked_from_ns(trace) < calls.end_ns
    copying, syncing = calls.kind == ApiKind.COPY, np.isin(calls.kind, SYNC_CALLS)
    styles = {
        Style.CALL: ~blocks,
        Style.BLOCKED_BY_COPY: blocks & copying,
        Style.BLOCKED_BY_SYNC: blocks & syncing,
        Style.BLOCKED_BY_OTHER: blocks & ~copying & ~syncing,
    }
    titles, groups = thread_titles(trace), process_titles(trace)
    for process, thread in calls.threads:
        mine = _of_thread(calls, process, thread) & (calls.parent == NO_ID)
        parts = [bars_within(calls, mine & rows, style, window) for style, rows in styles.items()]
        bars = tuple(chain.from_iterable(parts))
        if bars and shown.has_thread(thread):
            place = (process, thread)
            yield Lane(LaneKind.THREAD, titles[place], groups[process], bars, place=place)
