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

from dataclasses import replace

import numpy as np

from overlapscope.diagnosis.causes import COPY_WAIT_CAUSES, Cause
from overlapscope.diagnosis.device_context import DeviceContext, unique
from overlapscope.diagnosis.loaders import mostly_in_modules, noted_loaders, pinning_fix
from overlapscope.diagnosis.places import Moments
from overlapscope.diagnosis.rule import FixFor, Report, Rule, median_or_none, with_d2h_fix
from overlapscope.formatting import share, time
from overlapscope.measure.places import enclosing, innermost
from overlapscope.model.columns import NO_ID, Bool, Int64
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
    blocked, idle = context.blocked_ns(unique(context.trace.copies.call[copies])), context.idle_ns(rows)
    hidden, total = int(context.facts.hidden_ns[copies].sum()), int(context.facts.total_ns[copies].sum())
    other_thread = _other_thread_blocked_ns(context, rows)
    message = f"{context.copies_in_words(copies, 'pageable ')} blocked the host for {time(blocked)}"
    message += f"; {context.without_kernel(rows)} because of it"
    message += f", though {share(hidden, total)} of the copy time overlapped kernels" if hidden > total / 2 else ""
    message += "; another thread's launches had to wait" if other_thread > idle / 2 else ""
    evidence = context.copies_as_evidence(copies) | {
        "copy_ns": total,
        "hidden_ns": hidden,
        "blocked_ns": blocked,
        "late_launch_ns": context.idle_ns(rows[context.idle.blocking_call[rows] >= 0]),
        "other_thread_blocked_ns": other_thread,
        "bandwidth_gb_s": median_or_none(context.facts.bandwidth_gb_s[copies]),
    }
    report = Report(message + ".", evidence, fix=_loader_fix(context.trace, copies))
    report = replace(report, other_fix=_COPIED_INTO if _by_copy_(context.trace, copies) else None)
    return with_d2h_fix(report, context, copies)


def _loader_fix(trace: Trace, copies: Int64) -> str | None:
    """The fix for batches of a ``DataLoader``, with its settings where the recording notes them."""
    if mostly_in_modules(trace, copies):
        return None
    if noted_loaders(trace):
        return pinning_fix(trace) or _BATCH
    return _CUSTOM_BATCH if _has_loader(trace) else None


def _by_copy_(trace: Trace, copies: Int64) -> bool:
    """Whether ``target.copy_(source)`` makes most bytes of some copies, and no operator around it, such as ``to()``."""
    at, around = Moments.of_calls(trace, trace.copies.call[copies]), np.append(enclosing(trace.cpu_ops), NO_ID)
    row = innermost(trace.cpu_ops, at.process, at.thread, at.time_ns)
    name = np.append(trace.cpu_ops.name_id, NO_ID)[row]
    by_itself = np.isin(name, trace.names.find(_COPY_OPERATOR)) & (around[row] == NO_ID) & (row != NO_ID)
    sizes = trace.copies.size_bytes[copies]
    return bool(2 * sizes[by_itself].sum() > sizes.sum())


def _has_loader(trace: Trace) -> bool:
    """Whether a ``DataLoader`` makes the batches."""
    names = np.unique(np.concatenate([trace.ranges.name_id, trace.cpu_ops.name_id])).tolist()
    return any(trace.names[number].startswith("enumerate(DataLoader)") for number in names)


def _other_thread_blocked_ns(context: DeviceContext, rows: Int64) -> int:
    """GPU idle time in which a copy call of another thread blocked the launching thread."""
    thread, idle = np.append(context.trace.api_calls.thread, -1), context.idle
    other = thread[idle.blocking_call] != thread[idle.launch_call]
    known = (idle.blocking_call >= 0) & (idle.launch_call >= 0)
    return context.idle_ns(rows[(other & known)[rows]])


_COPY_OPERATOR = "aten::copy_"
_ONCE = "host = host.pin_memory()  # once, before the loop; a DataLoader pins with pin_memory=True"
_COPIED_INTO = f"{_ONCE}\ntarget.copy_(host, non_blocking=True)"
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
    look=("#B2163D", "#E8557A", "#282828", "......"),
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
    fix=f"{_ONCE}\nx = host.to(device, non_blocking=True)",
    change="pin",
)
