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
from overlapscope.measure.host import DEFAULT, HostConfig, blocked_from_ns
from overlapscope.measure.spans import Spans, subtract
from overlapscope.measure.threads import Doing, Segments, over, thread_segments
from overlapscope.model.columns import NO_ID, NO_TIME, Bool, Int64
from overlapscope.model.tables import DeviceWork
from overlapscope.model.trace import Trace


@dataclass(frozen=True)
class GapCauses:
    """A device's gaps by cause, in ns; the causes add up to the whole.

    Attributes:
        copy_call_ns: the thread was held by a copy call, or inside another call that waited for a copy
            call of another thread of its process.
        synchronisation_ns: it was inside a stream, event or device synchronisation.
        allocation_ns: it was allocating or freeing memory.
        api_call_ns: it was inside another call, or a call that only enqueued.
        profiler_ns: it was inside the profiler.
        host_work_ns: it was running operators, Python or a named range: it launched late.
        host_not_recorded_ns: nothing of that thread was recorded.
        queued_ns: the work had been issued; the device waited for an event, a stream, or the launch itself.
        unknown_ns: the trace does not say which call issued the next work.
        no_work_left_ns: no work followed; nothing waited.
    """

    copy_call_ns: int = 0
    synchronisation_ns: int = 0
    allocation_ns: int = 0
    api_call_ns: int = 0
    profiler_ns: int = 0
    host_work_ns: int = 0
    host_not_recorded_ns: int = 0
    queued_ns: int = 0
    unknown_ns: int = 0
    no_work_left_ns: int = 0

    @property
    def total_ns(self) -> int:
        """All of it."""
        return sum(getattr(self, entry.name) for entry in fields(self))


_SUMS = {
    Doing.IN_COPY: "copy_call_ns",
    Doing.IN_SYNC: "synchronisation_ns",
    Doing.ALLOCATING: "allocation_ns",
    Doing.CALLING: "api_call_ns",
    Doing.PROFILING: "profiler_ns",
    Doing.WORKING: "host_work_ns",
    Doing.ABSENT: "host_not_recorded_ns",
}


@dataclass(frozen=True, eq=False)
class Gaps:
    """Stretches without work, each with the work that came next.

    ``followed`` says whether any did, ``stream`` and ``next_ns`` where and when. ``call`` is the call that issued it
    (`NO_ID` where that is not known), ``issued_ns`` when that call was over, within the gap; without a call it is
    the gap's end.
    """

    start_ns: Int64
    end_ns: Int64
    followed: Bool
    stream: Int64
    next_ns: Int64
    call: Int64
    issued_ns: Int64

    def take(self, rows: Int64 | Bool) -> Gaps:
        """Some of them."""
        return Gaps(*(getattr(self, entry.name)[rows] for entry in fields(self)))


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
    gaps = find_gaps(trace, key, idle, tables)
    lengths = gaps.end_ns - gaps.start_ns
    joined = gaps.call != NO_ID
    _, pieces = late_host(trace, gaps, config)
    durations = pieces.end_ns - pieces.start_ns
    return GapCauses(
        no_work_left_ns=int(lengths[~gaps.followed].sum()),
        unknown_ns=int(lengths[gaps.followed & ~joined].sum()),
        queued_ns=int((gaps.end_ns - gaps.issued_ns)[joined].sum()),
        **{name: int(durations[pieces.doing == doing].sum()) for doing, name in _SUMS.items()},
    )


def find_gaps(trace: Trace, key: DeviceKey, idle: Spans, tables: tuple[DeviceWork, ...]) -> Gaps:
    """The stretches of ``idle``, each with the first work of ``tables`` on the device at or after its end."""
    start, stream, calls = _work(key, tables)
    position = np.searchsorted(start, idle.end_ns)
    followed = position < len(start)
    place = np.where(followed, position, len(start))
    call = np.append(calls, NO_ID)[place]
    done = np.append(trace.api_calls.end_ns, 0)[call]
    return Gaps(
        start_ns=idle.start_ns,
        end_ns=idle.end_ns,
        followed=followed,
        stream=np.append(stream, NO_ID)[place],
        next_ns=np.append(start, NO_TIME)[place],
        call=call,
        issued_ns=np.where(call == NO_ID, idle.end_ns, np.clip(done, idle.start_ns, idle.end_ns)),
    )


def late_host(trace: Trace, gaps: Gaps, config: HostConfig = DEFAULT) -> tuple[Int64, Segments]:
    """What each issuing thread was doing until it had issued the work after a gap, with the index of that gap.

    A thread of which nothing is recorded may have waited for another to hand it work, as autograd's does: then what
    counts is what the busiest thread of its process was doing.
    """
    calls, joined = trace.api_calls, np.flatnonzero(gaps.call != NO_ID)
    process, thread = calls.process[gaps.call[joined]], calls.thread[gaps.call[joined]]
    holding = blocked_from_ns(trace, config)
    found = [(np.empty(0, np.int64), _absent(np.empty(0, np.int64), np.empty(0, np.int64)))]
    for owner in sorted(set(zip(process.tolist(), thread.tolist(), strict=True))):
        mine = joined[(process == owner[0]) & (thread == owner[1])]
        doing = thread_segments(trace, *owner, holding)
        busiest = _busiest_thread(trace, owner[0])
        if busiest != owner[1]:
            doing = over(doing, thread_segments(trace, owner[0], busiest, holding))
        begin, until = gaps.start_ns[mine], gaps.issued_ns[mine]
        late = begin < until
        which, pieces = over(doing, _absent(begin[late], until[late])).within(begin, until)
        found.append((mine[which], pieces))
    which = np.concatenate([index for index, _ in found])
    columns = ("start_ns", "end_ns", "doing", "call")
    return which, Segments(*(np.concatenate([getattr(part, name) for _, part in found]) for name in columns))


def _busiest_thread(trace: Trace, process: int) -> int:
    """The thread of a process with most calls."""
    threads, counts = np.unique(trace.api_calls.thread[trace.api_calls.process == process], return_counts=True)
    return int(threads[np.argmax(counts)])


def _absent(begin_ns: Int64, until_ns: Int64) -> Segments:
    """Stretches of which nothing is known yet."""
    count = len(begin_ns)
    return Segments(begin_ns, until_ns, np.full(count, Doing.ABSENT, np.int8), np.full(count, NO_ID, np.int64))


def _work(key: DeviceKey, tables: tuple[DeviceWork, ...]) -> tuple[Int64, Int64, Int64]:
    """Start, stream and call of all work of a device that takes time, in the order of its start."""
    some = [table.take(key.rows(table) & (table.end_ns > table.start_ns)) for table in tables]
    start, stream, call = (
        np.concatenate([getattr(table, name).astype(np.int64) for table in some])
        for name in ("start_ns", "stream", "call")
    )
    order = np.argsort(start, kind="stable")
    return start[order], stream[order], call[order]
