"""The ceiling of overlap: how short the time of a device could get if everything ran concurrently.

However well copies are hidden, kernels still take as long as they take, and so do the copies of each direction, which
share one engine, and the work of the host. The longest of these is a lower bound of the time, and what is left of the
time above it is the most that any overlap can save; and overlap of copies saves no more than they cost, by being
exposed and by blocking the host. Copies keep their durations: pinned memory, fewer bytes and a faster link are no
overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from overlapscope.formatting import time
from overlapscope.measure.devices import Activity
from overlapscope.measure.host import DEFAULT, HostConfig, blocked_from_ns
from overlapscope.measure.spans import Spans, intersect, merge, subtract, union
from overlapscope.model.columns import NO_ID, Bool
from overlapscope.model.enums import Direction
from overlapscope.model.frames import Row
from overlapscope.model.tables import HostWork, Timed
from overlapscope.model.trace import Trace

KERNELS, HTOD, DTOH, PTOP, HOST = "kernels", "HtoD copies", "DtoH copies", "PtoP copies", "host"
_WITHIN = (Direction.DTOD, Direction.UVM_DTOD)


@dataclass(frozen=True)
class Ceiling(Row):
    """What perfect overlap would give on one device, in ns.

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
        """What cannot get shorter by overlap, by name."""
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
        """What perfect overlap of copies saves, at most."""
        return min(self.above_ns, self.copies_ns)

    @property
    def above_ns(self) -> int:
        """The time above the longest part, in which something waits for something else."""
        return self.now_ns - self.bound_ns

    @property
    def limit(self) -> str:
        """The longest part in words: ``the kernels take 38.8 ms``."""
        takes = "takes" if self.bound_by == HOST else "take"
        return f"the {self.bound_by} {takes} {time(self.bound_ns)}"

    def to_dict(self) -> dict[str, Any]:
        """The fields, ``bound_ns``, ``bound_by`` and ``saving_ns`` as JSON-ready data."""
        return super().to_dict() | {
            "bound_ns": self.bound_ns,
            "bound_by": self.bound_by,
            "saving_ns": self.saving_ns,
        }


def ceiling(trace: Trace, active: Activity, config: HostConfig = DEFAULT) -> Ceiling:
    """The ceiling of one device within the time that its activity is about."""
    copies = trace.copies
    here = active.key.rows(copies)

    def of(*directions: Direction) -> Spans:
        return _spans(copies, here & np.isin(copies.direction, directions))

    own = merge(active.kernels, active.memsets, of(*_WITHIN))
    return Ceiling(
        now_ns=active.span_ns,
        kernels_ns=intersect(own, active.extent).total_ns,
        htod_ns=intersect(of(Direction.HTOD), active.extent).total_ns,
        dtoh_ns=intersect(of(Direction.DTOH), active.extent).total_ns,
        ptop_ns=intersect(of(Direction.PTOP), active.extent).total_ns,
        host_ns=_host_ns(trace, active, config),
        copies_ns=_copies_ns(trace, active, here, config),
    )


def _copies_ns(trace: Trace, active: Activity, here: Bool, config: HostConfig) -> int:
    """The time in which a copy of the device was exposed or its call blocked a thread."""
    calls = trace.copies.call[here]
    calls = np.unique(calls[calls != NO_ID])
    blocked = union(blocked_from_ns(trace, config)[calls], trace.api_calls.end_ns[calls])
    exposed = subtract(active.copies, active.kernels)
    return intersect(merge(exposed, blocked), active.extent).total_ns


def _host_ns(trace: Trace, active: Activity, config: HostConfig) -> int:
    """The longest time that one thread of the device's process worked, and did not wait."""
    process, calls = active.key.process, trace.api_calls
    blocked_from = blocked_from_ns(trace, config)
    profiler = union(trace.overheads.start_ns, trace.overheads.end_ns)  # of which thread is not always recorded
    result = 0
    for number in sorted({thread for owner, thread in calls.threads if owner == process}):
        mine = _of(calls, process, number)
        blocked = union(blocked_from[mine], calls.end_ns[mine])
        parts = [
            (table.start_ns[rows], table.end_ns[rows])
            for table in (calls, trace.cpu_ops)
            for rows in [_of(table, process, number)]
        ]
        work = union(*(np.concatenate(times) for times in zip(*parts, strict=True)))
        free = subtract(subtract(work, blocked), profiler)
        result = max(result, intersect(free, active.extent).total_ns)
    return result


def _of(table: HostWork, process: int, thread: int) -> Bool:
    mine: Bool = (table.process == process) & (table.thread == thread)
    return mine


def _spans(table: Timed, rows: Bool) -> Spans:
    return union(table.start_ns[rows], table.end_ns[rows])
