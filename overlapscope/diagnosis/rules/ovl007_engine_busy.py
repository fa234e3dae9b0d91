"""The copy engine of that direction is busy with other copies.

## What happens
Each direction of the link has one engine that copies at a time. Copies of several streams in the same direction run
one after the other, whatever `asyncEngineCount` says; a copy that kernels wait for stands behind those that nobody
waits for.

## How it shows in a trace
The copy was issued, its stream was free, and until it starts another stream's copies in the same direction are
running.

## Fix
```python
# before: bulk copies first, the batch behind them
with torch.cuda.stream(bulk):
    for tensor in checkpoint:
        tensor.to(device, non_blocking=True)
with torch.cuda.stream(side):
    data = batch.to(device, non_blocking=True)
# after: what is needed first goes first; bulk in pieces between the steps
with torch.cuda.stream(side):
    data = batch.to(device, non_blocking=True)
with torch.cuda.stream(bulk):
    checkpoint[step].to(device, non_blocking=True)
```

Fewer bytes help too: a smaller type, only the part that is needed.

## What the saving assumes
The other copies can be later, or fewer. More streams do not help.

## When this misleads
If both copies are needed at the same time, the link is the limit (OVL011, OVL013).

## Sources
Measured on an H200 with three copy engines: two streams' copies in one direction never ran at once; towards and from
the host they did. CUDA C++ Programming Guide, "Concurrent Data Transfers".
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
    """Queued behind another stream's copies, or a copy that runs last because it had to wait for these."""
    behind = context.of_cause(Cause.COPY_ENGINE)
    rows = np.flatnonzero(context.of_cause(Cause.COPY_ONLY, Cause.SYNCHRONISATION) & (context.idle.copy != NO_ID))
    behind[rows] = _waited_for_engine(context, context.copy[rows])
    return behind


def _waited_for_engine(context: DeviceContext, copies: Int64) -> Bool:
    """Whether between its issue and its start mostly copies of other streams in its direction ran."""
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
    """What stood in the way, and for how long."""
    others = context.copies_of(rows)
    what = f"{counted(len(others), 'copy', 'copies')} ({size(context.size_bytes(others))})"
    message = (
        f"{what} of several streams shared one copy engine: {time(context.idle_ns(rows))} were spent waiting for it."
    )
    evidence = {
        "copies": len(others),
        "size_bytes": context.size_bytes(others),
        "streams": len(np.unique(context.trace.copies.stream[others])),
        "waited_ns": context.idle_ns(rows),
    }
    return Report(message, evidence)


RULE = Rule(
    code="OVL007",
    name="copy-engine-busy",
    page=__doc__,
    fix="# issue what is needed first before the bulk copies; send these in pieces between the steps",
    claims=claims,
    describe=describe,
)
