"""A thread is bound by issuing copies.

## What happens
A pinned `cudaMemcpyAsync` waits for no copy, but the call itself takes 2 to 5 us, 4 to 10 us under a profiler. A thread
that issues hundreds of copies launches nothing else meanwhile, even where the copies run on a stream of their own. And
the queue of a stream is finite, with room for about a thousand calls. When it is full, the next call waits until the
stream goes on, which may take until kernels before the copies are done; then each call waits until a copy before it is
complete. The thread, which seemed to run ahead, is then as slow as the copy engine.

## How it shows in a trace
The GPU is idle while the launching thread makes one asynchronous copy call after the other, with no launch between;
or it is in such a call which blocks, though the copy is from or to pinned memory and the call returns before its copy
is complete, with many copies queued before it. Kineto traces record such a wait as `Command Buffer Full`. The
evidence has the duration of the calls with few and with many copies queued before. Copies that are small beside their
calls, with room in the queue, are OVL010.

## Fix
```python
# before: all blocks of the next steps are sent for before this step's kernels are launched
with torch.cuda.stream(side):
    for block in blocks:
        buffers[block].copy_(pinned[block], non_blocking=True)
output = model(batch)
# after: neighbours as one copy, and no more of them ahead than the step needs
output = model(batch)
with torch.cuda.stream(side):
    side.wait_event(read)  # recorded after the kernels that read these buffers before
    buffers[first:last].copy_(pinned[first:last], non_blocking=True)
    arrived = side.record_event()
torch.cuda.current_stream().wait_event(arrived)  # before the kernels that read them
```

Launch the kernels that do not need the copies first. Only the thread that issues the copies waits for room: kernels of
other streams can be launched by another one meanwhile. `CUDA_SCALE_LAUNCH_QUEUES=4x` makes queues longer. Fewer copies
are what counts: a CUDA graph of the copies, or `cudaMemcpyBatchAsync`, is one call, but takes time for each copy too.

## What the saving assumes
Small copies to the GPU are packed into one. Copies that take longer than a call are not simulated: the engine takes as
long as before, and what the thread gains by issuing fewer of them depends on how they are cut.

## When this misleads
If the late kernels read all of the copies, the engine is the limit and not the thread (OVL006, OVL011). Profilers
lengthen every call.

## Sources
CUDA Runtime API, "API synchronization behavior" and `cudaMemcpyBatchAsync`; CUDA C++ Programming Guide, "CUDA
Environment Variables". Measured on an H200, driver 580, behind a kernel: 1021 copies, or 1021 launches, were issued
without a wait, at every size from 4 KiB to 1 MiB; 253 with `CUDA_SCALE_LAUNCH_QUEUES=0.25x`, 3000 with `4x` but for
one series of eight. Calls did not get slower before that. After it, a call took 20 us for 1 MiB, as long as its copy,
and 2 us for 64 KiB, as before. Launches of another thread took 12 us meanwhile, as without. To issue 1000 copies of
16 KiB took 3.6 ms, with `cudaMemcpyBatchAsync` 2.7 ms, as a CUDA graph 1.1 ms, as one copy 6 us; they were complete
after 3.7, 3.0, 2.8 and 0.3 ms.
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import HOST_CAUSES
from overlapscope.diagnosis.device_context import DeviceContext, unique
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import time
from overlapscope.measure.devices import device_keys
from overlapscope.measure.host import BLOCKING_FACTOR, QUEUE_FULL
from overlapscope.measure.spans import covered, union
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind, MemoryKind
from overlapscope.model.trace import Trace

_ISSUE_CALL_SHARE = 0.5
"""A thread is bound by copy calls when they take more than this share of the time in which it issues them in a row.

Else its work between them takes most of it.
"""
_QUEUED_MIN_COPIES = 64
"""A copy call that waits for no copy of its own waits for room in its queue, if so many copies were queued before it.

With fewer it waits for something else (a lock, the profiler). The shortest queue has room for 253 calls (H200,
CUDA_SCALE_LAUNCH_QUEUES=0.25x), the usual one for 1021; this is a quarter of the shortest, since launches and waits for
events between the copies take room too.
"""


def claims(context: DeviceContext) -> Bool:
    """Idle while the launching thread issued a sequence of pinned copies, or because its queue was full."""
    return _issuing(context) | _full_queue(context)


def _issuing(context: DeviceContext) -> Bool:
    """Idle within a sequence of asynchronous copy calls from or to pinned memory, which take most of its time.

    Where the copies are small, only if the calls mostly waited for room in the queue.
    """
    sequences = context.copy_sequences
    pinned = context.facts.host_kind[sequences.copies] == MemoryKind.PINNED
    call_ns = context.trace.api_calls.duration_ns[context.trace.copies.call[sequences.copies]]
    waited = _waited_for_room(context)[sequences.copies]
    count = len(sequences.begin_ns)
    in_calls, waiting = (np.bincount(sequences.sequence, call_ns * mask, count) for mask in (pinned, waited))
    least = _ISSUE_CALL_SHARE * (sequences.issued_ns - sequences.begin_ns)
    issuing = sequences.take((waiting > least) | (~sequences.small & (in_calls > least)))
    late = context.has_cause(*HOST_CAUSES) & np.isin(context.blocking_kind, (ApiKind.OTHER, ApiKind.COPY))
    return late & context.within(issuing, issuing.issued_ns)


def _full_queue(context: DeviceContext) -> Bool:
    """Idle because of a pinned copy call that returned before its copy was complete, with many queued before it."""
    full: Bool = (context.blocking_kind == ApiKind.COPY) & np.append(_waited_for_room(context), False)[context.copy]
    return full


def _waited_for_room(context: DeviceContext) -> Bool:
    """For each copy, whether its call blocked though the memory is pinned and the copy was complete only later.

    The call waited for room in the queue if the trace says so, or if many copies were queued before it.
    """
    trace, copies, facts = context.trace, context.trace.copies, context.facts
    blocked = (facts.blocked_ns > 0) & (facts.host_kind == MemoryKind.PINNED)
    begin, end = (np.append(times, 0)[copies.call] for times in (trace.api_calls.start_ns, trace.api_calls.end_ns))
    recorded = np.isin(trace.overheads.name_id, trace.names.find(QUEUE_FULL))
    spans = union(trace.overheads.start_ns[recorded], trace.overheads.end_ns[recorded])
    told = 2 * covered(begin, end, spans) > end - begin
    full: Bool = blocked & (end < copies.end_ns) & (told | (copies_before(trace) >= _QUEUED_MIN_COPIES))
    return full


def describe(context: DeviceContext, rows: Int64) -> Report:
    """How many copies the thread issued, for how long, and how its calls got slower as more were queued."""
    trace, sequences = context.trace, context.copy_sequences
    in_sequences = sequences.copies[_touched(context, rows)[sequences.sequence]]
    of_calls = context.copy[rows[context.blocking_kind[rows] == ApiKind.COPY]]
    copies = unique(np.concatenate([in_sequences, of_calls]))
    calls = unique(trace.copies.call[copies])
    depth, call_ns = copies_before(trace)[copies], trace.api_calls.duration_ns[trace.copies.call[copies]]
    few = 2 * depth < max(int(depth.max(initial=0)), 1)
    shallow, deep = (int(np.median(call_ns[mask])) if mask.any() else None for mask in (few, ~few))
    total = int(trace.api_calls.duration_ns[calls].sum())
    what = context.copies_in_words(copies, "asynchronous ")
    message = f"A thread issued {what} in {time(total)} of calls; {context.without_kernel(rows)} "
    message += "because it launched nothing meanwhile"
    if shallow is not None and deep is not None and deep > BLOCKING_FACTOR * shallow:
        message += f". With many queued, a call took {time(deep)} instead of {time(shallow)}"
    evidence = context.copies_as_evidence(copies) | {
        "call_ns": total,
        "blocked_ns": context.blocked_ns(calls),
        "most_queued": int(depth.max(initial=0)),
        "few_queued_call_ns": shallow,
        "many_queued_call_ns": deep,
    }
    return Report(message + ".", evidence, copies=copies, calls=calls)


def _touched(context: DeviceContext, rows: Int64) -> Bool:
    """Mask of sequences that have some of the idle intervals in them."""
    sequences, idle = context.copy_sequences, context.idle
    ends = np.sort(idle.end_ns[rows])
    begins = np.sort(idle.start_ns[rows])
    meets: Bool = np.searchsorted(begins, sequences.issued_ns) > np.searchsorted(ends, sequences.begin_ns, "right")
    return meets


def copies_before(trace: Trace) -> Int64:
    """For each copy, how many others of its GPU were issued before and not complete when its call began.

    `NO_ID` where its call is not in the trace.
    """
    copies = trace.copies
    issued = np.append(trace.api_calls.start_ns, 0)[copies.call]
    result = np.full(len(copies), NO_ID, np.int64)
    for key in device_keys(trace):
        rows = np.flatnonzero(key.rows(copies) & (copies.call != NO_ID))
        order, ends = np.sort(issued[rows]), np.sort(copies.end_ns[rows])
        complete = np.searchsorted(ends, issued[rows], "right")
        result[rows] = np.searchsorted(order, issued[rows]) - complete
    return np.maximum(result, NO_ID)


RULE = Rule(
    look=("#628760", "", "#6F6F6F", "oooooo"),
    waited_for="a thread that issues copies",
    about_copies=True,
    cuda_fix="// fewer and larger copies; launch kernels that do not need them first, or from another thread",
    fix="buffers[first:last].copy_(pinned[first:last], non_blocking=True)  # fewer and larger copies\n"
    "# launch kernels that do not need them first, or from another thread",
    change="batch-copies",
)
