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
from overlapscope.diagnosis.finding import Confidence
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted, time
from overlapscope.hardware import pinned_bandwidth
from overlapscope.measure.spans import covered, union
from overlapscope.model.columns import NO_ID, Bool, Float64, Int64
from overlapscope.model.enums import Direction, MemoryKind

_ENOUGH = 4  # copies, of which the fastest quarter then is at least one
_BEST = 0.75  # quantile


def claims(context: DeviceContext) -> Bool:
    """Idle because work or the host waited for a slow pinned copy."""
    waiting = context.has_cause(*COPY_WAIT_CAUSES, Cause.COPY_ONLY)
    waiting |= context.has_cause(Cause.SYNCHRONISATION) & ~context.scalar_read
    slow: Bool = np.append(_slow(context), False)[context.copy]
    waiting &= context.copy != NO_ID
    return waiting & slow


def _slow(context: DeviceContext) -> Bool:
    rates, expected = context.facts.bandwidth_gb_s, expected_gb_s(context)
    with np.errstate(invalid="ignore"):
        slow: Bool = rates * context.config.slow_factor < expected
    return slow


def expected_gb_s(context: DeviceContext) -> Float64:
    """For each copy, the bandwidth that its link should reach; NaN where nothing is known."""
    copies = context.trace.copies
    result = np.full(len(copies), np.nan)
    here = context.activity.key.rows(copies) & (context.facts.host_kind == MemoryKind.PINNED)
    for direction in (Direction.HTOD, Direction.DTOH):
        mine = here & (copies.direction == direction) & (copies.size_bytes >= context.config.slow_min_bytes)
        result[mine] = np.fmax.reduce([np.nan, *_known(context, mine, direction)])
    return result


def _known(context: DeviceContext, mine: Bool, direction: Direction) -> list[float]:
    """The expected bandwidth by the trace's faster copies, by its calibration and by the link."""
    rates = context.facts.bandwidth_gb_s[mine]
    own = [float(np.nanquantile(rates, _BEST))] if len(rates) >= _ENOUGH else []
    recording = context.trace.metadata.recording
    measured = [
        entry.size_bytes / entry.copy_ns
        for entry in (recording.copies if recording is not None else ())
        if entry.direction == direction.label and entry.host_memory == "pinned" and entry.copy_ns
    ]
    devices = (device for device in context.trace.metadata.devices if device.number == context.activity.key.device)
    # Recorded ones only: a GPU may sit in a slot with fewer lanes than it usually has.
    links = [link.gb_s for link in map(pinned_bandwidth, devices) if link is not None and link.recorded]
    return own + measured + links


def describe(context: DeviceContext, rows: Int64) -> Report:
    """The bandwidth of the copies, and the expected one."""
    copies = context.copies_of(rows)
    reached = float(np.nanmedian(context.facts.bandwidth_gb_s[copies]))
    expected = float(np.nanmedian(expected_gb_s(context)[copies]))
    what = counted(len(copies), "pinned copy", "pinned copies")
    message = (
        f"{what} reached {reached:.3g} GB/s, {expected:.3g} GB/s are expected: "
        f"the GPU was idle for {time(context.idle_ns(rows))} because of them."
    )
    bidirectional = _bidirectional_ns(context, copies)
    if 2 * bidirectional > int(context.facts.total_ns[copies].sum()):
        message += " Copies in the other direction ran at the same time, which may be the reason."
    evidence = {
        "copies": len(copies),
        "reached_gb_s": round(reached, 2),
        "expected_gb_s": round(expected, 2),
        "bidirectional_ns": bidirectional,
    }
    return Report(
        message,
        evidence,
        Confidence.MEDIUM,
        "the state of the link under load (nvidia-smi), and the NUMA node of the process",
        change=f"faster-link={expected:.3g}",
    )


def _bidirectional_ns(context: DeviceContext, copies: Int64) -> int:
    """Time of some copies in which copies in the other direction ran."""
    table, total = context.trace.copies, 0
    for one, other in ((Direction.HTOD, Direction.DTOH), (Direction.DTOH, Direction.HTOD)):
        mine = copies[table.direction[copies] == one]
        theirs = context.activity.key.rows(table) & (table.direction == other)
        spans = union(table.start_ns[theirs], table.end_ns[theirs])
        total += int(covered(table.start_ns[mine], table.end_ns[mine], spans).sum())
    return total


RULE = Rule(
    code="OVL013",
    name="slow-link",
    page=__doc__,
    waited_for="slow pinned copies",
    about_copies=True,
    cuda_fix="numactl --cpunodebind=N --membind=N ./program  # the GPU's NUMA node; check the link under load",
    fix="numactl --cpunodebind=N --membind=N python train.py  # the GPU's NUMA node; check the link under load",
    claims=claims,
    describe=describe,
)
