"""Kernels wait for a copy that was issued too late.

## What happens
The copy is pinned, asynchronous and on a stream of its own, but it is issued right before the kernels that an event
makes wait for it. Nothing else is queued meanwhile, so the copy runs alone.

## How it shows in a trace
The kernel had been launched, its stream waits for an event of the copy's stream, and it starts when the copy ends.

## Fix
```python
# before
for batch in loader:
    with torch.cuda.stream(side):
        data = batch.to(device, non_blocking=True)
    torch.cuda.current_stream().wait_stream(side)
    step(data)
# after: one step ahead
following = fetch(loader)  # on the side stream
while following is not None:
    torch.cuda.current_stream().wait_stream(side)
    data, following = following, fetch(loader)  # the next copy runs beside this step
    data.record_stream(torch.cuda.current_stream())
    step(data)
```

Where the side stream first waits for the compute stream (`side.wait_stream(...)` before the copy), that wait keeps
the copy behind the kernels before it: it is needed only where their memory is reused, and two buffers make it
unneeded. The evidence counts the copies that were kept back like that.

## What the saving assumes
The data can be fetched one step earlier, and there is memory for it. What can be hidden is at most a step's kernels.

## When this misleads
A trace does not show which kernel reads the copied tensor. If what the event guards is not read until later, moving
the wait down is enough. The first copy of a window has nothing before it to hide behind.

## Sources
CUDA C++ Programming Guide, "Events". `torch.cuda.Stream.wait_stream` (PyTorch). The prefetcher of NVIDIA Apex's
ImageNet example shows the pattern.
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Confidence
from overlapscope.diagnosis.rule import Report, Rule, mostly_down
from overlapscope.formatting import counted, size, time
from overlapscope.measure.launches import launch_latency_ns
from overlapscope.model.columns import NO_TIME, Bool, Int64


def claims(context: DeviceContext) -> Bool:
    """Queued behind a copy by an event."""
    return context.of_cause(Cause.COPY_EVENT)


def describe(context: DeviceContext, rows: Int64) -> Report:
    """How long kernels waited, and how sure the event's stream is."""
    copies = context.copies_of(rows)
    message = (
        f"Kernels waited {time(context.idle_ns(rows))} at an event for {counted(len(copies), 'copy', 'copies')} "
        f"({size(context.size_bytes(copies))}) issued shortly before: no prefetch distance."
    )
    inferred = bool(context.idle.inferred[rows].any()) or context.trace.health.has("inferred-waits")
    evidence = {
        "copies": len(copies),
        "size_bytes": context.size_bytes(copies),
        "waited_ns": context.idle_ns(rows),
        "copies_kept_back_by_kernels": _kept_back(context, copies),
        "kernel_time_without_copies_ns": context.uncovered_kernel_ns,
        "event_inferred": inferred,
    }
    doubt = "an Nsight Systems trace, which records what each event waits for" if inferred else ""
    sure = Confidence.MEDIUM if inferred else Confidence.HIGH
    late = "# let later kernels wait for the copy to the host only where they reuse its memory"
    return Report(message, evidence, sure, doubt, fix=late if mostly_down(context, copies) else None)


def _kept_back(context: DeviceContext, copies: Int64) -> int:
    """How many of the copies had been issued and began only when a kernel ended: their stream waited for it."""
    table, kernels = context.trace.copies, context.trace.kernels
    latency = (
        launch_latency_ns(context.trace, context.config.dependencies.launch)
        * context.config.dependencies.launch.tolerance
    )
    ends = np.sort(kernels.end_ns[context.activity.key.rows(kernels)])
    start = table.start_ns[copies]
    before = np.append(ends, NO_TIME)[np.searchsorted(ends, start, "right") - 1]
    issued = np.append(context.trace.api_calls.end_ns, NO_TIME)[table.call[copies]]
    return int(((start - before <= latency) & (before > issued)).sum())


RULE = Rule(
    code="OVL006",
    name="no-prefetch-distance",
    page=__doc__,
    fix="data, following = following, fetch(loader)  # on the side stream, before this step computes",
    change="prefetch=1",
    claims=claims,
    describe=describe,
)
