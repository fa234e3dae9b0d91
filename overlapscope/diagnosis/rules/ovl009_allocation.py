"""Memory is allocated or freed in the loop.

## What happens
`cudaMalloc`, `cudaFree`, `cudaHostAlloc` and `cudaFreeHost` go to the driver. Most of them synchronise with the GPU,
and page-locking takes time for every page. PyTorch's allocators cache freed memory, so a loop should need none of these
calls after its first iterations. `pin_memory()` in the loop also copies the data on the host each time, even when the
memory comes from the cache.

## How it shows in a trace
The launching thread is inside such a call while the GPU is idle, or launches late because of one; or it is inside the
operator `aten::pin_memory`. The evidence separates real allocations from `pin_memory` with cached memory.

## Fix
```python
# before
for batch in loader:
    data = batch.pin_memory().to(device, non_blocking=True)
    torch.cuda.empty_cache()
# after: allocate once, pin in the loader, do not empty the cache
loader = DataLoader(dataset, pin_memory=True)
buffer = torch.empty(largest_shape, pin_memory=True)  # or one buffer, reused once its last copy is done
```

Sizes that change from step to step defeat the cache: set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`, or
allocate the largest shape first.

## What the saving assumes
The same memory can be reused.

## When this misleads
The first steps of a program always allocate; leave them out (`--within`, a warm-up). Out-of-memory retries free and
allocate too: then the batch is too large.

## Sources
CUDA C++ Programming Guide, "Implicit Synchronization". PyTorch CUDA semantics, "Memory management".
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Number
from overlapscope.diagnosis.rule import FixFor, Report, Rule
from overlapscope.formatting import counted, time
from overlapscope.measure.spans import covered, union
from overlapscope.model.columns import Bool, Int64
from overlapscope.model.enums import ALLOCATIONS
from overlapscope.whatif.pinning import PINNING

_PIN_AHEAD = (
    "loader = DataLoader(dataset, pin_memory=True)  # its own thread pins; a custom batch needs a pin_memory() method\n"
    "print(batch.x.is_pinned())  # to check; or pin once, before the loop"
)


def claims(context: DeviceContext) -> Bool:
    """Idle during or because of a call that allocates or frees memory, or during ``pin_memory``."""
    allocating = context.has_cause(Cause.ALLOCATION) | np.isin(context.blocking_kind, ALLOCATIONS)
    return allocating | (context.has_cause(Cause.HOST_WORK) & _inside_pinning(context))


def _inside_pinning(context: DeviceContext) -> Bool:
    """Which idle intervals lie mostly inside ``aten::pin_memory``."""
    ops = context.trace.cpu_ops
    mine = np.isin(ops.name_id, context.trace.names.find(*PINNING)) & (ops.process == context.activity.key.process)
    inside = covered(context.idle.start_ns, context.idle.end_ns, union(ops.start_ns[mine], ops.end_ns[mine]))
    return inside * 2 > context.idle.duration_ns


def describe(context: DeviceContext, rows: Int64) -> Report:
    """Which calls allocate or free, and how much time went into ``pin_memory`` with cached memory."""
    calls = context.blocking_calls_of(rows)
    calls = calls[np.isin(context.trace.api_calls.kind[calls], ALLOCATIONS)]
    pinning = int(context.idle.duration_ns[rows][~np.isin(context.blocking_kind[rows], ALLOCATIONS)].sum())
    names = ", ".join(sorted(set(context.trace.names.decode(context.trace.api_calls.name_id[calls]))))
    blocked = context.blocked_ns(calls)
    allocating = f"{counted(len(calls), 'memory management call')} ({names}) blocked the host for {time(blocked)}"
    parts = [allocating] if len(calls) else []
    parts += [f"in the loop, pin_memory() copied on the host for {time(pinning)}"] if pinning else []
    message = f"{' and '.join(parts)}; the GPU was idle for {time(context.idle_ns(rows))} because of it."
    evidence: dict[str, Number] = {
        "allocations": len(calls),
        "apis": names,
        "blocked_ns": blocked,
        "pin_memory_ns": pinning,
    }
    if 2 * pinning > context.idle_ns(rows):
        return Report(
            message[0].upper() + message[1:], evidence, change="pin-ahead", fix=_PIN_AHEAD, waited_for="pin_memory()"
        )
    return Report(message[0].upper() + message[1:], evidence)


RULE = Rule(
    code="OVL009",
    name="allocation-in-loop",
    page=__doc__,
    fixes=(
        FixFor(
            "torch.backends.cudnn.benchmark = False  # or inputs of one shape: each new shape tries algorithms, whose\n"
            "# workspaces are allocated and freed",
            op="conv|cudnn|miopen",
            api="Malloc|Free",
        ),
        FixFor(
            "# PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, fixed shapes, and no empty_cache() in the loop:\n"
            "# then the caching allocator keeps what it has",
            op="aten::|autograd",
            api="^(cuda|hip)(Malloc|Free)$|MemCreate|MemMap|MemUnmap|MemRelease",
        ),
        FixFor(
            "# cudaMallocAsync and cudaFreeAsync, or allocate before the loop", op="^$", api="^(cuda|hip)(Malloc|Free)$"
        ),
    ),
    waited_for="allocations",
    fix="buffer = torch.empty(shape, pin_memory=True)  # once, before the loop; no empty_cache() inside it",
    change="preallocate",
    claims=claims,
    describe=describe,
)
