"""Which call issued each kernel and copy? By the correlation id that both have."""

from __future__ import annotations

import numpy as np

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.settings import CALLS, SHORTER
from overlapscope.fitness.unknown import issued
from overlapscope.model.columns import NO_ID
from overlapscope.model.trace import Trace


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Count the work without a call; page migrations have none."""
    start_ns, call = issued(trace)
    without = int((call == NO_ID).sum())
    first_ns = trace.api_calls.start_ns.min(initial=np.iinfo(np.int64).max)
    before = int((start_ns[call == NO_ID] < first_ns).sum()) if len(trace.api_calls) else 0
    counts = {"work": len(call), "without_call": without, "before_first_call": before}
    if not len(call):
        return Answer(Verdict.DOES_NOT_ARISE, "no GPU work in the trace", counts)
    if without <= config.most_missing * len(call):
        return Answer(Verdict.YES, f"{len(call) - without:,} of {len(call):,} have their call", counts)
    brief = f"{without:,} of {len(call):,} have none"
    text = f"{without:,} of {len(call):,} have no call"
    those = "all" if before == without else f"{before:,}"
    text += f": {those} of them began before the first call in the trace" if before else ""
    verdict = Verdict.NO if without == len(call) else Verdict.PARTLY
    lost = SHORTER if 2 * before < without else None  # a profiler that starts late lacks the calls before
    setting = lost if len(trace.api_calls) else CALLS
    return Answer(verdict, text, counts, setting, brief, health=("device-work-without-call",))


CHECK = Check("launches", "Which call issued each kernel and copy?", "which calls issued the work", examine, basis=True)
