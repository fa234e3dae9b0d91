"""Is everything in the file that was recorded? Not where it was cut, or where the profiler dropped records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.settings import (
    EXPORT_AGAIN,
    GPU_RECORDS,
    ONE_PROCESS,
    SHORTER,
    SYNCHRONISED,
    WHOLE_FILE,
    Setting,
)
from overlapscope.formatting import counted
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import LAUNCHES, SYNC_CALLS, ApiKind
from overlapscope.model.health import HealthSeverity, HealthWarning
from overlapscope.model.trace import Trace
from overlapscope.read.captures import captured

_TOLD_ELSEWHERE = {"wrong-device-clock", "kernels-not-recorded", "copies-not-recorded", "unknown-device-work"}
_DROPPED = ("records-dropped", "device-work-lost")
_BRIEF = {
    "truncated": "the file is truncated",
    "that it dropped records": "the profiler dropped records",
    "may be missing": "records may be missing",
}
"""What of a warning is said in the statement, by words of it."""
_WORK_LOST = "calls-without-device-work"
_KINDS = {"launches": LAUNCHES, "copy calls": (ApiKind.COPY,), "memset calls": (ApiKind.MEMSET,)}
"""Calls that issue work, each kind with its noun: where most launch kernels, lost copies are few of all."""


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Look for damage, for records that the profiler dropped, and for launches without work."""
    lost, issued = _lost(trace), _issued(trace, config)
    counts = {
        "events_read": trace.health.events_read,
        "events_kept": trace.health.events_kept,
        "lost": sum(warning.count for warning in lost),
        "calls_without_work": sum(len(each.without) for each in issued),
    }
    if lost:
        text = "; ".join(warning.text for warning in lost)
        codes = tuple(warning.code for warning in lost)
        brief = next((said for warning in lost for sign, said in _BRIEF.items() if sign in warning.message), "")
        return Answer(Verdict.PARTLY, text, counts, _setting(trace, codes), brief, health=codes)
    if trace.health.has("unknown-device-work"):
        return Answer(Verdict.PARTLY, "device work of an unknown format was left out", counts)
    missing = [each for each in issued if len(each.without) > config.most_missing * each.calls]
    if missing and any(map(len, trace.device_work)):
        why, setting = _why(trace, np.concatenate([each.without for each in missing]))
        text = f"{', '.join(each.text for each in missing)} have no work in the trace: {why}"
        brief = f"{missing[0].text} have no work"
        return Answer(Verdict.PARTLY, text, counts, setting, brief, health=(_WORK_LOST,))
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


def _setting(trace: Trace, codes: Sequence[str]) -> Setting:
    if "records-dropped" in codes:
        return SHORTER
    if "device-work-lost" in codes:
        return GPU_RECORDS
    return EXPORT_AGAIN if trace.health.incomplete else WHOLE_FILE


@dataclass(frozen=True)
class _Issued:
    """The calls of one kind that issue work: how many, and the rows of those whose work is missing."""

    noun: str
    calls: int
    without: Int64

    @property
    def text(self) -> str:
        return f"{len(self.without):,} of {self.calls:,} {self.noun}"


def _issued(trace: Trace, config: FitnessConfig) -> list[_Issued]:
    """The calls that issue work by kind, and those whose work should be in the trace and is not.

    Copies and memsets of no bytes have none, nor has what is captured into a CUDA graph.
    """
    calls = trace.api_calls
    owned = np.zeros(len(calls) + 1, np.bool_)
    for table in trace.device_work:
        owned[table.call] = True
    without = ~owned[:-1] & ~captured(calls)
    some = calls.duration_ns > config.nothing_ns
    found = []
    for noun, kinds in _KINDS.items():
        issuing = np.isin(calls.kind, kinds) & (calls.parent == NO_ID)
        lost = issuing & without & (some | np.isin(calls.kind, LAUNCHES))
        found.append(_Issued(noun, int(issuing.sum()), np.flatnonzero(lost)))
    return found


def _why(trace: Trace, without: Int64) -> tuple[str, Setting | None]:
    """Whether ids do not match, or that is at the end of the trace, or anywhere; with what would help."""
    calls = trace.api_calls
    if trace.health.has("guessed-process") and trace.health.has("shared-correlation"):
        return "several processes have the same correlation ids, as in traces that were merged", ONE_PROCESS
    unmatched = sum(int((table.call == NO_ID).sum()) for table in trace.device_work)
    if unmatched >= len(without):
        return "as much work, or more, has no call, and may be theirs", None
    issued = [calls.start_ns[table.call[table.call != NO_ID]] for table in trace.device_work]
    waited = calls.start_ns[np.isin(calls.kind, SYNC_CALLS)]
    last = max((int(times.max()) for times in (*issued, waited) if len(times)), default=None)
    if last is not None and 2 * int((calls.start_ns[without] > last).sum()) > len(without):
        return "most are at its end, and ran after the profiler had stopped", SYNCHRONISED
    return "the profiler lost it", SHORTER


CHECK = Check("complete", "Is everything that ran in the trace?", "completeness", examine, basis=True)
