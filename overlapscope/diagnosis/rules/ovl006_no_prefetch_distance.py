"""Kernels wait for a copy that was issued too late: there is no prefetch distance.

## What happens
The copy is pinned, asynchronous and on a side stream, but it is issued right before the kernels that wait for it
through an event. No other kernels are queued, so the copy runs alone.

## How it shows in a trace
The kernel had been launched, its stream waits for an event of the copy's stream, and the kernel starts when the copy
ends.

## Fix
```python
# before
for batch in loader:
    with torch.cuda.stream(side):
        data = batch.to(device, non_blocking=True)
    torch.cuda.current_stream().wait_stream(side)
    step(data)
# after: prefetch one step ahead
following = fetch(loader)  # on the side stream
while following is not None:
    torch.cuda.current_stream().wait_stream(side)
    data, following = following, fetch(loader)  # the next copy overlaps this step
    data.record_stream(torch.cuda.current_stream())
    step(data)
```

Where the side stream waits for the compute stream before the copy (`side.wait_stream(...)`), the copy starts only after
the earlier kernels. That wait is needed only where the copy overwrites memory that they use; two buffers make it
unnecessary. The evidence counts the copies that were delayed this way.

## What the saving assumes
The data can be fetched one step earlier, and there is memory for it. At most the kernels of one step can hide the copy.

## When this misleads
A trace does not show which kernel reads the copied tensor. If the data is used only later, it is enough to move the
wait further down. The first copy of a window has no earlier kernels that could hide it.

## Sources
CUDA C++ Programming Guide, "Events". `torch.cuda.Stream.wait_stream` (PyTorch). The prefetcher of NVIDIA Apex's
ImageNet example shows the pattern.
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.rule import Report, Rule, with_d2h_fix
from overlapscope.formatting import time
from overlapscope.model.columns import NO_ID, Bool, Int64


def claims(context: DeviceContext) -> Bool:
    """Idle because work waited for another stream's copy through an event."""
    return context.has_cause(Cause.COPY_EVENT)


def describe(context: DeviceContext, rows: Int64) -> Report:
    """How long kernels waited, and whether the stream of the event is recorded or inferred."""
    copies = context.copies_of(rows)
    message = (
        f"Kernels waited {time(context.idle_ns(rows))} for {context.copies_in_words(copies)} through an event: "
        "the copies were issued too late, without prefetch."
    )
    inferred = bool(context.idle.inferred[rows].any()) or context.trace.health.has("inferred-waits")
    evidence = context.copies_as_evidence(copies) | {
        "kernels_waited_ns": context.idle_ns(rows),
        "copies_delayed_by_kernels": _delayed_by_kernels(context, copies),
        "kernel_only_ns": context.kernel_only_ns,
        "event_inferred": inferred,
    }
    confirm_with = context.confirmed_by(
        "an Nsight Systems trace, which records what each event waits for", "the program: what does the event wait for?"
    )
    fix = "# let later kernels wait for the D2H copy only where they overwrite its source"
    return with_d2h_fix(
        Report(message, evidence, confirm_with if inferred else ""), context, copies, fix, fix.replace("#", "//")
    )


def _delayed_by_kernels(context: DeviceContext, copies: Int64) -> int:
    """How many of the copies had been issued and began only when a kernel ended, because their stream waited for it."""
    graph = context.graph
    edge = graph.binding[graph.work_start(graph.work_of_copy[copies])]
    source = np.maximum(graph.work_of(np.append(graph.dependencies.source, NO_ID)[edge]), NO_ID)
    return int((np.append(graph.work.table, NO_ID)[source] == 0).sum())


RULE = Rule(
    look=("#4A3088", "#8A6FD6", "#727272", r"\\\\\\"),
    waited_for="copies that were issued too late",
    about_copies=True,
    cuda_fix="cudaStreamWaitEvent(side, read);  // recorded after the last kernels that read this buffer\n"
    "cudaMemcpyAsync(buffers[(step + 1) % 2], pinned, bytes, cudaMemcpyHostToDevice, side);  // a step ahead\n"
    "cudaEventRecord(arrived[(step + 1) % 2], side);\n"
    "cudaStreamWaitEvent(stream, arrived[step % 2]);  // before the kernels of this step",
    fix="torch.cuda.current_stream().wait_stream(side); data = following  # for this step\n"
    "data.record_stream(torch.cuda.current_stream())  # so that its memory is not reused too early\n"
    "with torch.cuda.stream(side):  # before the kernels of this step\n"
    "    following = next(batches).to(device, non_blocking=True)",
    change="prefetch=1",
)
