"""The ceiling of overlap: how short the time of a device could get if everything ran concurrently.

However well copies are hidden, kernels still take as long as they take, and so do the copies of each direction, which
share one engine, and the work of the host. The longest of these is a lower bound of the time, and what is left of the
time above it is the most that any overlap can save; and overlap of copies saves no more than they cost, by being
exposed and by blocking the host. Copies keep their durations: pinned memory, fewer bytes and a faster link are no
overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from overlapscope.formatting import time
from overlapscope.measure.devices import Activity
from overlapscope.measure.grouping import rows_by_thread
from overlapscope.measure.host import blocked_from_ns
from overlapscope.measure.spans import Spans, intersect, merge, spans_of, subtract, union
from overlapscope.model.columns import NO_ID
from overlapscope.model.enums import Direction
from overlapscope.model.frames import Row
from overlapscope.model.trace import Trace

KERNELS, HTOD, DTOH, PTOP, HOST = "kernels", "HtoD copies", "DtoH copies", "PtoP copies", "host"
_DIRECTION = {HTOD: Direction.HTOD, DTOH: Direction.DTOH, PTOP: Direction.PTOP}
_WITHIN = (Direction.DTOD, Direction.UVM_DTOD)


@dataclass(frozen=True)
class Ceiling(Row):
    """The times that bound one device under perfect overlap, in ns.

    ``now_ns`` is the analysed time. ``kernels_ns`` is the time with a kernel, a memset or a copy within the device,
    ``htod_ns``, ``dtoh_ns`` and ``ptop_ns`` that with a copy of this direction, and ``host_ns`` the time that the
    busiest thread spent in operators and CUDA calls that did not block it, without the profiler's own. ``copies_ns`` is
    the time in which a copy was exposed or a copy call blocked a thread.
    """

    now_ns: int
    kernels_ns: int
    htod_ns: int
    dtoh_ns: int
    ptop_ns: int
    host_ns: int
    copies_ns: int

    @property
    def parts(self) -> dict[str, int]:
        """The times that overlap cannot shorten, by name, in ns."""
        times = self.kernels_ns, self.htod_ns, self.dtoh_ns, self.ptop_ns, self.host_ns
        return dict(zip((KERNELS, HTOD, DTOH, PTOP, HOST), times, strict=True))

    @property
    def bound_by(self) -> str:
        """The longest part."""
        return max(self.parts, key=lambda name: self.parts[name])

    @property
    def bound_ns(self) -> int:
        """The time with perfect overlap, at least."""
        return self.parts[self.bound_by]

    @property
    def saving_ns(self) -> int:
        """The most that perfect overlap of copies saves, in ns."""
        return min(self.above_ns, self.copies_ns)

    @property
    def above_ns(self) -> int:
        """The time above the longest part, in which something waits for something else."""
        return self.now_ns - self.bound_ns

    @property
    def bound_direction(self) -> Direction | None:
        """The direction of the copies that are the longest part; None where kernels or the host are."""
        return _DIRECTION.get(self.bound_by)

    def at_limit(self, least: float) -> bool:
        """Whether the longest part leaves less than this share of the time to any overlap."""
        return self.above_ns < least * self.now_ns

    @property
    def limit(self) -> str:
        """The longest part in words: ``the kernels take 38.8 ms``."""
        takes = "takes" if self.bound_by == HOST else "take"
        return f"the {self.bound_by} {takes} {time(self.bound_ns)}"

    def to_dict(self) -> dict[str, Any]:
        """The fields, ``bound_ns``, ``bound_by`` and ``saving_ns`` as JSON-ready data."""
        return super().to_dict() | {name: getattr(self, name) for name in ("bound_ns", "bound_by", "saving_ns")}


def ceiling(trace: Trace, active: Activity) -> Ceiling:
    """The ceiling of one device within the time that its activity is about."""
    copies = trace.copies.take(active.key.rows(trace.copies))

    def within_ns(*parts: Spans) -> int:
        return intersect(merge(*parts), active.extent).total_ns

    def of(*directions: Direction) -> Spans:
        return spans_of(copies, np.isin(copies.direction, directions))

    calls = np.unique(copies.call[copies.call != NO_ID])
    blocked = union(blocked_from_ns(trace.api_calls)[calls], trace.api_calls.end_ns[calls])
    return Ceiling(
        now_ns=active.span_ns,
        kernels_ns=within_ns(active.kernels, active.memsets, of(*_WITHIN)),
        htod_ns=within_ns(of(Direction.HTOD)),
        dtoh_ns=within_ns(of(Direction.DTOH)),
        ptop_ns=within_ns(of(Direction.PTOP)),
        host_ns=max((within_ns(spans) for spans in _host_work(trace, active.key.process)), default=0),
        copies_ns=within_ns(subtract(active.copies, active.kernels), blocked),
    )


def _host_work(trace: Trace, process: int) -> Iterator[Spans]:
    """When each thread of a process that makes calls worked, and did not wait."""
    calls, ops = trace.api_calls, trace.cpu_ops
    blocked_from, ops_of = blocked_from_ns(calls), rows_by_thread(ops.process, ops.thread)
    profiler = spans_of(trace.overheads)  # of which thread is not always recorded
    for thread, rows in rows_by_thread(calls.process, calls.thread).items():
        if thread[0] == process:
            work = merge(spans_of(calls, rows), spans_of(ops, ops_of.get(thread, rows[:0])))
            yield subtract(subtract(work, union(blocked_from[rows], calls.end_ns[rows])), profiler)
