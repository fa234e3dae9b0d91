"""Count the waits of streams by how it is known what they waited for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.measure.distinct import distinct_columns
from overlapscope.model.columns import NO_ID, Bool
from overlapscope.model.enums import ApiKind
from overlapscope.model.trace import Trace


@dataclass(frozen=True)
class StreamWaits:
    """How many calls make a stream wait for an event, and what is known of the stream that recorded it.

    ``recorded``: the trace has it. ``inferred``: it follows from the order and the times of calls and work. ``open``:
    it may have been any. ``before``: the event is from before the trace. ``unseen``: there is no record of the wait,
    and no sign that it was for another stream.
    """

    calls: int
    recorded: int
    inferred: int
    open: int
    before: int
    unseen: int


def stream_waits(trace: Trace) -> StreamWaits:
    """Count them."""
    waits, unknown = trace.event_waits, open_waits(trace)
    known = waits.source_stream != NO_ID
    called = (trace.api_calls.kind == ApiKind.WAIT_EVENT) & (trace.api_calls.parent == NO_ID)
    seen = np.zeros(len(called) + 1, np.bool_)
    seen[waits.call] = True
    return StreamWaits(
        calls=int(called.sum()) + int((waits.call == NO_ID).sum()),
        recorded=int((known & ~waits.inferred).sum()),
        inferred=int((known & waits.inferred).sum()),
        open=int(unknown.sum()),
        before=int((~known & ~unknown).sum()),
        unseen=int((called & ~seen[:-1]).sum()),
    )


def open_waits(trace: Trace) -> Bool:
    """Which rows of ``event_waits`` may be for any stream.

    Not those for an event that is known to have been recorded before the trace began.
    """
    waits = trace.event_waits
    before = (waits.record_call == NO_ID) & (waits.inferred | (len(trace.event_records) > 0))
    found: Bool = (waits.source_stream == NO_ID) & ~before
    return found


def streams_used(trace: Trace) -> int:
    """How many streams have work, of all processes and devices."""
    places = [np.stack([table.process, table.device, table.stream]) for table in trace.device_work]
    return int(distinct_columns(np.concatenate(places, axis=1))[0].shape[1])
