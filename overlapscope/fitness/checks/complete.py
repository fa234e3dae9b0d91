"""Is everything in the file that was recorded? Not where it was cut, or where the profiler dropped records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.settings import EXPORT_AGAIN, SHORTER, SYNCHRONISED, WHOLE_FILE, Setting
from overlapscope.formatting import counted, share
from overlapscope.measure.captures import captured
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import ISSUING, LAUNCHES
from overlapscope.model.health import HealthSeverity, HealthWarning
from overlapscope.model.trace import Trace

_TOLD_ELSEWHERE = {"wrong-device-clock", "copies-not-recorded", "unknown-device-work"}
_DROPPED = ("records-dropped", "device-work-lost")
_WORK_LOST = "calls-without-device-work"


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Look for damage, for records that the profiler dropped, and for launches without work."""
    lost = _lost(trace)
    calls, without = _without_work(trace, config)
    share_lost = len(without) / calls if calls else 0.0
    counts = {
        "events_read": trace.health.events_read,
        "events_kept": trace.health.events_kept,
        "lost": sum(warning.count for warning in lost),
        "calls_without_work": len(without),
    }
    if lost:
        text = "; ".join(f"{warning.count:,} {warning.message}" for warning in lost)
        return Answer(
            Verdict.PARTLY, text, counts, _setting(trace, lost), health=tuple(warning.code for warning in lost)
        )
    if trace.health.has("unknown-device-work"):
        return Answer(Verdict.PARTLY, "device work of an unknown format was left out", counts)
    if share_lost > config.most_missing and any(map(len, trace.device_work)):
        text = f"{len(without):,} of {counted(calls, 'call')} that launch or copy ({share(len(without), calls)}) "
        why, setting = _why(trace, without)
        brief = f"{share(len(without), calls)} of launches have no work"
        return Answer(
            Verdict.PARTLY, f"{text}have no work in the trace: {why}", counts, setting, brief, health=(_WORK_LOST,)
        )
    failed = [f"; {warning.count:,} {warning.message}" for warning in trace.health if warning.code == "failed-calls"]
    return Answer(Verdict.YES, "".join((f"no loss in {counted(counts['events_read'], 'event')}", *failed)), counts)


def _lost(trace: Trace) -> list[HealthWarning]:
    """The warnings about damage and dropped records."""
    return [
        warning
        for warning in trace.health
        if warning.code in _DROPPED
        or (warning.severity is HealthSeverity.DAMAGE and warning.code not in _TOLD_ELSEWHERE)
    ]


def _setting(trace: Trace, lost: Sequence[HealthWarning]) -> Setting:
    if any(warning.code in _DROPPED for warning in lost):
        return SHORTER
    return EXPORT_AGAIN if trace.health.incomplete else WHOLE_FILE


def _without_work(trace: Trace, config: FitnessConfig) -> tuple[int, Int64]:
    """How many calls issue work, and the rows of those whose work should be in the trace and is not.

    Copies and memsets of no bytes have none, nor has what is captured into a CUDA graph.
    """
    calls = trace.api_calls
    owned = np.zeros(len(calls) + 1, np.bool_)
    for table in trace.device_work:
        owned[table.call] = True
    issuing = np.isin(calls.kind, ISSUING) & (calls.parent == NO_ID)
    of_nothing = ~np.isin(calls.kind, LAUNCHES) & (calls.duration_ns <= config.nothing_ns)
    return int(issuing.sum()), np.flatnonzero(issuing & ~owned[:-1] & ~of_nothing & ~captured(trace))


def _why(trace: Trace, without: Int64) -> tuple[str, Setting | None]:
    """Whether ids do not match, or that is at the end of the trace, or anywhere; with what would help."""
    calls = trace.api_calls
    unmatched = sum(int((table.call == NO_ID).sum()) for table in trace.device_work)
    if unmatched >= len(without):
        return "as much work, or more, has no call, and may be theirs", None
    issued = [calls.start_ns[table.call[table.call != NO_ID]] for table in trace.device_work]
    last = max((int(times.max()) for times in issued if len(times)), default=None)
    if last is not None and 2 * int((calls.start_ns[without] > last).sum()) > len(without):
        return "most are at its end, and ran after the profiler had stopped", SYNCHRONISED
    return "the profiler lost it", SHORTER


CHECK = Check("complete", "Is everything in the trace that ran?", "all that ran", examine)
