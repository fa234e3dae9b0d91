"""Find where the profiler was off: between the cycles of a schedule that repeats, or between start and stop calls.

Three things tell: the spans that Kineto notes of its own recording, steps whose numbers jump, and calls of
cudaProfilerStop and cudaProfilerStart. A pause of the program alone is none of them.
"""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from overlapscope.measure.places import steps
from overlapscope.measure.spans import EMPTY, Spans, intersect, merge, subtract, union
from overlapscope.model.columns import Int64
from overlapscope.model.trace import Trace

_NUMBER = re.compile(r"\d{1,18}$")  # as many digits as fit a number of 64 bits
_STOP, _START = re.compile(r"ProfilerStop"), re.compile(r"ProfilerStart")


def unrecorded(trace: Trace) -> Spans:
    """The times in which the profiler was off between two cycles; nothing was recorded in them."""
    off = merge(_between_spans(trace), _between_steps(trace), _between_calls(trace))
    if not len(off.start_ns):
        return EMPTY
    tables = (*trace.device_work, trace.api_calls, trace.cpu_ops)
    return _longest_of_each(off, subtract(off, merge(*(union(table.start_ns, table.end_ns) for table in tables))))


def _longest_of_each(off: Spans, empty: Spans) -> Spans:
    """Of the times without an event in each stretch the longest: the others are pauses at the edges of a cycle."""
    kept = []
    for begin, end in zip(off.start_ns.tolist(), off.end_ns.tolist(), strict=True):
        inside = intersect(empty, union(np.array([begin]), np.array([end])))
        if len(inside.start_ns):
            longest = int(np.argmax(inside.end_ns - inside.start_ns))
            kept.append((int(inside.start_ns[longest]), int(inside.end_ns[longest])))
    return _spans(kept)


def _between_spans(trace: Trace) -> Spans:
    """Between the spans for which the profiler says that it recorded."""
    recorded = _spans(trace.metadata.recorded_ns)
    return _spans(list(zip(recorded.end_ns[:-1].tolist(), recorded.start_ns[1:].tolist(), strict=True)))


def _between_steps(trace: Trace) -> Spans:
    """Between steps of a thread of which the numbers do not follow each other."""
    table, found = steps(trace), []
    places = set(zip(table.process.tolist(), table.thread.tolist(), strict=True))
    for process, thread in sorted(places):
        mine = np.flatnonzero((table.process == process) & (table.thread == thread))
        numbers = [int(_NUMBER.findall(trace.names[name])[0]) for name in table.name_id[mine].tolist()]
        for (one, other), (number, following) in zip(pairwise(mine.tolist()), pairwise(numbers), strict=True):
            if following != number + 1 and table.start_ns[other] > table.end_ns[one]:
                found.append((int(table.end_ns[one]), int(table.start_ns[other])))
    return _spans(found)


def _between_calls(trace: Trace) -> Spans:
    """From each call that stops the profiler to the next one that starts it."""
    stopped, started = _called(trace, _STOP), _called(trace, _START)
    following = np.searchsorted(started, stopped)
    pairs = [
        (int(at), int(started[place])) for at, place in zip(stopped, following, strict=True) if place < len(started)
    ]
    return _spans(pairs)


def _called(trace: Trace, pattern: re.Pattern[str]) -> Int64:
    calls = trace.api_calls
    wanted = [number for number in np.unique(calls.name_id).tolist() if pattern.search(trace.names[number])]
    return calls.start_ns[np.isin(calls.name_id, wanted)]


def _spans(pairs: list[tuple[int, int]] | tuple[tuple[int, int], ...]) -> Spans:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return union(table[:, 0], table[:, 1])
