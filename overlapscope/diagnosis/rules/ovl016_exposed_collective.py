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

import numpy as np

from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Confidence
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
    part = f"{share(exposed, total)} of their time"
    message = f"Collectives ran for {time(exposed)} without concurrent computation ({part}){beside}."
    evidence = {"exposed_ns": exposed, "collective_ns": total, "during_copies_ns": during_copies}
    confirm_with = "the traces of the other ranks, since waiting for them looks the same"
    nothing = np.empty(0, np.int64)
    return Report(
        message,
        evidence,
        Confidence.MEDIUM,
        confirm_with,
        copies=nothing,
        calls=nothing,
        idle_ns=exposed,
        fix=_fix(context),
    )


def _fix(context: DeviceContext) -> str | None:
    """What fits the collectives that are exposed longest, and the program, which may wrap its model already."""
    trace = context.trace
    names = [trace.names[row] for table in (trace.ranges, trace.cpu_ops) for row in np.unique(table.name_id).tolist()]
    words = " ".join(names).lower()
    kind = _largest_kind(context)
    if kind in _BY_KIND:
        return _BY_KIND[kind]
    if names and "backward" not in words and "ddp" not in words and "distributeddataparallel" not in words:
        return _INFERENCE
    return _DDP_HAS if "distributeddataparallel" in words else None


def _largest_kind(context: DeviceContext) -> str:
    """The kind of collective that is exposed longest: a part of the kernel's name."""
    kernels, active = context.trace.kernels, context.activity
    rows = np.flatnonzero(active.key.rows(kernels) & is_collective(context.trace, kernels.name_id))
    exposed = covered(kernels.start_ns[rows], kernels.end_ns[rows], active.exposed_collectives)
    names = context.trace.names.decode(kernels.name_id[rows])
    totals = {kind: sum(exposed[index] for index, name in enumerate(names) if kind in name.lower()) for kind in _KINDS}
    return max(totals, key=lambda kind: totals[kind])


_KINDS = ("allreduce", "sendrecv", "alltoall", "allgather", "reducescatter", "broadcast")
_ALL_TO_ALL = (
    "# issue the all-to-all of the next batch before this one computes: async_op=True, and wait() where it is used\n"
    "# (torchrec: TrainPipelineSparseDist)"
)
_FSDP = "fully_shard(block)  # each block by itself: its all-gather runs while the block before it computes"
_BY_KIND = {"sendrecv": _ALL_TO_ALL, "alltoall": _ALL_TO_ALL, "allgather": _FSDP, "reducescatter": _FSDP}
_DDP_HAS = "model = DistributedDataParallel(model, bucket_cap_mb=10, static_graph=True)  # small buckets start earlier"
_INFERENCE = "# tensor parallelism on fewer GPUs, or two half batches: one computes while the other communicates"


RULE = Rule(
    code="OVL016",
    name="exposed-collective",
    page=__doc__,
    waited_for="exposed collectives",
    not_simulated="the trace of one rank does not tell when the others arrive",
    fix="model = DistributedDataParallel(model)  # reduces gradients in buckets during the backward pass",
    view=view,
)
