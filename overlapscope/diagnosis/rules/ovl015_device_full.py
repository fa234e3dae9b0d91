"""Kernels of several streams cannot run at once: each fills the device.

## What happens
Streams let kernels run at once where there is room. A kernel with at least one block for every multiprocessor leaves
none: the next stream's kernel waits until it is done. Nothing is lost by that, and more streams gain nothing.

## How it shows in a trace
Kernels of two streams or more, queued at the same time, that run one after the other, with grids of at least as many
blocks as the device has multiprocessors.

## Fix
None is needed. To use the streams, make the kernels smaller or put copies on them:

```python
# before
with torch.cuda.stream(a):
    y = x @ w1  # fills the device
with torch.cuda.stream(b):
    z = x @ w2  # waits for it
# after: one batched kernel
y, z = torch.bmm(x.expand(2, -1, -1), torch.stack((w1, w2)))
```

## What the saving assumes
There is no saving: the device works all the time.

## When this misleads
A grid that fills the device may still leave bandwidth or tensor cores idle; a trace does not show that.

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


def view(context: DeviceContext) -> Report | None:
    """For how long kernels were queued while those of other streams filled the device."""
    key = context.activity.key
    processors = next((d.multiprocessors for d in context.trace.metadata.devices if d.number == key.device), None)
    kernels = context.trace.kernels
    inside = context.window.touches(kernels.process, kernels.start_ns, kernels.end_ns)
    rows = np.flatnonzero(
        inside & key.rows(kernels) & (kernels.call >= 0) & ~is_collective(context.trace, kernels.name_id)
    )
    streams, member = np.unique(kernels.stream[rows], return_inverse=True)
    each = np.bincount(member, kernels.duration_ns[rows], len(streams))
    streams = streams[each >= context.config.waiting_share * each.sum()]
    if processors is None or len(streams) < 2:  # noqa: PLR2004 - one stream has nothing to run beside
        return None
    full = rows[kernels.blocks[rows] >= processors]
    waited = sum(_waited(context, rows, full, stream) for stream in streams.tolist())
    busy, together = context.activity.kernels.total_ns, context.activity.kernel_concurrency.total_ns
    if waited <= context.config.waiting_share * busy or together > waited:
        return None
    message = (
        f"Kernels of {len(streams)} streams waited {time(waited)} while another stream's filled the device "
        f"({share(together, busy)} of the kernel time ran two at once): there is no room for more."
    )
    evidence = {"streams": len(streams), "waited_ns": waited, "together_ns": together, "multiprocessors": processors}
    return Report(message, evidence, aside=True, idle_ns=0)


def _waited(context: DeviceContext, rows: Int64, full: Int64, stream: int) -> int:
    """How long a stream's next kernel was issued, first in its stream, and under a full device."""
    kernels, calls = context.trace.kernels, context.trace.api_calls
    mine = rows[kernels.stream[rows] == stream]
    mine = mine[np.argsort(kernels.start_ns[mine], kind="stable")]
    ready = calls.end_ns[kernels.call[mine]]
    ready[1:] = np.maximum(ready[1:], kernels.end_ns[mine][:-1])
    others = full[kernels.stream[full] != stream]
    spans = union(kernels.start_ns[others], kernels.end_ns[others])
    waiting: Bool = kernels.start_ns[mine] > ready
    return int(covered(ready[waiting], kernels.start_ns[mine][waiting], spans).sum())


RULE = Rule(
    code="OVL015",
    name="device-full",
    page=__doc__,
    fix="# nothing to mend: more streams gain nothing here",
    view=view,
)
