"""Collective communication with no computation beside it.

## What happens
NCCL's and RCCL's kernels move data between devices. While they run alone, the device computes nothing. A rank that
arrives early spends the time waiting for the slowest inside the kernel.

## How it shows in a trace
Collective kernels (by their names), and time in which they run with no other kernel. Copies over the same link at
that time are in the evidence: they compete.

## Fix
```python
# before
loss.backward()
dist.all_reduce(gradients)  # then the optimizer
# after: gradients are reduced in buckets while backward goes on
model = DistributedDataParallel(model, gradient_as_bucket_view=True)
# or by hand
work = dist.all_reduce(bucket, async_op=True)
...  # computation that does not need it
work.wait()
```

## What the saving assumes
There is computation that does not need the result, and the ranks arrive at the same time.

## When this misleads
One rank's trace does not tell waiting for other ranks from moving data; compare the ranks.

## Sources
PyTorch DDP notes, "Internal design". NCCL user guide.
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Confidence
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import share, time
from overlapscope.measure.spans import intersect


def view(context: DeviceContext) -> Report | None:
    """Collective time without computation."""
    active = context.activity
    exposed, total = active.exposed_collectives.total_ns, active.collectives.total_ns
    if not exposed:
        return None
    beside = intersect(active.exposed_collectives, active.copies).total_ns
    message = (
        f"Collectives ran {time(exposed)} with no computation beside them ({share(exposed, total)} of their "
        f"time), {time(beside)} of it beside copies."
    )
    evidence = {"exposed_ns": exposed, "collective_ns": total, "beside_copies_ns": beside}
    doubt = "the traces of the other ranks: waiting for them looks the same"
    nothing = np.empty(0, np.int64)
    return Report(message, evidence, Confidence.MEDIUM, doubt, copies=nothing, calls=nothing, idle_ns=exposed)


RULE = Rule(
    code="OVL016",
    name="exposed-collective",
    page=__doc__,
    fix="model = DistributedDataParallel(model)  # reduces in buckets while backward goes on",
    view=view,
)
