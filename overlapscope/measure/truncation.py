"""Up to when a truncated trace is complete: profilers write operators, calls and GPU work one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from overlapscope.measure.grouping import distinct_columns, each_value, rows_by_thread
from overlapscope.model.columns import NO_ID, NO_TIME, Bool, stacked
from overlapscope.model.enums import ISSUING, LAUNCHES, ApiKind
from overlapscope.model.trace import Trace

EMPTY_COPY_NS = 1_000
"""A copy or memset without work whose call took no longer was of no bytes: calls that issued one took 1.3 us or more
in 200 traces, calls with zero bytes 0.1 to 0.9 us."""


def complete_until(trace: Trace) -> int:
    """The time up to which operators, calls and GPU work of a truncated trace are all there, in ns.

    Where the file ends, rows at the end of a thread lack what belongs to them: operators that always make a call have
    none, calls have no work, or work has no call. The first of them is the end, the end of the last work the latest;
    where no work begins before, it is the begin of the trace. Other traces are complete to their end.
    """
    if not trace.health.has("truncated") or not any(map(len, trace.device_work)):
        return trace.end_ns
    first, last = (edge(stacked(trace.device_work, name)[0]) for edge, name in ((min, "start_ns"), (max, "end_ns")))
    ends = (*_operators_without_calls(trace), *_calls_without_work(trace), *_work_without_calls(trace))
    end = int(min((*ends, last)))
    return end if end > first else trace.start_ns


def calls_without_work(trace: Trace) -> Bool:
    """Which calls should have work in the trace and have none.

    Copies and memsets of no bytes have none, nor has what is captured into a CUDA graph.
    """
    calls = trace.api_calls
    owned = np.zeros(len(calls) + 1, np.bool_)
    for table in trace.device_work:
        owned[table.call] = True
    copying = np.isin(calls.kind, (ApiKind.COPY, ApiKind.MEMSET)) & (calls.duration_ns > EMPTY_COPY_NS)
    result: Bool = ~owned[:-1] & ~calls.captured & (calls.parent == NO_ID) & (copying | np.isin(calls.kind, LAUNCHES))
    return result


def _operators_without_calls(trace: Trace) -> Iterator[int]:
    """For each thread whose calls end before its operators, the end of the last call that issues work.

    They end where operators without a call follow whose name always has one before.
    """
    ops, calls = trace.cpu_ops, trace.api_calls
    calling, last, end = np.zeros(len(ops), np.bool_), *np.full((2, len(ops)), trace.start_ns)
    calls_of = rows_by_thread(calls.process, calls.thread)
    for thread, rows in rows_by_thread(ops.process, ops.thread).items():
        made = calls_of.get(thread, np.empty(0, np.int64))
        begun = np.sort(calls.start_ns[made])
        calling[rows] = np.searchsorted(begun, ops.end_ns[rows]) > np.searchsorted(begun, ops.start_ns[rows])
        last[rows] = begun.max(initial=trace.start_ns)
        end[rows] = calls.end_ns[made[np.isin(calls.kind[made], ISSUING)]].max(initial=trace.start_ns)
    before = ops.start_ns <= last
    count, with_call = (
        np.bincount(ops.name_id[rows], minlength=len(trace.names)) for rows in (before, before & calling)
    )
    always = (count > 0) & (count == with_call)
    yield from end[always[ops.name_id] & ~before]


def _calls_without_work(trace: Trace) -> Iterator[int]:
    """For each thread and kind of call, the first after the last with work that should have some."""
    calls, without = trace.api_calls, calls_without_work(trace)
    joined = np.zeros(len(calls) + 1, np.bool_)
    for table in trace.device_work:
        joined[table.call] = True
    _, member = distinct_columns(np.stack([calls.process, calls.thread, calls.kind]))
    last = np.full(len(calls), NO_TIME, np.int64)
    np.maximum.at(last, member[joined[:-1]], calls.start_ns[joined[:-1]])
    yield from calls.start_ns[without & (calls.start_ns > last[member])]


def _work_without_calls(trace: Trace) -> Iterator[int]:
    """For each process whose work has calls, the first work after the last of them."""
    call, start, process = stacked(trace.device_work, "call", "start_ns", "process")
    for _, rows in each_value(process):
        joined = call[rows] != NO_ID
        if joined.any():
            yield from start[rows[start[rows] > start[rows[joined]].max()]]
