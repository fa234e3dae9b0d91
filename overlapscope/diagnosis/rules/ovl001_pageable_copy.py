"""Copy from or to pageable memory.

## What happens
The copy engine cannot access pageable memory. The driver stages the bytes through a pinned buffer of its own, chunk by
chunk. The thread that called `cudaMemcpyAsync` stays in the call until the last chunk is staged; for a D2H copy, until
all data has arrived. `non_blocking=True` does not change that. Staging up to 2 MiB waits for nothing but the host's own
copying; larger copies also wait until the work before them on their stream is done, since the driver's buffer is full.
The thread's next launches are late, even where the copy itself overlaps a kernel. The copy is also several times slower
than from pinned memory. Other threads are affected too: while one thread is in such a call, launches of another wait
for the driver's lock.

## How it shows in a trace
The memory kind of the copy is *Pageable*, its call lasts about as long as the copy, and the next kernel is launched
after it. **Most such copies look hidden**: kernels that were queued before overlap them, and the GPU is idle
afterwards. What counts is the GPU idle time because of the blocked thread, at once or later, until the host has
caught up.

## Fix
```python
# before
batch = batch.to(device, non_blocking=True)  # batch is pageable: the call blocks the host
# after: pinned once, ahead of time
batch = batch.pin_memory()  # in the loader: DataLoader(..., pin_memory=True)
batch = batch.to(device, non_blocking=True)  # returns at once
```

A non-contiguous view is staged through pageable memory even if its storage is pinned: copy it into a pinned tensor
first. A D2H copy needs a pinned target, `place.copy_(result, non_blocking=True)`, and an event to wait for before the
host reads it.

## What the saving assumes
The call returns at once, the copy runs at the pinned bandwidth of the trace or its calibration, and kernels that read
the data still wait for it.

## When this misleads
- The call blocks a thread that had nothing else to launch. Then the GPU is not idle because of it, and nothing is
  reported.
- Pinning memory in every step has a cost of its own: see OVL018. Pinned memory cannot be swapped out; pin what is
  copied often.
- GPUs that access pageable memory directly (GH200, with address translation services) need no staging. The trace
  shows whether calls block.

## Sources
CUDA Runtime API, "API synchronization behavior": copies from pageable memory are staged before the call returns; copies
to pageable memory return when they are complete. PyTorch tutorial "A guide on good usage of non_blocking and
pin_memory". Blocked launches of other threads: measured on an H200, driver 580. Copies that wait for the work before
them: from 4 MiB on, measured on an H100, CUDA 13.
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import COPY_WAIT_CAUSES, Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.loaders import mostly_in_modules, noted_loaders, pinning_fix
from overlapscope.diagnosis.rule import D2H_CUDA_FIX, D2H_FIX, FixFor, Report, Rule, median_or_none, mostly_d2h
from overlapscope.formatting import counted, share, size, time
from overlapscope.model.columns import Bool, Int64
from overlapscope.model.enums import ApiKind, MemoryKind
from overlapscope.model.trace import Trace


def claims(context: DeviceContext) -> Bool:
    """Idle because a pageable copy blocked the host, or because work waited for the copy itself."""
    copying = (context.blocking_kind == ApiKind.COPY) | context.has_cause(*COPY_WAIT_CAUSES, Cause.COPY_ONLY)
    pageable: Bool = copying & (context.memory == MemoryKind.PAGEABLE) & ~context.scalar_read
    return pageable


def describe(context: DeviceContext, rows: Int64) -> Report:
    """How long the copies blocked the host, the GPU idle time because of it, and how well they looked hidden."""
    copies = context.copies_of(rows)
    calls = np.unique(context.trace.copies.call[copies]).astype(np.int64)
    blocked, idle = context.blocked_ns(calls[calls >= 0]), context.idle_ns(rows)
    hidden, total = int(context.facts.hidden_ns[copies].sum()), int(context.facts.total_ns[copies].sum())
    other_thread = _other_thread_blocked_ns(context, rows)
    what = f"{counted(len(copies), 'pageable copy', 'pageable copies')} ({size(context.size_bytes(copies))})"
    message = f"{what} blocked the host for {time(blocked)}; the GPU was idle for {time(idle)} because of it"
    message += f", though {share(hidden, total)} of the copy time overlapped kernels" if hidden > total / 2 else ""
    message += "; another thread's launches had to wait" if other_thread > idle / 2 else ""
    evidence = {
        "copies": len(copies),
        "size_bytes": context.size_bytes(copies),
        "copy_ns": total,
        "hidden_ns": hidden,
        "blocked_ns": blocked,
        "late_launch_ns": int(context.idle.duration_ns[rows][context.idle.blocking_call[rows] >= 0].sum()),
        "other_thread_blocked_ns": other_thread,
        "bandwidth_gb_s": median_or_none(context.facts.bandwidth_gb_s[copies]),
    }
    if mostly_d2h(context, copies):
        return Report(message + ".", evidence, fix=D2H_FIX, cuda_fix=D2H_CUDA_FIX)
    return Report(message + ".", evidence, fix=_loader_fix(context.trace, copies))


def _loader_fix(trace: Trace, copies: Int64) -> str | None:
    """The fix for batches of a ``DataLoader``, with its settings where the recording notes them."""
    if mostly_in_modules(trace, copies):
        return None
    if noted_loaders(trace):
        return pinning_fix(trace) or _BATCH
    return _CUSTOM_BATCH if _has_loader(trace) else None


def _has_loader(trace: Trace) -> bool:
    """Whether a ``DataLoader`` makes the batches."""
    names = np.unique(np.concatenate([trace.ranges.name_id, trace.cpu_ops.name_id])).tolist()
    return any(trace.names[number].startswith("enumerate(DataLoader)") for number in names)


def _other_thread_blocked_ns(context: DeviceContext, rows: Int64) -> int:
    """GPU idle time in which a copy call of another thread blocked the launching thread."""
    thread = np.append(context.trace.api_calls.thread, -1)
    other = thread[context.idle.blocking_call[rows]] != thread[context.idle.launch_call[rows]]
    known = (context.idle.blocking_call[rows] >= 0) & (context.idle.launch_call[rows] >= 0)
    return int(context.idle.duration_ns[rows][other & known].sum())


_BATCH = (
    "batch = batch.pin_memory()  # once, ahead of time; DataLoader(..., pin_memory=True)\n"
    "batch = batch.to(device, non_blocking=True)"
)
_CUSTOM_BATCH = (
    "loader = DataLoader(dataset, pin_memory=True)  # if it has that: a batch of a custom class needs this method\n"
    "def pin_memory(self): self.x = self.x.pin_memory(); return self  # to check: batch.x.is_pinned()\n"
    "batch = batch.to(device, non_blocking=True)"
)


RULE = Rule(
    code="OVL001",
    name="pageable-copy",
    page=__doc__,
    fixes=(
        FixFor(
            "weight = weight.pin_memory()  # once, when the weights are loaded; the copy in pinned memory stays\n"
            "weight_on_gpu.copy_(weight, non_blocking=True)",
            around="weight|param|expert|offload|load_state|checkpoint",
        ),
    ),
    waited_for="pageable copies",
    about_copies=True,
    cuda_fix="cudaMallocHost(&host, bytes);  // once, in place of malloc or new\n"
    "cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream);",
    fix="tensor = tensor.pin_memory()  # a host tensor: once, before the loop; a DataLoader pins with pin_memory=True\n"
    "tensor.to(device, non_blocking=True)",
    change="pin",
    claims=claims,
    describe=describe,
)
