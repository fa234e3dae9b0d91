"""How long after its call did work start? Only where host and GPU times are on one clock."""

from __future__ import annotations

import numpy as np

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.settings import ONE_CLOCK
from overlapscope.formatting import counted, time
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import ApiKind
from overlapscope.model.trace import Trace


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Count the work that starts before its call, and the synchronisations that return before the work has ended."""
    early, late = _earliness(trace), _unfinished(trace)
    count, unfinished = (int((each > config.rounding_ns).sum()) for each in (early, late))
    worst, over = (int(each.max(initial=0)) for each in (early, late))
    counts = {"compared": len(early), "early": count, "worst_ns": worst}
    counts |= {"synchronised": len(late), "unfinished": unfinished, "worst_unfinished_ns": over}
    if not len(early):
        return Answer(Verdict.DOES_NOT_ARISE, "no work has a known call", counts)
    if trace.health.has("wrong-device-clock"):
        return Answer(Verdict.NO, "times of the GPU are an hour or more from those of the host", counts, ONE_CLOCK)
    if count > config.most_early * len(early):
        brief = f"{count:,} of {len(early):,} start before their call"
        text = f"{brief}, by up to {time(worst)}"
        return Answer(Verdict.PARTLY, text, counts, ONE_CLOCK, brief, health=("starts-before-launch",))
    if unfinished > config.most_early * len(late):
        brief = f"too long by up to {time(over)}"
        text = f"work ends up to {time(over)} after {unfinished:,} of {counted(len(late), 'device synchronisation')}"
        return Answer(Verdict.PARTLY, f"{text} that waited for it", counts, ONE_CLOCK, brief)
    return Answer(Verdict.YES, f"none of {len(early):,} starts clearly before its call", counts)


def _earliness(trace: Trace) -> Int64:
    """How long before its call all work with a known call started."""
    joined = [table.take(table.call != NO_ID) for table in trace.device_work]
    return np.concatenate([trace.api_calls.start_ns[table.call] - table.start_ns for table in joined])


def _unfinished(trace: Trace) -> Int64:
    """How long after the return of each device synchronisation the work ended that it waited for; negative before it.

    Of processes that use one GPU: a synchronisation waits for the current one, which no trace names.
    """
    calls, found = trace.api_calls, [np.empty(0, np.int64)]
    joined = [table.take(table.call != NO_ID) for table in trace.device_work]
    call, end, device = (
        np.concatenate([getattr(table, name) for table in joined]) for name in ("call", "end_ns", "device")
    )
    for process in np.unique(calls.process).tolist():
        mine = np.flatnonzero(calls.process[call] == process)
        if len(np.unique(device[mine])) != 1:
            continue
        order = mine[np.argsort(calls.start_ns[call[mine]], kind="stable")]
        syncs = (calls.kind == ApiKind.DEVICE_SYNC) & (calls.process == process) & (calls.parent == NO_ID)
        rows = np.flatnonzero(syncs)
        issued = np.searchsorted(calls.start_ns[call[order]], calls.start_ns[rows])  # how much work before each
        ends = np.maximum.accumulate(end[order])
        found.append(ends[issued[issued > 0] - 1] - calls.end_ns[rows[issued > 0]])
    return np.concatenate(found)


CHECK = Check("clocks", "How long after its call did work start?", "launch delays", examine, basis=True)
