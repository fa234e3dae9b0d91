"""Pinned copies are slower than their link allows.

## What happens
Pinned copies reach a known share of the link's bandwidth. If they do not, there is a reason: fewer PCIe lanes or an
older generation than the slot has, memory on another NUMA node, a PCIe switch shared with other devices, traffic of
other processes, or kernels that access host memory themselves.

## How it shows in a trace
A pinned copy of more than a megabyte takes a multiple of the expected time. The expectation comes from the faster
copies of the trace, from its calibration, or from the generation and width of the link.

## Fix
```sh
# before: the process is not bound to a NUMA node
python train.py
# after: check the link under load, bind the process to the NUMA node of the GPU
nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.width.current --format=csv
nvidia-smi topo -m
numactl --cpunodebind=0 --membind=0 python train.py
```

## What the saving assumes
The copies can reach the expected bandwidth.

## When this misleads
Copies in both directions at once slow each other down a little on some links. Links save power when idle, so their
generation has to be read under load.

## Sources
Pinned copies in public measurements: 12 GB/s on PCIe 3 x16, 24 to 26 on PCIe 4 x16, 52 to 57 on PCIe 5 x16. Raw
bandwidth per lane: PCI-SIG.
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import COPY_WAIT_CAUSES, Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted
from overlapscope.model.columns import NO_ID, Bool, Float64, Int64
from overlapscope.model.enums import Direction

_SLOW_FACTOR = 2.25
"""A pinned copy is slow when it takes this many times the time expected for its link.

Data that the host has just written copies at half the bandwidth (27 of 55 GB/s on an H200); copies in both directions
at once lose less.
"""

_ENOUGH = 4  # copies, of which the fastest quarter then is at least one
_BEST = 0.75  # quantile


def claims(context: DeviceContext) -> Bool:
    """Idle because work or the host waited for a slow pinned copy."""
    waiting = context.has_cause(*COPY_WAIT_CAUSES, Cause.COPY_ONLY)
    waiting |= context.has_cause(Cause.SYNCHRONISATION) & ~context.scalar_read
    with np.errstate(invalid="ignore"):
        slow = context.facts.bandwidth_gb_s * _SLOW_FACTOR < _expected_gb_s(context)
    waiting &= (context.copy != NO_ID) & np.append(slow, False)[context.copy]
    return waiting


def _expected_gb_s(context: DeviceContext) -> Float64:
    """For each copy, the bandwidth that its link should reach; NaN where nothing is known."""
    copies = context.trace.copies
    result = np.full(len(copies), np.nan)
    pinned = context.large_pinned_copies
    # Recorded links only: a GPU may sit in a slot with fewer lanes than is common.
    links = [link.gb_s for link in context.links if link.recorded]
    for direction in (Direction.HTOD, Direction.DTOH):
        rows = pinned & (copies.direction == direction)
        rates = context.facts.bandwidth_gb_s[rows]
        fastest = [float(np.nanquantile(rates, _BEST))] if len(rates) >= _ENOUGH else []
        result[rows] = np.fmax.reduce([np.nan, *fastest, *context.calibrated_gb_s(direction), *links])
    return result


def describe(context: DeviceContext, rows: Int64) -> Report:
    """The bandwidth of the copies, and the expected one."""
    copies = context.copies_of(rows)
    reached = float(np.nanmedian(context.facts.bandwidth_gb_s[copies]))
    expected = float(np.nanmedian(_expected_gb_s(context)[copies]))
    message = (
        f"{counted(len(copies), 'pinned copy', 'pinned copies')} reached {reached:.3g} GB/s, {expected:.3g} GB/s are "
        f"expected: {context.without_kernel(rows)} because of them."
    )
    bidirectional = int(context.opposite_ns[copies].sum())
    if 2 * bidirectional > int(context.facts.total_ns[copies].sum()):
        message += " Copies in the other direction ran at the same time, which may be the reason."
    evidence = {
        "copies": len(copies),
        "reached_gb_s": round(reached, 2),
        "expected_gb_s": round(expected, 2),
        "bidirectional_ns": bidirectional,
    }
    confirm_with = "the state of the link under load (nvidia-smi), and the NUMA node of the process"
    return Report(message, evidence, confirm_with, change=f"faster-link={expected:.3g}")


RULE = Rule(
    look=("#3F2DED", "#7A68FF", "#6A6A6A", "//////"),
    waited_for="slow pinned copies",
    about_copies=True,
    cuda_fix="numactl --cpunodebind=N --membind=N ./program  # the GPU's NUMA node; check the link under load",
    fix="numactl --cpunodebind=N --membind=N python train.py  # the GPU's NUMA node; check the link under load",
)
