"""What the profiler spent for each event: from a calibration, or in part from the trace itself.

Where a trace knows what its steps took without the profiler (`overlapscope.record`), three things may explain the
difference: what an event costs; the pace of the host, and that of its pageable copies, while the trace was recorded and
while the steps were timed. An event costs no less than what issuing a tiny kernel and a tiny copy cost more under the
profiler, by the events that these are, and up to three times that, since those had everything in the processor's
caches: twice that is the first guess. Paces differ by a tenth. The likeliest explanation is taken, which moves most
what matters most and is known least (least squares).

Without a calibration, what operators take around the operators in them is a part of the cost: the profiler writes down
both between the two begins and between the two ends, while dispatching takes little. What it takes around the quickest
of them is the least that an event costs, as in a calibration, and events cost up to three times that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import exp

import numpy as np

from overlapscope.measure.places import enclosing
from overlapscope.model.columns import NO_ID
from overlapscope.model.recording import Recording
from overlapscope.model.trace import Trace
from overlapscope.replay.config import ProfilerConfig
from overlapscope.replay.engine import replay
from overlapscope.replay.graph import Graph
from overlapscope.replay.profiler import Cost, Profiled

Off = tuple[float, ...]
"""By how many of their spreads what an event costs, the host's pace and that of its staging are off their guesses."""
NOT_OFF: Off = (0.0, 0.0, 0.0)
_LONGER = np.array([-1.0, 1.0, 1.0])  # which way makes what a program takes longer


@dataclass(frozen=True)
class Guess:
    """What a cost is thought to be at first; how far off events may be, in ns, and paces, as a share."""

    usual: Cost
    event_ns: float
    spread: float

    def cost(self, off: Off) -> Cost:
        """What it is where these are off."""
        event_ns = max(self.usual.event_ns + off[0] * self.event_ns, 0.0)
        pace, staging = (exp(self.spread * each) for each in off[1:])
        return replace(self.usual, event_ns=event_ns, pace=pace, staging=staging)


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
    usual = Cost(_middle(least, config), calibrated=True)
    if factor is None:
        return usual if least else None
    wanted = _length(profiled.graph) / factor
    if not wanted:
        return usual
    event_ns = (config.most_times - 1) / 4 * least
    if not least:  # it was not measured: some of what it may be
        event_ns = config.most_event_ns / 4
        usual = replace(usual, event_ns=event_ns)
    guess = Guess(usual, event_ns, config.spread)

    @cache
    def length(off: Off) -> int:
        return _length(profiled.without(guess.cost(off)))

    off = _likeliest(length, wanted, wanted * max(recording.unsure, config.telling), config)
    return replace(guess.cost(off), unexplained=length(off) / wanted - 1)


def _likeliest(length: Callable[[Off], int], wanted: float, noise: float, config: ProfilerConfig) -> Off:
    """How far off each guess is, where lengths are what is wanted but for some noise.

    Least squares by Gauss-Newton. Lengths bend: how they change is looked at on the way to what is wanted, and further
    ahead where a round has won little.
    """

    def unlikely(off: Off) -> float:
        return ((wanted - length(off)) / noise) ** 2 + float(np.square(off).sum())

    best, reach = NOT_OFF, 1.0
    for _ in range(config.rounds):
        here, towards = np.array(best), reach * (_LONGER if length(best) < wanted else -_LONGER)
        ahead = [tuple(each) for each in (here + np.diag(towards)).tolist()]
        slope = np.array([length(each) - length(best) for each in ahead], float) / towards
        rest = wanted - length(best) + slope @ here
        step = slope * rest / (slope @ slope + noise**2) - here
        before = unlikely(best)
        for times in (1, 2, 4):  # what bounds the length at first may end soon
            off = tuple(np.clip(here + times * step, -config.most_off, config.most_off).tolist())
            best = min(best, off, key=unlikely)
            if unlikely(best) <= before / 2:
                break
        else:
            reach *= 2
        if abs(length(best) - wanted) <= noise / 2:
            break
    return best


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
    event_ns = max(totals[0] - totals[1], 0) / config.events_issued if len(totals) > 1 else 0.0
    return event_ns if event_ns <= config.most_event_ns else 0.0  # what no profiler costs was not measured


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
