"""Measure launch latency, launch delay and queue depth of each device: how far the host runs ahead of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.measure.devices import DeviceKey
from overlapscope.measure.spans import Spans, contains, covered, profile
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Int64, stacked
from overlapscope.model.frames import Row
from overlapscope.model.trace import Trace

LATENCY_QUANTILE = 0.1
"""Which of a trace's delays between call and start are mere latency; work that waits in a queue is the slow part."""
MOST_LATENCY_NS = 20_000
"""No launch on an idle GPU takes longer than that by itself, in ns; 4 to 10 us were measured on an H200."""
_CAUSED_WITHIN = 3.0
"""A start within this many latencies after the end of other work is taken to be caused by it."""


def launch_slack_ns(trace: Trace) -> int:
    """The longest time between a start and what caused it, in ns: three launch latencies of the trace."""
    return round(_CAUSED_WITHIN * launch_latency_ns(trace))


def launch_latency_ns(trace: Trace) -> int:
    """The time between a launch and the start of its kernel in this trace when nothing is in the way, in ns."""
    joined = trace.kernels.call != NO_ID
    delays = trace.kernels.start_ns[joined] - trace.api_calls.end_ns[trace.kernels.call[joined]]
    delays = delays[delays > 0]
    if not len(delays):
        return MOST_LATENCY_NS
    return min(int(np.quantile(delays, LATENCY_QUANTILE)), MOST_LATENCY_NS)


@dataclass(frozen=True)
class LaunchFigures(Row):
    """Launch delay and queue depth of a device; None where no device work has a known call before it.

    The launch delay goes from the start of a call to the start of its work. The queue is the work that was issued and
    has not started; its mean depth is over the window.
    """

    median_delay_ns: int | None
    max_delay_ns: int | None
    mean_queue_depth: float | None
    max_queue_depth: int | None


def issued_and_started(trace: Trace, key: DeviceKey) -> tuple[Int64, Int64]:
    """Issue time and start of all work of the device that has a known call, and did not start before it.

    What starts before its call shows that clocks disagree: how long it was queued is not known.
    """
    tables = (table.take(key.rows(table) & (table.call != NO_ID)) for table in trace.device_work)
    call, started = stacked(tables, "call", "start_ns")
    issued = trace.api_calls.start_ns[call]
    return issued[started >= issued], started[started >= issued]


def queue_depth(trace: Trace, key: DeviceKey) -> tuple[Int64, Int64]:
    """The queue depth of a device over time, as a step function: each depth holds until the next time."""
    return profile(*issued_and_started(trace, key))


def launch_figures(trace: Trace, key: DeviceKey, window: Window) -> LaunchFigures:
    """Launch delays of the work that starts within the window, and the queue depth there."""
    within = window.of(key.process)
    issued, started = issued_and_started(trace, key)
    here = contains(within, started, started)
    if not here.any():
        return LaunchFigures(None, None, None, None)
    delay = started[here] - issued[here]
    times, depth = queue_depth(trace, key)
    mean, most = _depth_within(times, depth, within)
    return LaunchFigures(int(np.median(delay)), int(delay.max()), mean, most)


def _depth_within(times: Int64, depth: Int64, within: Spans) -> tuple[float, int]:
    """Time-weighted mean and maximum of a step function within ``within``."""
    if not len(times) or not within.total_ns:
        return 0.0, 0
    lengths = covered(times[:-1], times[1:], within)
    reached = depth[:-1][lengths > 0]
    return float((lengths * depth[:-1]).sum() / within.total_ns), int(reached.max(initial=0))
