"""What did streams wait for? For events of other streams; which event it was, not every profiler records."""

from __future__ import annotations

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.settings import CALLS, EVENT_RECORDS, RECORDED_WAITS, SYNC_EVENTS, Setting
from overlapscope.formatting import counted
from overlapscope.measure.stream_waits import StreamWaits, stream_waits, streams_used
from overlapscope.model.trace import Trace


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Count the waits of streams by how it is known what they were for."""
    del config
    waits, streams = stream_waits(trace), streams_used(trace)
    counts = {"streams": streams, "waits": waits.calls, "recorded": waits.recorded, "inferred": waits.inferred}
    counts |= {"open": waits.open, "before": waits.before, "unseen": waits.unseen}
    used = counted(streams, "stream")
    if streams <= 1 and not waits.open:
        return Answer(Verdict.DOES_NOT_ARISE, f"{used or 'no stream'} has work", counts)
    if not len(trace.api_calls):
        return Answer(Verdict.NO, f"{used}, and no calls that make them wait", counts, CALLS)
    if not waits.calls:
        return Answer(Verdict.YES, f"{used}, and no call makes one wait for another", counts)
    if not waits.inferred + waits.open + waits.unseen:
        return Answer(Verdict.YES, f"{used}, {counted(waits.calls, 'wait')} for events that are recorded", counts)
    verdict = Verdict.PARTLY if waits.recorded + waits.inferred else Verdict.NO
    brief = _parts(waits)
    text = f"{used}, {counted(waits.calls, 'wait')} for events: {brief}"
    told = ("inferred-waits", "unknown-wait-source", "syncs-not-recorded")
    return Answer(verdict, text, counts, _setting(trace), brief, health=told)


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


def _setting(trace: Trace) -> Setting:
    if trace.metadata.format == "nsys":
        return EVENT_RECORDS
    return SYNC_EVENTS if trace.health.has("syncs-not-recorded") else RECORDED_WAITS


CHECK = Check("stream-waits", "What did streams wait for?", "what streams waited for", examine)
