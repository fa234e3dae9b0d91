"""Which copies use the same memory? Only a recording of `overlapscope record` tells, for torch's operators."""

from __future__ import annotations

import numpy as np

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.formatting import counted
from overlapscope.model.enums import LINK
from overlapscope.model.trace import Trace


def examine(trace: Trace, _: FitnessConfig) -> Answer:
    """Look for the recorded accesses to host tensors."""
    copies = int(np.isin(trace.copies.direction, LINK).sum())
    recording = trace.metadata.recording
    accesses = None if recording is None else recording.host_accesses
    counts = {"copies": copies, "accesses": 0 if accesses is None else len(accesses.tensor)}
    if not copies:
        return Answer(Verdict.DOES_NOT_ARISE, "no copies between host and GPU in the trace", counts)
    if accesses is None:
        text = "not recorded: OVL101 and OVL103 can only suspect a race, OVL102 and OVL104 say nothing"
        return Answer(Verdict.NO, text, counts)
    return Answer(
        Verdict.YES, f"{counted(len(accesses.tensor), 'access', 'accesses')} of operators to host tensors", counts
    )


CHECK = Check("tensors", "Which copies use the same memory?", "races of copies", examine, core=False)
