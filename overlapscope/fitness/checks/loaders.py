"""How are the program's DataLoaders set up? A recording notes it."""

from __future__ import annotations

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.settings import LOADERS
from overlapscope.formatting import counted
from overlapscope.measure.pytorch import uses_pytorch
from overlapscope.model.trace import Trace


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Count the DataLoaders of a recording."""
    del config
    recording = trace.metadata.recording
    found = () if recording is None else recording.loaders
    counts = {"loaders": len(found)}
    if found:
        return Answer(Verdict.YES, f"settings of {counted(len(found), 'DataLoader')}", counts)
    if recording is not None or not uses_pytorch(trace):
        return Answer(Verdict.DOES_NOT_ARISE, "no DataLoader was used", counts)
    return Answer(Verdict.NO, "settings of DataLoaders were not recorded", counts, LOADERS)


CHECK = Check("loaders", "How are the DataLoaders set up?", "settings of DataLoaders", examine, core=False)
