"""Measure how long calls block their thread.

A call that only enqueues work returns after a few microseconds. For the time beyond that it blocks its thread, which
cannot launch anything else. An overlap percentage does not show this cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from overlapscope.measure.grouping import distinct_columns, once_for_each, sums_by
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Int64, known
from overlapscope.model.enums import ApiKind
from overlapscope.model.frames import Row
from overlapscope.model.tables import ApiCalls
from overlapscope.model.trace import Trace

DEFAULT_ENQUEUE_NS = 5_000
"""Duration of an enqueue where the trace has no launches to learn from, in ns.

Pinned asynchronous copies return after about 5 us (measured on an H200 under the profiler).
"""
ENQUEUE_QUANTILE = 0.25
"""Quantile of the trace's launch durations that is the duration of an enqueue.

Launches that wait (a full queue, a lock, lazy loading) are the slow ones, so it lies in the lower half.
"""
MOST_ENQUEUE_NS = 20_000
"""Upper limit of the duration of an enqueue, in ns; profiled launches measured 4 to 11 us.

Where every launch waits (CUDA_LAUNCH_BLOCKING, copies of another thread), the quantile is too long.
"""
BLOCKING_FACTOR = 3.0
"""A call blocks its thread when it takes more than this many enqueues.

Below that it is the scatter of profiled calls, which is about a factor of two either way.
"""


@dataclass(frozen=True)
class HostBlocking(Row):
    """All calls of one API function on one thread within the window.

    ``total_ns`` is their total duration, ``blocked_ns`` the part of it for which they blocked the thread. A call inside
    another counts in ``total_ns`` only, since the thread is blocked once.
    """

    process: int
    thread: int
    api: str
    calls: int
    total_ns: int
    blocked_ns: int

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-ready data; ``process`` and ``thread`` are None where they are not recorded."""
        return super().to_dict() | {"process": known(self.process), "thread": known(self.thread)}


def plain_enqueue_ns(calls: ApiCalls) -> int:
    """The duration of a non-blocking enqueue in a trace, in ns: the duration of its faster kernel launches."""
    launches = (calls.kind == ApiKind.LAUNCH) & (calls.parent == NO_ID)
    if not launches.any():
        return DEFAULT_ENQUEUE_NS
    plain = int(np.quantile(calls.duration_ns[launches], ENQUEUE_QUANTILE))
    return min(plain, MOST_ENQUEUE_NS)


MODULE_LOADING = frozenset({"Driver Compiler", "Runtime Triggered Module Loading", "Lazy Function Loading"})
"""What Kineto records as overhead (CUPTI's CUpti_ActivityOverheadKind) though no profiler causes it."""

QUEUE_FULL = "Command Buffer Full"
"""What Kineto records as overhead where a call waits for room in the queue of its stream."""


@once_for_each
def blocked_from_ns(calls: ApiCalls) -> Int64:
    """The time from which each call blocks its thread; the end of a call that does not block."""
    plain = plain_enqueue_ns(calls)
    blocks = (calls.duration_ns > BLOCKING_FACTOR * plain) & (calls.parent == NO_ID)
    return np.where(blocks, calls.start_ns + plain, calls.end_ns)


def blocked_ns(calls: ApiCalls, window: Window) -> Int64:
    """The time for which each call blocks its thread within the window, in ns."""
    return window.covers(calls.process, blocked_from_ns(calls), calls.end_ns)


def host_blocking(trace: Trace, window: Window) -> tuple[HostBlocking, ...]:
    """Total and blocked time of calls per process, thread and API function; the longest blocked time first."""
    calls = trace.api_calls
    times = calls.process, calls.start_ns, calls.end_ns
    ones, total, blocked = np.ones(len(calls), np.int64), window.covers(*times), blocked_ns(calls, window)
    rows = np.flatnonzero(window.touches(*times))
    keys = np.stack([calls.process[rows], calls.thread[rows], calls.name_id[rows].astype(np.int64)])
    groups, member = distinct_columns(keys)
    sums = (sums_by(member, values[rows], groups.shape[1]).tolist() for values in (ones, total, blocked))
    result = [
        HostBlocking(process, thread, trace.names[name], *figures)
        for (process, thread, name), *figures in zip(groups.T.tolist(), *sums, strict=True)
    ]
    return tuple(sorted(result, key=lambda row: (-row.blocked_ns, -row.total_ns, row.api)))
