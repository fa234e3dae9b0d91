"""Host memory is page-locked in the loop.

## What happens
`cudaHostAlloc` and `cudaHostRegister` lock every page of the memory and map it for the GPU; `cudaFreeHost` and
`cudaHostUnregister` undo that. Their time grows with the size, and is often more than that of the copy. PyTorch keeps
pinned memory in a cache of its own: a block is free again when its tensor is gone and the copies that use it are
complete. Results that are kept, tensors that grow, and copies that are still under way need new memory each time.
`pin_memory()` in the loop also copies the data on the host, even when the memory comes from the cache.

`cudaFreeHost` and `cudaHostUnregister` also wait until the GPU is idle. While a thread is in one of the calls, no other
thread of the process can launch: a thread of its own does not hide them.

## How it shows in a trace
The launching thread is inside one of these calls while the GPU is idle, or launches late because of one; or it is
inside the operator `aten::pin_memory`. The evidence separates page-locking from `pin_memory()` with cached memory.
Where another thread makes the call, a launch takes until it returns. Calls that allocate memory of the GPU are OVL009.

## Fix
```python
# before: page-locked in each step
for batch in loader:
    data = batch.pin_memory().to(device, non_blocking=True)
    result = torch.empty(shape, pin_memory=True)
    result.copy_(model(data), non_blocking=True)
# after: two pinned buffers made once, each reused when its last copy is complete
loader = DataLoader(dataset, pin_memory=True)
results = [torch.empty(shape, pin_memory=True) for _ in range(2)]
arrived = [torch.cuda.Event() for _ in range(2)]
for step, batch in enumerate(loader):
    data = batch.to(device, non_blocking=True)
    arrived[step % 2].synchronize()
    results[step % 2].copy_(model(data), non_blocking=True)
    arrived[step % 2].record()
```

Register memory that stays, such as a mapped file, once and as a whole, not piece by piece. What has to be kept goes
from the pinned buffer into ordinary memory. PyTorch gets large blocks sooner with
`PYTORCH_CUDA_ALLOC_CONF=pinned_use_cuda_host_register:True,pinned_num_register_threads:8`.

## What the saving assumes
The same pinned memory can be reused, so that the calls are gone. Where most of the time is `pin_memory()` with cached
memory: somebody else pins, in time.

## When this misleads
- The first steps of a program always allocate; leave them out (`--within`, a warm-up).
- Pinned memory is taken from all programs of the machine: one buffer that is reused, not all data that there is.

## Sources
CUDA C++ Programming Guide, "Page-Locked Host Memory" and "Implicit Synchronization". PyTorch CUDA semantics, "Use
pinned memory buffers" and "Optimizing memory usage". Measured on an H100: `pin_memory()` of 64 MiB takes 23.5 ms with
new memory, 0.5 ms with cached memory. Measured on an H200, driver 580, with an idle GPU: `cudaHostAlloc` takes 25 ms
for 64 MiB and 85 ms for 256 MiB, `cudaFreeHost` 6 and 21 ms, `cudaHostRegister` of memory that is in use 4 and 8 ms,
`cudaHostUnregister` 1 and 4 ms; the copy of 64 MiB takes 1.2 ms. With a GPU that was busy for 150 ms, the second and
the fourth took 150 ms more. Launches of another thread took as long as the call: 104 ms during `cudaHostAlloc` of 256
MiB. `torch.empty(pin_memory=True)` of 64 MiB took 3 us with cached memory, 37 ms while the last copy from that memory
was under way. The workload `page_locking` takes 41 ms with 64 MiB registered in each step, 17.5 ms with all
registered once.
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Number
from overlapscope.diagnosis.rule import FixFor, Report, Rule
from overlapscope.formatting import counted, time
from overlapscope.measure.spans import union
from overlapscope.model.columns import Bool, Int64
from overlapscope.model.enums import HOST_ALLOCATIONS
from overlapscope.whatif.pinning import PINNING

_PIN_AHEAD = (
    "loader = DataLoader(dataset, pin_memory=True)  # its own thread pins; a custom batch needs a pin_memory() method\n"
    "print(batch.x.is_pinned())  # to check; or pin once, before the loop"
)

_REGISTER_CUDA = (
    "cudaHostRegister(memory, bytes, 0);  // all of it, once, before the loop; unregister it after the loop"
)


def claims(context: DeviceContext) -> Bool:
    """Idle during or because of a call that page-locks host memory or unlocks it, or during ``pin_memory``."""
    return context.allocating(*HOST_ALLOCATIONS) | (context.has_cause(Cause.HOST_WORK) & _inside_pinning(context))


def _inside_pinning(context: DeviceContext) -> Bool:
    """Mask of idle intervals that lie mostly inside ``aten::pin_memory``."""
    ops = context.trace.cpu_ops
    rows = np.isin(ops.name_id, context.trace.names.find(*PINNING)) & (ops.process == context.key.process)
    return context.mostly_in(union(ops.start_ns[rows], ops.end_ns[rows]))


def describe(context: DeviceContext, rows: Int64) -> Report:
    """The calls that page-lock, and how much time went into ``pin_memory`` with cached memory."""
    calls, names = context.allocations(rows, HOST_ALLOCATIONS)
    pinning = context.idle_ns(rows[~context.allocating(*HOST_ALLOCATIONS)[rows]])
    blocked = context.blocked_ns(calls)
    locking = f"{counted(len(calls), 'call')} to page-lock or unlock host memory ({names}) blocked the host for "
    parts = [locking + time(blocked)] if len(calls) else []
    parts += [f"in the loop, pin_memory() copied on the host for {time(pinning)}"] if pinning else []
    message = f"{' and '.join(parts)}; {context.without_kernel(rows)} because of it."
    message = message[0].upper() + message[1:]
    evidence: dict[str, Number] = {
        "allocations": len(calls),
        "apis": names,
        "blocked_ns": blocked,
        "pin_memory_ns": pinning,
    }
    if 2 * pinning > context.idle_ns(rows):
        return Report(message, evidence, change="pin-ahead", fix=_PIN_AHEAD, waited_for="pin_memory()")
    return Report(message, evidence, cuda_fix=_REGISTER_CUDA if "egister" in names else None)


RULE = Rule(
    look=("#5A2F16", "#8F5A34", "#373737", "------"),
    fixes=(
        FixFor(
            "torch.cuda.cudart().cudaHostRegister(memory.data_ptr(), memory.nbytes, 0)  # all of it, once, before the "
            "loop;\n# unregister it after the loop",
            api="Register|Unregister",
        ),
        FixFor(_PIN_AHEAD, op="pin_memory"),
    ),
    waited_for="page-locking of host memory",
    cuda_fix="cudaMallocHost(&staging, largest);  // once, before the loop; reuse it when its last copy is complete",
    fix="staging = torch.empty(largest_shape, pin_memory=True)  # once, before the loop\n"
    "staging[: len(x)].copy_(x)  # reuse it when its last copy is complete: event.synchronize()",
    change="preallocate",
)
