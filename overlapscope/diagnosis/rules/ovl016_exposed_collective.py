"""Collectives run without concurrent computation.

## What happens
NCCL and RCCL kernels move data between GPUs. While they run alone, the GPU computes nothing. A rank that arrives early
waits inside the kernel for the slowest rank.

## How it shows in a trace
Collective kernels (recognised by their names) run with no other kernel. The evidence also has the time in which copies
ran meanwhile: they may compete for the same link.

## Fix
```python
# before
loss.backward()
dist.all_reduce(gradients)  # then the optimizer
# after: gradients are reduced in buckets during the backward pass
model = DistributedDataParallel(model, gradient_as_bucket_view=True)
# or by hand
work = dist.all_reduce(bucket, async_op=True)
...  # computation that does not need the result
work.wait()
```

## What the saving assumes
There is computation that does not need the result, and the ranks arrive at the same time.

## When this misleads
The trace of one rank does not show whether a collective moves data or waits for other ranks; compare the ranks.

## Sources
PyTorch DDP notes, "Internal design". NCCL user guide.
"""

from __future__ import annotations

import re

import numpy as np

from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import share, time
from overlapscope.measure.devices import is_collective
from overlapscope.measure.spans import covered, intersect


def view(context: DeviceContext) -> Report | None:
    """Report the time of collectives without concurrent computation."""
    active = context.activity
    exposed, total = active.exposed_collectives.total_ns, active.collectives.total_ns
    if not exposed:
        return None
    during_copies = intersect(active.exposed_collectives, active.copies).total_ns
    beside = f", {time(during_copies)} of it concurrently with copies" if during_copies else ""
    part = share(exposed, total)
    message = f"Collectives ran for {time(exposed)} without concurrent computation ({part} of their time){beside}."
    evidence = {"exposed_ns": exposed, "collective_ns": total, "during_copies_ns": during_copies}
    confirm_with = "the traces of the other ranks, since waiting for them looks the same"
    return Report(message, evidence, confirm_with, idle_ns=exposed, fix=_fix(context))


def _fix(context: DeviceContext) -> str:
    """The fix for the collectives that are exposed longest, and for the program, as its ranges and operators tell."""
    trace = context.trace
    names = [trace.names[row] for table in (trace.ranges, trace.cpu_ops) for row in np.unique(table.name_id).tolist()]
    words, kind = " ".join(names).lower(), _largest_kind(context)
    return next((fix for sign, kinds, fix in _FIXES if kind in kinds and re.search(sign, words)), _GENERAL)


def _largest_kind(context: DeviceContext) -> str | None:
    """The kind of collective that is exposed longest: a part of the kernel's name; None where no name has one."""
    kernels, active = context.trace.kernels, context.activity
    rows = np.flatnonzero(active.key.rows(kernels) & is_collective(context.trace, kernels.name_id))
    exposed = covered(kernels.start_ns[rows], kernels.end_ns[rows], active.exposed_collectives)
    names = context.trace.names.decode(kernels.name_id[rows])
    totals = {kind: sum(exposed[index] for index, name in enumerate(names) if kind in name.lower()) for kind in _KINDS}
    longest = max(totals, key=lambda kind: totals[kind])
    return longest if totals[longest] else None


_KINDS = ("allreduce", "sendrecv", "alltoall", "allgather", "reducescatter", "broadcast")
_GENERAL = (
    "work = dist.all_reduce(x, async_op=True)  # or any other; then kernels that do not need it, then work.wait()"
)
_FIXES = (
    (
        "distributeddataparallel",
        ("allreduce",),
        "model = DistributedDataParallel(model, bucket_cap_mb=10, static_graph=True)  # small buckets start earlier",
    ),
    (
        "fsdp|fully_shard|fullyshardeddataparallel",
        ("allgather", "reducescatter"),
        "fully_shard(block)  # each block by itself: its all-gather runs while the block before it computes",
    ),
    (
        "backward",
        ("allreduce",),
        "model = DistributedDataParallel(model)  # reduces gradients in buckets during the backward pass",
    ),
)
"""Fixes: what a program has to have in its ranges and operators, for which kinds of collectives, and the code."""


RULE = Rule(
    waited_for="exposed collectives",
    not_simulated="when the other ranks arrive is not in the trace of one",
    cuda_fix="// on a stream of its own, beside kernels that do not need it; cudaStreamWaitEvent before it is used",
    fix=_GENERAL,
)
