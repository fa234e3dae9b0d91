"""Whether one side does the same more often, as a program of more steps does."""

from __future__ import annotations

import numpy as np

from overlapscope.comparison.inside import KERNEL, Inside
from overlapscope.comparison.matching import codes_of
from overlapscope.model.columns import Int64


def repetitions(before: Inside, after: Inside, most: float) -> tuple[int, int] | None:
    """How often kernels run after for how often before, where that is one ratio for most of both sides' kernel time.

    None where they run as often, and where no ratio holds for so large a share of the time.
    """
    codes = codes_of(before.graph.trace, after.graph.trace)
    kernels = [_kernels(side, code) for side, code in zip((before, after), codes, strict=True)]
    names = max((int(code.max(initial=0)) for code, _ in kernels), default=0) + 1
    counts = np.stack([np.bincount(code, minlength=names) for code, _ in kernels])
    took = np.stack([np.bincount(code, ns, names) for code, ns in kernels])
    if not took.sum(axis=1).all():
        return None
    divisor = np.maximum(np.gcd(*counts), 1)
    ratios, member = np.unique(counts // divisor, axis=1, return_inverse=True)
    shares = [np.bincount(member.reshape(-1), ns) / ns.sum() for ns in took]
    common = np.minimum(*shares)
    one, two = ratios[:, int(common.argmax())].tolist()
    return (one, two) if one != two and one and two and common.max() >= most else None


def _kernels(side: Inside, codes: Int64) -> tuple[Int64, Int64]:
    """The name of each kernel in the window, as a number, and its time."""
    rows = np.flatnonzero(side.there & (side.graph.work.table == KERNEL))
    return codes[side.graph.trace.kernels.name_id[side.graph.work.row[rows]]], side.kernel_ns[rows]
