"""The legacy default stream and a blocking stream synchronise implicitly.

## What happens
A command on the legacy default stream waits for all earlier work on all *blocking* streams of its context, and later
work on these streams waits for the command. Streams that libraries create with plain `cudaStreamCreate` are blocking.
Copies on such a stream cannot overlap kernels on the default stream, although the two are different streams.

## How it shows in a trace
The kernel had been launched, its own stream was free and did not wait for an event. It starts when a copy on another
stream ends, and one of the two streams is the default stream. Nsight Systems records which streams are blocking.
Kineto does not: the reason is then found by exclusion, and the confidence is medium.

The reverse shows the same: a copy that had been issued, without a wait for an event, begins only when a kernel of the
default stream ends.

## Fix
```python
# before
stream = library.create_stream()  # cudaStreamCreate: blocking
# after: a non-blocking stream, as PyTorch makes them
stream = torch.cuda.Stream()
# or in C++: cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)
```

Or run the kernels on a non-blocking stream: `with torch.cuda.stream(compute): ...`. Then add the waits that data
dependencies need (`wait_stream`, events).

## What the saving assumes
Only the implicit synchronisation orders the two streams.

## When this misleads
PyTorch's side streams are non-blocking. If the other stream is one of these, the kernel waited for something else.

## Sources
CUDA Runtime API, "Stream synchronization behavior" (legacy default stream, `cudaStreamNonBlocking`).
"""

from __future__ import annotations

import numpy as np

from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted, time
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import StreamKind


def claims(context: DeviceContext) -> Bool:
    """Idle because work waited for another stream's copy without an event, or for a copy that was delayed that way."""
    result = context.has_cause(Cause.COPY_DEFAULT_STREAM)
    graph = context.graph
    bound_by = graph.bound_by(graph.work_start(graph.work_of_copy[context.copy]))
    by_event = context.has_cause(Cause.COPY_EVENT) & (context.copy != NO_ID)
    result |= by_event & (bound_by == DependencyKind.LEGACY_DEFAULT_STREAM)
    return result


def describe(context: DeviceContext, rows: Int64) -> Report:
    """How long kernels waited for the other stream, and whether the kinds of streams are recorded."""
    copies = context.copies_of(rows)
    streams = np.unique(context.trace.copies.stream[copies])
    kinds = context.trace.streams.kind[np.isin(context.trace.streams.stream, streams)]
    recorded = bool(len(kinds)) and not (kinds == StreamKind.UNKNOWN).any()
    what = counted(len(copies), "copy", "copies")
    message = (
        f"Kernels waited {time(context.idle_ns(rows))} for {what} on another stream without an event: "
        "the legacy default stream and blocking streams synchronise implicitly."
    )
    evidence = {"copies": len(copies), "kernels_waited_ns": context.idle_ns(rows), "stream_kinds_recorded": recorded}
    confirm_with = context.confirmed_by(
        "an Nsight Systems trace, which records the kinds of streams", "the program: is one of the streams blocking?"
    )
    return Report(message, evidence, "" if recorded else confirm_with)


RULE = Rule(
    look=("#C06CFC", "", "#636363", "++++++"),
    waited_for="the legacy default stream",
    about_copies=True,
    cuda_fix="cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);  // for kernels and for copies",
    fix="stream = torch.cuda.Stream()  # non-blocking; in C++ cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)",
    change="side-stream",
)
