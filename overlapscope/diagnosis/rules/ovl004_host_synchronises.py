"""The host waits for a copy before it goes on.

## What happens
`tensor.to(device)` without `non_blocking=True` calls `cudaMemcpyAsync` and then `cudaStreamSynchronize`;
`stream.synchronize()` and `torch.cuda.synchronize()` do so by name. The thread waits until the device has done
everything before that point, so when it launches again the device has nothing queued: what the host does then is not
hidden behind kernels any more.

## How it shows in a trace
A synchronising call that follows a copy call, or stands between the launches, and time without a kernel inside it or
after it, for as long as the host has to catch up. What was waited for is told apart: time inside the call in which a
copy ran, and the lead over queued kernels that the call took away.

## Fix
```python
# before
batch = batch.to(device)  # pinned, but waits
torch.cuda.synchronize()
# after
batch = batch.to(device, non_blocking=True)  # kernels of this stream wait for it, the host does not
event = torch.cuda.Event()
event.record()
...  # launch other work first
event.synchronize()  # where the host really needs it
```

## What the saving assumes
Nothing on the host needs the copy to be complete at that point. A source that is overwritten afterwards does need it:
use two buffers, or an event.

## When this misleads
Timing code synchronises on purpose. From pageable memory the copy call itself holds the host, and dropping the
synchronisation gains little (OVL001).

## Sources
PyTorch, `Tensor.to` and "Asynchronous execution" in the CUDA semantics notes. CUDA Runtime API, "API synchronization
behavior".
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.rule import DOWN, Report, Rule, mostly_down
from overlapscope.formatting import counted, time
from overlapscope.model.columns import Bool, Int64
from overlapscope.model.enums import ApiKind, MemoryKind


def claims(context: DeviceContext) -> Bool:
    """Laid to a synchronisation that reads no value, or to a copy call that is blocking by its name."""
    names = context.trace.names
    blocking = [number for number, name in enumerate(names.values) if _copies(name) and "async" not in name.lower()]
    by_name = np.isin(np.append(context.trace.api_calls.name_id, -1)[context.idle.blocking_call], blocking)
    by_name &= (context.blocking_kind == ApiKind.COPY) & (context.memory == MemoryKind.PINNED)
    pinned_down = context.of_cause(Cause.COPY_CALL) & (context.memory == MemoryKind.PINNED) & by_name
    result: Bool = (context.synchronising | by_name | pinned_down) & ~context.read
    return result & ~context.doubtful


def _copies(name: str) -> bool:
    return "memcpy" in name.lower()


def describe(context: DeviceContext, rows: Int64) -> Report:
    """What was waited for inside the calls, and what came late after them."""
    roots = context.blocking_calls_of(rows)
    inside = context.of_cause(Cause.SYNCHRONISATION, Cause.COPY_CALL)[rows]
    copying = int(np.where(inside, context.copying_ns[rows], 0).sum())
    within = int(context.idle.duration_ns[rows][inside].sum())
    after = context.idle_ns(rows) - within
    held = context.blocked_ns(roots)
    parts = [f"{time(copying)} while a copy ran"] if copying > after else []
    parts += [f"{time(after)} after it, until the host had launched again"] if after >= copying else []
    message = (
        f"The host synchronised {counted(len(roots), 'time')} for {time(held)}; the device had no other work for "
        f"{time(context.idle_ns(rows))}: {' and '.join(parts)}."
    )
    evidence = {
        "synchronisations": len(roots),
        "blocked_ns": held,
        "waited_for_copies_ns": copying,
        "late_afterwards_ns": after,
        "waited_for_kernels_ns": max(held - within, 0),
    }
    copies = context.copies_of(rows)
    return Report(message, evidence, fix=DOWN if len(copies) and mostly_down(context, copies) else None)


RULE = Rule(
    code="OVL004",
    name="host-synchronises",
    page=__doc__,
    fix="batch = batch.to(device, non_blocking=True)  # no wait; wait for an event where the host needs the data",
    change="non-blocking",
    claims=claims,
    describe=describe,
)
