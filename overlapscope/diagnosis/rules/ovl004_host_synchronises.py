"""The host synchronises with the GPU after a copy.

## What happens
`tensor.to(device)` without `non_blocking=True` calls `cudaMemcpyAsync` and then `cudaStreamSynchronize`.
`stream.synchronize()` and `torch.cuda.synchronize()` synchronise explicitly. The thread waits until the GPU has
finished all earlier work. When it launches again, nothing is queued: kernels no longer hide the host's work. So does a
program that synchronises after each kernel, though a stream runs its kernels in order anyway.

## How it shows in a trace
A synchronising call follows a copy call, or lies between launches. The GPU is idle during the call or after it, until
the host has caught up. The evidence separates the two: idle time during the call while a copy ran, and idle time
afterwards because the call used up the launch run-ahead. Of the second, only what a simulation without synchronisations
does not have counts; where the GPU would be idle all the same, what the thread did then is the cause.

## Fix
```python
# before
batch = batch.to(device)  # pinned, but synchronises
torch.cuda.synchronize()
# after
batch = batch.to(device, non_blocking=True)  # kernels on this stream wait for the copy, the host does not
event = torch.cuda.Event()
event.record()
...  # launch other work first
event.synchronize()  # where the host really needs it
```

## What the saving assumes
Where synchronisations follow copies, `non-blocking` is simulated, elsewhere `no-device-sync`. Nothing on the host needs
the completed copy, or the result of the kernels, at that point. If the source is overwritten afterwards, the host does
need it: use two buffers, or an event.

## When this misleads
Timing code synchronises on purpose. With pageable memory the copy call itself blocks the host, and removing the
synchronisation gains little (OVL001).

## Sources
PyTorch, `Tensor.to` and "Asynchronous execution" in the CUDA semantics notes. CUDA Runtime API, "API synchronization
behavior".
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.rule import OUTPUT_SIZE_FIX, FixFor, Report, Rule, with_d2h_fix
from overlapscope.formatting import counted, time
from overlapscope.measure.waits import synchronised_copy
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind, MemoryKind
from overlapscope.whatif.changes.no_device_sync import may_be_needed


def claims(context: DeviceContext) -> Bool:
    """Attributed to a synchronisation that is no scalar read, or to a synchronous copy call such as cudaMemcpy."""
    names = context.trace.names
    lower = [name.lower() for name in names.values]
    blocking = [number for number, name in enumerate(lower) if "memcpy" in name and "async" not in name]
    by_name = np.isin(np.append(context.trace.api_calls.name_id, -1)[context.idle.blocking_call], blocking)
    by_name &= (context.blocking_kind == ApiKind.COPY) & (context.memory == MemoryKind.PINNED)
    pinned_down = context.has_cause(Cause.COPY_CALL) & (context.memory == MemoryKind.PINNED) & by_name
    result: Bool = (context.from_sync | by_name | pinned_down) & ~context.scalar_read
    return result & ~context.insufficient_data


def describe(context: DeviceContext, rows: Int64) -> Report:
    """GPU idle time during the synchronisations, and after them until the next launch."""
    calls = context.blocking_calls_of(rows)
    during = context.has_cause(Cause.SYNCHRONISATION, Cause.COPY_CALL)[rows]
    copy_ns = int(context.link_copy_ns[rows[during]].sum())
    during_ns = context.idle_ns(rows[during])
    after_ns = context.idle_ns(rows) - during_ns
    blocked = context.blocked_ns(calls)
    copying = f", a copy running for {time(copy_ns)} of that" if copy_ns else ""
    idle = [f"{time(during_ns)} meanwhile{copying}"] if during_ns else []
    idle += [f"up to {time(after_ns)} afterwards, until a launch that could have been earlier"] if after_ns else []
    message = (
        f"The host synchronised {counted(len(calls), 'time')} and was blocked for {time(blocked)}; "
        f"no kernel ran for {', and for '.join(idle)}."
    )
    evidence = {
        "synchronisations": len(calls),
        "blocked_ns": blocked,
        "waited_for_copies_ns": copy_ns,
        "late_launch_ns": after_ns,
        "waited_for_kernels_ns": max(blocked - during_ns, 0),
    }
    if _mostly_without_copies(context, rows):
        needed = may_be_needed(context.graph)[context.graph.call_of[calls]].all()
        message += _NEEDED if needed else ""
        return Report(message, evidence, change="no-device-sync", cuda_fix=_NO_SYNC_CUDA)
    return with_d2h_fix(Report(message, evidence), context, context.copies_of(rows))


def _mostly_without_copies(context: DeviceContext, rows: Int64) -> bool:
    """Whether most of the idle time is because of synchronisations that no copy comes right before."""
    call = context.idle.blocking_call[rows]
    follows = np.append(synchronised_copy(context.trace), NO_ID)[call] != NO_ID
    without_copies = context.from_sync[rows] & ~follows
    return 2 * context.idle_ns(rows[without_copies]) > context.idle_ns(rows)


_NEEDED = " They may be needed: for managed memory, the order of several streams, or copies under way."
_NO_SYNC_CUDA = (
    "// no synchronisation after a kernel: a stream runs its work in order, cudaStreamWaitEvent orders streams;\n"
    "// cudaDeviceSynchronize() only before the host reads results"
)

RULE = Rule(
    look=("#ECB41C", "", "#A6A6A6", "------"),
    fixes=(
        OUTPUT_SIZE_FIX,
        FixFor("# no torch.cuda.synchronize() in the loop; torch.cuda.Event measures times", api="DeviceSynchronize"),
        FixFor(
            "event.synchronize()  # only where the host needs the data; streams wait with stream.wait_event(event)",
            api="EventSynchronize",
        ),
    ),
    waited_for="synchronisations of the host",
    cuda_fix="cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice, stream);  // the host does not wait",
    fix="tensor.to(device, non_blocking=True)  # kernels on this stream wait for the copy, the host need not",
    change="non-blocking",
)
