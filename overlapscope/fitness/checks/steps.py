"""How long does a step take? From the profiler's steps, or from a range that repeats."""

from __future__ import annotations

import numpy as np

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.settings import MORE_STEPS, STEPS
from overlapscope.fitness.unknown import without_name
from overlapscope.formatting import counted, safe
from overlapscope.measure.places import is_step
from overlapscope.measure.repetition import LEAST
from overlapscope.model.trace import Trace

_NAME_WIDTH = 40
_STEP = "ProfilerStep#"


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Count the profiler's steps, or the occurrences of a range that repeats and fills the trace."""
    count = int(is_step(trace).sum())
    counts = {"steps": count}
    if count > 1:
        return Answer(Verdict.YES, counted(count, "step") + " of the profiler", counts)
    name, times = ("", 0) if count else _repeated(trace, config)
    if times:
        text = f"range {safe(name, _NAME_WIDTH)!r} repeats {times:,} times: --within selects it"
        return Answer(Verdict.YES, text, counts | {"occurrences": times})
    recording = trace.metadata.recording
    timed = 0 if recording is None or recording.unprofiled is None else recording.unprofiled.count
    if timed > 1:
        recorded = f", {count:,} recorded" if count else ""
        return Answer(Verdict.YES, f"{timed:,} steps timed without the profiler{recorded}", counts | {"timed": timed})
    if count:
        return Answer(Verdict.PARTLY, "a single step: nothing tells how much steps differ", counts, MORE_STEPS)
    operators = sum(name.startswith(_STEP) for name in trace.names.values)
    if operators and len(trace.cpu_ops):
        text = f"{counted(operators, 'step')}, recorded as operators, which --step does not find"
        return Answer(Verdict.PARTLY, text, counts, None)
    return Answer(Verdict.NO, "no steps, and no range that repeats and fills the trace", counts, STEPS)


def _repeated(trace: Trace, config: FitnessConfig) -> tuple[str, int]:
    """The range that takes most time of those that occur often enough, and how often; ``""`` and 0 without one."""
    ranges = trace.ranges.take(~is_step(trace) & ~without_name(trace, trace.ranges.name_id))
    names, member, count = np.unique(ranges.name_id, return_inverse=True, return_counts=True)
    total = np.where(count >= LEAST, np.bincount(member, ranges.duration_ns, len(names)), 0)
    if total.max(initial=0) < max(config.step_share * (trace.end_ns - trace.start_ns), 1):
        return "", 0
    most = int(np.argmax(total))
    return trace.names[int(names[most])], int(count[most])


CHECK = Check("steps", "How long does a step take?", "steps", examine, core=False)
