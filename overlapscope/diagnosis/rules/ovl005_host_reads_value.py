"""The host reads a value of the device in the loop.

## What happens
`.item()`, `.cpu()`, `float(loss)`, `if tensor:`, `nonzero()` and boolean masks need a number on the host. A few bytes
are copied, and the thread waits for them: that is, for all kernels queued before. The transfer takes microseconds;
the wait is for the queue. Then the device has nothing queued, and what the host does until its next launch is not
hidden.

## How it shows in a trace
A small copy to the host, in a call that holds the thread much longer than the copy takes, or followed by
`cudaStreamSynchronize`; after it, time without a kernel until the host has launched again.

## Fix
```python
# before
for batch in loader:
    total += step(batch).item()  # waits for every kernel of the step
# after: add up on the device, read once
for batch in loader:
    total += step(batch).detach()
print(total.item())
# or read what an earlier step left in pinned memory, when its event has been reached
```

Instead of `nonzero()` and boolean masks: `torch.where`, multiplication by the mask, or sizes that are known
beforehand.

## What the saving assumes
The program does not need the value to decide what to launch next. Pinning does not help: the time is queue wait.

## When this misleads
If the host would be late anyway (OVL008), reads only show it. A loop that stops on a value has to read it now and
then.

## Sources
PyTorch CUDA semantics, "Asynchronous execution". PyTorch performance tuning guide, "Avoid unnecessary CPU-GPU
synchronization".
"""

from __future__ import annotations

from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.rule import Report, Rule, median_or_none
from overlapscope.formatting import counted, time
from overlapscope.model.columns import Bool, Int64


def claims(context: DeviceContext) -> Bool:
    """Laid to a call that brought a value to the host and mostly waited."""
    return context.read


def describe(context: DeviceContext, rows: Int64) -> Report:
    """How long the reads waited, for how little."""
    roots, copies = context.blocking_calls_of(rows), context.copies_of(rows)
    held = context.blocked_ns(roots)
    transfer = int(context.facts.total_ns[copies].sum())
    message = (
        f"{counted(len(copies), 'read')} of a device value held the host for {time(held)}, of which the transfers took "
        f"{time(transfer)}; with nothing queued, the device waited {time(context.idle_ns(rows))} for the host."
    )
    sizes = context.trace.copies.size_bytes[copies]
    median = median_or_none(sizes[sizes >= 0].astype(float))
    evidence = {
        "reads": len(copies),
        "median_size_bytes": None if median is None else int(median),
        "blocked_ns": held,
        "transfer_ns": transfer,
        "late_ns": context.idle_ns(rows),
    }
    return Report(message, evidence)


RULE = Rule(
    code="OVL005",
    name="host-reads-value",
    page=__doc__,
    fix="total += loss.detach()  # stay on the device; total.item() once, after the loop",
    change="no-scalar-sync",
    claims=claims,
    describe=describe,
)
