"""Checks of the recording: what all figures rest on, from the GPU's work to its clock, and what the profiler cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from overlapscope.fitness import settings
from overlapscope.fitness.answer import Answer, Verdict
from overlapscope.fitness.settings import Setting
from overlapscope.fitness.unknown import MOST_MISSING, setting_of, without_place
from overlapscope.formatting import counted, time
from overlapscope.measure.cycles import unrecorded
from overlapscope.measure.devices import device_keys
from overlapscope.measure.places import uses_pytorch
from overlapscope.measure.truncation import calls_without_work, complete_until
from overlapscope.model.columns import NO_ID, Int64, stacked
from overlapscope.model.enums import LAUNCHES, SYNC_CALLS, ApiKind
from overlapscope.model.trace import HealthSeverity, HealthWarning, Trace

MOST_PROFILER_FACTOR = 1.5
"""Steps that take more times as long as without the profiler are not the program's own: profilers lengthen a run by
1 to 10 %, launch-bound ones by up to a half; beyond that first-run effects or the profiler itself dominate."""
ROUNDING_NS = 1_000
"""Device work that starts this little before its call says nothing: releases of torch before 2.4 write whole
microseconds, and each of the two times is rounded."""
MOST_EARLY = 0.01
"""A smaller share of early starts says nothing: single ones come from calls that were matched by time."""

_MISSING: dict[str, tuple[Verdict, str, Setting]] = {
    "wrong-device-clock": (Verdict.NO, "some of their times come from another clock", settings.ONE_CLOCK),
    "whole-graph-trace": (
        Verdict.NO,
        "CUDA graphs were traced as a whole, without what runs in them",
        settings.GRAPH_NODES,
    ),
    "kernels-not-recorded": (Verdict.NO, "kernels were launched, but are not in the trace", settings.GPU_ACTIVITY),
    "copies-not-recorded": (Verdict.PARTLY, "copies were called, but are not in the trace", settings.GPU_ACTIVITY),
}
"""Health warnings that make all idle time doubtful."""
_NOT_RECORDED = "s-not-recorded"


def gpu_idle(trace: Trace) -> Answer:
    """Count the work of the GPUs, and look for what is missing from it."""
    kernels, copies, memsets = (len(table) for table in trace.device_work)
    counts = {"kernels": kernels, "copies": copies, "memsets": memsets, "devices": len(device_keys(trace))}
    health, (lost, work) = trace.health, without_place(trace, "device")
    if not kernels + copies + memsets:
        why = health.no_device_work or "no GPU work in the trace"
        return Answer(Verdict.NO, why, counts, _without_work(trace), health=("unknown-device-work", "device-work-lost"))
    recorded = (
        ", ".join((counted(kernels, "kernel"), counted(copies, "copy", "copies"), counted(memsets, "memset")))
        + f" of {counted(counts['devices'], 'GPU')}"
    )
    for code, (verdict, why, setting) in _MISSING.items():
        if health.has(code):
            again = setting_of(trace) if code.endswith(_NOT_RECORDED) else None  # nsys has them, an export may not
            return Answer(verdict, f"{recorded}; {why}", counts, again or setting, health=(code,))
    if lost > MOST_MISSING * work:
        text = f"{lost:,} of {work:,} kernels, copies and memsets do not say their GPU"
        return Answer(Verdict.PARTLY, text, counts, setting_of(trace), health=("no-device",))
    return Answer(Verdict.YES, recorded, counts)


def _without_work(trace: Trace) -> Setting | None:
    """The setting that records GPU work where a trace has none; None where the program or the GPU is the reason."""
    if trace.health.has("records-dropped"):
        return settings.SHORTER
    if trace.health.has("device-work-lost"):
        return settings.GPU_RECORDS
    return None if len(trace.api_calls) else settings.GPU_ACTIVITY


_TOLD_ELSEWHERE = {"wrong-device-clock", "kernels-not-recorded", "copies-not-recorded", "unknown-device-work"}
_DROPPED = ("records-dropped", "device-work-lost")
_BRIEF = {
    "truncated": "the file is truncated",
    "that it dropped records": "the profiler dropped records",
    "may be missing": "records may be missing",
}
"""Words of a warning, with what the statement says of it."""
_WORK_LOST = "calls-without-device-work"
_KINDS = {"launches": LAUNCHES, "copy calls": (ApiKind.COPY,), "memset calls": (ApiKind.MEMSET,)}
"""Calls that issue work, each kind with its noun: where most launch kernels, lost copies are few of all."""


def complete(trace: Trace) -> Answer:
    """Look for damage, for records that the profiler dropped, and for launches without work."""
    lost, issuing = _lost(trace), _issuing(trace)
    counts = {
        "events_read": trace.health.events_read,
        "events_kept": trace.health.events_kept,
        "lost": sum(warning.count for warning in lost),
        "calls_without_work": sum(len(each.without) for each in issuing),
    }
    if lost:
        text = "; ".join(warning.text for warning in lost)
        codes = tuple(warning.code for warning in lost)
        brief = next((said for warning in lost for sign, said in _BRIEF.items() if sign in warning.message), "")
        verdict, remark = _judged(trace)
        return Answer(verdict, text, counts, _against_loss(trace, codes), brief, remark, codes)
    if trace.health.has("unknown-device-work"):
        return Answer(Verdict.PARTLY, "device work of an unknown format was left out", counts)
    missing = [each for each in issuing if len(each.without) > MOST_MISSING * each.calls]
    if missing and any(map(len, trace.device_work)):
        why, setting = _why(trace, np.concatenate([each.without for each in missing]))
        text = f"{', '.join(each.text for each in missing)} have no work in the trace: {why}"
        brief = f"{missing[0].text} have no work"
        return Answer(Verdict.PARTLY, text, counts, setting, brief, health=(_WORK_LOST,))
    failed = [f"; {warning.count:,} {warning.message}" for warning in trace.health if warning.code == "failed-calls"]
    return Answer(Verdict.YES, "".join((f"no loss in {counted(counts['events_read'], 'event')}", *failed)), counts)


def _judged(trace: Trace) -> tuple[Verdict, str]:
    """Whether any part of a trace with losses can be judged; with which one, as a sentence, where it is truncated."""
    until = complete_until(trace)
    if until == trace.end_ns:
        return Verdict.PARTLY, ""
    if until == trace.start_ns:
        return Verdict.NO, (
            "The file is truncated, and no part of it has operators, calls and GPU work together: what the GPU did "
            "cannot be judged."
        )
    end = f"{(until - trace.start_ns) / 1e6:.3f} ms"
    return (
        Verdict.PARTLY,
        f"The file is truncated. GPU work and its calls are complete up to {end}; the window ends there.",
    )


def _lost(trace: Trace) -> list[HealthWarning]:
    """The warnings about damage and dropped records."""
    return [
        warning
        for warning in trace.health
        if warning.code in _DROPPED
        or (warning.severity is HealthSeverity.DAMAGE and warning.code not in _TOLD_ELSEWHERE)
    ]


def _against_loss(trace: Trace, codes: Sequence[str]) -> Setting:
    if "records-dropped" in codes:
        return settings.SHORTER
    if "device-work-lost" in codes:
        return settings.GPU_RECORDS
    return settings.EXPORT_AGAIN if trace.health.incomplete else settings.WHOLE_FILE


@dataclass(frozen=True)
class _Issuing:
    """The calls of one kind that issue work: how many, and the rows of those whose work is missing."""

    noun: str
    calls: int
    without: Int64

    @property
    def text(self) -> str:
        return f"{len(self.without):,} of {self.calls:,} {self.noun}"


def _issuing(trace: Trace) -> list[_Issuing]:
    """The calls that issue work by kind, and those whose work should be in the trace and is not."""
    calls, without = trace.api_calls, calls_without_work(trace)
    kinds_of_calls = []
    for noun, kinds in _KINDS.items():
        issuing = np.isin(calls.kind, kinds) & (calls.parent == NO_ID)
        kinds_of_calls.append(_Issuing(noun, int(issuing.sum()), np.flatnonzero(issuing & without)))
    return kinds_of_calls


def _why(trace: Trace, without: Int64) -> tuple[str, Setting | None]:
    """Why calls have no work: ids that do not match, the end of the trace, or a loss; with the setting that helps."""
    calls = trace.api_calls
    if trace.health.has("guessed-process") and trace.health.has("shared-correlation"):
        return "several processes have the same correlation ids, as in traces that were merged", settings.ONE_PROCESS
    unmatched = sum(int((table.call == NO_ID).sum()) for table in trace.device_work)
    if unmatched >= len(without):
        return "as much work, or more, has no call, and may be theirs", None
    issued = [calls.start_ns[table.call[table.call != NO_ID]] for table in trace.device_work]
    waited = calls.start_ns[np.isin(calls.kind, SYNC_CALLS)]
    last = max((int(times.max()) for times in (*issued, waited) if len(times)), default=None)
    if last is not None and 2 * int((calls.start_ns[without] > last).sum()) > len(without):
        return "most are at its end, and ran after the profiler had stopped", settings.SYNCHRONISED
    return "the profiler lost it", settings.SHORTER


def one_stretch(trace: Trace) -> Answer:
    """Count the stretches in which the profiler was off."""
    gaps = unrecorded(trace)
    cycles, off_ns = len(gaps.start_ns) + 1, gaps.total_ns
    counts = {"cycles": cycles, "unrecorded_ns": off_ns}
    if cycles == 1:
        return Answer(Verdict.YES, "the profiler was on from begin to end", counts)
    one = (int(gaps.end_ns[0]) - trace.start_ns) / 1e6
    ends = (*(gaps.start_ns[1:2].tolist()), trace.end_ns)
    text = f"{counted(cycles, 'profiling cycle')}, with the profiler off for {time(off_ns)} in between"
    remark = (
        f"The trace has {text}: this time counts as GPU idle, and nothing is known of it. "
        f"--from {one:.3f} --to {(ends[0] - trace.start_ns) / 1e6:.3f} selects the second cycle."
    )
    return Answer(Verdict.PARTLY, text, counts, settings.ONE_CYCLE, remark=remark)


def clocks(trace: Trace) -> Answer:
    """Count the work that starts before its call, and the synchronisations that return before the work has ended."""
    early, late = _earliness(trace), _unfinished(trace)
    count, unfinished = (int((each > ROUNDING_NS).sum()) for each in (early, late))
    worst, over = (int(each.max(initial=0)) for each in (early, late))
    counts = {"compared": len(early), "early": count, "worst_ns": worst}
    counts |= {"synchronised": len(late), "unfinished": unfinished, "worst_unfinished_ns": over}
    if not len(early):
        return Answer(Verdict.DOES_NOT_ARISE, "no work has a known call", counts)
    if trace.health.has("wrong-device-clock"):
        return Answer(
            Verdict.NO, "times of the GPU are an hour or more from those of the host", counts, settings.ONE_CLOCK
        )
    if count > MOST_EARLY * len(early):
        brief = f"{count:,} of {len(early):,} start before their call"
        text = f"{brief}, by up to {time(worst)}"
        return Answer(Verdict.PARTLY, text, counts, settings.ONE_CLOCK, brief, health=("starts-before-launch",))
    if unfinished > MOST_EARLY * len(late):
        brief = f"too long by up to {time(over)}"
        text = f"work ends up to {time(over)} after {unfinished:,} of {counted(len(late), 'device synchronisation')}"
        return Answer(Verdict.PARTLY, f"{text} that waited for it", counts, settings.ONE_CLOCK, brief)
    return Answer(Verdict.YES, f"none of {len(early):,} starts clearly before its call", counts)


def _earliness(trace: Trace) -> Int64:
    """How long before its call all work with a known call started."""
    joined = [table.take(table.call != NO_ID) for table in trace.device_work]
    return np.concatenate([trace.api_calls.start_ns[table.call] - table.start_ns for table in joined])


def _unfinished(trace: Trace) -> Int64:
    """How long after the return of each device synchronisation the work ended that it waited for; negative before it.

    Of processes that use one GPU: a synchronisation waits for the current one, which no trace names.
    """
    calls, lateness = trace.api_calls, [np.empty(0, np.int64)]
    joined = [table.take(table.call != NO_ID) for table in trace.device_work]
    call, end, device = stacked(joined, "call", "end_ns", "device")
    for process in np.unique(calls.process).tolist():
        work = np.flatnonzero(calls.process[call] == process)
        if len(np.unique(device[work])) != 1:
            continue
        order = work[np.argsort(calls.start_ns[call[work]], kind="stable")]
        syncs = (calls.kind == ApiKind.DEVICE_SYNC) & (calls.process == process) & (calls.parent == NO_ID)
        rows = np.flatnonzero(syncs)
        issued = np.searchsorted(calls.start_ns[call[order]], calls.start_ns[rows])  # how much work before each
        ends = np.maximum.accumulate(end[order])
        lateness.append(ends[issued[issued > 0] - 1] - calls.end_ns[rows[issued > 0]])
    return np.concatenate(lateness)


def unprofiled(trace: Trace) -> Answer:
    """Compare the recorded steps with the same ones without the profiler."""
    factor, under, without = trace.calibration.profiler_factor, trace.calibration.recorded, trace.calibration.unprofiled
    if not any(map(len, trace.device_work)):
        return Answer(Verdict.DOES_NOT_ARISE, "no GPU work in the trace", {"factor": factor})
    if factor is None or under is None or without is None:
        setting = settings.UNPROFILED if uses_pytorch(trace) else None
        return Answer(Verdict.NO, "steps were not timed without the profiler", {"factor": factor}, setting)
    counts = {"factor": round(factor, 3), "recorded_steps": under.count, "unprofiled_steps": without.count}
    text = f"{time(round(under.step_ns))} per step with the profiler, {time(round(without.step_ns))} without"
    text += f" ({counted(without.count, 'step')})"
    if factor <= MOST_PROFILER_FACTOR:
        return Answer(Verdict.YES, text, counts)
    remark = (
        f"Recorded steps take {factor:.1f} times as long as without the profiler: first-run effects (compilation, "
        "memory, caches) or the profiler's own cost are in its times."
    )
    return Answer(Verdict.PARTLY, text, counts, settings.WARM_UP, remark=remark)
