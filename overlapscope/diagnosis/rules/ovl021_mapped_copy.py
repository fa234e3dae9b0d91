"""Kernels move data over the link themselves.

## What happens
A kernel can read and write pinned host memory through its address (mapped memory, zero copy), and managed memory that
is on the host. There is no copy then: the kernel moves the bytes over the link at the link's bandwidth, which is a
small fraction of that of the GPU's memory. Its multiprocessors are occupied and wait, nothing else can hide the
transfer, and data that is used twice crosses the link twice. Copies of the same data would run on a copy engine,
beside kernels.

## How it shows in a trace
There is no copy, and the GPU looks busy. Two signs count:

- `mapped`: PyTorch kernels that add, multiply or copy, whose name and grid tell how many bytes they move, move them
  at the bandwidth of the link, while no other kernel runs. Kernels of this kind elsewhere in the trace are many times
  as fast. That they access host memory is inferred from this.
- `managed`: an Nsight Systems trace has page migrations of managed memory while kernels run, and the program
  prefetches nothing (`cudaMemPrefetchAsync`).

Other kernels (gathers, matrix products, kernels of other libraries) are not found: the trace does not tell their
bytes.

## Fix
```python
# before: a tensor on the GPU whose memory is pinned host memory
rows = cuda_view(pinned)  # UVA, zero copy
x = rows * scale  # reads the host's memory over the link
# after: a copy engine copies the next rows while kernels use these
with torch.cuda.stream(side):
    rows = pinned.to(device, non_blocking=True)
torch.cuda.current_stream().wait_stream(side)
x = rows * scale
```

With managed memory: `cudaMemPrefetchAsync` on a side stream, before the kernels that use it. Keep data on the GPU
that is used more than once.

## What the saving assumes
No saving is simulated. A copy of the same bytes takes about as long; what is gained is that it can run beside
kernels.

Measured on an H200 (PCIe 5 x16): kernels that add or multiply 1 to 64 MiB move 37 to 53 GB/s where one operand is in
pinned memory, 23 to 39 GB/s where they read and write it in place, a copy engine up to 55 GB/s. From 16 MiB on, the
same kernels on the GPU's memory move over 1 100 GB/s. The program `zero_copy` takes 66 ms where kernels read the
batches, and 34 ms where they are copied ahead, in turns. Single passes of the former scatter from 41 to 90 ms.

## When this misleads
Zero copy is right for data that is read once, in small and scattered parts: a gather of few rows moves less than a
copy of the whole table. A kernel that is slowed down by another process on the same GPU can look the same. Kernels
that transpose host memory are not found: they reach 3 GB/s, far less than the link. How many elements a thread handles
depends on the version of PyTorch; a trace without the version of the CUDA runtime may show half the bytes.

## Sources
CUDA C++ Programming Guide, "Mapped Memory" and "Unified Memory Programming". CUDA C++ Best Practices Guide, "Zero
Copy".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from overlapscope.diagnosis.device_context import DeviceContext, unique
from overlapscope.diagnosis.finding import Confidence, Number
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted, size, time
from overlapscope.hardware import pinned_bandwidth
from overlapscope.measure.elementwise import bytes_of_operand
from overlapscope.measure.spans import Spans, at_depth, covered, intersect, union
from overlapscope.model.columns import Bool, Float64, Int64
from overlapscope.model.enums import Direction, MemoryKind

_MIGRATIONS = (Direction.UVM_HTOD, Direction.UVM_DTOH)
_PREFETCH = "cudaMemPrefetch"
_NOTHING_KNOWN: Mapping[str, Number] = dict.fromkeys(
    ("kernels", "migrations", "size_bytes", "time_ns", "reached_gb_s", "link_gb_s", "similar_factor")
)


@dataclass(frozen=True, eq=False)
class Mapped:
    """Kernels that move bytes over the link: their rows, bytes and GB/s, and the GB/s of link and memory."""

    rows: Int64
    size_bytes: int
    gb_s: float
    link_gb_s: float
    memory_gb_s: float


def view(context: DeviceContext) -> Report | None:
    """Report kernels that access host memory, by what is recorded of migrations, else by their bandwidth."""
    return _managed(context) or _mapped(context)


def _managed(context: DeviceContext) -> Report | None:
    """Page migrations that kernels had to wait for."""
    trace, within = context.trace, context.activity.extent
    calls = trace.names.decode(np.unique(trace.api_calls.name_id))
    rows = context.activity.key.rows(trace.copies) & np.isin(trace.copies.direction, _MIGRATIONS)
    rows &= context.window.touches(trace.copies.process, trace.copies.start_ns, trace.copies.end_ns)
    if not rows.any() or any(name.startswith(_PREFETCH) for name in calls):
        return None
    moving = union(trace.copies.start_ns[rows], trace.copies.end_ns[rows])
    stalled = intersect(intersect(moving, context.activity.kernels), within).total_ns
    if not stalled:
        return None
    moved = context.size_bytes(np.flatnonzero(rows))
    count = int(rows.sum())
    message = (
        f"{counted(count, 'page migration')} of managed memory ({size(moved)}) ran for {time(stalled)} under kernels, "
        "which wait for the pages that they touch."
    )
    evidence = {**_NOTHING_KNOWN} | {"migrations": count, "size_bytes": moved, "time_ns": stalled}
    return Report(
        message,
        evidence,
        Confidence.MEDIUM,
        "page faults in the profile (nsys profile --cuda-um-gpu-page-faults=true)",
        copies=np.empty(0, np.int64),
        calls=np.empty(0, np.int64),
        idle_ns=stalled,
        kind="managed",
        fix=_PREFETCH_FIX,
        cuda_fix=_PREFETCH_FIX,
    )


def _mapped(context: DeviceContext) -> Report | None:
    """Elementwise kernels as slow as the link."""
    found = mapped_kernels(context)
    if found is None:
        return None
    kernels = context.trace.kernels
    spans = intersect(union(kernels.start_ns[found.rows], kernels.end_ns[found.rows]), context.activity.extent)
    message = (
        f"{counted(len(found.rows), 'kernel')} took {time(spans.total_ns)} for {size(found.size_bytes)}, "
        f"{found.gb_s:.3g} GB/s: that is the bandwidth of the link ({found.link_gb_s:.3g}), and similar kernels are "
        f"{found.memory_gb_s / found.gb_s:.0f} times as fast. They seem to read or write host memory."
    )
    evidence = {**_NOTHING_KNOWN} | {
        "kernels": len(found.rows),
        "size_bytes": found.size_bytes,
        "time_ns": spans.total_ns,
        "reached_gb_s": round(found.gb_s, 2),
        "link_gb_s": round(found.link_gb_s, 2),
        "similar_factor": round(found.memory_gb_s / found.gb_s, 1),
    }
    return Report(
        message,
        evidence,
        Confidence.MEDIUM,
        "the program: is a tensor of these kernels a view of host memory (UVA, zero copy, managed)?",
        copies=np.empty(0, np.int64),
        calls=unique(kernels.call[found.rows]),
        idle_ns=spans.total_ns,
        kind="mapped",
    )


def mapped_kernels(context: DeviceContext) -> Mapped | None:
    """Kernels that seem to access host memory; None where there are too few, or none that shows the memory's speed."""
    kernels, config, link = context.trace.kernels, context.config, _link_gb_s(context)
    bytes_moved = bytes_of_operand(context.trace)
    inside = context.activity.key.rows(kernels)
    inside &= context.window.touches(kernels.process, kernels.start_ns, kernels.end_ns)
    rows = np.flatnonzero(inside & (bytes_moved >= config.slow_min_bytes) & (kernels.duration_ns > 0))
    if link is None or not len(rows):
        return None
    rates: Float64 = bytes_moved[rows] / kernels.duration_ns[rows]
    memory = float(rates.max())
    at_link = (rates >= config.mapped_least_share * link) & (rates <= config.mapped_most_share * link)
    at_link &= ~_shared(context, rows)
    found = _several(context, rows[at_link])
    if memory < config.mapped_contrast * link or not len(found):
        return None
    moved, spent = int(bytes_moved[found].sum()), int(kernels.duration_ns[found].sum())
    return Mapped(found, moved, moved / spent, link, memory)


def _link_gb_s(context: DeviceContext) -> float | None:
    """What pinned copies reach on the device: in the trace, before it was recorded, or by the device's link."""
    copies, facts, recording = context.trace.copies, context.facts, context.trace.metadata.recording
    own = context.activity.key.rows(copies) & (facts.host_kind == MemoryKind.PINNED)
    own &= copies.size_bytes >= context.config.slow_min_bytes
    rates = facts.bandwidth_gb_s[own]
    known = rates[np.isfinite(rates)].tolist()
    measured = recording.copies if recording is not None else ()
    known += [entry.size_bytes / entry.copy_ns for entry in measured if entry.host_memory == "pinned" and entry.copy_ns]
    devices = (device for device in context.trace.metadata.devices if device.number == context.activity.key.device)
    known += [link.gb_s for link in map(pinned_bandwidth, devices) if link is not None]
    return max(known, default=None)


def _shared(context: DeviceContext, rows: Int64) -> Bool:
    """Which kernels ran beside another kernel of the device for more than a little of their time."""
    kernels = context.trace.kernels
    mine = context.activity.key.rows(kernels)
    both: Spans = at_depth(kernels.start_ns[mine], kernels.end_ns[mine], 2)
    beside = covered(kernels.start_ns[rows], kernels.end_ns[rows], both)
    result: Bool = beside > context.config.mapped_shared_share * kernels.duration_ns[rows]
    return result


def _several(context: DeviceContext, rows: Int64) -> Int64:
    """Those that ran often enough with the same name and grid."""
    kernels = context.trace.kernels
    keys = np.stack([kernels.name_id[rows].astype(np.int64), kernels.blocks[rows]])
    _, member, count = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    return rows[count[member.reshape(-1)] >= context.config.mapped_least_kernels]


_PREFETCH_FIX = "cudaMemPrefetchAsync(pointer, bytes, device, side)  # on a side stream, before the kernels that use it"

RULE = Rule(
    code="OVL021",
    name="mapped-copy",
    page=__doc__,
    waited_for="kernels that access host memory",
    not_simulated="a trace does not tell how long the kernels take on memory of the GPU",
    about_copies=True,
    cuda_fix="cudaMemcpyAsync(rows, pinned, bytes, cudaMemcpyHostToDevice, side);  // a copy engine, beside kernels",
    fix="rows = pinned.to(device, non_blocking=True)  # on a side stream: a copy engine, beside kernels",
    view=view,
)
