"""Which part of the program was it? From ranges that the program names itself."""

from __future__ import annotations

import numpy as np

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.settings import RANGES
from overlapscope.fitness.unknown import without_name
from overlapscope.formatting import counted
from overlapscope.measure.places import is_step
from overlapscope.model.trace import Trace


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Count the ranges but for the profiler's steps."""
    del config
    named = trace.ranges.name_id[~is_step(trace) & ~without_name(trace, trace.ranges.name_id)]
    counts = {"ranges": len(named), "names": len(np.unique(named))}
    if len(named):
        return Answer(Verdict.YES, f"{counted(len(named), 'range')} of {counted(counts['names'], 'name')}", counts)
    return Answer(Verdict.NO, "no named ranges", counts, RANGES)


CHECK = Check("ranges", "Which part of the program was it?", "named ranges", examine, core=False)
