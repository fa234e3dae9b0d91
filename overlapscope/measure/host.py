"""Measure how long calls block their thread.

A call that only enqueues work returns after a few microseconds. For the time beyond that it blocks its thread, which
cannot launch anything else. An overlap percentage does not show this cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from overlapscope.formatting import changed
from overlapscope.measure.distinct import distinct_columns
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Int64, known
from overlapscope.model.enums import ApiKind
from overlapscope.model.frames import Row
from overlapscope.model.trace import Trace


@dataclass(frozen=True)
class HostConfig:
    """What counts as a non-blocking enqueue.

    ``default_enqueue_ns``: duration of an enqueue where the trace has no launches to learn from; pinned
    asynchronous copies return after about 5 us (measured on an H200 under the profiler).
    ``enqueue_quantile``: quantile of the trace's launch durations that is the duration of an enqueue. Launches that
    wait (a full queue, a lock, lazy loading) are the slow ones, so it lies in the lower half.
    ``most_enqueue_ns``: upper limit of that duration. Where every launch waits (CUDA_LAUNCH_BLOCKING, copies of
    another thread), the quantile is too long. Profiled launches measured 4 to 11 us.
    ``tolerance``: a call blocks its thread when it takes more than this many enqueues; below that it is the scatter of
    profiled calls, which is about a factor of two either way.
    """

    default_enqueue_ns: int = 5_000
    enqueue_quantile: float = 0.25
    most_enqueue_ns: int = 20_000
    tolerance: float = 3.0

    __repr__ = changed


DEFAULT = HostConfig()


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


def plain_enqueue_ns(trace: Trace, config: HostConfig = DEFAULT) -> int:
    """The duration of a non-blocking enqueue in this trace: that of its faster kernel launches."""
    calls = trace.api_calls
    launches = (calls.kind == ApiKind.LAUNCH) & (calls.parent == NO_ID)
    if not launches.any():
        return config.default_enqueue_ns
    plain = int(np.quantile(calls.duration_ns[launches], config.enqueue_quantile))
    return min(plain, config.most_enqueue_ns)


MODULE_LOADING = frozenset({"Driver Compiler", "Runtime Triggered Module Loading", "Lazy Function Loading"})
"""What Kineto records as overhead (CUPTI's CUpti_ActivityOverheadKind) though no profiler causes it."""

QUEUE_FULL = "Command Buffer Full"
"""The same for a call that waits for room in the queue of its stream."""


def blocked_from_ns(trace: Trace, config: HostConfig = DEFAULT) -> Int64:
    """For each call, the time from which it blocks its thread; its end where it does not block."""
    calls = trace.api_calls
    plain = plain_enqueue_ns(trace, config)
    blocks = (calls.duration_ns > config.tolerance * plain) & (calls.parent == NO_ID)
    return np.where(blocks, calls.start_ns + plain, calls.end_ns)


def blocked_ns(trace: Trace, window: Window, config: HostConfig = DEFAULT) -> Int64:
    """For each call, how long it blocks its thread within the window."""
    return window.covers(trace.api_calls.process, blocked_from_ns(trace, config), trace.api_calls.end_ns)


def host_blocking(trace: Trace, window: Window, config: HostConfig = DEFAULT) -> tuple[HostBlocking, ...]:
    """Total and blocked time of calls per process, thread and API function; the longest blocked time first."""
    calls = trace.api_calls
    times = calls.process, calls.start_ns, calls.end_ns
    ones, total, blocked = np.ones(len(calls), np.int64), window.covers(*times), blocked_ns(trace, window, config)
    rows = np.flatnonzero(window.touches(*times))
    keys = np.stack([calls.process[rows], calls.thread[rows], calls.name_id[rows].astype(np.int64)])
    groups, member = distinct_columns(keys)
    sums = (sums_by(member, values[rows], groups.shape[1]).tolist() for values in (ones, total, blocked))
    result = [
        HostBlocking(process, thread, trace.names[name], *figures)
        for (process, thread, name), *figures in zip(groups.T.tolist(), *sums, strict=True)
    ]
    return tuple(sorted(result, key=lambda row: (-row.blocked_ns, -row.total_ns, row.api)))


def sums_by(member: Int64, values: Int64, groups: int) -> Int64:
    """Exact integer sums by group (a float would lose nanoseconds of long traces)."""
    totals = np.zeros(groups, np.int64)
    np.add.at(totals, member, values)
    return totals
