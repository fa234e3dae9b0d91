"""Many small copies in a row.

## What happens
Each copy costs a call and some Python on the host, 5 to 20 us together, however few bytes it moves. Hundreds of small
tensors that are copied one by one take as long as their calls.

## How it shows in a trace
A thread issues many copies, with no launch between. The copies themselves take a fraction of that time on the GPU.

## Fix
```python
# before
data = [tensor.to(device, non_blocking=True) for tensor in tensors]
# after: one pinned buffer, one copy, views
sizes = [tensor.numel() for tensor in tensors]
pinned = torch.empty(sum(sizes), pin_memory=True)  # made once
torch.cat([tensor.flatten() for tensor in tensors], out=pinned)
sent = pinned.to(device, non_blocking=True)
data = [part.view_as(tensor) for part, tensor in zip(sent.split(sizes), tensors)]
sent_event = torch.cuda.current_stream().record_event()  # wait for it before the buffer is filled again
```

`TensorDict.consolidate()` packs its tensors into one block of memory, and `to()` then moves that in one copy; without
it, `TensorDict.to` copies tensor by tensor, on an H200 600 copies for 600 tensors. A loader that collates into one
tensor needs no packing.

## What the saving assumes
The tensors have one data type and can be packed into one buffer, which is made once. Packing costs a copy on the host.

## When this misleads
If the small copies overlap long kernels, the GPU is not idle, and nothing is reported. Where the tensors are pinned
already, packing them may cost as much as it saves: measure it. `torch.stack(tensors).to(device)` makes a new pageable
tensor each time, whose bytes are copied twice on the host. Measured on an H200, in ms:

| tensors | one by one, pageable | one by one, pinned | `torch.stack` | into the pinned buffer |
|---|---|---|---|---|
| 256 of 4 KiB | 1.8 | 1.8 | 0.26 | 0.20 |
| 40 of 64 KiB | 0.55 | 0.35 | 0.46 | 0.30 |
| 64 of 256 KiB | 1.7 | 0.48 | 3.0 | 1.4 |
| 40 of 1 MiB | 2.8 | 0.88 | 11 | 1.6 |

## Sources
PyTorch tutorial on `pin_memory` and `non_blocking`, section on `TensorDict`. Measured on an H200: 600 tensors of 64
KiB, pinned, took 3.7 ms one by one; one copy of all bytes takes 0.7 ms.
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.device_context import DeviceContext, unique
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted, size, time
from overlapscope.model.columns import Bool, Int64


def claims(context: DeviceContext) -> Bool:
    """Idle within a burst of small copies."""
    return context.within(context.bursts, context.bursts.end_ns) & ~context.has_cause(Cause.UNKNOWN)


def describe(context: DeviceContext, rows: Int64) -> Report:
    """Number and size of the copies, and how much of the idle time they ran."""
    copies = unique(context.bursts.copies)
    calls = unique(context.trace.copies.call[copies])
    sizes = context.trace.copies.size_bytes[copies]
    total = int(context.facts.total_ns[copies].sum())
    median = int(np.median(sizes)) if len(sizes) else 0
    what = f"{counted(len(copies), 'small copy', 'small copies')} in a row (median size {size(median)})"
    message = f"{what} cost a call each: {context.without_kernel(rows)}, the copies themselves took {time(total)}."
    evidence = {
        "copies": len(copies),
        "median_size_bytes": median,
        "size_bytes": context.size_bytes(copies),
        "copy_ns": total,
        "call_ns": int(context.trace.api_calls.duration_ns[calls].sum()),
    }
    return Report(message, evidence, copies=copies, calls=calls)


RULE = Rule(
    look=("#8E1777", "#C552AE", "#3E3E3E", "oooooo"),
    waited_for="many small copies",
    about_copies=True,
    cuda_fix="// gather the pieces in one pinned buffer, and send it with one cudaMemcpyAsync",
    fix="torch.cat([t.flatten() for t in tensors], out=pinned)  # one buffer, one copy, then views\n"
    "views = pinned.to(device, non_blocking=True).split(sizes)",
    change="batch-copies",
)
