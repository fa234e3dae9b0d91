"""Checks of copies and streams: the memory of copies, the waits of streams, and tensors that copies share."""

from __future__ import annotations

import numpy as np

from overlapscope.fitness import settings
from overlapscope.fitness.answer import Answer, Number, Verdict
from overlapscope.fitness.settings import Setting
from overlapscope.fitness.unknown import MOST_MISSING, issued, nameless_calls, of_amd, setting_of, without_place
from overlapscope.formatting import counted
from overlapscope.measure.waits import StreamWaits, stream_waits, streams_used
from overlapscope.model.columns import NO_ID
from overlapscope.model.enums import LINK, Direction, MemoryKind
from overlapscope.model.trace import Trace

_OF_THE_HOST = (Direction.HTOD, Direction.DTOH, Direction.HTOH)


def memory(trace: Trace) -> Answer:
    """Count the copies from and to the host by their host memory, which profilers of AMD GPUs do not record."""
    copies = trace.copies.take(np.isin(trace.copies.direction, _OF_THE_HOST))
    kind = np.where(copies.direction == Direction.DTOH, copies.target_kind, copies.source_kind)
    counts = {each.label: int((kind == each).sum()) for each in MemoryKind if (kind == each).any()}
    unknown = counts.get(MemoryKind.UNKNOWN.label, 0)
    kinds = ", ".join(f"{count:,} {label}" for label, count in counts.items())
    undirected = int((trace.copies.direction == Direction.UNKNOWN).sum())
    if undirected > MOST_MISSING * len(trace.copies):
        text = f"{undirected:,} of {counted(len(trace.copies), 'copy', 'copies')} do not say their direction"
        return Answer(Verdict.NO, text, counts, setting_of(trace), health=("unknown-direction",))
    if not len(copies):
        return Answer(Verdict.DOES_NOT_ARISE, "no copies between host and GPU in the trace", counts)
    without = int((copies.size_bytes == NO_ID).sum())
    if without > MOST_MISSING * len(copies) and not unknown:
        text = f"{kinds}; no size of {without:,} of {counted(len(copies), 'copy', 'copies')}"
        return Answer(Verdict.PARTLY, text, counts, setting_of(trace), "copies have no size", health=("no-size",))
    if not unknown:
        return Answer(Verdict.YES, f"{kinds} of {counted(len(copies), 'copy', 'copies')}", counts)
    text = f"no memory kind of {unknown:,} of {counted(len(copies), 'copy', 'copies')}"
    if of_amd(trace):
        text += "; ROCm does not record it"
    verdict = Verdict.NO if unknown == len(copies) else Verdict.PARTLY
    return Answer(verdict, text, counts, health=("unknown-memory-kind",))


def waits(trace: Trace) -> Answer:
    """Count the waits of streams by how the event is known that each was for: not every profiler records it."""
    waited, streams = stream_waits(trace), streams_used(trace)
    counts: dict[str, Number] = {
        "streams": streams,
        "waits": waited.calls,
        "recorded": waited.recorded,
        "inferred": waited.inferred,
    }
    counts |= {"open": waited.open, "before": waited.before, "unseen": waited.unseen}
    used, several = counted(streams, "stream"), streams > 1 or waited.open > 0
    if unknown := _unknown_waits(trace, counts, several=several):
        return unknown
    if not several:
        return Answer(Verdict.DOES_NOT_ARISE, f"{used if streams else 'no stream'} has work", counts)
    if not waited.calls:
        return _without_waits(trace, used, counts)
    if not waited.inferred + waited.open + waited.unseen:
        return Answer(Verdict.YES, f"{used}, {counted(waited.calls, 'event wait')} that are recorded", counts)
    verdict = Verdict.PARTLY if waited.recorded + waited.inferred else Verdict.NO
    brief = _how_known(waited)
    text = f"{used}, {counted(waited.calls, 'event wait')}: {brief}"
    told = ("inferred-waits", "unknown-wait-source", "syncs-not-recorded")
    return Answer(verdict, text, counts, _for_waits(trace), brief, health=told)


def _unknown_waits(trace: Trace, counts: dict[str, Number], *, several: bool) -> Answer | None:
    """The answer where the trace has no streams of work, or no calls with names."""
    lost, work = without_place(trace, "stream")
    if lost > MOST_MISSING * work:
        text = f"{lost:,} of {work:,} kernels, copies and memsets do not say their stream"
        return Answer(
            Verdict.NO, text, counts | {"without_stream": lost}, setting_of(trace), "streams are not recorded"
        )
    if several and not len(trace.api_calls):
        text = f"{counted(streams_used(trace), 'stream')}, and no calls that make them wait"
        return Answer(Verdict.NO, text, counts, settings.CALLS)
    return nameless_calls(trace, counts) if several else None


def _without_waits(trace: Trace, used: str, counts: dict[str, Number]) -> Answer:
    """The answer where no call makes a stream wait: unless calls are missing, none does."""
    _, call = issued(trace)
    lost = int((call == NO_ID).sum())
    if lost <= MOST_MISSING * len(call):
        return Answer(Verdict.YES, f"{used}, and no call makes one wait for another", counts)
    text = f"{used}, and no call that makes one wait for another; but calls are missing"
    return Answer(Verdict.PARTLY, text, counts)


def _how_known(waited: StreamWaits) -> str:
    """The numbers of waits by how their events are known."""
    named = {
        "recorded": waited.recorded,
        "inferred": waited.inferred,
        "open": waited.open,
        "from before the trace": waited.before,
        "not recorded": waited.unseen,
    }
    return ", ".join(f"{count:,} {name}" for name, count in named.items() if count)


def _for_waits(trace: Trace) -> Setting | None:
    """The setting that records the events of waits; None for ROCm, which has none."""
    if of_amd(trace):
        return None
    if trace.metadata.format == "nsys":
        return settings.EVENT_RECORDS
    return settings.SYNC_EVENTS if trace.health.has("syncs-not-recorded") else settings.RECORDED_WAITS


def tensors(trace: Trace) -> Answer:
    """Look for the accesses to host tensors, which `overlapscope record` notes for torch's operators."""
    copies = int(np.isin(trace.copies.direction, LINK).sum())
    accesses = trace.calibration.host_accesses
    counts = {"copies": copies, "accesses": 0 if accesses is None else len(accesses.tensor)}
    if not copies:
        return Answer(Verdict.DOES_NOT_ARISE, "no copies between host and GPU in the trace", counts)
    if accesses is None:
        text = "not recorded: OVL101 and OVL103 can only suspect a race, OVL102 and OVL104 say nothing"
        return Answer(Verdict.NO, text, counts)
    text = f"{counted(len(accesses.tensor), 'access', 'accesses')} of operators to host tensors"
    return Answer(Verdict.YES, text, counts)
