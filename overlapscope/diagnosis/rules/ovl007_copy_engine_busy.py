"""The copy engine is busy with other copies in the same direction.

## What happens
Copies of several streams in the same direction share one copy engine and run one after the other, whatever
`asyncEngineCount` is. A copy that kernels wait for is queued behind copies that nothing waits for.

## How it shows in a trace
The copy was issued and its stream was free. Until it starts, copies of another stream in the same direction run.

## Fix
```python
# before: bulk copies first, the batch after them
with torch.cuda.stream(bulk):
    for tensor in checkpoint:
        tensor.to(device, non_blocking=True)
with torch.cuda.stream(side):
    data = batch.to(device, non_blocking=True)
# after: copy first what is needed first; split the bulk copies over the steps
with torch.cuda.stream(side):
    data = batch.to(device, non_blocking=True)
with torch.cuda.stream(bulk):
    part = checkpoint[step].to(device, non_blocking=True)
torch.cuda.current_stream().wait_stream(side)
data.record_stream(torch.cuda.current_stream())
```

An order helps where the engine has time left. Where the copies of a direction take about as long as everything
together, no order does, and the fix says so: copy fewer bytes, with a smaller data type, or only the part that is
needed.

## What the saving assumes
The other copies can run later, or can be fewer. More streams do not help.

## When this misleads
If both copies are needed at the same time, the link is the limit (OVL011, OVL013).

## Sources
Measured on an H200 with three copy engines: copies of two streams in the same direction never overlapped; H2D and D2H
copies did. CUDA C++ Programming Guide, "Concurrent Data Transfers".
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.measure.spans import covered, union
from overlapscope.model.columns import NO_ID, Bool, Int64


def claims(context: DeviceContext) -> Bool:
    """Idle because a copy waited for another stream's copies, or ran alone at the end because it had waited."""
    result = context.has_cause(Cause.COPY_ENGINE)
    rows = np.flatnonzero(context.has_cause(Cause.COPY_ONLY, Cause.SYNCHRONISATION) & (context.idle.copy != NO_ID))
    result[rows] = _waited_for_engine(context, context.copy[rows])
    return result


def _waited_for_engine(context: DeviceContext, copies: Int64) -> Bool:
    """Mask of copies that waited, mostly while copies of other streams ran in the same direction."""
    table = context.trace.copies
    issued = np.append(context.trace.api_calls.end_ns, 0)[table.call]
    result = np.zeros(len(copies), np.bool_)
    of_device = context.key.rows(table)
    for direction, stream in {(int(table.direction[row]), int(table.stream[row])) for row in copies.tolist()}:
        members = (table.direction[copies] == direction) & (table.stream[copies] == stream)
        members &= table.call[copies] != NO_ID
        others = of_device & (table.direction == direction) & (table.stream != stream)
        begin, end = issued[copies[members]], table.start_ns[copies[members]]
        waited = covered(begin, end, union(table.start_ns[others], table.end_ns[others]))
        result[members] = waited * 2 > np.maximum(end - begin, 1)
    return result


def describe(context: DeviceContext, rows: Int64) -> Report:
    """The copies that shared the engine, and the GPU idle time because of it."""
    copies = context.copies_of(rows)
    message = (
        f"{context.copies_in_words(copies)} of several streams queued for one copy engine; "
        f"{context.without_kernel(rows)} because of it."
    )
    evidence = context.copies_as_evidence(copies) | {
        "streams": len(np.unique(context.trace.copies.stream[copies])),
        "engine_wait_ns": context.idle_ns(rows),
    }
    return Report(message, evidence, fix=_FEWER_BYTES if _no_time_left(context, copies) else None)


def _no_time_left(context: DeviceContext, copies: Int64) -> bool:
    """Whether the copies of one of these directions take about as long as everything, so that no order helps."""
    most = context.ceiling
    directions = set(context.trace.copies.direction[copies].tolist())
    return most.bound_direction in directions and most.at_limit(context.config.report_share)


_FEWER_BYTES = "# no order helps, the copies of this direction take all the time: copy fewer bytes, or faster"

RULE = Rule(
    look=("#3E004F", "#8A4FB0", "#353535", "++++++"),
    waited_for="a busy copy engine",
    not_simulated="a trace does not tell which copies could be issued earlier, or be smaller",
    about_copies=True,
    fix="# issue the copies that are needed first before the bulk copies; split these over the steps",
)
