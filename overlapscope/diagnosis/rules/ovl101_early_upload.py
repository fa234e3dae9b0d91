"""A host buffer is uploaded while its download may still run.

## What happens
A state goes to the host and comes back: a key-value cache, activations, the parameters of an expert. A stream is in
order within itself only. An upload on a side stream starts as soon as it is issued, though the download into the same
buffer still waits behind kernels of another stream: old bytes come back, without an error, and only sometimes.

## How it shows in a trace
A recording of `overlapscope record` says which host tensors the copies read and write. The finding is certain where the
upload of a tensor starts before its download ends. Where no stream order, event or synchronisation stands between the
two, but they came one after the other by chance, it has medium confidence. What a wait was for is unknown in Kineto
traces of CUDA 12.9 and later: it may have been for all work that was complete by then, which is not reported.

Other traces do not say what a copy reads. There the finding is a suspicion, with low confidence: copies of several
sizes each go down first and up later, and more of one size have started up than have arrived before.

## Fix
```python
# before
host.copy_(state, non_blocking=True)
with torch.cuda.stream(side):
    back.copy_(host, non_blocking=True)  # what is in host now?
# after
host.copy_(state, non_blocking=True)
left = torch.cuda.current_stream().record_event()
with torch.cuda.stream(side):
    side.wait_event(left)
    back.copy_(host, non_blocking=True)
```

## What the saving assumes
This is about correctness; there is no saving. The right program may take longer, since its upload waits.

## When this misleads
A tensor is known by its memory and its object. Other views of the same memory are not compared, nor what a program
copies without torch's own operators. Orders that a trace does not show, such as those of host functions on a stream,
would make a finding of medium confidence wrong.

## Sources
CUDA C++ Programming Guide, Streams and Events. `overlapscope.workloads.host_round_trip`. The offloaded cache of
transformers 5.17 uploads on its prefetch stream, which waits for nothing.
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Confidence
from overlapscope.diagnosis.races import of_device, race_report
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted
from overlapscope.model.columns import Int64
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.ordering.accesses import accesses_known, early_uploads

_LEAST_SIZES = 3  # fewer sizes may agree by chance


def view(context: DeviceContext) -> Report | None:
    """Report uploads that their downloads are not ordered before; suspect some where it is not known what they read."""
    races = of_device(context, early_uploads(context.order))
    if len(races):
        message = f"Nothing orders {counted(len(races), 'upload')} behind the download into the same host buffer."
        return race_report(context, races, message, "the program: does something else order the upload?")
    return None if accesses_known(context.graph) else _suspected(context)


def _suspected(context: DeviceContext) -> Report | None:
    """Uploads of sizes of which more have started than have come down before."""
    down, up = (_pinned(context, direction) for direction in (Direction.DTOH, Direction.HTOD))
    found = [_ahead(context, down, up, size) for size in _round_trip_sizes(context, down, up)]
    if len(found) < _LEAST_SIZES or not sum(map(len, found)):
        return None
    copies = np.concatenate(found)
    message = (
        f"Suspected: {counted(len(copies), 'upload')} started before as many copies of the same size had arrived at "
        "the host, though each size goes down first: if they bring back what came down, values are wrong."
    )
    evidence = {"unordered": len(copies), "began_early": len(copies)}
    confirm_with = "a recording of overlapscope record, which says what each copy reads"
    return Report(message, evidence, Confidence.LOW, confirm_with, hazard=True, copies=copies, idle_ns=0)


def _pinned(context: DeviceContext, direction: Direction) -> Int64:
    """Copies of a direction between this device and pinned memory, by their start."""
    copies = context.trace.copies
    mine = context.activity.key.rows(copies) & (copies.direction == direction) & (copies.size_bytes > 0)
    return np.flatnonzero(mine & (context.facts.host_kind == MemoryKind.PINNED))


def _round_trip_sizes(context: DeviceContext, down: Int64, up: Int64) -> list[int]:
    """Sizes of which the first goes down before the first goes up, and no more go up than down."""
    copies = context.trace.copies
    sizes, first, count = np.unique(copies.size_bytes[down], return_index=True, return_counts=True)
    others, first_up, count_up = np.unique(copies.size_bytes[up], return_index=True, return_counts=True)
    both, one, other = np.intersect1d(sizes, others, return_indices=True)
    issued = np.append(context.trace.api_calls.start_ns, 0)[copies.call]
    earlier = issued[down[first[one]]] < issued[up[first_up[other]]]
    return [int(size) for size in both[earlier & (count_up[other] <= count[one])]]


def _ahead(context: DeviceContext, down: Int64, up: Int64, size: int) -> Int64:
    """Uploads of a size that start before as many of that size have arrived at the host."""
    copies = context.trace.copies
    ends = np.sort(copies.end_ns[down[copies.size_bytes[down] == size]])
    mine = up[copies.size_bytes[up] == size]
    arrived = np.searchsorted(ends, copies.start_ns[mine] + context.order.config.clear_ns, "right")
    early: Int64 = mine[arrived < np.arange(1, len(mine) + 1)]
    return early


RULE = Rule(
    code="OVL101",
    name="early-upload",
    page=__doc__,
    waited_for="uploads that do not wait for their download",
    about_copies=True,
    fix="left = torch.cuda.current_stream().record_event()  # right after the download\n"
    "side.wait_event(left)  # before the upload",
    view=view,
)
