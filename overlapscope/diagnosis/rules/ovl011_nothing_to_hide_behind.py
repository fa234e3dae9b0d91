"""There is no kernel time to hide the copies behind.

## What happens
Copies run at the speed of the link, and next to no kernel time is there that could run beside them: an upload before
the work begins, results that come down after it has ended, or a loop that moves far more than it computes. Reordering
cannot win more than the kernels that there are.

## How it shows in a trace
Copies with no kernel beside them and none that could be: no work follows, or the kernels that follow take a small
fraction of the copies' time.

## Fix
Move fewer bytes, or less often; or find something to do meanwhile.

```python
# before: everything is uploaded, then the first batch begins
for layer in layers:
    layer.to(device)
# after: pinned once, in the type that it is used in; the first layers compute while the rest is on its way
for layer in layers:
    with torch.cuda.stream(side):
        for tensor in layer.parameters():
            tensor.data = tensor.data.to(device, non_blocking=True)  # pinned, converted on the host beforehand
    uploaded.append(side.record_event())
for layer, event in zip(layers, uploaded):
    torch.cuda.current_stream().wait_event(event)
    x = layer(x)
```

Keep on the device what is needed again; recompute what is cheap; compress.

## What the saving assumes
Nothing: what could be hidden is given in the evidence, and it is little.

## When this misleads
A window that holds the upload only does not show the work that could be moved beside it.

## Sources
Follows from the times themselves: the sum of what overlaps cannot be shorter than the longer part.
"""

from __future__ import annotations

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted, size, time
from overlapscope.model.columns import Bool, Int64


def claims(context: DeviceContext) -> Bool:
    """A copy runs, and no other work is to come."""
    return context.of_cause(Cause.COPY_ONLY) & ~context.doubtful


def describe(context: DeviceContext, rows: Int64) -> Report:
    """What was copied, and how much kernel time there is."""
    copies = context.copies_of(rows)
    kernels = context.uncovered_kernel_ns
    what = f"{counted(len(copies), 'copy', 'copies')} ({size(context.size_bytes(copies))})"
    left = f"{time(kernels)} of kernels had no copy beside them" if kernels else "no kernel had no copy beside it"
    message = f"{what} took {time(context.idle_ns(rows))} with next to nothing to hide behind: {left}."
    evidence = {
        "copies": len(copies),
        "size_bytes": context.size_bytes(copies),
        "copying_ns": int(context.copying_ns[rows].sum()),
        "kernel_time_without_copies_ns": kernels,
    }
    return Report(message, evidence)


RULE = Rule(
    code="OVL011",
    name="nothing-to-hide-behind",
    page=__doc__,
    fix="# fewer bytes (smaller types, keep data on the device), or other work while the link is busy",
    claims=claims,
    describe=describe,
)
