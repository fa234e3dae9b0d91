"""What did streams wait for? For events of other streams; which event it was, not every profiler records."""

from __future__ import annotations

from overlapscope.fitness.answer import Answer, Check, Number, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.settings import CALLS, EVENT_RECORDS, RECORDED_WAITS, SYNC_EVENTS, Setting
from overlapscope.fitness.unknown import issued, nameless_calls, of_amd, setting_of, without_place
from overlapscope.formatting import counted
from overlapscope.measure.stream_waits import StreamWaits, stream_waits, streams_used
from overlapscope.model.columns import NO_ID
from overlapscope.model.trace import Trace


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Count the waits of streams by how it is known what they were for."""
    waits, streams = stream_waits(trace), streams_used(trace)
    counts: dict[str, Number] = {
        "streams": streams,
        "waits": waits.calls,
        "recorded": waits.recorded,
        "inferred": waits.inferred,
    }
    counts |= {"open": waits.open, "before": waits.before, "unseen": waits.unseen}
    used, several = counted(streams, "stream"), streams > 1 or waits.open > 0
    if unknown := _unknown(trace, counts, config, several=several):
        return unknown
    if not several:
        return Answer(Verdict.DOES_NOT_ARISE, f"{used if streams else 'no stream'} has work", counts)
    if not waits.calls:
        return _without_waits(trace, used, counts, config)
    if not waits.inferred + waits.open + waits.unseen:
        return Answer(Verdict.YES, f"{used}, {counted(waits.calls, 'event wait')} that are recorded", counts)
    verdict = Verdict.PARTLY if waits.recorded + waits.inferred else Verdict.NO
    brief = _parts(waits)
    text = f"{used}, {counted(waits.calls, 'event wait')}: {brief}"
    told = ("inferred-waits", "unknown-wait-source", "syncs-not-recorded")
    return Answer(verdict, text, counts, _setting(trace), brief, health=told)


def _unknown(trace: Trace, counts: dict[str, Number], config: FitnessConfig, *, several: bool) -> Answer | None:
    """The answer where neither streams nor calls tell it."""
    lost, work = without_place(trace, "stream")
    if lost > config.most_missing * work:
        text = f"{lost:,} of {work:,} kernels, copies and memsets do not say their stream"
        return Answer(
            Verdict.NO, text, counts | {"without_stream": lost}, setting_of(trace), "streams are not recorded"
        )
    if several and not len(trace.api_calls):
        text = f"{counted(streams_used(trace), 'stream')}, and no calls that make them wait"
        return Answer(Verdict.NO, text, counts, CALLS)
    return nameless_calls(trace, counts, config) if several else None


def _without_waits(trace: Trace, used: str, counts: dict[str, Number], config: FitnessConfig) -> Answer:
    """The answer where no call makes a stream wait: unless calls are missing, none does."""
    _, call = issued(trace)
    lost = int((call == NO_ID).sum())
    if lost <= config.most_missing * len(call):
        return Answer(Verdict.YES, f"{used}, and no call makes one wait for another", counts)
    text = f"{used}, and no call that makes one wait for another; but calls are missing"
    return Answer(Verdict.PARTLY, text, counts)


def _parts(waits: StreamWaits) -> str:
    """How many waits are known in which way."""
    named = {
        "recorded": waits.recorded,
        "inferred": waits.inferred,
        "open": waits.open,
        "from before the trace": waits.before,
        "not recorded": waits.unseen,
    }
    return ", ".join(f"{count:,} {name}" for name, count in named.items() if count)


def _setting(trace: Trace) -> Setting | None:
    if of_amd(trace):
        return None
    if trace.metadata.format == "nsys":
        return EVENT_RECORDS
    return SYNC_EVENTS if trace.health.has("syncs-not-recorded") else RECORDED_WAITS


CHECK = Check("stream-waits", "What did streams wait for?", "what streams waited for", examine)
