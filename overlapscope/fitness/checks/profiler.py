"""What did the profiler cost? Only a recording that timed the same steps without it knows."""

from __future__ import annotations

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.settings import UNPROFILED, WARM_UP
from overlapscope.formatting import counted, time
from overlapscope.measure.pytorch import uses_pytorch
from overlapscope.model.trace import Trace


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Compare the recorded steps with the same ones without the profiler."""
    recording = trace.metadata.recording
    factor = None if recording is None else recording.profiler_factor
    if not any(map(len, trace.device_work)):
        return Answer(Verdict.DOES_NOT_ARISE, "no GPU work in the trace", {"factor": factor})
    if recording is None or factor is None or recording.recorded is None or recording.unprofiled is None:
        setting = UNPROFILED if uses_pytorch(trace) else None
        return Answer(Verdict.NO, "steps were not timed without the profiler", {"factor": factor}, setting)
    under, without = recording.recorded, recording.unprofiled
    counts = {"factor": round(factor, 3), "recorded_steps": under.count, "unprofiled_steps": without.count}
    text = f"{time(round(under.step_ns))} per step with the profiler, {time(round(without.step_ns))} without"
    text += f" ({counted(without.count, 'step')})"
    if factor <= config.profiler_factor:
        return Answer(Verdict.YES, text, counts)
    remark = (
        f"Recorded steps take {factor:.1f} times as long as without the profiler: first-run effects (compilation, "
        "memory, caches) or the profiler's own cost are in its times."
    )
    return Answer(Verdict.PARTLY, text, counts, WARM_UP, remark=remark)


CHECK = Check("unprofiled", "What did the profiler cost?", "the profiler's cost", examine)
