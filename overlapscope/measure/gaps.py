"""Why did the device wait? Each gap, by what the thread was doing that issued the work after it.

A gap ends when the next work starts. Until that work had been issued, its thread was doing something else,
and what that was is the cause; from then on the device had the work and was not running it yet.

Gaps are looked at twice: those with nothing on the device (it is idle), and those without a kernel. The
second shows what an overlap percentage hides: a pageable copy that runs while its call holds the host keeps
the device busy and the kernels waiting.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from overlapscope.measure.devices import Activity, DeviceKey
from overlapscope.measure.host import DEFAULT, HostConfig, held_from_ns
from overlapscope.measure.spans import EMPTY, Spans, covered, intersect, merge, subtract, union
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import SYNC_CALLS, ApiKind
from overlapscope.model.tables import DeviceWork
from overlapscope.model.trace import Trace

_NOTHING_FOLLOWS = -2
_ALLOCATIONS = (ApiKind.DEVICE_ALLOC, ApiKind.DEVICE_FREE, ApiKind.HOST_ALLOC, ApiKind.HOST_FREE)


@dataclass(frozen=True)
class GapCauses:
    """A device's gaps by cause, in ns; the causes add up to the whole.

    Attributes:
        held_in_copy_ns: the thread was held by a copy call, or inside another call that waited for a copy
            call of another thread of its process.
        synchronising_ns: it was inside a stream, event or device synchronisation.
        allocating_ns: it was allocating or freeing memory.
        calling_ns: it was inside another call, or a call that only enqueued.
        host_working_ns: it was running operators, Python or a named range: it launched late.
        host_absent_ns: nothing of that thread was recorded.
        queued_ns: the work had been issued; the device waited for an event, a stream, or the launch itself.
        unknown_ns: the trace does not say which call issued the next work.
        no_work_left_ns: no work followed; nothing waited.
    """

    held_in_copy_ns: int = 0
    synchronising_ns: int = 0
    allocating_ns: int = 0
    calling_ns: int = 0
    host_working_ns: int = 0
    host_absent_ns: int = 0
    queued_ns: int = 0
    unknown_ns: int = 0
    no_work_left_ns: int = 0

    @property
    def total_ns(self) -> int:
        """All of it."""
        return sum(getattr(self, entry.name) for entry in fields(self))


@dataclass(frozen=True, eq=False)
class _Thread:
    """What one host thread was doing; the spans do not meet each other."""

    in_copy: Spans
    in_sync: Spans
    in_allocation: Spans
    in_other_call: Spans
    working: Spans


def idle_causes(trace: Trace, activity: Activity, config: HostConfig = DEFAULT) -> GapCauses:
    """Attribute the time of the device's extent in which nothing at all ran on it."""
    return _causes(trace, activity.key, activity.idle, trace.device_work, config)


def kernel_gap_causes(trace: Trace, activity: Activity, config: HostConfig = DEFAULT) -> GapCauses:
    """Attribute the time of the device's extent in which no kernel ran.

    Without kernels in the window there is nothing that could have waited, and all causes are zero.
    """
    if not len(activity.kernels):
        return GapCauses()
    idle = subtract(activity.extent, activity.kernels)
    return _causes(trace, activity.key, idle, (trace.kernels,), config)


def _causes(trace: Trace, key: DeviceKey, idle: Spans, tables: tuple[DeviceWork, ...], config: HostConfig) -> GapCauses:
    if not len(idle):
        return GapCauses()
    call = _next_calls(key, idle, tables)
    lengths = idle.end_ns - idle.start_ns
    totals = {
        "no_work_left_ns": int(lengths[call == _NOTHING_FOLLOWS].sum()),
        "unknown_ns": int(lengths[call == NO_ID].sum()),
    }
    known = call >= 0
    begin, end, call = idle.start_ns[known], idle.end_ns[known], call[known]
    until = np.clip(trace.api_calls.end_ns[call], begin, end) if len(call) else begin
    totals["queued_ns"] = int((end - until).sum())
    process, thread = trace.api_calls.process[call], trace.api_calls.thread[call]
    holding = held_from_ns(trace, config)
    for owner in set(zip(process.tolist(), thread.tolist(), strict=True)):
        mine = (process == owner[0]) & (thread == owner[1])
        doing = _thread(trace, *owner, holding)
        for name, length in _shares(begin[mine], until[mine], doing):
            totals[name] = totals.get(name, 0) + length
    return GapCauses(**totals)


def _shares(begin: Int64, until: Int64, doing: _Thread) -> list[tuple[str, int]]:
    parts = [
        ("held_in_copy_ns", doing.in_copy),
        ("synchronising_ns", doing.in_sync),
        ("allocating_ns", doing.in_allocation),
        ("calling_ns", doing.in_other_call),
        ("host_working_ns", doing.working),
    ]
    lengths = [(name, int(covered(begin, until, spans).sum())) for name, spans in parts]
    rest = int((until - begin).sum()) - sum(length for _, length in lengths)
    return [*lengths, ("host_absent_ns", rest)]


def _next_calls(key: DeviceKey, idle: Spans, tables: tuple[DeviceWork, ...]) -> Int64:
    """Row of the call that issued the first work at or after the end of each gap.

    `NO_ID` where the trace does not know it, `_NOTHING_FOLLOWS` after the device's last work.
    """
    starts, calls = [], []
    for table in tables:
        mine = key.rows(table) & (table.end_ns > table.start_ns)
        starts.append(table.start_ns[mine])
        calls.append(table.call[mine].astype(np.int64))
    start, call = np.concatenate(starts), np.concatenate(calls)
    order = np.argsort(start, kind="stable")
    position = np.searchsorted(start[order], idle.end_ns)
    if not len(order):
        return np.full(len(idle), _NOTHING_FOLLOWS, np.int64)
    return np.where(position < len(order), call[order[np.minimum(position, len(order) - 1)]], _NOTHING_FOLLOWS)


def _thread(trace: Trace, process: int, thread: int, holding: Int64) -> _Thread:
    calls = trace.api_calls
    mine = (calls.process == process) & (calls.thread == thread) & (calls.parent == NO_ID)
    copying = mine & (calls.kind == ApiKind.COPY)
    in_copy = union(holding[copying], calls.end_ns[copying])
    in_sync = _calls_of(trace, mine & np.isin(calls.kind, SYNC_CALLS))
    in_allocation = _calls_of(trace, mine & np.isin(calls.kind, _ALLOCATIONS))
    others = mine & ~np.isin(calls.kind, (*SYNC_CALLS, *_ALLOCATIONS))
    behind_copy = _behind_copies(trace, others, process, thread, holding)
    in_copy = merge(in_copy, behind_copy)
    in_other_call = subtract(_calls_of(trace, others), in_copy)
    in_calls = merge(in_copy, in_sync, in_allocation, in_other_call)
    working = EMPTY
    for table in (trace.cpu_ops, trace.frames, trace.ranges):
        here = (table.process == process) & (table.thread == thread)
        working = merge(working, union(table.start_ns[here], table.end_ns[here]))
    return _Thread(
        in_copy,
        subtract(in_sync, in_copy),
        subtract(in_allocation, merge(in_copy, in_sync)),
        subtract(in_other_call, merge(in_sync, in_allocation)),
        subtract(working, in_calls),
    )


def _calls_of(trace: Trace, rows: Bool) -> Spans:
    return union(trace.api_calls.start_ns[rows], trace.api_calls.end_ns[rows])


def _behind_copies(trace: Trace, others: Bool, process: int, thread: int, holding: Int64) -> Spans:
    """Held time of calls under a copy call of another thread: the driver lets one of them in at a time."""
    calls = trace.api_calls
    elsewhere = (calls.process == process) & (calls.thread != thread) & (calls.kind == ApiKind.COPY)
    held = union(holding[others], calls.end_ns[others])
    return intersect(held, union(holding[elsewhere], calls.end_ns[elsewhere]))
