"""Memory is allocated or freed in the loop.

## What happens
`cudaMalloc`, `cudaFree`, `cudaHostAlloc` and `cudaFreeHost` go to the driver; most of them wait for the device, and
page-locking takes time for every page. PyTorch's allocators keep what was freed, so that a loop should need none of
them after its first rounds. `pin_memory()` in the loop also copies the data on the host each time, even when its
block comes from the cache.

## How it shows in a trace
The launching thread is inside such a call while the device waits, or late because of one; or it is inside the
operator `aten::pin_memory`. The evidence tells real allocations from time in `pin_memory` with a cached block.

## Fix
```python
# before
for batch in loader:
    data = batch.pin_memory().to(device, non_blocking=True)
    torch.cuda.empty_cache()
# after: allocate once, pin in the loader, keep the cache
loader = DataLoader(dataset, pin_memory=True)
buffer = torch.empty(largest_shape, pin_memory=True)  # or one buffer, reused once its last copy is done
```

Sizes that change from step to step make caching fail: `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`, or allocate
the largest shape first.

## What the saving assumes
The same memory can be used again.

## When this misleads
The first steps of a program always allocate; leave them out (`--range`, a warm-up). Out-of-memory retries free and
allocate too: then the batch is too large.

## Sources
CUDA C++ Programming Guide, "Implicit Synchronization". PyTorch CUDA semantics, "Memory management".
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted, time
from overlapscope.measure.spans import covered, union
from overlapscope.model.columns import Bool, Int64
from overlapscope.model.enums import ALLOCATIONS

_PINNING = ("aten::pin_memory", "aten::_pin_memory")


def claims(context: DeviceContext) -> Bool:
    """Laid to an allocating or freeing call, or at work inside pin_memory."""
    allocating = context.of_cause(Cause.ALLOCATION) | np.isin(context.blocking_kind, ALLOCATIONS)
    return allocating | (context.of_cause(Cause.HOST_WORK) & _inside_pinning(context))


def _inside_pinning(context: DeviceContext) -> Bool:
    """Stretches that lie, for the most part, inside an operator that pins."""
    ops = context.trace.cpu_ops
    mine = np.isin(ops.name_id, context.trace.names.find(*_PINNING)) & (ops.process == context.activity.key.process)
    inside = covered(context.idle.start_ns, context.idle.end_ns, union(ops.start_ns[mine], ops.end_ns[mine]))
    return inside * 2 > context.idle.duration_ns


def describe(context: DeviceContext, rows: Int64) -> Report:
    """Which calls, and how much of it was pinning with a block from the cache."""
    roots = context.blocking_calls_of(rows)
    roots = roots[np.isin(context.trace.api_calls.kind[roots], ALLOCATIONS)]
    pinning = int(context.idle.duration_ns[rows][~np.isin(context.blocking_kind[rows], ALLOCATIONS)].sum())
    names = sorted(set(context.trace.names.decode(context.trace.api_calls.name_id[roots])))
    held = context.blocked_ns(roots)
    calls = f"{counted(len(roots), 'call')} that allocate or free ({', '.join(names)}) held the host for {time(held)}"
    pins = f"pin_memory() in the loop copied on the host for {time(pinning)}"
    said = [text for text, there in ((calls, len(roots)), (pins, pinning)) if there]
    message = f"{' and '.join(said)}; the device waited {time(context.idle_ns(rows))} for it."
    return Report(
        message[0].upper() + message[1:],
        {"allocations": len(roots), "apis": ", ".join(names), "blocked_ns": held, "pinning_on_host_ns": pinning},
    )


RULE = Rule(
    code="OVL009",
    name="allocation-in-loop",
    page=__doc__,
    fix="buffer = torch.empty(shape, pin_memory=True)  # once, before the loop; no empty_cache() inside it",
    change="preallocate",
    claims=claims,
    describe=describe,
)
