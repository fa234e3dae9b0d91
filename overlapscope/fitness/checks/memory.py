"""Which copies are pageable, which pinned? Profilers of NVIDIA GPUs record it, those of AMD GPUs do not."""

from __future__ import annotations

import numpy as np

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.formatting import counted
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.trace import Trace

_OF_THE_HOST = (Direction.HTOD, Direction.DTOH, Direction.HTOH)


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Count the copies from and to the host by their host memory."""
    del config
    copies = trace.copies.take(np.isin(trace.copies.direction, _OF_THE_HOST))
    kind = np.where(copies.direction == Direction.DTOH, copies.target_kind, copies.source_kind)
    counts = {each.label: int((kind == each).sum()) for each in MemoryKind if (kind == each).any()}
    unknown = counts.get(MemoryKind.UNKNOWN.label, 0)
    found = ", ".join(f"{count:,} {label}" for label, count in counts.items())
    if not len(copies):
        return Answer(Verdict.DOES_NOT_ARISE, "no copies between host and GPU", counts)
    if not unknown:
        return Answer(Verdict.YES, f"{found} of {counted(len(copies), 'copy', 'copies')}", counts)
    text = f"no memory kind of {unknown:,} of {counted(len(copies), 'copy', 'copies')}"
    if any(key.startswith(("hip", "roc")) for key in trace.metadata.versions):
        text += "; ROCm does not record it"
    verdict = Verdict.NO if unknown == len(copies) else Verdict.PARTLY
    return Answer(verdict, text, counts, health=("unknown-memory-kind",))


CHECK = Check("memory", "Which copies are pageable, which pinned?", "which copies are pageable", examine)
