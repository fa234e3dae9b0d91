"""Copies and collectives slow each other down.

## What happens
Collectives and copies may share a link. Over NVLink a collective does not touch the path to the host. But where the
GPUs have none, or NCCL does not use it, collectives go over PCIe: directly between GPUs, through host memory (SHM),
or to a network card. Copies to and from the host then share the bandwidth with them, and both take longer. Moving the
copies into the time of the collectives hides nothing.

## How it shows in a trace
Copies of the same size, direction and host memory run both during collectives and without one, or the same collective
runs both with copies and without, several times each. During the other they take a multiple of the time: the medians
are apart, and so are the middle halves. Copies that run beside copies in the other direction are left out.

## Fix
```python
# before: results go to the host while gradients are reduced
work = dist.all_reduce(bucket, async_op=True)
place.copy_(activations, non_blocking=True)
work.wait()
# after: while matrix products run, which use no link
place.copy_(activations, non_blocking=True)
hidden = layer(x)
work = dist.all_reduce(bucket, async_op=True)
```

Check which way collectives take: `NCCL_DEBUG=INFO` prints `via P2P`, `via SHM` or `via NET`. With NVLink, see to it
that `NCCL_P2P_DISABLE` is not set; with network cards, that each GPU uses the nearest one (`nvidia-smi topo -m`).

## What the saving assumes
There is other time in which the copies can run. No saving is simulated; `lost_ns` in the evidence is what copies and
collectives took beyond their median without the other.

Measured on two H200 (PCIe 5 x16, NVLink, NCCL of torch 2.11), 32 MiB to pinned memory beside all-reduces of 64 MiB:

| collectives go | copy beside | copy without | all-reduce beside | all-reduce without |
|---|---|---|---|---|
| over NVLink (`via P2P`) | 0.61 ms | 0.61 ms | 0.25 ms | 0.25 ms |
| through host memory (`NCCL_P2P_DISABLE=1`, `via SHM`) | 0.97 ms | 0.61 ms | 2.8 ms | 2.4 ms |

Over NVLink nothing is lost. Through host memory the copies take 1.6 times as long and the all-reduces 1.16 times, too
little for a finding about them. A recorded pass of eight rounds takes 65.8 instead of 62.4 ms. The finding explains
2.9 ms, 4.4 %, and is reported only from 5 % on: where other work fills the time, a shared link costs little. In
another program, four copies in a row beside one all-reduce through host memory took only 1.08 times as long (0.67
instead of 0.62 ms each).

## When this misleads
Collectives also last longer when another rank is late, and their size is not in the trace: the same kernel and grid
may move more bytes. A finding about collectives alone has low confidence.

## Sources
NCCL user guide, environment variables `NCCL_P2P_DISABLE`, `NCCL_SHM_DISABLE` and `NCCL_DEBUG`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.diagnosis.device_context import SLOW_MIN_BYTES, DeviceContext
from overlapscope.diagnosis.finding import Number
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted, time
from overlapscope.measure.devices import is_collective
from overlapscope.measure.spans import Spans, covered, intersect, union
from overlapscope.model.columns import Bool, Int64
from overlapscope.model.enums import LINK
from overlapscope.model.tables import DeviceWork

_BESIDE_SHARE, _ALONE_SHARE = 0.5, 0.1
"""A copy runs beside collectives where they run for the first share of its time or more, alone for at most the second.

In between it is neither.
"""
_FACTOR = 1.25
"""Copies and collectives share a link where they take this many times as long together.

Copies of one size scatter by 2 %, and took 1.6 times as long beside all-reduces through host memory.
"""
_LEAST = 5
"""Fewest of each, alone and together, for their medians to say something."""

_QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True, eq=False)
class Slowed:
    """Equal copies, or equal collectives, that take longer beside the other than alone: how many, and their medians."""

    rows: Int64
    alone: int
    alone_ns: int
    beside_ns: int
    lost_ns: int


def view(context: DeviceContext) -> Report | None:
    """Report how much slower copies are during collectives, and collectives during copies."""
    trace, active = context.trace, context.activity
    copies, kernels = trace.copies, trace.kernels
    link = np.isin(copies.direction, LINK) & active.key.rows(copies)
    during = union(copies.start_ns[link], copies.end_ns[link])
    if not active.collectives.total_ns or not during.total_ns:
        return None
    both_directions = context.opposite_ns > _ALONE_SHARE * copies.duration_ns
    large = link & (copies.size_bytes >= SLOW_MIN_BYTES) & ~both_directions
    moved = np.stack([copies.direction, copies.size_bytes, context.facts.host_kind])
    equal = np.stack([kernels.name_id, kernels.blocks, kernels.threads_per_block])
    slow_copies = _slowed(context, copies, large, moved, active.collectives)
    slow_collectives = _slowed(context, kernels, is_collective(trace, kernels.name_id), equal, during)
    if not slow_copies and not slow_collectives:
        return None
    paid = intersect(active.exposed_collectives, during).total_ns
    return _report(slow_copies, slow_collectives, paid)


def _slowed(context: DeviceContext, table: DeviceWork, mask: Bool, keys: Int64, other: Spans) -> list[Slowed]:
    """The groups of equal work that is slower beside the other, the one that lost most first."""
    rows = context.rows_in_window(table, mask & (table.duration_ns > 0))
    part = covered(table.start_ns[rows], table.end_ns[rows], other) / np.maximum(table.duration_ns[rows], 1)
    _, group = np.unique(keys[:, rows], axis=1, return_inverse=True)
    slowed = []
    for number in np.unique(group).tolist():
        equal = group.reshape(-1) == number
        alone, beside = rows[equal & (part <= _ALONE_SHARE)], rows[equal & (part >= _BESIDE_SHARE)]
        slowed += _compared(table.duration_ns, alone, beside)
    return sorted(slowed, key=lambda each: -each.lost_ns)


def _compared(duration_ns: Int64, alone: Int64, beside: Int64) -> list[Slowed]:
    """The time that equal work lost beside the other; nothing where there is too little, or the difference is small."""
    if min(len(alone), len(beside)) < _LEAST:
        return []
    _, median, upper = np.quantile(duration_ns[alone], _QUARTILES)
    least, slower, _ = np.quantile(duration_ns[beside], _QUARTILES)
    if slower < _FACTOR * median or least <= upper:
        return []
    lost = int((duration_ns[beside] - median).sum())
    return [Slowed(beside, len(alone), round(median), round(slower), lost)]


def _report(copies: list[Slowed], collectives: list[Slowed], paid_ns: int) -> Report:
    """Medians of the groups that lost most, and the time that all groups lost."""
    sentences, evidence = list[str](), dict[str, Number]()
    for groups, name, names, other in ((copies, *_COPIES), (collectives, *_COLLECTIVES)):
        keys = (f"{names}_beside", f"{names}_alone", f"{name}_beside_ns", f"{name}_alone_ns")
        evidence |= dict.fromkeys(keys)
        for worst in groups[:1]:
            figures = (len(worst.rows), worst.alone, worst.beside_ns, worst.alone_ns)
            evidence |= dict(zip(keys, figures, strict=True))
            beside = f"{counted(len(worst.rows), name, names)} took {time(worst.beside_ns)} beside {other}"
            sentences.append(f"{beside} and {time(worst.alone_ns)} without (medians, {worst.alone} without)")
    lost = sum(each.lost_ns for each in (*copies, *collectives))
    return Report(
        f"{'; '.join(sentences)}: they share a link.",
        evidence | {"lost_ns": lost},
        "the transport of the collectives (NCCL_DEBUG=INFO), and the traces of the other ranks",
        suspicion=not copies,
        copies=np.sort(np.concatenate([np.empty(0, np.int64), *(each.rows for each in copies)])),
        idle_ns=min(lost, paid_ns),
    )


_COPIES = ("copy", "copies", "collectives")
_COLLECTIVES = ("collective", "collectives", "copies")
"""A name in the singular and the plural, and what runs beside it."""


RULE = Rule(
    waited_for="copies and collectives that share a link",
    about_copies=True,
    cuda_fix="// issue these copies beside kernels, not beside collectives",
    fix="place.copy_(activations, non_blocking=True)  # beside matrix products, not beside collectives",
)
