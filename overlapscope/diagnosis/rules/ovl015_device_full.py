"""Kernels of several streams cannot run concurrently: each of them fills the GPU.

## What happens
Kernels of several streams run concurrently while multiprocessors are free. A kernel with at least one block per
multiprocessor leaves none: the kernel of the other stream waits until it ends. That costs no time, and more streams
gain nothing.

## How it shows in a trace
Kernels of two or more streams are queued at the same time and run one after the other. Their grids have at least as
many blocks as the GPU has multiprocessors.

## Fix
None is needed. To make use of several streams, launch smaller kernels, or put copies on them:

```python
# before
with torch.cuda.stream(a):
    y = x @ w1  # fills the GPU
with torch.cuda.stream(b):
    z = x @ w2  # waits for it
# after: one batched kernel
y, z = torch.bmm(x.expand(2, -1, -1), torch.stack((w1, w2)))
```

## What the saving assumes
There is no saving: the GPU is busy all the time.

## When this misleads
A kernel whose grid fills the GPU may still leave memory bandwidth or tensor cores unused; a trace does not show that.

## Sources
CUDA C++ Programming Guide, "Concurrent Kernel Execution".
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import share, time
from overlapscope.measure.devices import is_collective
from overlapscope.measure.spans import covered, union
from overlapscope.model.columns import Bool, Int64

_QUEUED_SHARE = 0.2
"""Share of the kernel time for which kernels of another stream must be queued before missing concurrency is mentioned.

It is also the share of that time that a stream must have to count there.
"""


def view(context: DeviceContext) -> Report | None:
    """Report how long kernels were queued while a kernel of another stream filled the GPU."""
    devices, kernels = context.trace.metadata.devices, context.trace.kernels
    processors = next((each.multiprocessors for each in devices if each.number == context.key.device), None)
    rows = context.rows_in_window(kernels, (kernels.call >= 0) & ~is_collective(context.trace, kernels.name_id))
    streams, member = np.unique(kernels.stream[rows], return_inverse=True)
    each = np.bincount(member, kernels.duration_ns[rows], len(streams))
    streams = streams[each >= _QUEUED_SHARE * each.sum()]
    if processors is None or len(streams) < 2:  # noqa: PLR2004 - one stream has nothing to run beside
        return None
    full = rows[kernels.blocks[rows] >= processors]
    queued = sum(_queued_ns(context, rows, full, stream) for stream in streams.tolist())
    busy, concurrent = context.activity.kernels.total_ns, context.activity.kernel_concurrency.total_ns
    if queued <= _QUEUED_SHARE * busy or concurrent > queued:
        return None
    message = (
        f"Kernels of {len(streams)} streams waited {time(queued)} while a kernel of another stream filled the GPU "
        f"(kernels ran concurrently for {share(concurrent, busy)} of the kernel time): more streams gain nothing."
    )
    evidence = {
        "streams": len(streams),
        "queued_ns": queued,
        "concurrent_ns": concurrent,
        "multiprocessors": processors,
    }
    return Report(message, evidence, informational=True)


def _queued_ns(context: DeviceContext, rows: Int64, full: Int64, stream: int) -> int:
    """Time in which a kernel was next in its stream, issued, and waiting while another stream filled the GPU."""
    kernels, calls = context.trace.kernels, context.trace.api_calls
    on_stream = rows[kernels.stream[rows] == stream]
    on_stream = on_stream[np.argsort(kernels.start_ns[on_stream], kind="stable")]
    ready = calls.end_ns[kernels.call[on_stream]]
    ready[1:] = np.maximum(ready[1:], kernels.end_ns[on_stream][:-1])
    others = full[kernels.stream[full] != stream]
    spans = union(kernels.start_ns[others], kernels.end_ns[others])
    waiting: Bool = kernels.start_ns[on_stream] > ready
    return int(covered(ready[waiting], kernels.start_ns[on_stream][waiting], spans).sum())


RULE = Rule(
    waited_for="kernels that fill the GPU",
    fix="# nothing to fix: more streams gain nothing here",
)
