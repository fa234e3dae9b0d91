"""Copy from or to pageable memory.

## What happens
The driver cannot hand pageable memory to the copy engine. It copies the bytes through a page-locked buffer of its
own, chunk by chunk, and the thread that called `cudaMemcpyAsync` stays in the call until the last chunk is staged
(towards the host: until everything has arrived). `non_blocking=True` changes nothing about that. What the thread
would have launched comes late, also where the copy itself ran beside a kernel. The copy is several times slower than
from pinned memory too. Other threads do not escape: while one is in such a call, launches of another wait for the
driver's lock.

## How it shows in a trace
The memory kind of the copy is *Pageable*, its call lasts about as long as the copy, and the next kernel is launched
after it. **A copy that is mostly hidden is the main case**: the kernels queued before it cover it, and the device
runs dry after them. What counts is the time without a kernel that follows from the held thread, now or later, until
the host has caught up.

## Fix
```python
# before
batch = batch.to(device, non_blocking=True)  # batch is pageable: the call holds the host
# after: pinned once, ahead of time
batch = batch.pin_memory()  # in the loader: DataLoader(..., pin_memory=True)
batch = batch.to(device, non_blocking=True)  # returns at once
```

A view that is not contiguous is staged through pageable memory even if its storage is pinned: copy it into a pinned
tensor first. A result on its way to the host wants a pinned target: `place.copy_(result, non_blocking=True)`, and an
event to wait for before it is read.

## What the saving assumes
The call returns like any enqueue, the copy runs at the pinned bandwidth that the trace or its calibration shows, and
kernels that read the data still wait for it.

## When this misleads
- Nothing waits behind the copy: the call holds a thread that had nothing else to launch. Then nothing is lost, and
  nothing is reported.
- Memory is pinned anew in every step: see OVL009. Pinned memory cannot be swapped out; pin what is copied often.
- Systems on which the GPU reads pageable memory itself (GH200, with address translation services) need no staging;
  what the trace shows counts.

## Sources
CUDA Runtime API, "API synchronization behavior": transfers from pageable memory are staged before the call returns;
towards pageable memory the call returns when the copy is complete. PyTorch tutorial "A guide on good usage of
non_blocking and pin_memory". Held launches of other threads: measured on an H200, driver 580.
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import BEHIND_COPY, Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.rule import DOWN, Report, Rule, median_or_none, mostly_down
from overlapscope.formatting import counted, share, size, time
from overlapscope.model.columns import Bool, Int64
from overlapscope.model.enums import ApiKind, MemoryKind


def claims(context: DeviceContext) -> Bool:
    """Late because a pageable copy held the host, or waiting for the copy itself."""
    copying = (context.blocking_kind == ApiKind.COPY) | context.of_cause(*BEHIND_COPY, Cause.COPY_ONLY)
    pageable: Bool = copying & (context.memory == MemoryKind.PAGEABLE) & ~context.read
    return pageable


def describe(context: DeviceContext, rows: Int64) -> Report:
    """How long they held the host, what came late for it, and how hidden they looked all the same."""
    copies = context.copies_of(rows)
    calls = np.unique(context.trace.copies.call[copies]).astype(np.int64)
    held, lost = context.blocked_ns(calls[calls >= 0]), context.idle_ns(rows)
    hidden, total = int(context.facts.hidden_ns[copies].sum()), int(context.facts.total_ns[copies].sum())
    elsewhere = _on_other_threads(context, rows)
    who = f"{counted(len(copies), 'pageable copy', 'pageable copies')} ({size(context.size_bytes(copies))})"
    message = f"{who} held the host for {time(held)}; the device had no other work for {time(lost)}"
    message += f", though {share(hidden, total)} of the copying was under kernels" if hidden > total / 2 else ""
    message += ", which another thread could not launch meanwhile" if elsewhere > lost / 2 else ""
    evidence = {
        "copies": len(copies),
        "size_bytes": context.size_bytes(copies),
        "copying_ns": total,
        "hidden_ns": hidden,
        "blocked_ns": held,
        "late_ns": int(context.idle.duration_ns[rows][context.idle.blocking_call[rows] >= 0].sum()),
        "held_other_thread_ns": elsewhere,
        "bandwidth_gb_s": median_or_none(context.facts.bandwidth_gb_s[copies]),
    }
    return Report(message + ".", evidence, fix=DOWN if mostly_down(context, copies) else None)


def _on_other_threads(context: DeviceContext, rows: Int64) -> int:
    """Time in which a launching thread was held by another thread's copy."""
    thread = np.append(context.trace.api_calls.thread, -1)
    other = thread[context.idle.blocking_call[rows]] != thread[context.idle.launch_call[rows]]
    known = (context.idle.blocking_call[rows] >= 0) & (context.idle.launch_call[rows] >= 0)
    return int(context.idle.duration_ns[rows][other & known].sum())


RULE = Rule(
    code="OVL001",
    name="pageable-copy",
    page=__doc__,
    fix="batch = batch.pin_memory()  # once, ahead of time; DataLoader(..., pin_memory=True)\n"
    "batch = batch.to(device, non_blocking=True)",
    change="pin",
    claims=claims,
    describe=describe,
)
