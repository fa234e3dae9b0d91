"""Why a thread launched late by itself: the kinds of OVL008."""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import HOST_CAUSES, Cause, IdleTime
from overlapscope.model.columns import NO_ID, Int8
from overlapscope.model.enums import Labelled
from overlapscope.model.trace import Trace
from overlapscope.whatif.config import DEFAULT as SIMULATION


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


def lateness(trace: Trace, idle: IdleTime) -> Int8:
    """The kind of each idle interval in which no call blocked the thread, earlier or then.

    A GPU that waits no longer for a launch than what a CUDA graph is simulated to save is launch-bound.
    """
    late = np.isin(idle.cause, (*HOST_CAUSES, Cause.LAUNCH_LATENCY)) & (idle.blocking_call == NO_ID)
    wait = np.zeros(len(trace.api_calls) + 1, np.int64)
    np.add.at(wait, idle.launch_call[late], idle.duration_ns[late])
    short = (wait[idle.launch_call] <= SIMULATION.host_gap_ns) & (idle.launch_call != NO_ID)
    kind = np.where(short, Lateness.LAUNCH_BOUND, Lateness.HOST_WORK).astype(np.int8)
    kind[(idle.cause == Cause.HOST_NOT_RECORDED) & ~short] = Lateness.NOT_RECORDED
    for cause, number in _OF_CAUSE.items():
        kind[idle.cause == cause] = number
    return kind
