"""What the profiler spent for each operator and each call: from a calibration, or in part from the trace itself.

What operators take around the operators in them is a part of it: the profiler writes down both between the two begins
and between the two ends, while dispatching takes little. What it takes around the quickest of them is the least that an
event costs, and events cost up to three times that. Twice that is taken where there is no calibration, for operators
and for calls, of which the profiler writes down more.

A calibration tells of calls: what issuing a tiny kernel and a tiny copy cost more under the profiler, by the calls that
these are. (torch's profiler records no operators yet in the steps before its recording, in which that is timed.) That
is the least again, since everything was in the processor's caches, and calls cost up to three times that: twice is the
first guess. An operator then costs what the trace itself tells.

Where a trace knows what its steps took without the profiler (`overlapscope.record`), three things may explain the
difference: what events cost, a quarter more or less than guessed, as is twice by its bounds; the speed of the host, and
that of its pageable copies, while the trace was recorded and while the steps were timed. Speeds differ by a tenth. The
likeliest explanation is taken, which moves most what matters most and is known least (least squares).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import exp

import numpy as np

from overlapscope.calibration.schema import Calibration
from overlapscope.measure.places import enclosing
from overlapscope.model.columns import NO_ID
from overlapscope.model.trace import Trace
from overlapscope.whatif.config import ProfilerConfig, SimulationConfig
from overlapscope.whatif.interval import Basis
from overlapscope.whatif.profiler import Cost, Profiled

Off = tuple[float, ...]
"""By how many of their spreads the cost of an event and the speed factors of host and staging are off their guesses."""
NOT_OFF: Off = (0.0, 0.0, 0.0)
_LONGER = np.array([-1.0, 1.0, 1.0])  # which way makes what a program takes longer


@dataclass(frozen=True)
class Guess:
    """What a cost is thought to be at first, and how far off events and speed factors may be, as shares."""

    usual: Cost
    events: float
    factors: float

    def cost(self, off: Off) -> Cost:
        """What it is where these are off."""
        times = max(1 + off[0] * self.events, 0.0)
        host, staging = (exp(self.factors * each) for each in off[1:])
        operator_ns, call_ns = times * self.usual.operator_ns, times * self.usual.call_ns
        return replace(self.usual, operator_ns=operator_ns, call_ns=call_ns, host_factor=host, staging_factor=staging)


def profiler_cost(profiled: Profiled, recorded: Basis, config: ProfilerConfig) -> Cost | None:
    """What is known of what the profiler spent; None where nothing is, or it shows nowhere."""
    trace = profiled.graph.trace
    recording = trace.metadata.recording
    guess = _guess(trace, config, timed=recording is not None and recording.profiler_factor is not None)
    if guess is None:
        return Cost(0.0, 0.0, calibrated=False) if len(trace.overheads) else None
    return _explaining(guess, profiled, recorded, config)


def other_costs(cost: Cost | None, profiled: Profiled, recorded: Basis, config: SimulationConfig) -> tuple[Cost, ...]:
    """What the profiler may have spent instead, at most and at least; nothing where steps were timed without it.

    Other tools than torch's profiler slow a program that they do not record yet, so that no step is timed without them.
    But no step is slower without them than those that were timed: where events cost nothing, the host was slow.
    """
    recording, unsure = profiled.graph.trace.metadata.recording, config.uncertainty
    timed = recording is not None and recording.profiler_factor is not None
    if cost is not None and cost.calibrated and recording is not None and recording.issue_profiled is not None:
        if timed:
            return ()
        times = (1 + unsure.events, 1 - unsure.events)
        return tuple(replace(cost, operator_ns=each * cost.operator_ns, call_ns=each * cost.call_ns) for each in times)
    known = cost or Cost(0.0, 0.0, calibrated=False)
    operator_ns, call_ns = max(known.operator_ns, unsure.operator_ns), max(known.call_ns, unsure.call_ns)
    nothing = replace(known, operator_ns=0.0, call_ns=0.0)
    if timed:
        nothing = _explaining(Guess(nothing, 0.0, config.profiler.spread), profiled, recorded, config.profiler)
    return replace(known, operator_ns=operator_ns, call_ns=call_ns), nothing


def _explaining(guess: Guess, profiled: Profiled, recorded: Basis, config: ProfilerConfig) -> Cost:
    """The likeliest cost by which the recorded steps are as long as those that were timed; without these the guess."""
    recording = profiled.graph.trace.metadata.recording
    factor = None if recording is None else recording.profiler_factor
    wanted = recorded.simulated.length_ns / factor if factor else 0.0
    if recording is None or not wanted:
        return guess.usual

    @cache
    def length(off: Off) -> int:
        return recorded.run(profiled.without(guess.cost(off))).length_ns

    off = _likeliest(length, wanted, wanted * max(recording.unsure, config.negligible), config)
    return replace(guess.cost(off), unexplained=length(off) / wanted - 1)


def _guess(trace: Trace, config: ProfilerConfig, *, timed: bool) -> Guess | None:
    """What events cost as far as a trace tells; None where it does not, and no steps were ``timed`` without them."""
    around_ns, most_ns = _around_operators_ns(trace, config), config.most_event_ns
    call_ns, middle = _issuing_ns(trace.metadata.recording, config), (1 + config.most_times) / 2
    spread = (config.most_times - 1) / 4 / middle
    if call_ns:
        operator_ns = min(around_ns, most_ns) or call_ns
        return Guess(Cost(operator_ns, middle * call_ns, calibrated=True), spread, config.spread)
    if event_ns := min(middle * around_ns, most_ns):
        return Guess(Cost(event_ns, event_ns, calibrated=timed), spread, config.spread)
    some = most_ns / 4  # it was not measured: some of what it may be
    return Guess(Cost(some, some, calibrated=True), 1.0, config.spread) if timed else None


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


def _issuing_ns(recording: Calibration | None, config: ProfilerConfig) -> float:
    """What a call cost where tiny kernels and copies were issued with and without the profiler; 0 if not known."""
    totals = [
        cost.kernel_ns + cost.copy_ns
        for cost in ((recording.issue_profiled, recording.issue_unprofiled) if recording else ())
        if cost is not None and cost.kernel_ns and cost.copy_ns
    ]
    call_ns = max(totals[0] - totals[1], 0) / config.calls_issued if len(totals) > 1 else 0.0
    return call_ns if call_ns <= config.most_event_ns else 0.0  # what no profiler costs was not measured


def _around_operators_ns(trace: Trace, config: ProfilerConfig) -> float:
    """What operators take at least before their first inner one begins and after their last one has ended."""
    ops = trace.cpu_ops
    outer = enclosing(ops)
    inner = np.flatnonzero(outer != NO_ID)
    around, first = np.unique(outer[inner], return_index=True)
    if len(around) < config.enough_operators:
        return 0.0
    ended = np.full(len(ops), np.iinfo(np.int64).min)
    np.maximum.at(ended, outer[inner], ops.end_ns[inner])
    before = ops.start_ns[inner[first]] - ops.start_ns[around]
    after = np.maximum(ops.end_ns[around] - ended[around], 0)
    return float(np.quantile(before, config.least) + np.quantile(after, config.least))
