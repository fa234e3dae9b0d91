"""Find where the profiler was off: between the cycles of a schedule that repeats, or between start and stop calls.

Three things tell: the spans that Kineto notes of its own recording, steps whose numbers jump, and calls of
cudaProfilerStop and cudaProfilerStart. A pause of the program alone is none of them.
"""

from __future__ import annotations

import re

import numpy as np

from overlapscope.measure.grouping import neighbours
from overlapscope.measure.places import named, steps
from overlapscope.measure.spans import EMPTY, Spans, intersect, merge, spans_of, subtract, union
from overlapscope.model.columns import NO_TIME
from overlapscope.model.trace import Trace

_NUMBER = re.compile(r"\d{1,18}$")  # as many digits as fit a number of 64 bits
_STOP, _START = re.compile(r"ProfilerStop"), re.compile(r"ProfilerStart")


def unrecorded(trace: Trace) -> Spans:
    """The times in which the profiler was off between two cycles; nothing was recorded in them."""
    off = merge(_between_spans(trace), _between_steps(trace), _between_calls(trace))
    if not len(off.start_ns):
        return EMPTY
    tables = (*trace.device_work, trace.api_calls, trace.cpu_ops)
    return _longest_of_each(off, subtract(off, merge(*(spans_of(table) for table in tables))))


def _longest_of_each(off: Spans, empty: Spans) -> Spans:
    """The longest time without an event in each stretch: the others are pauses at the edges of a cycle."""
    kept = []
    for begin, end in zip(off.start_ns.tolist(), off.end_ns.tolist(), strict=True):
        inside = intersect(empty, union(np.array([begin]), np.array([end])))
        if len(inside.start_ns):
            longest = int(np.argmax(inside.end_ns - inside.start_ns))
            kept.append((int(inside.start_ns[longest]), int(inside.end_ns[longest])))
    return _spans(kept)


def _between_spans(trace: Trace) -> Spans:
    """The times between the spans for which the profiler says that it recorded."""
    recorded = _spans(trace.metadata.recorded_ns)
    return union(recorded.end_ns[:-1], recorded.start_ns[1:])


def _between_steps(trace: Trace) -> Spans:
    """The times between steps of a thread whose numbers do not follow each other."""
    table = steps(trace)
    number = np.array([int(_NUMBER.findall(name)[0]) for name in trace.names.decode(table.name_id)], np.int64)
    one, other = neighbours(np.lexsort((table.thread, table.process)), table.process, table.thread)
    jumps = number[other] != number[one] + 1
    return union(table.end_ns[one[jumps]], table.start_ns[other[jumps]])


def _between_calls(trace: Trace) -> Spans:
    """The times from each call that stops the profiler to the next one that starts it."""
    calls = trace.api_calls
    stopped, started = (calls.start_ns[named(calls, pattern)] for pattern in (_STOP, _START))
    stopped = stopped[stopped <= started.max(initial=NO_TIME)]
    return union(stopped, started[np.searchsorted(started, stopped)])


def _spans(pairs: list[tuple[int, int]] | tuple[tuple[int, int], ...]) -> Spans:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return union(table[:, 0], table[:, 1])
