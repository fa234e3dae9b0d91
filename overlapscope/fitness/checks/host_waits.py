"""What did the host wait for? For a stream or an event; Kineto records which one only on request."""

from __future__ import annotations

import numpy as np

from overlapscope.fitness.answer import Answer, Check, Number, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.settings import EVENT_RECORDS, SYNC_EVENTS
from overlapscope.fitness.unknown import nameless_calls, of_amd
from overlapscope.formatting import counted
from overlapscope.measure.stream_waits import streams_used
from overlapscope.model.columns import NO_ID
from overlapscope.model.enums import SYNC_CALLS, ApiKind
from overlapscope.model.trace import Trace


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Count the calls that wait for a stream or an event, and those of which the trace says for which."""
    calls, syncs = trace.api_calls, trace.syncs
    known = np.zeros(len(calls) + 1, np.bool_)
    known[syncs.call[(syncs.stream != NO_ID) | (syncs.source_stream != NO_ID)]] = True
    outer = calls.parent == NO_ID
    waiting = outer & np.isin(calls.kind, (ApiKind.STREAM_SYNC, ApiKind.EVENT_SYNC))
    count, told = int(waiting.sum()), int((waiting & known[:-1]).sum())
    calling = int((outer & np.isin(calls.kind, SYNC_CALLS)).sum())
    counts: dict[str, Number] = {"synchronising_calls": calling, "waits": count, "recorded": told}
    if nameless := nameless_calls(trace, counts, config):
        return nameless
    if not calling:
        return Answer(Verdict.DOES_NOT_ARISE, "no synchronising calls in the trace", counts)
    if told == count or streams_used(trace) <= 1:
        return Answer(Verdict.YES, counted(calling, "synchronising call"), counts)
    which = f"{count - told:,} of {counted(count, 'synchronising call')}"
    text = f"{which} without the stream or event: inferred from times"
    setting = None if of_amd(trace) else EVENT_RECORDS if trace.metadata.format == "nsys" else SYNC_EVENTS
    return Answer(Verdict.PARTLY, text, counts, setting, health=("syncs-not-recorded",))


CHECK = Check("host-waits", "What did the host wait for?", "what the host waited for", examine)
