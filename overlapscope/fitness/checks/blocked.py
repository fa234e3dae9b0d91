"""How long did calls block the host? From the calls of the GPU's runtime, with the threads that made them."""

from __future__ import annotations

import numpy as np

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.settings import CALLS
from overlapscope.fitness.unknown import other_runtime
from overlapscope.formatting import counted, safe
from overlapscope.model.columns import NO_ID
from overlapscope.model.enums import LINK
from overlapscope.model.trace import Trace


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Count calls and threads, and copies whose call is missing."""
    calls, copies = trace.api_calls, trace.copies
    over_link = np.isin(copies.direction, LINK)
    without = int((over_link & (copies.call == NO_ID)).sum())
    counts = {"calls": len(calls), "threads": len(calls.threads), "copies_without_call": without}
    if not len(calls) and not any(map(len, trace.device_work)):
        return Answer(Verdict.DOES_NOT_ARISE, "no calls of a GPU's runtime", counts)
    if not len(calls):
        return Answer(Verdict.NO, "no calls of the GPU's runtime were recorded", counts, CALLS)
    found = f"{counted(len(calls), 'call')} on {counted(counts['threads'], 'thread')}"
    if without > config.most_missing * over_link.sum():
        text = f"{found}, but {without:,} of {counted(int(over_link.sum()), 'copy', 'copies')} have no call"
        return Answer(Verdict.PARTLY, text, counts, None)
    if name := other_runtime(trace, config):
        text = (
            f"{found}, but of another runtime than CUDA and ROCm ({safe(name, 40)}): which of them block is not known"
        )
        return Answer(Verdict.PARTLY, text, counts)
    return Answer(Verdict.YES, found, counts)


CHECK = Check("blocked", "How long did calls block the host?", "for how long calls blocked the host", examine)
