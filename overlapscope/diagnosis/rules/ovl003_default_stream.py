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

from overlapscope.diagnosis.case import Case
from overlapscope.diagnosis.finding import Confidence
from overlapscope.diagnosis.rule import Rule, Said
from overlapscope.measure.losses import Cause
from overlapscope.measure.queues import kept_back
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import StreamKind
from overlapscope.words import counted, time


def claims(case: Case) -> Bool:
    """Queued behind a copy of another stream without an event between them, or behind one that was so kept back."""
    behind = case.of_cause(Cause.BEHIND_DEFAULT_STREAM)
    rows = np.flatnonzero(case.of_cause(Cause.BEHIND_EVENT) & (case.copy != NO_ID))
    behind[rows] = kept_back(case.trace, case.activity.key, case.copy[rows], case.config.losses.queue)
    return behind


def describe(case: Case, rows: Int64) -> Said:
    """How long the streams waited for each other, and whether their kinds are known."""
    copies = case.copies_of(rows)
    streams = np.unique(case.trace.copies.stream[copies])
    kinds = case.trace.streams.kind[np.isin(case.trace.streams.stream, streams)]
    recorded = bool(len(kinds)) and not (kinds == StreamKind.UNKNOWN).any()
    what = counted(len(copies), "copy", "copies")
    message = (
        f"Kernels waited {time(case.lost_ns(rows))} for {what} of another stream without being "
        "told to: the legacy default stream and a blocking stream wait for each other."
    )
    evidence = {"copies": len(copies), "waited_ns": case.lost_ns(rows), "stream_kinds_recorded": recorded}
    if recorded:
        return Said(message, evidence)
    return Said(message, evidence, Confidence.MEDIUM, "an Nsight Systems trace, which records the kinds of streams")


RULE = Rule(
    code="OVL003",
    name="legacy-default-stream",
    page=__doc__,
    fix="stream = torch.cuda.Stream()  # non-blocking; in C++ cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)",
    change="side-stream",
    claims=claims,
    describe=describe,
)
