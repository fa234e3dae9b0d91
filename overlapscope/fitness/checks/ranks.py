"""How does it compare with other ranks? By the rank of the trace and the numbers of its collectives."""

from __future__ import annotations

import numpy as np

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.settings import RANKS
from overlapscope.formatting import counted
from overlapscope.measure.devices import is_collective
from overlapscope.model.columns import NO_ID
from overlapscope.model.trace import Trace

_ON_THE_HOST = ("gloo:", "mpi:")


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Look for the rank, and count the collectives."""
    del config
    rank, world = trace.metadata.rank, trace.metadata.world_size
    count, on_host = int(is_collective(trace, trace.kernels.name_id).sum()), _on_the_host(trace)
    numbered = int((trace.kernels.sequence != NO_ID).sum())
    counts = {"rank": rank, "world_size": world, "collectives": count, "on_host": on_host, "numbered": numbered}
    if not count + on_host and (world or 1) == 1:
        return Answer(Verdict.DOES_NOT_ARISE, "no collectives in the trace, and no other ranks", counts)
    found = counted(count, "collective")
    if not count:
        found = f"{counted(on_host, 'collective')} on the host, none on a GPU" if on_host else "no collective"
    if rank is None:
        return Answer(Verdict.PARTLY, f"{found}, but the rank is not recorded", counts, RANKS)
    of = "" if world is None else f" of {world}"
    return Answer(Verdict.YES, f"rank {rank}{of}, {found}", counts)


def _on_the_host(trace: Trace) -> int:
    """How many collectives the backends ran that need no GPU: torch names them as ranges or operators."""
    named = [number for number, text in enumerate(trace.names.values) if text.startswith(_ON_THE_HOST)]
    return sum(int(np.isin(table.name_id, named).sum()) for table in (trace.cpu_ops, trace.ranges))


CHECK = Check("ranks", "How does it compare with other ranks?", "the rank", examine, core=False)
