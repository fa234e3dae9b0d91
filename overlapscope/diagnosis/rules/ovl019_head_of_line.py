"""A small copy is stuck behind large ones.

## What happens
A copy engine runs the copies of one direction one after the other, and none is interrupted. A copy of some kilobytes
that the next kernels or the host need, such as token ids, a mask or a result, starts when the copies in front of it are
complete (head-of-line blocking). On the stream of the large copies it always waits for them. On another stream it often
does too, since streams of one direction share the engine: even for copies that were issued after it, while the engine
runs those of their stream.

## How it shows in a trace
The copy was issued and its stream was free, or had only earlier copies in it. Until it starts, other copies in the same
direction run that nothing has asked for yet: no event after them is waited for by the work that is late. Its own
transfer takes a small part of that wait. Traces that do not record which event a stream waits for do not show what was
asked for; there it is OVL007.

## Fix
```python
# before: the weights of later layers first, then the ids that this step begins with
with torch.cuda.stream(bulk):
    for layer in later_layers:
        buffers[layer].copy_(weights[layer], non_blocking=True)
with torch.cuda.stream(side):
    ids.copy_(next_ids, non_blocking=True)
# after: what is needed first is copied first; the rest in parts, each behind the step that leaves time for it
with torch.cuda.stream(side):
    side.wait_event(ids_read)  # recorded after the kernels that read the ids before
    ids.copy_(next_ids, non_blocking=True)
torch.cuda.current_stream().wait_stream(side)
with torch.cuda.stream(bulk):
    bulk.wait_event(weights_read)  # recorded after the kernels that read these buffers before
    for layer in later_layers[:per_step]:
        buffers[layer].copy_(weights[layer], non_blocking=True)
```

Where the small data is not ready before the large copies must start, issue these in chunks, a few at a time, so that
the queue in front of the small copy is short. Chunks that are all issued at once do not help it on their stream. Give
it another stream in any case: very small copies overtake there.

## What the saving assumes
The small data was ready when the large copies were issued: the thread waited for nothing between the two. Large copies
that were issued before its last synchronisation stay in front.

## When this misleads
- If the work that is late reads the large copies too, and only its program order says so, they had to come first.
  Kineto traces since CUDA 12.9 do not record which event is waited for; where events are used again, it may be missed.
- Where both are needed soon, the link is the limit (OVL011): copy less.

## Sources
CUDA C++ Programming Guide, "Concurrent Data Transfers". Measured on an H200 with three copy engines: recorded copies
of two streams in the same direction never overlapped but for very small ones. In the workload `copy_order`, ids of 32
KiB on a stream of their own wait for eight copies of 16 MiB: a pass takes 50.0 ms, with the ids first 36.3 ms. A copy
to the device was issued behind 128 MiB, which take 2.4 ms, but on another stream. Up to 24 KiB it was complete after
some 24 us, from 28 KiB on after 2.4 ms, whatever the priority of that stream. A copy to the host never overtook.
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import COPY_WAIT_CAUSES, Cause
from overlapscope.diagnosis.device_context import DeviceContext, unique
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted, size
from overlapscope.measure.spans import covered, union
from overlapscope.model.columns import NO_ID, Bool, Int32, Int64
from overlapscope.model.enums import LINK, ApiKind
from overlapscope.whatif.changes.copy_first import STUCK_SHARE


def claims(context: DeviceContext) -> Bool:
    """Idle because a small copy was queued behind others in its direction that nothing had asked for."""
    result, idle = context.none.copy(), context.idle
    if context.trace.health.has("syncs-not-recorded"):
        return result
    direction = np.append(context.trace.copies.direction, NO_ID)
    behind = context.has_cause(*COPY_WAIT_CAUSES, Cause.SYNCHRONISATION) & (idle.awaited_copy != idle.copy)
    behind &= np.isin(direction[idle.copy], LINK) & (direction[idle.awaited_copy] == direction[idle.copy])
    rows = np.flatnonzero(behind)
    rows = rows[_stuck(context, idle.awaited_copy[rows])]
    result[rows] = ~_asked_for(context, rows) & _distinguishable(context, rows)
    return result


def _issued(context: DeviceContext, copies: Int32 | Int64) -> Int64:
    """When some copies were issued; their own start where that is not known."""
    table = context.trace.copies
    call = table.call[copies]
    return np.where(call == NO_ID, table.start_ns[copies], np.append(context.trace.api_calls.start_ns, 0)[call])


def _stuck(context: DeviceContext, copies: Int32 | Int64) -> Bool:
    """Mask of copies that waited much longer for others in their direction than they took."""
    table, result = context.trace.copies, np.zeros(len(copies), np.bool_)
    here = context.key.rows(table)
    for direction in np.unique(table.direction[copies]).tolist():
        in_direction = table.direction[copies] == direction
        others = here & (table.direction == direction)
        spans = union(table.start_ns[others], table.end_ns[others])
        waited = covered(_issued(context, copies[in_direction]), table.start_ns[copies[in_direction]], spans)
        result[in_direction] = table.duration_ns[copies[in_direction]] < STUCK_SHARE * waited
    return result


def _asked_for(context: DeviceContext, rows: Int64) -> Bool:
    """Whether what is late, or the copy that it waits for, was made to wait for the copy in front by an event."""
    idle, table = context.idle, context.trace.copies
    front, stuck = idle.copy[rows].astype(np.int64), idle.awaited_copy[rows]
    launched = np.append(context.trace.api_calls.start_ns, 0)[idle.launch_call[rows]]
    until = np.where(table.stream[front] == table.stream[stuck], _issued(context, stuck), np.iinfo(np.int64).max)
    result = np.zeros(len(rows), np.bool_)
    for waiting in (_stream_of_launch(context, rows), table.stream[stuck]):
        result |= _first_wait_ns(context, front, until, waiting) <= launched
    return result


def _distinguishable(context: DeviceContext, rows: Int64) -> Bool:
    """Whether the copy in front can be told from the one that is waited for.

    It is on another stream, which the host does not synchronise with; or an event between the two is waited for later.
    """
    idle, table = context.idle, context.trace.copies
    front, stuck = idle.copy[rows].astype(np.int64), idle.awaited_copy[rows]
    kind = np.append(context.trace.api_calls.kind, ApiKind.OTHER)[idle.call[rows]]
    synchronises = context.has_cause(Cause.SYNCHRONISATION)[rows]
    other = (table.stream[front] != table.stream[stuck]) & ~(synchronises & (kind == ApiKind.DEVICE_SYNC))
    later = _first_wait_ns(context, front, _issued(context, stuck)) < np.iinfo(np.int64).max
    distinguishable: Bool = other | (later & ~synchronises)
    return distinguishable


def _stream_of_launch(context: DeviceContext, rows: Int64) -> Int64:
    """The stream that each late launch is on."""
    graph = context.graph
    stream = np.full(len(graph.calls) + 1, NO_ID, np.int64)
    known = graph.work.call != NO_ID
    stream[graph.work.call[known]] = graph.work.stream[known]
    stream[-1] = NO_ID
    return stream[graph.call_of[context.idle.launch_call[rows]]]


def _first_wait_ns(context: DeviceContext, copies: Int64, before_ns: Int64, waiting: Int64 | None = None) -> Int64:
    """When a stream was first made to wait for an event after each copy; the largest number where none was.

    The event is the next one on the copy's stream that is waited for, recorded before a time; ``waiting`` is the stream
    that waits, any where it is None.
    """
    waits, table = context.trace.event_waits, context.trace.copies
    result = np.full(len(copies), np.iinfo(np.int64).max)
    of_process = waits.process == context.key.process
    issued = _issued(context, copies)
    key = np.stack([table.stream[copies], np.full(len(copies), NO_ID) if waiting is None else waiting])
    for source, target in np.unique(key, axis=1).T.tolist():
        for_target = of_process & ((waiting is None) | (waits.stream == target))
        events = np.flatnonzero(for_target & (waits.source_stream == source))
        events = events[np.lexsort((waits.time_ns[events], waits.recorded_ns[events]))]
        members = np.flatnonzero((key[0] == source) & (key[1] == target))
        place = np.searchsorted(waits.recorded_ns[events], issued[members], "right")
        recorded = np.append(waits.recorded_ns[events], np.iinfo(np.int64).max)[place]
        at = np.append(waits.time_ns[events], np.iinfo(np.int64).max)[place]
        result[members] = np.where(recorded < before_ns[members], at, np.iinfo(np.int64).max)
    return result


def describe(context: DeviceContext, rows: Int64) -> Report:
    """The copies that were stuck, the number of others in front, and the GPU idle time because of it."""
    table = context.trace.copies
    stuck, front = unique(context.idle.awaited_copy[rows]), context.copies_of(rows)
    what = f"{context.copies_in_words(stuck, 'small ')} waited behind "
    what += f"{counted(len(front), 'other', 'others')} ({size(context.size_bytes(front))}) that nothing had asked for"
    message = f"{what}; {context.without_kernel(rows)} because of it."
    evidence = context.copies_as_evidence(stuck) | {
        "copy_ns": int(table.duration_ns[stuck].sum()),
        "copies_in_front": len(front),
        "size_in_front_bytes": context.size_bytes(front),
        "engine_wait_ns": context.idle_ns(rows),
    }
    return Report(message, evidence, copies=stuck)


RULE = Rule(
    look=("#652BC8", "#8F62E0", "#8E8E8E", "......"),
    waited_for="small copies behind large ones",
    about_copies=True,
    cuda_fix="// issue the copies that are needed first before large ones, and large ones in parts",
    fix="ids.copy_(next_ids, non_blocking=True)  # what is needed first is copied first\n"
    "for part in weights.split(rows_per_step): ...  # large copies after it, in parts",
    change="copy-first",
)
