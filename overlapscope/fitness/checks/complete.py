"""Is everything in the file that was recorded? Not where it was cut, or where the profiler dropped records."""

from __future__ import annotations

import numpy as np

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.settings import SHORTER, SYNCHRONISED, WHOLE_FILE
from overlapscope.formatting import counted, share
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import LAUNCHES, ApiKind
from overlapscope.model.health import HealthSeverity
from overlapscope.model.trace import Trace

_TOLD_ELSEWHERE = {"wrong-device-clock", "copies-not-recorded", "unknown-device-work"}
_DROPPED = ("records-dropped", "device-work-lost")
_ISSUING = (*LAUNCHES, ApiKind.COPY, ApiKind.MEMSET)


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Look for damage, for records that the profiler dropped, and for launches without work."""
    lost = [
        warning
        for warning in trace.health
        if warning.code in _DROPPED
        or (warning.severity is HealthSeverity.DAMAGE and warning.code not in _TOLD_ELSEWHERE)
    ]
    calls, without = _without_work(trace)
    share_lost = len(without) / calls if calls else 0.0
    counts = {
        "events_read": trace.health.events_read,
        "events_kept": trace.health.events_kept,
        "lost": sum(warning.count for warning in lost),
        "calls_without_work": len(without),
    }
    if lost:
        text = "; ".join(f"{warning.count:,} {warning.message}" for warning in lost)
        setting = SHORTER if any(warning.code in _DROPPED for warning in lost) else WHOLE_FILE
        return Answer(Verdict.PARTLY, text, counts, setting, health=tuple(warning.code for warning in lost))
    if share_lost > config.most_missing and any(map(len, trace.device_work)):
        text = f"{len(without):,} of {counted(calls, 'call')} that launch or copy ({share(len(without), calls)}) "
        text += f"have no work in the trace: {_why(trace, without)}"
        return Answer(
            Verdict.PARTLY,
            text,
            counts,
            SYNCHRONISED,
            f"{share(len(without), calls)} of launches have no work",
            health=("calls-without-device-work",),
        )
    return Answer(Verdict.YES, f"no loss in {counted(counts['events_read'], 'event')}", counts)


def _without_work(trace: Trace) -> tuple[int, Int64]:
    """How many calls launch or copy, and the rows of those whose work is not in the trace."""
    calls = trace.api_calls
    owned = np.zeros(len(calls) + 1, np.bool_)
    for table in trace.device_work:
        owned[table.call] = True
    issuing = np.isin(calls.kind, _ISSUING) & (calls.parent == NO_ID)
    return int(issuing.sum()), np.flatnonzero(issuing & ~owned[:-1])


def _why(trace: Trace, without: Int64) -> str:
    """Whether that is at the end of the trace, within the capture of a CUDA graph, or anywhere."""
    calls = trace.api_calls
    issued = [calls.start_ns[table.call[table.call != NO_ID]] for table in trace.device_work]
    last = max((int(times.max()) for times in issued if len(times)), default=None)
    captured = any("BeginCapture" in trace.names[number] for number in np.unique(calls.name_id).tolist())
    if captured:
        return "they were captured into a CUDA graph, or the profiler lost it"
    if last is not None and 2 * int((calls.start_ns[without] > last).sum()) > len(without):
        return "most are at its end, and ran after the profiler had stopped"
    return "the profiler lost it"


CHECK = Check("complete", "Is everything in the trace that ran?", "all that ran", examine)
