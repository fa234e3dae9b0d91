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

from overlapscope.diagnosis.case import Case
from overlapscope.diagnosis.rule import Rule, Said
from overlapscope.measure.losses import Cause
from overlapscope.measure.spans import covered, union
from overlapscope.measure.threads import ALLOCATIONS
from overlapscope.model.columns import Bool, Int64
from overlapscope.words import counted, time

_PINNING = ("aten::pin_memory", "aten::_pin_memory")


def claims(case: Case) -> Bool:
    """Laid to an allocating or freeing call, or at work inside pin_memory."""
    allocating = case.of_cause(Cause.ALLOCATING) | np.isin(case.root_kind, ALLOCATIONS)
    return allocating | (case.of_cause(Cause.WORKING) & _inside_pinning(case))


def _inside_pinning(case: Case) -> Bool:
    """Stretches that lie, for the most part, inside an operator that pins."""
    ops = case.trace.cpu_ops
    mine = np.isin(ops.name_id, case.trace.names.find(*_PINNING)) & (ops.process == case.activity.key.process)
    inside = covered(case.losses.start_ns, case.losses.end_ns, union(ops.start_ns[mine], ops.end_ns[mine]))
    return inside * 2 > case.losses.duration_ns


def describe(case: Case, rows: Int64) -> Said:
    """Which calls, and how much of it was pinning with a block from the cache."""
    roots = case.roots_of(rows)
    roots = roots[np.isin(case.trace.api_calls.kind[roots], ALLOCATIONS)]
    pinning = int(case.losses.duration_ns[rows][~np.isin(case.root_kind[rows], ALLOCATIONS)].sum())
    names = sorted(set(case.trace.names.decode(case.trace.api_calls.name_id[roots])))
    held = case.held_ns(roots)
    calls = f"{counted(len(roots), 'call')} that allocate or free ({', '.join(names)}) held the host for {time(held)}"
    pins = f"pin_memory() in the loop copied on the host for {time(pinning)}"
    said = [text for text, there in ((calls, len(roots)), (pins, pinning)) if there]
    message = f"{' and '.join(said)}; the device waited {time(case.lost_ns(rows))} for it."
    return Said(
        message[0].upper() + message[1:],
        {"allocations": len(roots), "apis": ", ".join(names), "held_ns": held, "pinning_on_host_ns": pinning},
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
