"""Copies and kernels share one stream.

## What happens
A stream runs its work in order. A copy on the stream of the kernels cannot overlap them, even if it is pinned and
asynchronous.

## How it shows in a trace
The kernel had been launched; it starts when the copy before it on its own stream ends. The same happens inside a CUDA
graph where the kernel's node depends on the copy's node.

## Fix
```python
# before
batch = batch.to(device, non_blocking=True)
# after: copy the next batch on a side stream while this one is computed
side.wait_stream(torch.cuda.current_stream())  # where its memory was in use
with torch.cuda.stream(side):
    following = batch.to(device, non_blocking=True)
step(current)
torch.cuda.current_stream().wait_stream(side)  # before the batch is used
following.record_stream(torch.cuda.current_stream())  # so that its memory is not reused too early
```

In a CUDA graph, capture the copy on a side stream that forks from the capturing stream and joins it again.

## What the saving assumes
The copy can overlap kernels that do not need it. At most the kernel time that does not depend on it can hide it: with
a prefetch one step ahead, the kernels of one step.

## When this misleads
If every kernel needs the copy and there is nothing to prefetch, another stream changes nothing. With much copy time and
little kernel time there is nothing to hide behind (OVL011).

## Sources
CUDA C++ Programming Guide, "Streams" and "Overlapping Behavior". `torch.Tensor.record_stream` (PyTorch).
"""

from __future__ import annotations

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Confidence
from overlapscope.diagnosis.rule import D2H_CUDA_FIX, D2H_FIX, Report, Rule, mostly_d2h
from overlapscope.formatting import counted, size, time
from overlapscope.model.columns import Bool, Int64
from overlapscope.model.enums import MemoryKind


def claims(context: DeviceContext) -> Bool:
    """Idle because work waited for a copy of its own stream."""
    return context.has_cause(Cause.COPY_SAME_STREAM)


def describe(context: DeviceContext, rows: Int64) -> Report:
    """How long queued kernels waited, and the kernel time that could hide the copies."""
    copies = context.copies_of(rows)
    unsure = bool((context.memory[rows] == MemoryKind.UNKNOWN).any())
    message = (
        f"{counted(len(copies), 'copy', 'copies')} ({size(context.size_bytes(copies))}) ran on the stream of the "
        f"kernels: queued kernels waited {time(context.idle_ns(rows))} for them."
    )
    evidence = {
        "copies": len(copies),
        "size_bytes": context.size_bytes(copies),
        "kernels_waited_ns": context.idle_ns(rows),
        "kernel_only_ns": context.kernel_only_ns,
    }
    confirm_with = "a trace with memory kinds: pageable copies would also block the host" if unsure else ""
    confidence = Confidence.MEDIUM if unsure else Confidence.HIGH
    if mostly_d2h(context, copies):
        return Report(message, evidence, confidence, confirm_with, fix=D2H_FIX, cuda_fix=D2H_CUDA_FIX)
    return Report(message, evidence, confidence, confirm_with)


RULE = Rule(
    code="OVL002",
    name="one-stream",
    page=__doc__,
    waited_for="copies on the kernels' stream",
    about_copies=True,
    cuda_fix="cudaMemcpyAsync(following, pinned, bytes, cudaMemcpyHostToDevice, side);  // while this one computes\n"
    "cudaEventRecord(arrived, side);\n"
    "cudaStreamWaitEvent(stream, arrived);  // before the kernels that use it",
    fix="with torch.cuda.stream(side):  # the next batch, while this one computes\n"
    "    following = batch.to(device, non_blocking=True)\n"
    "torch.cuda.current_stream().wait_stream(side)  # before it is used",
    change="side-stream",
    claims=claims,
    describe=describe,
)
