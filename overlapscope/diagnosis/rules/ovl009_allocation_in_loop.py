"""GPU memory is allocated or freed in the loop.

## What happens
`cudaMalloc` and `cudaFree` go to the driver. They synchronise with the GPU, or wait for its lock. PyTorch's caching
allocator keeps freed memory, so a loop should need none of these calls after its first iterations.

## How it shows in a trace
The launching thread is inside such a call while the GPU is idle, or launches late because of one. Calls that page-lock
host memory are OVL018.

## Fix
```python
# before
for batch in loader:
    loss = step(batch.to(device, non_blocking=True))
    torch.cuda.empty_cache()
# after: the cache keeps what it has
for batch in loader:
    loss = step(batch.to(device, non_blocking=True))
```

The frees of `torch.cuda.empty_cache()` are recognised inside the call where a recording or stacks show it, else as
frees outside of operators; `no-empty-cache` simulates the loop without them and without the allocations after them.

Sizes that change from step to step defeat the cache: set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`, or
allocate the largest shape first. In CUDA C++, `cudaMallocAsync` and `cudaFreeAsync` take memory from a pool in stream
order.

## What the saving assumes
The same memory can be reused.

## When this misleads
The first steps of a program always allocate; leave them out (`--within`, a warm-up). Out-of-memory retries free and
allocate too: then the batch is too large.

## Sources
CUDA C++ Programming Guide, "Implicit Synchronization" and "Stream Ordered Memory Allocator". PyTorch CUDA semantics,
"Memory management".
"""

from __future__ import annotations

from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Number
from overlapscope.diagnosis.rule import FixFor, Report, Rule
from overlapscope.formatting import counted, time
from overlapscope.model.columns import Bool, Int64
from overlapscope.model.enums import DEVICE_ALLOCATIONS
from overlapscope.whatif.changes.no_empty_cache import emptying


def claims(context: DeviceContext) -> Bool:
    """Idle during or because of a call that allocates or frees memory of a GPU."""
    return context.allocating(*DEVICE_ALLOCATIONS)


def describe(context: DeviceContext, rows: Int64) -> Report:
    """The calls that allocate or free."""
    calls, names = context.allocations(rows, DEVICE_ALLOCATIONS)
    blocked = context.blocked_ns(calls)
    what = f"{counted(len(calls), 'memory management call')} ({names}) blocked the host for {time(blocked)}"
    message = f"{what}; {context.without_kernel(rows)} because of it."
    emptied_ns = context.blocked_ns(calls[emptying(context.trace)[calls]])
    evidence: dict[str, Number] = {"allocations": len(calls), "apis": names, "blocked_ns": blocked}
    if 2 * emptied_ns <= blocked:
        return Report(message, evidence)
    return Report(f"{message} They come from torch.cuda.empty_cache().", evidence, change="no-empty-cache", fix=_KEEP)


_KEEP = "# no torch.cuda.empty_cache() in the loop: the caching allocator uses again what it has"

RULE = Rule(
    look=("#BB8C4A", "", "#818181", "------"),
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
    cuda_fix="cudaMallocAsync(&buffer, bytes, stream);  // from a pool, or allocate once, before the loop",
    fix="buffer = torch.empty(shape, device=device)  # once, before the loop; no empty_cache() inside it",
    change="preallocate",
)
