"""Legacy default stream and a blocking stream wait for each other.

## What happens
A command on the legacy default stream waits for everything before it on all *blocking* streams of its context, and
everything after it on these waits for the command. Streams that libraries make with plain `cudaStreamCreate` are
blocking. Copies on such a stream run one after the other with kernels on the default stream, though the two are
different streams.

## How it shows in a trace
The kernel had been launched, its own stream was free and was not made to wait for an event; it starts when a copy on
another stream ends, and one of the two is the default stream. Nsight Systems records which streams are blocking.
Kineto does not: then this is what remains, and the confidence is medium.

A copy that had been issued, was not told to wait, and begins only when a kernel of the default stream ends shows the
same.

## Fix
```python
# before
stream = library.create_stream()  # cudaStreamCreate: blocking
# after: a non-blocking stream, as PyTorch makes them
stream = torch.cuda.Stream()
# or in C++: cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)
```

Or run the kernels on a stream of their own: `with torch.cuda.stream(compute): ...`. Waits that the order of the data
needs have to be added then (`wait_stream`, events).

## What the saving assumes
Nothing but the implicit synchronisation orders the two streams.

## When this misleads
PyTorch's side streams are non-blocking; if the other stream is one of these, something else held the kernel.

## Sources
CUDA Runtime API, "Stream synchronization behavior" (legacy default stream, `cudaStreamNonBlocking`).
"""

from __future__ import annotations

import numpy as np

from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Confidence
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted, time
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import StreamKind


def claims(context: DeviceContext) -> Bool:
    """Queued behind a copy of another stream without an event between them, or behind one that was so kept back."""
    behind = context.of_cause(Cause.COPY_DEFAULT_STREAM)
    graph = context.graph
    bound_by = graph.bound_by(graph.work_start(graph.work_of_copy[context.copy]))
    by_event = context.of_cause(Cause.COPY_EVENT) & (context.copy != NO_ID)
    return behind | (by_event & (bound_by == DependencyKind.LEGACY_DEFAULT_STREAM))


def describe(context: DeviceContext, rows: Int64) -> Report:
    """How long the streams waited for each other, and whether their kinds are known."""
    copies = context.copies_of(rows)
    streams = np.unique(context.trace.copies.stream[copies])
    kinds = context.trace.streams.kind[np.isin(context.trace.streams.stream, streams)]
    recorded = bool(len(kinds)) and not (kinds == StreamKind.UNKNOWN).any()
    what = counted(len(copies), "copy", "copies")
    message = (
        f"Kernels waited {time(context.idle_ns(rows))} for {what} of another stream without being "
        "told to: the legacy default stream and a blocking stream wait for each other."
    )
    evidence = {"copies": len(copies), "waited_ns": context.idle_ns(rows), "stream_kinds_recorded": recorded}
    if recorded:
        return Report(message, evidence)
    return Report(message, evidence, Confidence.MEDIUM, "an Nsight Systems trace, which records the kinds of streams")


RULE = Rule(
    code="OVL003",
    name="legacy-default-stream",
    page=__doc__,
    fix="stream = torch.cuda.Stream()  # non-blocking; in C++ cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)",
    change="side-stream",
    claims=claims,
    describe=describe,
)
