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
from overlapscope.diagnosis.rule import Report, Rule, with_d2h_fix
from overlapscope.formatting import time
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
        f"{context.copies_in_words(copies)} ran on the stream of the "
        f"kernels: queued kernels waited {time(context.idle_ns(rows))} for them."
    )
    evidence = context.copies_as_evidence(copies) | {
        "kernels_waited_ns": context.idle_ns(rows),
        "kernel_only_ns": context.kernel_only_ns,
    }
    confirm_with = context.confirmed_by(
        "a trace with memory kinds: pageable copies would also block the host",
        "the program: is the host memory pinned (tensor.is_pinned())? Pageable copies would also block the host",
    )
    return with_d2h_fix(Report(message, evidence, confirm_with if unsure else ""), context, copies)


RULE = Rule(
    look=("#2553B7", "#5A86EE", "#555555", "||||||"),
    waited_for="copies on the kernels' stream",
    about_copies=True,
    cuda_fix="cudaStreamWaitEvent(side, read);  // recorded after the last kernels that read following\n"
    "cudaMemcpyAsync(following, pinned, bytes, cudaMemcpyHostToDevice, side);  // while this one computes\n"
    "cudaEventRecord(arrived, side);\n"
    "cudaStreamWaitEvent(stream, arrived);  // before the kernels that use it",
    fix="with torch.cuda.stream(side):  # the next batch, while this one computes\n"
    "    following = batch.to(device, non_blocking=True)\n"
    "torch.cuda.current_stream().wait_stream(side)  # before it is used\n"
    "following.record_stream(torch.cuda.current_stream())  # or its memory is reused too early",
    change="side-stream",
)
