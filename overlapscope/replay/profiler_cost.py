"""What the profiler spent for each event: from a calibration, or in part from the trace itself.

Where a trace knows what its steps took without the profiler (`overlapscope.record`), the cost of an event is what makes
the replayed trace take that long. It is no less than what issuing a tiny kernel and a tiny copy cost more under the
profiler, by the events that these are, and no more than three times that, since those had everything in the processor's
caches; it is in the middle of that where the steps' time says nothing of it, since it hardly depends on the host or is
not known. What is too long or too short then, by more than steps differ, is the pace of the host, if that explains all.

Without a calibration, what operators take around the operators in them is a part of the cost: the profiler writes down
both between the two begins and between the two ends, while dispatching takes little. What it takes around the quickest
of them is the least that an event costs, as in a calibration, and events cost up to three times that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from overlapscope.measure.places import enclosing
from overlapscope.model.columns import NO_ID
from overlapscope.model.recording import Recording
from overlapscope.model.trace import Trace
from overlapscope.replay.config import ProfilerConfig
from overlapscope.replay.engine import replay
from overlapscope.replay.graph import Graph
from overlapscope.replay.profiler import Cost, Profiled


def profiler_cost(profiled: Profiled, config: ProfilerConfig) -> Cost | None:
    """What is known of what the profiler spent; None where nothing is, or it shows nowhere."""
    calibrated = _calibrated(profiled, config)
    if calibrated is not None:
        return calibrated
    trace = profiled.graph.trace
    seen = _middle(_around_operators_ns(trace, config), config)
    return Cost(min(seen, config.most_event_ns), calibrated=False) if seen or len(trace.overheads) else None


def _calibrated(profiled: Profiled, config: ProfilerConfig) -> Cost | None:
    recording = profiled.graph.trace.metadata.recording
    if recording is None:
        return None
    least, factor = _issuing_ns(recording, config), recording.profiler_factor
    most = config.most_times * least or config.most_event_ns
    middle = Cost(_middle(least, config), calibrated=True)
    if factor is None:
        return middle if least else None
    wanted = _length(profiled.graph) / factor
    scatter = wanted * max(recording.scatter, config.telling)

    def with_events(event_ns: float) -> Cost:
        return replace(middle, event_ns=event_ns)

    @cache
    def length(cost: Cost) -> int:
        return _length(profiled.without(cost))

    longest, shortest = (length(with_events(event_ns)) for event_ns in (least, most))
    cost = middle  # where what is too long is not due to events
    if longest - shortest > max(scatter, (longest - wanted) / 2):
        cost = with_events(_crossing((least, most), lambda event_ns: length(with_events(event_ns)), wanted, config))
    if not least:
        return cost  # under another tool, which slows what is called unprofiled too
    return _at_usual_pace(cost, length, wanted, scatter, config)


def _at_usual_pace(
    cost: Cost, length: Callable[[Cost], int], wanted: float, scatter: float, config: ProfilerConfig
) -> Cost:
    """With the pace of the host that explains what is still too long or too short, if there is one."""

    def at(pace: float) -> Cost:
        return replace(cost, pace=pace)

    off = abs(length(cost) - wanted)
    if off <= scatter:
        return cost
    slow, fast = config.paces
    hosts = (length(at(slow)) - length(at(fast))) / (slow - fast)  # of the time, what goes with the host
    paced = at(_crossing(config.paces, lambda pace: length(at(pace)), wanted, config))
    explains = abs(length(paced) - wanted) <= min(scatter, off / 2)
    return paced if explains and hosts >= config.least_hosts * wanted else cost


def _crossing(
    ends: tuple[float, float], length: Callable[[float], int], wanted: float, config: ProfilerConfig
) -> float:
    """Where between two values, that of the longer length first, a length is what is wanted; the nearer end else.

    Lengths fall, and nearly on a line: regula falsi.
    """
    longer, shorter = ends
    above, below = length(longer), length(shorter)
    for _ in range(config.steps):
        if above <= wanted * (1 + config.near):
            return longer
        if below >= wanted * (1 - config.near):
            return shorter
        share = (wanted - below) / (above - below)
        middle = shorter + min(max(share, config.least_share), 1 - config.least_share) * (longer - shorter)
        at = length(middle)
        longer, above, shorter, below = (longer, above, middle, at) if at <= wanted else (middle, at, shorter, below)
    return shorter


def _middle(least_ns: float, config: ProfilerConfig) -> float:
    """What an event costs where only the least is known: in the middle of what it may be."""
    return (1 + config.most_times) / 2 * least_ns


def _issuing_ns(recording: Recording, config: ProfilerConfig) -> float:
    """What an event cost where tiny kernels and copies were issued with and without the profiler; 0 if not known."""
    totals = [
        cost.kernel_ns + cost.copy_ns
        for cost in (recording.issue_profiled, recording.issue_unprofiled)
        if cost is not None and cost.kernel_ns and cost.copy_ns
    ]
    return max(totals[0] - totals[1], 0) / config.events_issued if len(totals) > 1 else 0.0


def _around_operators_ns(trace: Trace, config: ProfilerConfig) -> float:
    """What operators take at least before their first inner one begins and after their last one has ended."""
    ops = trace.cpu_ops
    outer = enclosing(ops)
    inner = np.flatnonzero(outer != NO_ID)
    around, first = np.unique(outer[inner], return_index=True)
    if len(around) < config.telling_operators:
        return 0.0
    ended = np.full(len(ops), np.iinfo(np.int64).min)
    np.maximum.at(ended, outer[inner], ops.end_ns[inner])
    before = ops.start_ns[inner[first]] - ops.start_ns[around]
    after = np.maximum(ops.end_ns[around] - ended[around], 0)
    return float(np.quantile(before, config.least) + np.quantile(after, config.least))


def _length(graph: Graph) -> int:
    times = replay(graph).time_ns
    return int(times.max() - times.min()) if len(times) else 0
