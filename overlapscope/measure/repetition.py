"""Find what repeats in a trace that has no steps: a range, a sequence of launches, or one of operators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.measure.distinct import distinct_columns
from overlapscope.measure.places import enclosing, is_step
from overlapscope.model.columns import NO_ID, Int32, Int64
from overlapscope.model.tables import HostWork
from overlapscope.model.trace import Trace

LEAST = 3
"""Repetitions from which something is a pattern: two alike can be chance."""
_LEAST_SHARE = 0.5  # of a sequence that repeats, for it to be the program's loop
_MOST_PERIODS = 500  # that are tried, the shortest first: each costs a pass over the sequence


@dataclass(frozen=True)
class Repetition:
    """Something that a thread does ``count`` times in a row, between two times.

    ``range`` is the name of the range that repeats; None for a sequence of ``length`` launches or operators.
    """

    count: int
    length: int
    what: str
    start_ns: int
    end_ns: int
    range: str | None = None


def repetition(trace: Trace) -> Repetition | None:
    """What the busiest thread repeats: its most frequent outermost range, else a sequence of launches or operators."""
    launches = _launches(trace)
    table, what = (launches, "launches") if len(launches) else (_outermost(trace.cpu_ops), "operators")
    if not len(table):
        return None
    mine = table.take(_on_busiest_thread(table))
    return _repeating_range(trace, mine) or _repeating_sequence(mine, what, trace.end_ns)


def _launches(trace: Trace) -> HostWork:
    """The calls that launch kernels, under the names of these."""
    rows = np.flatnonzero(trace.kernels.call != NO_ID)
    calls, names = trace.kernels.call[rows], trace.kernels.name_id[rows]
    order = np.argsort(trace.api_calls.start_ns[calls], kind="stable")
    launching = trace.api_calls.take(calls[order].astype(np.int64))
    columns = {name: getattr(launching, name) for name in ("start_ns", "end_ns", "process", "thread")}
    return type(trace.modules).build(trace.names, len(order), columns | {"name_id": names[order]})


def _outermost(table: HostWork) -> HostWork:
    return table.take(enclosing(table) == NO_ID)


def _on_busiest_thread(table: HostWork) -> Int64:
    places, member = distinct_columns(np.stack([table.process, table.thread]))
    return np.flatnonzero(member == np.argmax(np.bincount(member, minlength=places.shape[1])))


def _repeating_range(trace: Trace, busiest: HostWork) -> Repetition | None:
    ranges = _outermost(trace.ranges.take(~is_step(trace)))
    ranges = ranges.take((ranges.process == busiest.process[0]) & (ranges.thread == busiest.thread[0]))
    if not len(ranges):
        return None
    names, count = np.unique(ranges.name_id, return_counts=True)
    most = int(np.argmax(count))
    if count[most] < LEAST:
        return None
    mine, name = ranges.take(ranges.name_id == names[most]), trace.names[int(names[most])]
    return Repetition(len(mine), 1, "ranges", int(mine.start_ns[0]), int(mine.end_ns.max()), name)


def _repeating_sequence(table: HostWork, what: str, end_ns: int) -> Repetition | None:
    found = period(table.name_id)
    if found is None:
        return None
    first, length, count = found
    after = first + count * length
    end = int(table.start_ns[after]) if after < len(table) else end_ns
    return Repetition(count, length, what, int(table.start_ns[first]), end)


def period(sequence: Int32 | Int64) -> tuple[int, int, int] | None:
    """Where a sequence repeats, with what period, and how often; None where it does not for the larger part.

    Periods are distances of entries to the one in the middle, which a program's loop is likely to contain.

    >>> period(np.array([7, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 9]))
    (1, 3, 3)
    """
    middle = len(sequence) // 2
    distances = np.abs(np.flatnonzero(sequence == sequence[middle]) - middle) if len(sequence) else np.empty(0, int)
    best = (0, 0, 0)
    for length in np.unique(distances[distances > 0])[:_MOST_PERIODS].tolist():
        first, run = _longest_run(sequence[length:] == sequence[:-length])
        if run + length > best[2] and (run + length) // length >= LEAST:
            best = first, length, run + length
    first, length, covered = best
    return (first, length, covered // length) if covered > _LEAST_SHARE * len(sequence) else None


def _longest_run(same: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[int, int]:
    """Where the longest run of True begins, and its length."""
    edges = np.concatenate([[-1], np.flatnonzero(~same), [len(same)]])
    lengths = np.diff(edges) - 1
    longest = int(np.argmax(lengths))
    return int(edges[longest]) + 1, int(lengths[longest])
