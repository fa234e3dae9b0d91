"""How long after its call did work start? Only where host and GPU times are on one clock."""

from __future__ import annotations

import numpy as np

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.settings import ONE_CLOCK
from overlapscope.formatting import time
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.trace import Trace


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Count the work that starts before the call that issued it."""
    early = _earliness(trace)
    count = int((early > config.rounding_ns).sum())
    worst = int(early.max(initial=0))
    counts = {"compared": len(early), "early": count, "worst_ns": max(worst, 0)}
    if not len(early):
        return Answer(Verdict.DOES_NOT_ARISE, "no work has a known call", counts)
    if trace.health.has("wrong-device-clock"):
        return Answer(Verdict.NO, "times of the GPU are an hour or more from those of the host", counts, ONE_CLOCK)
    if count <= config.most_early * len(early):
        return Answer(Verdict.YES, f"none of {len(early):,} starts clearly before its call", counts)
    brief = f"{count:,} of {len(early):,} start before their call"
    text = f"{brief}, by up to {time(worst)}"
    return Answer(Verdict.PARTLY, text, counts, ONE_CLOCK, brief, health=("starts-before-launch",))


def _earliness(trace: Trace) -> Int64:
    """How long before its call all work with a known call started."""
    joined = [table.take(table.call != NO_ID) for table in trace.device_work]
    return np.concatenate([trace.api_calls.start_ns[table.call] - table.start_ns for table in joined])


CHECK = Check("clocks", "How long after its call did work start?", "launch delays", examine)
