"""A simulation as a trace: everything at its new time, to be measured and drawn like the original."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from overlapscope.dependencies.apart import apart
from overlapscope.dependencies.simulate import Simulation
from overlapscope.model.columns import NO_ID, NO_TIME, Int64
from overlapscope.model.metadata import Metadata
from overlapscope.model.tables import ApiCalls, EventWaits, HostWork, Timed
from overlapscope.model.trace import DEVICE_WORK, Trace

_T = TypeVar("_T", bound=Timed)
_H = TypeVar("_H", bound=HostWork)


def retimed(simulated: Simulation) -> Trace:
    """The trace of a simulation. Operators, ranges and frames keep their place between the calls of their thread."""
    trace, graph = simulated.graph.trace, simulated.graph
    start, end = simulated.time_ns[0::2], simulated.time_ns[1::2]
    host = _Host(simulated)
    calls = _at(trace.api_calls, *host.times(trace.api_calls))
    order = np.argsort(calls.start_ns, kind="stable")
    new_row = np.append(np.argsort(order), NO_ID)
    work: list[Any] = []
    for number, table in enumerate(trace.device_work):
        mine = graph.work.table == number
        times = np.empty((2, len(table)), np.int64)
        times[:, graph.work.row[mine]] = start[len(graph.calls) :][mine], end[len(graph.calls) :][mine]
        work.append(_sorted(_at(table, *times, call=new_row[table.call])))
    syncs = trace.syncs
    thread = np.append(trace.api_calls.thread, NO_ID)[syncs.call]
    known, place = syncs.call != NO_ID, (syncs.process, thread)
    waits = (
        np.where(known, host.at(*place, moment), host.among_all(moment)) for moment in (syncs.start_ns, syncs.end_ns)
    )
    rows = {"call": new_row[syncs.call], "record_call": new_row[syncs.record_call]}
    return replace(
        trace,
        **dict(zip(DEVICE_WORK, work, strict=True)),
        api_calls=_at(calls, calls.start_ns, calls.end_ns, parent=new_row[calls.parent]).take(order),
        syncs=_sorted(_at(syncs, *waits, **rows)),
        ranges=_host_table(host, trace.ranges),
        modules=_host_table(host, trace.modules),
        cpu_ops=_host_table(host, trace.cpu_ops),
        frames=_host_table(host, trace.frames),
        overheads=_host_table(host, trace.overheads),
        event_records=replace(trace.event_records, time_ns=np.full(len(trace.event_records), NO_TIME)),
        event_waits=_issued(trace.event_waits, calls, new_row),
        metadata=_without_consumers(trace.metadata),
    )


def _without_consumers(metadata: Metadata) -> Metadata:
    """Consumers go by the times at which operators started in the original."""
    if metadata.recording is None:
        return metadata
    recording = replace(metadata.recording, copy_consumers=None, d2h_consumers=None)
    return replace(metadata, recording=recording)


def _issued(waits: EventWaits, calls: ApiCalls, new_row: Int64) -> EventWaits:
    """Waits at the new times of their calls; ``calls`` are those of the trace in their old order."""
    start = np.append(calls.start_ns, 0)
    waited = np.where(waits.call == NO_ID, waits.time_ns, start[waits.call])
    recorded = np.where(waits.record_call == NO_ID, waits.recorded_ns, start[waits.record_call])
    rows = {name: new_row[getattr(waits, name)].astype(np.int32) for name in ("call", "record_call")}
    return replace(waits, time_ns=waited, recorded_ns=recorded, **rows)


def _host_table(host: _Host, table: _H) -> _H:
    return _sorted(_at(table, *host.times(table)))


def _at(table: _T, start_ns: Int64, end_ns: Int64, **columns: Int64) -> _T:
    """The table with other times, and other rows where it speaks of those."""
    narrowed: dict[str, Any] = {name: values.astype(getattr(table, name).dtype) for name, values in columns.items()}
    return replace(table, start_ns=start_ns, end_ns=np.maximum(start_ns, end_ns), **narrowed)


def _sorted(table: _T) -> _T:
    return table.take(np.argsort(table.start_ns, kind="stable"))


class _Host:
    """Where the times of host threads go: they keep their distance from the call before them.

    Threads apart from the others, and those of a process without calls, such as a loader's worker, keep their place
    among all the rest that was simulated.
    """

    def __init__(self, simulated: Simulation) -> None:
        calls, graph = simulated.graph.calls, simulated.graph
        alone = apart(graph)
        order = np.argsort(graph.time_ns, kind="stable")
        order = order[~alone[order]]
        self._old, self._new = graph.time_ns[order], np.maximum.accumulate(simulated.time_ns[order])
        self._calls = calls
        self._start = simulated.time_ns[graph.call_start(np.arange(len(calls)))]
        self._end = simulated.time_ns[graph.call_end(np.arange(len(calls)))]
        self._anchored = simulated.bound_by[graph.call_start(np.arange(len(calls)))] == NO_ID
        self._alone = alone[graph.call_start(np.arange(len(calls)))]
        self._main: dict[int, int] = {}
        for process in np.unique(calls.process).tolist():
            threads, counts = np.unique(calls.thread[calls.process == process], return_counts=True)
            self._main[process] = int(threads[np.argmax(counts)])

    def times(self, table: HostWork) -> tuple[Int64, Int64]:
        """New starts and ends of a table's rows."""
        place = table.process, table.thread
        return self.at(*place, table.start_ns), self.at(*place, table.end_ns)

    def at(self, process: Int64, thread: Int64, moment_ns: Int64) -> Int64:
        """New times of some times; a thread without calls goes with the busiest of its process."""
        result = moment_ns.copy()
        for owner in sorted(set(zip(process.tolist(), thread.tolist(), strict=True))):
            mine = np.flatnonzero((process == owner[0]) & (thread == owner[1]))
            calls = self._of(*owner)
            tied = len(calls) and not self._alone[calls[0]]
            result[mine] = self._shifted(calls, moment_ns[mine]) if tied else self.among_all(moment_ns[mine])
        return result

    def among_all(self, moment: Int64) -> Int64:
        """Between two of what was simulated, as far along as before; outside of it, at the same distance."""
        if not len(self._old):
            return moment
        within = np.clip(moment, self._old[0], self._old[-1])
        # From the first on, since nanoseconds since 1970 are more than a float holds.
        along = np.interp(within - self._old[0], self._old - self._old[0], self._new - self._new[0])
        placed: Int64 = self._new[0] + np.rint(along).astype(np.int64) + (moment - within)
        return placed

    def _of(self, process: int, thread: int) -> Int64:
        calls = self._calls
        mine = np.flatnonzero((calls.process == process) & (calls.thread == thread))
        if len(mine) or process not in self._main:
            return mine
        return np.flatnonzero((calls.process == process) & (calls.thread == self._main[process]))

    def _shifted(self, calls: Int64, moment: Int64) -> Int64:
        before = np.searchsorted(self._calls.start_ns[calls], moment, "right") - 1
        call = calls[np.maximum(before, 0)]
        following = calls[np.minimum(before + 1, len(calls) - 1)]
        inside = np.minimum(self._start[call] + moment - self._calls.start_ns[call], self._end[call])
        after = self._end[call] + moment - self._calls.end_ns[call]
        after = np.where(before + 1 < len(calls), np.minimum(after, self._start[following]), after)
        along = self._start[call] + moment - self._calls.start_ns[call]
        begin = self._new[0] if len(self._new) else 0
        along = np.maximum(along, np.minimum(moment, begin))  # what waits for others may have begun long before
        first = np.where(self._anchored[call], np.minimum(moment, self._start[call]), along)
        known = np.where(moment < self._calls.end_ns[call], inside, after)
        return np.where(before < 0, first, known)
