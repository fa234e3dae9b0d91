"""Is the trace of one stretch of the program? A file may have several, with the profiler off in between."""

from __future__ import annotations

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.settings import ONE_CYCLE
from overlapscope.formatting import counted, time
from overlapscope.measure.cycles import unrecorded
from overlapscope.model.trace import Trace


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Count the stretches in which the profiler was off."""
    del config
    gaps = unrecorded(trace)
    cycles, off_ns = len(gaps.start_ns) + 1, gaps.total_ns
    counts = {"cycles": cycles, "unrecorded_ns": off_ns}
    if cycles == 1:
        return Answer(Verdict.YES, "the profiler was on from begin to end", counts)
    one = (int(gaps.end_ns[0]) - trace.start_ns) / 1e6
    ends = (*(gaps.start_ns[1:2].tolist()), trace.end_ns)
    text = f"{counted(cycles, 'profiling cycle')}, with the profiler off for {time(off_ns)} in between"
    remark = (
        f"The trace has {text}: this time counts as GPU idle, and nothing is known of it. "
        f"--from {one:.3f} --to {(ends[0] - trace.start_ns) / 1e6:.3f} selects the second cycle."
    )
    return Answer(Verdict.PARTLY, text, counts, ONE_CYCLE, remark=remark)


CHECK = Check("one-stretch", "Is it one stretch of the program?", "one stretch of the program", examine, basis=True)
