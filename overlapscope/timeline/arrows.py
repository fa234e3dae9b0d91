"""Arrows from calls to the work that they issued."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.trace import Trace


@dataclass(frozen=True, eq=False)
class Arrows:
    """From a call, at its start, to the start of its device work: where and when, in ns."""

    process: Int64
    thread: Int64
    issued_ns: Int64
    device: Int64
    stream: Int64
    begun_ns: Int64

    def __len__(self) -> int:
        return len(self.issued_ns)


def arrows(trace: Trace, first: int, last: int, most: int = 40) -> Arrows:
    """Those within a stretch: of copies and kernels, of copies alone where that is too many, else none."""
    everything = _of(trace, ("copies", "kernels"), first, last)
    if len(everything) <= most:
        return everything
    copies = _of(trace, ("copies",), first, last)
    return copies if len(copies) <= most else _of(trace, (), first, last)


def _of(trace: Trace, tables: tuple[str, ...], first: int, last: int) -> Arrows:
    parts = [np.empty((6, 0), np.int64)]
    calls = trace.api_calls
    for name in tables:
        table = getattr(trace, name)
        known = table.take(table.call != NO_ID)
        issued = calls.start_ns[known.call]
        inside = (issued >= first) & (known.start_ns < last)
        call = known.call[inside]
        columns = (calls.process[call], calls.thread[call], issued[inside])
        places = (known.device[inside], known.stream[inside], known.start_ns[inside])
        parts.append(np.stack([column.astype(np.int64) for column in (*columns, *places)]))
    return Arrows(*np.concatenate(parts, axis=1))
