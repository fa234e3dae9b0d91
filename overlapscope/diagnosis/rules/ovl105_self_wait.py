"""A stream waits for itself, and the stream that should wait does not.

## What happens
`wait_stream` records an event on one stream and makes another one wait for it. Inside `with torch.cuda.stream(side)`
the current stream is the side stream: `torch.cuda.current_stream().wait_stream(side)` then makes the side stream wait
for itself. Work on one stream is in order anyway, so this orders nothing. The kernels on the other stream start while
the copy still runs, and may read data that has not arrived: wrong numbers, without an error, and only sometimes.

## How it shows in a trace
An event is recorded on a stream and waited for on the same stream. Right before, its thread issued a copy to the GPU
on it; right after, it issues work on another stream, which starts before the copy ends. No other stream waits for the
copy's. Likewise for a copy to the host that starts before the kernels of another stream end, which were issued right
before. A self-wait without such work is silent: libraries make one where two streams happen to be the same.

Kineto with CUDA 12.9 and later does not record what a stream waits for. There two things count, with low confidence.
A stream that goes on after a wait while the work of every other stream still runs has waited for none of them. And a
wait of a copy's own stream right after the copy is of no use to the work beside it, if no other stream waits before
the next one, and the host does not wait for the copy either.

## Fix
```python
# before
with torch.cuda.stream(side):
    batch = source.to(device, non_blocking=True)
    torch.cuda.current_stream().wait_stream(side)  # the current stream is side
out = model(batch)
# after: wait outside, where the current stream is that of the kernels
with torch.cuda.stream(side):
    batch = source.to(device, non_blocking=True)
torch.cuda.current_stream().wait_stream(side)
batch.record_stream(torch.cuda.current_stream())
out = model(batch)
```

## What the saving assumes
This is about correctness; there is no saving. The fixed program may take longer, since its kernels wait. In the program
`self_wait` on an H200, 47 of 48 sums were wrong with the wait inside, in 43 ms a pass, and none with the wait outside,
in 48 ms.

## When this misleads
A trace does not show which memory a kernel reads. If the work after the wait does not use the copied data, and the
host synchronises before it is used, the result is right and the self-wait is only of no use. With several GPUs in one
process, streams that have the same number on two of them are left out, since the trace does not say on which one an
event is.

## Sources
CUDA Runtime API, `cudaStreamWaitEvent`. PyTorch, `torch.cuda.Stream.wait_stream`.
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.device_context import DeviceContext, unique
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted
from overlapscope.measure.grouping import any_between
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import SYNC_CALLS, ApiKind, Direction
from overlapscope.model.tables import EventWaits

_TO_GPU, _TO_HOST = (Direction.HTOD, Direction.PTOP), (Direction.DTOH,)


def view(context: DeviceContext) -> Report | None:
    """Report copies that a self-wait leaves without order."""
    self_waits, possible = _self_waits(context), _possible_self_waits(context)
    before, after = _neighbours(context, self_waits)
    parts = [
        _unordered_copy(context, before, after, _TO_GPU, ordered=_waited_for(context, self_waits, before)),
        _unordered_copy(context, after, before, _TO_HOST, ordered=_waited(context, self_waits, after)),
        _unordered_copy(context, *_neighbours(context, possible), _TO_GPU, ordered=_ordered_at_all(context, possible)),
    ]
    copies, waits = np.concatenate(parts), np.concatenate([self_waits, self_waits, possible])
    unordered = copies != NO_ID
    return _report(context, np.unique(copies[unordered]), np.unique(waits[unordered])) if unordered.any() else None


def _report(context: DeviceContext, copies: Int64, waits: Int64) -> Report:
    table = context.trace.event_waits
    inferred = bool(table.inferred[waits].any())
    number = counted(len(copies), "copy", "copies")
    message = (
        f"Suspected: {number} ran beside work of another stream that was issued next; the wait between is of a stream "
        "for itself and orders nothing: if the work shares data with the copy, values are wrong."
    )
    return Report(
        message,
        {"unordered_copies": len(copies), "self_waits": len(waits), "inferred": inferred},
        "the program itself: does the wait stand inside of torch.cuda.stream(...), and is the copied data used there?",
        suspicion=inferred,
        hazard=True,
        copies=copies,
        calls=unique(table.call[waits]),
    )


def _self_waits(context: DeviceContext) -> Int64:
    """Rows of event_waits on this device, in the window, that wait for their own stream.

    Streams of which another GPU of the process has one with the same number are left out: the wait may be for that one.
    """
    waits, key, work = context.trace.event_waits, context.key, context.graph.work
    for_itself = (waits.stream == waits.source_stream) & (waits.source_device == waits.device) & (waits.stream != NO_ID)
    for_itself &= ~np.isin(waits.stream, work.stream[(work.process == key.process) & (work.device != key.device)])
    return _in_window(context, for_itself)


def _in_window(context: DeviceContext, mask: Bool) -> Int64:
    """Rows of event_waits on this device, in the window, with a call, that the mask selects."""
    waits, key = context.trace.event_waits, context.key
    of_device = (waits.process == key.process) & (waits.device == key.device) & (waits.call != NO_ID)
    within = context.window.touches(waits.process, waits.time_ns, waits.time_ns + 1)
    return np.flatnonzero(mask & of_device & within)


def _possible_self_waits(context: DeviceContext) -> Int64:
    """Waits of a stream right after its copy, of which the trace does not record what they wait for."""
    waits, work = context.trace.event_waits, context.graph.work
    other = (waits.stream != waits.source_stream) & waits.inferred
    rows = _in_window(context, other & np.isin(waits.call, context.trace.syncs.call))
    before, _ = _neighbours(context, rows)
    recorded_after = waits.recorded_ns[rows] >= work.issued_ns(context.graph.calls)[before]
    result: Int64 = rows[(before != NO_ID) & (work.stream[before] == waits.stream[rows]) & recorded_after]
    return result


def _neighbours(context: DeviceContext, waits: Int64) -> tuple[Int64, Int64]:
    """The work that the thread of each self-wait issued last before it and first after it; `NO_ID` for none."""
    graph = context.graph
    work = np.flatnonzero(graph.work.call != NO_ID)
    work = work[np.argsort(graph.work.call[work], kind="stable")]
    place = graph.call_of[context.trace.event_waits.call[waits]]
    position = np.searchsorted(graph.work.call[work], place)
    before, after = np.append(NO_ID, work)[position], np.append(work, NO_ID)[position]
    owner = np.append(graph.calls.owner, NO_ID)

    def same_thread(neighbours: Int64) -> Int64:
        return np.where(owner[np.append(graph.work.call, NO_ID)[neighbours]] == owner[place], neighbours, NO_ID)

    return same_thread(before), same_thread(after)


def _unordered_copy(
    context: DeviceContext, one: Int64, other: Int64, directions: tuple[Direction, ...], *, ordered: Bool
) -> Int64:
    """The row of each copy ``one`` in these directions that ran beside the ``other`` work; else `NO_ID`."""
    work = context.graph.work
    known = (one != NO_ID) & (other != NO_ID) & ~ordered
    known &= (work.stream[one] != work.stream[other]) & (work.device[one] == work.device[other])
    known &= (work.start_ns[one] < work.end_ns[other]) & (work.start_ns[other] < work.end_ns[one])
    copy = np.where(known, work.copy[one], NO_ID)
    return np.where(np.isin(np.append(context.trace.copies.direction, 0)[copy], directions), copy, NO_ID)


def _waited_for(context: DeviceContext, self_waits: Int64, before: Int64) -> Bool:
    """Whether another stream waits for that of each self-wait, from the copy before it on, until the next self-wait."""
    waits = context.trace.event_waits
    issued = context.graph.work.issued_ns(context.graph.calls)[before]
    others = np.flatnonzero(waits.stream != waits.source_stream)
    moments = waits.recorded_ns[others], waits.source_stream[others]
    return any_between(*moments, waits.stream[self_waits], issued, _next(waits, self_waits))


def _ordered_at_all(context: DeviceContext, possible: Int64) -> Bool:
    """Whether another stream waits, or the host waits for the stream of the copy, until the next such wait."""
    trace, process = context.trace, context.key.process
    waits, calls = trace.event_waits, trace.api_calls
    since, until = waits.time_ns[possible], _next(waits, possible)
    stream = np.full(len(calls) + 1, NO_ID, np.int64)
    stream[trace.syncs.call] = trace.syncs.stream
    host = np.isin(calls.kind, SYNC_CALLS) & (calls.process == process)
    result = np.zeros(len(possible), np.bool_)
    for number in np.unique(waits.stream[possible]).tolist():
        on_stream = waits.stream[possible] == number
        others = waits.time_ns[(waits.process == process) & (waits.stream != number)]
        for_it = host & ((calls.kind != ApiKind.STREAM_SYNC) | np.isin(stream[:-1], (number, NO_ID)))
        moments = np.sort(np.concatenate([others, calls.start_ns[for_it]]))
        result[on_stream] = np.searchsorted(moments, until[on_stream]) > np.searchsorted(moments, since[on_stream])
    return result


def _waited(context: DeviceContext, self_waits: Int64, after: Int64) -> Bool:
    """Whether the stream of each self-wait waits for another one, from the self-wait before it to the copy after it."""
    waits = context.trace.event_waits
    issued = context.graph.work.issued_ns(context.graph.calls)[after]
    others = np.flatnonzero(waits.stream != waits.source_stream)
    since = np.append(0, waits.time_ns[self_waits][:-1])
    return any_between(waits.time_ns[others], waits.stream[others], waits.stream[self_waits], since, issued)


def _next(waits: EventWaits, rows: Int64) -> Int64:
    return np.append(waits.time_ns[rows][1:], np.iinfo(np.int64).max)


RULE = Rule(
    waited_for="a stream that waits for itself",
    about_copies=True,
    fix="torch.cuda.current_stream().wait_stream(side)  # outside of with torch.cuda.stream(side)\n"
    "batch.record_stream(torch.cuda.current_stream())  # so that its memory is not reused too early",
)
