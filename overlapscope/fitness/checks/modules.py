"""Which module of the model was it? A recording notes the calls of modules under their names in the model."""

from __future__ import annotations

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.settings import MODULES
from overlapscope.formatting import counted
from overlapscope.measure.pytorch import uses_pytorch
from overlapscope.model.trace import Trace


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Count the calls of modules."""
    del config
    counts = {"modules": len(trace.modules)}
    if len(trace.modules):
        return Answer(Verdict.YES, f"{counted(len(trace.modules), 'call')} of modules", counts)
    if trace.metadata.recording is not None or not uses_pytorch(trace):
        return Answer(Verdict.DOES_NOT_ARISE, "no module was called", counts)
    return Answer(Verdict.NO, "calls of modules were not recorded", counts, MODULES)


CHECK = Check("modules", "Which module of the model was it?", "names of modules", examine, core=False)
