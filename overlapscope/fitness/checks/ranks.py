"""How does it compare with other ranks? By the rank of the trace and the numbers of its collectives."""

from __future__ import annotations

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.settings import RANKS
from overlapscope.formatting import counted
from overlapscope.measure.devices import is_collective
from overlapscope.model.columns import NO_ID
from overlapscope.model.trace import Trace


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Look for the rank, and count the collectives."""
    del config
    count, rank, world = (
        int(is_collective(trace, trace.kernels.name_id).sum()),
        trace.metadata.rank,
        trace.metadata.world_size,
    )
    numbered = int((trace.kernels.sequence != NO_ID).sum())
    counts = {"rank": rank, "world_size": world, "collectives": count, "numbered": numbered}
    if not count and (world or 1) == 1:
        return Answer(Verdict.DOES_NOT_ARISE, "no collectives, and no other ranks", counts)
    if rank is None:
        return Answer(Verdict.PARTLY, f"{counted(count, 'collective')}, but the rank is not recorded", counts, RANKS)
    of = "" if world is None else f" of {world}"
    return Answer(Verdict.YES, f"rank {rank}{of}, {counted(count, 'collective')}", counts)


CHECK = Check("ranks", "How does it compare with other ranks?", "the rank", examine, core=False)
