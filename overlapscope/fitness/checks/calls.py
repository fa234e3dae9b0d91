"""Checks of the host's calls: which work each issued, how long it blocked, and what it waited for."""

from __future__ import annotations

import numpy as np

from overlapscope.fitness import settings
from overlapscope.fitness.answer import Answer, Number, Verdict
from overlapscope.fitness.unknown import MOST_MISSING, issued, nameless_calls, of_amd, other_runtime
from overlapscope.formatting import counted, safe
from overlapscope.measure.waits import streams_used
from overlapscope.model.columns import NO_ID
from overlapscope.model.enums import LINK, SYNC_CALLS, ApiKind
from overlapscope.model.trace import Trace


def launches(trace: Trace) -> Answer:
    """Count the work without a call; page migrations have none."""
    start_ns, call = issued(trace)
    without = int((call == NO_ID).sum())
    first_ns = trace.api_calls.start_ns.min(initial=np.iinfo(np.int64).max)
    before = int((start_ns[call == NO_ID] < first_ns).sum()) if len(trace.api_calls) else 0
    counts = {"work": len(call), "without_call": without, "before_first_call": before}
    if not len(call):
        return Answer(Verdict.DOES_NOT_ARISE, "no GPU work in the trace", counts)
    if without <= MOST_MISSING * len(call):
        return Answer(Verdict.YES, f"{len(call) - without:,} of {len(call):,} have their call", counts)
    brief = f"{without:,} of {len(call):,} have none"
    text = f"{without:,} of {len(call):,} have no call"
    those = "all" if before == without else f"{before:,}"
    text += f": {those} of them began before the first call in the trace" if before else ""
    verdict = Verdict.NO if without == len(call) else Verdict.PARTLY
    lost = settings.SHORTER if 2 * before < without else None  # a profiler that starts late lacks the calls before
    setting = lost if len(trace.api_calls) else settings.CALLS
    return Answer(verdict, text, counts, setting, brief, health=("device-work-without-call",))


def blocked(trace: Trace) -> Answer:
    """Count calls and threads, and copies whose call is missing."""
    calls, copies = trace.api_calls, trace.copies
    over_link = np.isin(copies.direction, LINK)
    without = int((over_link & (copies.call == NO_ID)).sum())
    counts = {"calls": len(calls), "threads": len(calls.threads), "copies_without_call": without}
    if not len(calls) and not any(map(len, trace.device_work)):
        return Answer(Verdict.DOES_NOT_ARISE, "no calls of a GPU's runtime", counts)
    if not len(calls):
        return Answer(Verdict.NO, "no calls of the GPU's runtime were recorded", counts, settings.CALLS)
    text = f"{counted(len(calls), 'call')} on {counted(counts['threads'], 'thread')}"
    if without > MOST_MISSING * over_link.sum():
        text += f", but {without:,} of {counted(int(over_link.sum()), 'copy', 'copies')} have no call"
        return Answer(Verdict.PARTLY, text, counts, None)
    if name := other_runtime(trace):
        text += f", but of another runtime than CUDA and ROCm ({safe(name, 40)}): which of them block is not known"
        return Answer(Verdict.PARTLY, text, counts)
    return Answer(Verdict.YES, text, counts)


def host_waits(trace: Trace) -> Answer:
    """Count the calls that wait for a stream or an event, and those of which the trace says for which."""
    calls, syncs = trace.api_calls, trace.syncs
    known = np.zeros(len(calls) + 1, np.bool_)
    known[syncs.call[(syncs.stream != NO_ID) | (syncs.source_stream != NO_ID)]] = True
    outer = calls.parent == NO_ID
    waiting = outer & np.isin(calls.kind, (ApiKind.STREAM_SYNC, ApiKind.EVENT_SYNC))
    count, told = int(waiting.sum()), int((waiting & known[:-1]).sum())
    calling = int((outer & np.isin(calls.kind, SYNC_CALLS)).sum())
    counts: dict[str, Number] = {"synchronising_calls": calling, "waits": count, "recorded": told}
    if nameless := nameless_calls(trace, counts):
        return nameless
    if not calling:
        return Answer(Verdict.DOES_NOT_ARISE, "no synchronising calls in the trace", counts)
    if told == count or streams_used(trace) <= 1:
        return Answer(Verdict.YES, counted(calling, "synchronising call"), counts)
    which = f"{count - told:,} of {counted(count, 'synchronising call')}"
    text = f"{which} without the stream or event: inferred from times"
    setting = (
        None if of_amd(trace) else settings.EVENT_RECORDS if trace.metadata.format == "nsys" else settings.SYNC_EVENTS
    )
    return Answer(Verdict.PARTLY, text, counts, setting, health=("syncs-not-recorded",))
