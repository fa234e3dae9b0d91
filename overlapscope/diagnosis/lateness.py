"""Why a thread launched late by itself: the kinds of OVL008."""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import HOST_CAUSES, Cause, IdleTime
from overlapscope.diagnosis.config import DiagnosisConfig
from overlapscope.model.columns import NO_ID, Int8, Int64
from overlapscope.model.enums import LAUNCHES, Labelled
from overlapscope.model.trace import Trace


class Lateness(Labelled):
    """What a launching thread did instead of launching: the name of the kind, and what the GPU waited for."""

    waited_for: str

    def __new__(cls, value: int, label: str = "", waited_for: str = "") -> Lateness:
        """Make a member from its number, its name and its noun."""
        member = int.__new__(cls, value)
        member._value_, member.label, member.waited_for = value, label, waited_for
        return member

    LAUNCH_BOUND = 0, "launch-bound", "launch-bound (CPU overhead)"
    HOST_WORK = 1, "host-work", "host work between launches"
    DATA_LOADING = 2, "data-loading", "the data loader"
    FIRST_USE = 3, "first-use", "setup, one time"
    NOT_RECORDED = 4, "not-recorded", "host work that is not recorded"


_OF_CAUSE = {Cause.DATA_LOADING: Lateness.DATA_LOADING, Cause.FIRST_USE: Lateness.FIRST_USE}


def lateness(trace: Trace, idle: IdleTime, config: DiagnosisConfig) -> Int8:
    """The kind of each idle interval in which no call blocked the thread, earlier or then.

    A GPU that waits no longer for a launch than the host usually takes for an operator is launch-bound.
    """
    late = np.isin(idle.cause, (*HOST_CAUSES, Cause.LAUNCH_LATENCY)) & (idle.blocking_call == NO_ID)
    wait = np.zeros(len(trace.api_calls) + 1, np.int64)
    np.add.at(wait, idle.launch_call[late], idle.duration_ns[late])
    short = (wait[idle.launch_call] <= _operator_ns(trace, config)) & (idle.launch_call != NO_ID)
    kind = np.where(short, Lateness.LAUNCH_BOUND, Lateness.HOST_WORK).astype(np.int8)
    kind[(idle.cause == Cause.HOST_NOT_RECORDED) & ~short] = Lateness.NOT_RECORDED
    for cause, number in _OF_CAUSE.items():
        kind[idle.cause == cause] = number
    return kind


def _operator_ns(trace: Trace, config: DiagnosisConfig) -> float:
    """What the host takes for an operator at most: by the usual time from launch to launch of a thread."""
    calls = trace.api_calls
    rows = np.flatnonzero(np.isin(calls.kind, LAUNCHES))
    rows = rows[np.lexsort((calls.start_ns[rows], calls.thread[rows], calls.process[rows]))]
    place = np.stack([calls.process, calls.thread])[:, rows]
    between: Int64 = np.diff(calls.start_ns[rows])[(place[:, 1:] == place[:, :-1]).all(axis=0)]
    usual = float(np.median(between)) if len(between) else 0.0
    return min(max(config.operator_ns, config.operator_factor * usual), config.most_operator_ns)
