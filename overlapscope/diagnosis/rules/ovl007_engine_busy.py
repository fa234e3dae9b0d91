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
    checkpoint[step].to(device, non_blocking=True)
```

Copying fewer bytes helps too: a smaller data type, or only the part that is needed.

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
from overlapscope.formatting import counted, size, time
from overlapscope.measure.spans import covered, union
from overlapscope.model.columns import NO_ID, Bool, Int64


def claims(context: DeviceContext) -> Bool:
    """Idle because a copy waited for another stream's copies, or ran alone at the end because it had waited."""
    result = context.has_cause(Cause.COPY_ENGINE)
    rows = np.flatnonzero(context.has_cause(Cause.COPY_ONLY, Cause.SYNCHRONISATION) & (context.idle.copy != NO_ID))
    result[rows] = _waited_for_engine(context, context.copy[rows])
    return result


def _waited_for_engine(context: DeviceContext, copies: Int64) -> Bool:
    """Which copies waited, mostly while copies of other streams ran in the same direction."""
    table = context.trace.copies
    issued = np.append(context.trace.api_calls.end_ns, 0)[table.call]
    result = np.zeros(len(copies), np.bool_)
    here = context.activity.key.rows(table)
    for direction, stream in {(int(table.direction[row]), int(table.stream[row])) for row in copies.tolist()}:
        mine = (table.direction[copies] == direction) & (table.stream[copies] == stream) & (table.call[copies] != NO_ID)
        others = here & (table.direction == direction) & (table.stream != stream)
        begin, end = issued[copies[mine]], table.start_ns[copies[mine]]
        waited = covered(begin, end, union(table.start_ns[others], table.end_ns[others]))
        result[mine] = waited * 2 > np.maximum(end - begin, 1)
    return result


def describe(context: DeviceContext, rows: Int64) -> Report:
    """Which copies shared the engine, and the GPU idle time because of it."""
    copies = context.copies_of(rows)
    what = f"{counted(len(copies), 'copy', 'copies')} ({size(context.size_bytes(copies))})"
    idle = time(context.idle_ns(rows))
    message = f"{what} of several streams queued for one copy engine; the GPU was idle for {idle} because of it."
    evidence = {
        "copies": len(copies),
        "size_bytes": context.size_bytes(copies),
        "streams": len(np.unique(context.trace.copies.stream[copies])),
        "engine_wait_ns": context.idle_ns(rows),
    }
    return Report(message, evidence)


RULE = Rule(
    code="OVL007",
    name="copy-engine-busy",
    page=__doc__,
    waited_for="a busy copy engine",
    not_simulated="a trace does not tell which copies could be issued earlier, or be smaller",
    about_copies=True,
    fix="# issue the copies that are needed first before the bulk copies; split these over the steps",
    claims=claims,
    describe=describe,
)
