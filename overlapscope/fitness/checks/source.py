"""Which line of the program was it? From Python call stacks, which are recorded on request."""

from __future__ import annotations

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.settings import STACKS
from overlapscope.formatting import counted
from overlapscope.measure.pytorch import uses_pytorch
from overlapscope.model.trace import Trace


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Count the calls of Python functions."""
    del config
    counts = {"frames": len(trace.frames)}
    if len(trace.frames):
        return Answer(Verdict.YES, f"{counted(len(trace.frames), 'call')} of Python functions", counts)
    if not uses_pytorch(trace):
        return Answer(Verdict.DOES_NOT_ARISE, "no sign of PyTorch", counts)
    return Answer(Verdict.NO, "no Python call stacks", counts, STACKS)


CHECK = Check("source", "Which line of the program was it?", "source lines", examine, core=False)
