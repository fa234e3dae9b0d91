"""Which operator of PyTorch issued it? Operators of threads that the profiler does not watch are missing."""

from __future__ import annotations

import numpy as np

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.settings import ALL_THREADS, OPERATORS
from overlapscope.formatting import counted
from overlapscope.measure.pytorch import uses_pytorch
from overlapscope.model.columns import NO_ID
from overlapscope.model.trace import Trace


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Count operators by thread, and the threads that issue work without any."""
    del config
    called = [table.call[table.call != NO_ID] for table in trace.device_work]
    issuing = trace.api_calls.take(np.unique(np.concatenate(called)).astype(np.int64)).threads
    ranges = trace.ranges.take(np.isin(trace.ranges.name_id, _operator_names(trace)))
    watched = {*trace.cpu_ops.threads, *ranges.threads}
    count, unwatched = len(trace.cpu_ops) + len(ranges), [place for place in issuing if place not in watched]
    counts = {"operators": count, "issuing_threads": len(issuing), "without_operators": len(unwatched)}
    if not count and not uses_pytorch(trace):
        return Answer(Verdict.DOES_NOT_ARISE, "no sign of PyTorch", counts)
    if not count:
        return Answer(Verdict.NO, "no operators", counts, OPERATORS)
    if unwatched:
        threads = counted(len(unwatched), "thread")
        text = f"{threads} of {len(issuing)} that issue work {'has' if len(unwatched) == 1 else 'have'} no operators"
        return Answer(Verdict.PARTLY, text, counts, ALL_THREADS)
    return Answer(Verdict.YES, f"{counted(count, 'operator')} on {counted(len(watched), 'thread')}", counts)


def _operator_names(trace: Trace) -> list[int]:
    """Names of ranges that are operators: Nsight Systems gets them as NVTX ranges."""
    used = np.unique(trace.ranges.name_id).tolist()
    return [number for number in used if trace.names[number].startswith("aten::")]


CHECK = Check("operators", "Which operator of PyTorch issued it?", "operators", examine, core=False)
