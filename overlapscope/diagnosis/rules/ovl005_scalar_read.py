"""The host reads a scalar from the GPU in the loop.

## What happens
`.item()`, `.cpu()`, `float(loss)`, `if tensor:`, `nonzero()` and boolean masks need a number on the host. A D2H copy of
a few bytes runs, and the thread waits for it, that is, for all kernels queued before. The transfer takes microseconds;
the rest is waiting for the queue. Then nothing is queued, and the GPU is idle until the next launch.

## How it shows in a trace
A small D2H copy in a call that blocks the thread much longer than the copy takes, or followed by
`cudaStreamSynchronize`. After it the GPU is idle until the host has launched again.

## Fix
```python
# before
for batch in loader:
    total += step(batch).item()  # waits for every kernel of the step
# after: accumulate on the GPU, read once
for batch in loader:
    total += step(batch).detach()
print(total.item())
# or copy the value to pinned memory, and read it a step later, when its event has completed
```

Instead of `nonzero()` and boolean masks: `torch.where`, multiplication by the mask, or sizes that are known
beforehand.

## What the saving assumes
The program does not need the value to decide what to launch next. Pinning does not help: the thread waits for the
queue, not for the transfer.

## When this misleads
If the host would launch late anyway (OVL008), removing the read gains little. A loop with a stopping criterion has to
read a value now and then.

Where something else holds the host, nothing is queued, and a read waits for nothing: it is no finding then. Hundreds of
reads beside pageable copies (OVL001) become what costs once the copies are pinned. The plan has them as its next step.

## Sources
PyTorch CUDA semantics, "Asynchronous execution". PyTorch performance tuning guide, "Avoid unnecessary CPU-GPU
synchronization".
"""

from __future__ import annotations

from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.rule import OUTPUT_SIZE_FIX, FixFor, Report, Rule, median_or_none
from overlapscope.formatting import counted, time
from overlapscope.model.columns import Bool, Int64


def claims(context: DeviceContext) -> Bool:
    """Attributed to a scalar read: a small D2H copy whose call mostly waited for queued work."""
    return context.scalar_read


def describe(context: DeviceContext, rows: Int64) -> Report:
    """How long the reads blocked the host, and the time of their transfers."""
    calls, copies = context.blocking_calls_of(rows), context.copies_of(rows)
    blocked = context.blocked_ns(calls)
    transfer = int(context.facts.total_ns[copies].sum())
    message = (
        f"{counted(len(copies), 'scalar read')}{' (such as item())' if context.pytorch else ''} blocked the host for "
        f"{time(blocked)}, of which the "
        f"transfers took {time(transfer)}; the GPU was idle for {time(context.idle_ns(rows))} because of it."
    )
    sizes = context.trace.copies.size_bytes[copies]
    median = median_or_none(sizes[sizes >= 0].astype(float))
    evidence = {
        "reads": len(copies),
        "median_size_bytes": None if median is None else int(median),
        "blocked_ns": blocked,
        "transfer_ns": transfer,
        "late_launch_ns": context.idle_ns(rows),
    }
    return Report(message, evidence)


RULE = Rule(
    code="OVL005",
    name="scalar-read",
    page=__doc__,
    fixes=(
        OUTPUT_SIZE_FIX,
        FixFor("y = torch.where(condition, a, b)  # no Python if on a tensor: it reads the tensor", op="is_nonzero"),
        FixFor(
            "place.copy_(value, non_blocking=True)  # place: pinned, made once, instead of value.cpu()\n"
            "arrived = torch.cuda.Event(); arrived.record()  # arrived.synchronize() when the host needs it",
            op="aten::(to|_to_copy|copy_)$",
        ),
        FixFor("# cudaMemcpyAsync to pinned memory, and read it after the loop", op="^$", api="Memcpy"),
    ),
    waited_for="scalar reads",
    cuda_fix="cudaMemcpyAsync(pinned, value, bytes, cudaMemcpyDeviceToHost, stream);  // read it a step later",
    fix="total += loss.detach()  # stays on the GPU; total.item() once, after the loop",
    change="no-scalar-sync",
    claims=claims,
    describe=describe,
)
