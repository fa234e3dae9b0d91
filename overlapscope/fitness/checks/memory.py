"""Which copies are pageable, which pinned? Profilers of NVIDIA GPUs record it, those of AMD GPUs do not."""

from __future__ import annotations

import numpy as np

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.unknown import of_amd, setting_of
from overlapscope.formatting import counted
from overlapscope.model.columns import NO_ID
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.trace import Trace

_OF_THE_HOST = (Direction.HTOD, Direction.DTOH, Direction.HTOH)


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Count the copies from and to the host by their host memory."""
    copies = trace.copies.take(np.isin(trace.copies.direction, _OF_THE_HOST))
    kind = np.where(copies.direction == Direction.DTOH, copies.target_kind, copies.source_kind)
    counts = {each.label: int((kind == each).sum()) for each in MemoryKind if (kind == each).any()}
    unknown = counts.get(MemoryKind.UNKNOWN.label, 0)
    found = ", ".join(f"{count:,} {label}" for label, count in counts.items())
    undirected = int((trace.copies.direction == Direction.UNKNOWN).sum())
    if undirected > config.most_missing * len(trace.copies):
        text = f"{undirected:,} of {counted(len(trace.copies), 'copy', 'copies')} do not say their direction"
        return Answer(Verdict.NO, text, counts, setting_of(trace), health=("unknown-direction",))
    if not len(copies):
        return Answer(Verdict.DOES_NOT_ARISE, "no copies between host and GPU in the trace", counts)
    without = int((copies.size_bytes == NO_ID).sum())
    if without > config.most_missing * len(copies) and not unknown:
        text = f"{found}; no size of {without:,} of {counted(len(copies), 'copy', 'copies')}"
        return Answer(Verdict.PARTLY, text, counts, setting_of(trace), "copies have no size", health=("no-size",))
    if not unknown:
        return Answer(Verdict.YES, f"{found} of {counted(len(copies), 'copy', 'copies')}", counts)
    text = f"no memory kind of {unknown:,} of {counted(len(copies), 'copy', 'copies')}"
    if of_amd(trace):
        text += "; ROCm does not record it"
    verdict = Verdict.NO if unknown == len(copies) else Verdict.PARTLY
    return Answer(verdict, text, counts, health=("unknown-memory-kind",))


CHECK = Check("memory", "Which copies are pageable, which pinned?", "which copies are pageable", examine)
