"""How long calls hold their thread.

A call that only enqueues work returns after a few microseconds. What it takes beyond that, the thread is
held: nothing it would have launched is launched. That is the cost that an overlap percentage hides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import ApiKind
from overlapscope.model.trace import Trace


@dataclass(frozen=True)
class HostConfig:
    """What counts as a plain enqueue.

    ``default_enqueue_ns``: a plain enqueue where the trace has no launches to learn from; pinned
    asynchronous copies return after about 5 us (measured on an H200 under the profiler).
    ``enqueue_quantile``: which of a trace's launches are plain ones. Launches that wait (a full queue, a
    lock, lazy loading) are the slow ones, so it lies in the lower half.
    ``most_enqueue_ns``: no plain enqueue takes longer, whatever a trace's launches do: where every launch
    waits (CUDA_LAUNCH_BLOCKING, another thread's copies), none of them is plain. Profiled launches
    measured 4 to 11 us.
    ``tolerance``: a call holds its thread when it takes more than this many plain enqueues; below that it
    is the scatter of profiled calls, which is about a factor of two either way.
    """

    default_enqueue_ns: int = 5_000
    enqueue_quantile: float = 0.25
    most_enqueue_ns: int = 20_000
    tolerance: float = 3.0


DEFAULT = HostConfig()


@dataclass(frozen=True)
class HostBlocking:
    """Calls of one kind on one thread within the window.

    ``span_ns`` is the time inside them, ``blocked_ns`` the part beyond a plain enqueue. A call inside
    another counts in ``span_ns`` only: its thread is held once.
    """

    process: int
    thread: int
    api: str
    calls: int
    span_ns: int
    blocked_ns: int


def plain_enqueue_ns(trace: Trace, config: HostConfig = DEFAULT) -> int:
    """What an enqueue costs in this trace: the span of its faster kernel launches."""
    calls = trace.api_calls
    launches = (calls.kind == ApiKind.LAUNCH) & (calls.parent == NO_ID)
    if not launches.any():
        return config.default_enqueue_ns
    plain = int(np.quantile(calls.duration_ns[launches], config.enqueue_quantile))
    return min(plain, config.most_enqueue_ns)


def blocked_from_ns(trace: Trace, config: HostConfig = DEFAULT) -> Int64:
    """For each call, the moment from which it holds its thread; its end where it does not hold it at all."""
    calls = trace.api_calls
    plain = plain_enqueue_ns(trace, config)
    holds = (calls.duration_ns > config.tolerance * plain) & (calls.parent == NO_ID)
    return np.where(holds, calls.start_ns + plain, calls.end_ns)


def blocked_ns(trace: Trace, window: Window, config: HostConfig = DEFAULT) -> Int64:
    """For each call, how long it holds its thread within the window."""
    return window.covers(trace.api_calls.process, blocked_from_ns(trace, config), trace.api_calls.end_ns)


def host_blocking(trace: Trace, window: Window, config: HostConfig = DEFAULT) -> tuple[HostBlocking, ...]:
    """Time inside calls and time held, per process, thread and API; the longest held first."""
    calls = trace.api_calls
    times = calls.process, calls.start_ns, calls.end_ns
    ones, span, held = np.ones(len(calls), np.int64), window.covers(*times), blocked_ns(trace, window, config)
    rows = np.flatnonzero(window.touches(*times))
    keys = np.stack([calls.process[rows], calls.thread[rows], calls.name_id[rows].astype(np.int64)])
    groups, member = np.unique(keys, axis=1, return_inverse=True)
    member = member.reshape(-1)
    sums = (sums_by(member, values[rows], groups.shape[1]) for values in (ones, span, held))
    result = [
        HostBlocking(process, thread, trace.names[name], count, total, blocked)
        for (process, thread, name), count, total, blocked in zip(
            groups.T.tolist(), *(column.tolist() for column in sums), strict=True
        )
    ]
    return tuple(sorted(result, key=lambda row: (-row.blocked_ns, -row.span_ns, row.api)))


def sums_by(member: Int64, values: Int64, groups: int) -> Int64:
    """Exact integer sums by group (a float would lose nanoseconds of long traces)."""
    totals = np.zeros(groups, np.int64)
    np.add.at(totals, member, values)
    return totals
