"""What the profiler spent for each event: from a calibration, or in part from the trace itself.

Where a trace knows what its steps took without the profiler (`overlapscope.record`), the cost of an event is what makes
the replayed trace take that long. It is no less than what issuing a tiny kernel and a tiny copy cost more under the
profiler, by the events that these are, and no more than three times that, since those had everything in the processor's
caches; it is in the middle of that where the steps' time says nothing of it, since it hardly depends on the host or is
not known. What is too long or too short then, by more than steps differ, is the pace of the host, if that explains all.

Without a calibration, what operators take around the operators in them is a part of the cost: the profiler writes down
both between the two begins and between the two ends, while dispatching takes little.
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
from overlapscope.replay.engine import replay
from overlapscope.replay.graph import Graph
from overlapscope.replay.profiler import Cost, without_profiler

_EVENTS_ISSUED = 5  # two operators and their calls, and a copy asks whether its stream is being captured
_MOST_TIMES = 3
_MOST_EVENT_NS = 10_000.0  # where issuing was not measured
_PACES = (2.0, 0.5)
_STEPS = 12
_NEAR = 1e-3
_LEAST_SHARE = 0.05  # of what is left, so that each step takes something off
_TELLING_OPERATORS = 20  # with operators in them
_LEAST = 0.25  # of the operators may take less


def profiler_cost(graph: Graph) -> Cost | None:
    """What is known of what the profiler spent; None where nothing is, or it shows nowhere."""
    calibrated = _calibrated(graph)
    if calibrated is not None:
        return calibrated
    seen = _around_operators_ns(graph.trace)
    return Cost(seen, calibrated=False) if seen or len(graph.trace.overheads) else None


def _calibrated(graph: Graph) -> Cost | None:
    recording = graph.trace.metadata.recording
    if recording is None:
        return None
    least, factor = _issuing_ns(recording), recording.profiler_factor
    most = _MOST_TIMES * least or _MOST_EVENT_NS
    middle = Cost((least + most) / 2 if least else 0.0, calibrated=True)
    if factor is None:
        return middle if least else None
    wanted = _length(graph) / factor
    scatter = wanted * recording.scatter

    def with_events(event_ns: float) -> Cost:
        return replace(middle, event_ns=event_ns)

    @cache
    def length(cost: Cost) -> int:
        return _length(without_profiler(graph, cost))

    longest, shortest = (length(with_events(event_ns)) for event_ns in (least, most))
    cost = middle  # where what is too long is not due to events
    if longest - shortest > max(scatter, (longest - wanted) / 2):
        cost = with_events(_crossing((least, most), lambda event_ns: length(with_events(event_ns)), wanted))
    off = abs(length(cost) - wanted)
    if not least or off <= max(scatter, _NEAR * wanted):  # another tool slows what is called unprofiled too
        return cost
    paced = replace(cost, pace=_crossing(_PACES, lambda pace: length(replace(cost, pace=pace)), wanted))
    explained = abs(length(paced) - wanted) <= max(scatter, 2 * _NEAR * wanted)
    return paced if explained else cost


def _crossing(ends: tuple[float, float], length: Callable[[float], int], wanted: float) -> float:
    """Where between two values, that of the longer length first, a length is what is wanted; the nearer end else.

    Lengths fall, and nearly on a line: regula falsi.
    """
    longer, shorter = ends
    above, below = length(longer), length(shorter)
    for _ in range(_STEPS):
        if above <= wanted * (1 + _NEAR):
            return longer
        if below >= wanted * (1 - _NEAR):
            return shorter
        share = (wanted - below) / (above - below)
        middle = shorter + min(max(share, _LEAST_SHARE), 1 - _LEAST_SHARE) * (longer - shorter)
        at = length(middle)
        longer, above, shorter, below = (longer, above, middle, at) if at <= wanted else (middle, at, shorter, below)
    return shorter


def _issuing_ns(recording: Recording) -> float:
    """What an event cost where tiny kernels and copies were issued with and without the profiler; 0 if not known."""
    totals = [
        cost.kernel_ns + cost.copy_ns
        for cost in (recording.issue_profiled, recording.issue_unprofiled)
        if cost is not None and cost.kernel_ns and cost.copy_ns
    ]
    return max(totals[0] - totals[1], 0) / _EVENTS_ISSUED if len(totals) > 1 else 0.0


def _around_operators_ns(trace: Trace) -> float:
    """What most operators take at least before their first inner one begins and after their last one has ended."""
    ops = trace.cpu_ops
    outer = enclosing(ops)
    inner = np.flatnonzero(outer != NO_ID)
    around, first = np.unique(outer[inner], return_index=True)
    if len(around) < _TELLING_OPERATORS:
        return 0.0
    ended = np.full(len(ops), np.iinfo(np.int64).min)
    np.maximum.at(ended, outer[inner], ops.end_ns[inner])
    before = ops.start_ns[inner[first]] - ops.start_ns[around]
    after = np.maximum(ops.end_ns[around] - ended[around], 0)
    return min(float(np.quantile(before, _LEAST) + np.quantile(after, _LEAST)), _MOST_EVENT_NS)


def _length(graph: Graph) -> int:
    times = replay(graph).time_ns
    return int(times.max() - times.min()) if len(times) else 0
