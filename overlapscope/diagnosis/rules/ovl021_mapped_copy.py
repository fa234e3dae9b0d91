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
rows.record_stream(torch.cuda.current_stream())
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

import numpy as np

from overlapscope.diagnosis.device_context import SLOW_MIN_BYTES, DeviceContext, unique
from overlapscope.diagnosis.finding import Number
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted, size, time
from overlapscope.measure.elementwise import bytes_of_operand
from overlapscope.measure.spans import at_depth, covered, intersect, union
from overlapscope.model.columns import Bool, Float64, Int64
from overlapscope.model.enums import Direction

_LEAST_SHARE, _MOST_SHARE = 0.4, 1.1
"""A kernel that moves the bytes of one operand at such a share of the link's bandwidth moves them over the link.

Measured: 0.42 to 0.7 of it where a kernel reads and writes host memory in place, 0.67 to 0.96 where it does one of
them; a little more where its size is rounded up to whole blocks.
"""
_CONTRAST = 5.0
"""A kernel counts only where similar kernels reach this many times the bandwidth of the link.

A GPU's memory has 25 to 90 times that of its PCIe link, 10 times that of NVLink-C2C. Measured from 16 MiB on: 20 to 40.
"""
_SHARED_SHARE = 0.1
"""A kernel that shares the GPU for more of its time may be slow for that reason."""
_LEAST_KERNELS = 3
"""Fewer runs of a kernel may be slow by chance."""

_MIGRATIONS = (Direction.UVM_HTOD, Direction.UVM_DTOH)
_PREFETCH = "cudaMemPrefetch"
_NOTHING_KNOWN: Mapping[str, Number] = dict.fromkeys(
    ("kernels", "migrations", "size_bytes", "time_ns", "reached_gb_s", "link_gb_s", "similar_factor")
)


def view(context: DeviceContext) -> Report | None:
    """Report kernels that access host memory, by what is recorded of migrations, else by their bandwidth."""
    return _managed(context) or _mapped(context)


def _managed(context: DeviceContext) -> Report | None:
    """Page migrations that kernels had to wait for."""
    trace, within = context.trace, context.activity.extent
    calls = trace.names.decode(np.unique(trace.api_calls.name_id))
    rows = context.rows_in_window(trace.copies, np.isin(trace.copies.direction, _MIGRATIONS))
    if not len(rows) or any(name.startswith(_PREFETCH) for name in calls):
        return None
    moving = union(trace.copies.start_ns[rows], trace.copies.end_ns[rows])
    stalled = intersect(intersect(moving, context.activity.kernels), within).total_ns
    if not stalled:
        return None
    moved, count = context.size_bytes(rows), len(rows)
    message = (
        f"{counted(count, 'page migration')} of managed memory ({size(moved)}) ran for {time(stalled)} under kernels, "
        "which wait for the pages that they touch."
    )
    evidence = {**_NOTHING_KNOWN} | {"migrations": count, "size_bytes": moved, "time_ns": stalled}
    return Report(
        message,
        evidence,
        "page faults in the profile (nsys profile --cuda-um-gpu-page-faults=true)",
        idle_ns=stalled,
        kind="managed",
        fix=_PREFETCH_FIX,
        cuda_fix=_PREFETCH_FIX,
    )


def _mapped(context: DeviceContext) -> Report | None:
    """Elementwise kernels as slow as the link, where similar kernels show the speed of the memory."""
    kernels, link = context.trace.kernels, _link_gb_s(context)
    operand_bytes = bytes_of_operand(context.trace)
    rows = context.rows_in_window(kernels, (operand_bytes >= SLOW_MIN_BYTES) & (kernels.duration_ns > 0))
    if link is None or not len(rows):
        return None
    rates: Float64 = operand_bytes[rows] / kernels.duration_ns[rows]
    memory = float(rates.max())
    at_link = (rates >= _LEAST_SHARE * link) & (rates <= _MOST_SHARE * link) & ~_shared(context, rows)
    slow = _frequent(context, rows[at_link])
    if memory < _CONTRAST * link or not len(slow):
        return None
    moved = int(operand_bytes[slow].sum())
    reached = moved / int(kernels.duration_ns[slow].sum())
    spent = intersect(union(kernels.start_ns[slow], kernels.end_ns[slow]), context.activity.extent).total_ns
    message = (
        f"{counted(len(slow), 'kernel')} took {time(spent)} for {size(moved)}, "
        f"{reached:.3g} GB/s: that is the bandwidth of the link ({link:.3g}), and similar kernels are "
        f"{memory / reached:.0f} times as fast. They seem to read or write host memory."
    )
    evidence = {**_NOTHING_KNOWN} | {
        "kernels": len(slow),
        "size_bytes": moved,
        "time_ns": spent,
        "reached_gb_s": round(reached, 2),
        "link_gb_s": round(link, 2),
        "similar_factor": round(memory / reached, 1),
    }
    confirm_with = "the program: is a tensor of these kernels a view of host memory (UVA, zero copy, managed)?"
    return Report(message, evidence, confirm_with, calls=unique(kernels.call[slow]), idle_ns=spent, kind="mapped")


def _link_gb_s(context: DeviceContext) -> float | None:
    """The bandwidth of pinned copies of the device: in the trace, before it was recorded, or by the device's link."""
    rates = context.facts.bandwidth_gb_s[context.large_pinned_copies]
    links = (link.gb_s for link in context.links)
    return max([*rates[np.isfinite(rates)].tolist(), *context.calibrated_gb_s(), *links], default=None)


def _shared(context: DeviceContext, rows: Int64) -> Bool:
    """Mask of kernels that ran beside another kernel of the device for more than a little of their time."""
    kernels = context.trace.kernels
    of_device = context.key.rows(kernels)
    both = at_depth(kernels.start_ns[of_device], kernels.end_ns[of_device], 2)
    beside = covered(kernels.start_ns[rows], kernels.end_ns[rows], both)
    result: Bool = beside > _SHARED_SHARE * kernels.duration_ns[rows]
    return result


def _frequent(context: DeviceContext, rows: Int64) -> Int64:
    """The rows of kernels that ran often enough with one name and grid."""
    kernels = context.trace.kernels
    keys = np.stack([kernels.name_id[rows].astype(np.int64), kernels.blocks[rows]])
    _, member, count = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    return rows[count[member.reshape(-1)] >= _LEAST_KERNELS]


_PREFETCH_FIX = "cudaMemPrefetchAsync(pointer, bytes, device, side)  # on a side stream, before the kernels that use it"

RULE = Rule(
    waited_for="kernels that access host memory",
    not_simulated="a trace does not tell how long the kernels take on memory of the GPU",
    about_copies=True,
    cuda_fix="cudaStreamWaitEvent(side, read);  // recorded after the last kernels that read rows\n"
    "cudaMemcpyAsync(rows, pinned, bytes, cudaMemcpyHostToDevice, side);  // a copy engine, beside kernels\n"
    "cudaEventRecord(arrived, side);\n"
    "cudaStreamWaitEvent(stream, arrived);  // before the kernels that use them",
    fix="with torch.cuda.stream(side):  # a copy engine, beside kernels\n"
    "    rows = pinned.to(device, non_blocking=True)\n"
    "torch.cuda.current_stream().wait_stream(side)  # before they are used\n"
    "rows.record_stream(torch.cuda.current_stream())  # so that their memory is not reused too early",
)
