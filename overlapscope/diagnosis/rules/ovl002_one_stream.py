"""Copy on the stream of the kernels.

## What happens
A stream runs its work in order. A copy on the stream on which the kernels run cannot run beside them, though it is
pinned and the host does not wait for it.

## How it shows in a trace
The kernel had been launched; it starts when the copy before it on its own stream ends. The same inside a CUDA graph:
the copy is a node before the kernel's.

## Fix
```python
# before
batch = batch.to(device, non_blocking=True)
# after: the next batch on a stream of its own while this one computes
side.wait_stream(torch.cuda.current_stream())  # where its memory was in use
with torch.cuda.stream(side):
    following = batch.to(device, non_blocking=True)
step(current)
torch.cuda.current_stream().wait_stream(side)  # before the batch is used
following.record_stream(torch.cuda.current_stream())  # so that its memory is not given away
```

In a graph, capture the copy on a side stream that forks from and joins the capturing one.

## What the saving assumes
The copy can start before the kernels that it stands in front of, beside kernels that do not need it. What can be
hidden is at most the kernel time that is independent of it: with a prefetch one step ahead, a step's kernels.

## When this misleads
If every kernel needs the copy at once and there is nothing to prefetch, another stream changes nothing. With little
kernel time beside much copying there is nothing to hide behind (OVL011).

## Sources
CUDA C++ Programming Guide, "Streams" and "Overlapping Behavior". `torch.Tensor.record_stream` (PyTorch).
"""

from __future__ import annotations

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Confidence
from overlapscope.diagnosis.rule import DOWN, Report, Rule, mostly_down
from overlapscope.formatting import counted, size, time
from overlapscope.model.columns import Bool, Int64
from overlapscope.model.enums import MemoryKind


def claims(context: DeviceContext) -> Bool:
    """Queued behind a copy of the same stream."""
    return context.of_cause(Cause.COPY_SAME_STREAM)


def describe(context: DeviceContext, rows: Int64) -> Report:
    """How long kernels waited, and what the copies could hide behind."""
    copies = context.copies_of(rows)
    unsure = bool((context.memory[rows] == MemoryKind.UNKNOWN).any())
    message = (
        f"{counted(len(copies), 'copy', 'copies')} ({size(context.size_bytes(copies))}) on the stream of the kernels: "
        f"these were queued and waited {time(context.idle_ns(rows))} for them."
    )
    evidence = {
        "copies": len(copies),
        "size_bytes": context.size_bytes(copies),
        "waited_ns": context.idle_ns(rows),
        "kernel_time_without_copies_ns": context.uncovered_kernel_ns,
    }
    doubt = "memory kinds, which were not recorded: pageable copies cost more than this" if unsure else ""
    sure = Confidence.MEDIUM if unsure else Confidence.HIGH
    return Report(message, evidence, sure, doubt, fix=DOWN if mostly_down(context, copies) else None)


RULE = Rule(
    code="OVL002",
    name="one-stream",
    page=__doc__,
    fix="with torch.cuda.stream(side):  # the next batch, while this one computes\n"
    "    following = batch.to(device, non_blocking=True)\n"
    "torch.cuda.current_stream().wait_stream(side)  # before it is used",
    change="side-stream",
    claims=claims,
    describe=describe,
)
