"""A simulation as a trace, to be measured and drawn like the original, and the length of a window in it.

Times of host threads keep their distance from the call before them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from overlapscope.dependencies.graph import Calls, detached
from overlapscope.dependencies.simulate import Simulation
from overlapscope.measure.grouping import at, rows_by_thread, with_columns
from overlapscope.measure.windows import Window, ends_with_work, range_rows, work_window
from overlapscope.model.columns import NO_ID, NO_TIME, Bool, Columnar, Int64
from overlapscope.model.tables import ApiCalls, EventWaits, HostWork, Ranges, Syncs, Timed
from overlapscope.model.trace import DEVICE_WORK, TABLES, Metadata, Trace


@dataclass(frozen=True, eq=False)
class Places(Columnar):
    """Times of host threads, and for each the last call that its thread began by then.

    That is the first one of the thread for what is ``before`` all of them, and `NO_ID` in processes without calls and
    for synchronisations whose call is not recorded.
    """

    moment_ns: Int64
    call: Int64
    before: Bool

    @classmethod
    def of(cls, calls: Calls, process: Int64, thread: Int64, moment_ns: Int64) -> Places:
        """The places of times of threads; a thread without calls goes with the busiest of its process."""
        by_thread = rows_by_thread(calls.process, calls.thread)
        busiest: dict[int, Int64] = {}
        for (owner, _), rows in by_thread.items():
            if len(rows) > len(busiest.get(owner, ())):
                busiest[owner] = rows
        call, before = np.full(len(moment_ns), NO_ID, np.int64), np.zeros(len(moment_ns), np.bool_)
        for place, asked in rows_by_thread(process, thread).items():
            if place[0] in busiest:
                rows = by_thread.get(place, busiest[place[0]])
                last = np.searchsorted(calls.start_ns[rows], moment_ns[asked], "right") - 1
                call[asked], before[asked] = rows[np.maximum(last, 0)], last < 0
        return cls(moment_ns, call, before)

    @classmethod
    def of_syncs(cls, calls: Calls, syncs: Syncs, api_calls: ApiCalls) -> tuple[Places, Places]:
        """The places of the begins of synchronisations, and of their ends."""
        thread = at(api_calls.thread, syncs.call)
        known = syncs.call != NO_ID
        begins, ends = (cls.of(calls, syncs.process, thread, moment) for moment in (syncs.start_ns, syncs.end_ns))
        begins, ends = (replace(each, call=np.where(known, each.call, NO_ID)) for each in (begins, ends))
        return replace(begins, before=begins.before & known), replace(ends, before=ends.before & known)


@dataclass(frozen=True, eq=False)
class HostTimes:
    """The new times of host tables. ``start_ns`` and ``end_ns`` are those of calls, with a 0 appended.

    Detached threads (`detached`), and those of a process without calls, such as a loader's worker, keep their place
    among all the rest that was simulated.
    """

    simulated: Simulation
    start_ns: Int64
    end_ns: Int64

    @classmethod
    def of(cls, simulated: Simulation) -> HostTimes:
        """The times of a simulation."""
        times = simulated.time_ns[: 2 * len(simulated.graph.calls)]
        return cls(simulated, np.append(times[0::2], 0), np.append(times[1::2], 0))

    def of_table(self, table: HostWork) -> tuple[Int64, Int64]:
        """New starts and ends of a table's rows."""
        owner = table.process, table.thread
        return self.moved(*owner, table.start_ns), self.moved(*owner, table.end_ns)

    def moved(self, process: Int64, thread: Int64, moment_ns: Int64) -> Int64:
        """New times of some times of threads."""
        return self.at(Places.of(self.simulated.graph.calls, process, thread, moment_ns))

    def at(self, places: Places) -> Int64:
        """New times of some times."""
        moment, call = places.moment_ns, places.call
        result: Int64 = np.where(places.before, self._before(moment, call), self._since(moment, call))
        alone = np.flatnonzero((call == NO_ID) | self._alone[call])
        if len(alone):
            result[alone] = self._among_all(moment[alone])
        return result

    def _since(self, moment: Int64, call: Int64) -> Int64:
        """Times in or after a call: no later than its end, and than the next call of the thread."""
        old_start, old_end = self._old
        inside: Int64 = np.minimum(self.start_ns[call] + moment - old_start[call], self.end_ns[call])
        after = np.minimum(self.end_ns[call] + moment - old_end[call], self._next_start[call])
        return np.where(moment < old_end[call], inside, after)

    def _before(self, moment: Int64, call: Int64) -> Int64:
        """Times before a thread's first call."""
        _, new = self._all
        begin = new[0] if len(new) else 0
        along = self.start_ns[call] + moment - self._old[0][call]
        along = np.maximum(along, np.minimum(moment, begin))  # what waits for others may have begun long before
        return np.where(self._anchored[call], np.minimum(moment, self.start_ns[call]), along)

    @cached_property
    def _old(self) -> tuple[Int64, Int64]:
        calls = self.simulated.graph.calls
        return np.append(calls.start_ns, 0), np.append(calls.end_ns, 0)

    @cached_property
    def _next_start(self) -> Int64:
        """The new start of the next call on the thread of each call."""
        owner = self.simulated.graph.calls.owner
        last = np.append(owner[1:] != owner[:-1], [True, True])[-len(self.start_ns) :]
        return np.where(last, np.iinfo(np.int64).max, np.append(self.start_ns[1:], 0))

    @cached_property
    def _anchored(self) -> Bool:
        """Which calls wait for nothing, and so stay where they were."""
        anchored = np.ones(len(self.start_ns), np.bool_)
        target = self.simulated.graph.dependencies.target
        anchored[target[(target % 2 == 0) & (target < 2 * len(self.simulated.graph.calls))] // 2] = False
        return anchored

    @cached_property
    def _detached(self) -> Bool:
        return detached(self.simulated.graph)

    @cached_property
    def _alone(self) -> Bool:
        """Which calls are of detached threads; none is for rows without a call."""
        return np.append(self._detached[: 2 * (len(self.start_ns) - 1) : 2], False)

    def _among_all(self, moment: Int64) -> Int64:
        """Between two of what was simulated, as far along as before; outside of it, at the same distance."""
        old, new = self._all
        if not len(old):
            return moment
        within = np.clip(moment, old[0], old[-1])
        # From the first on, since nanoseconds since 1970 are more than a float holds.
        along = np.interp(within - old[0], old - old[0], new - new[0])
        placed: Int64 = new[0] + np.rint(along).astype(np.int64) + (moment - within)
        return placed

    @cached_property
    def _all(self) -> tuple[Int64, Int64]:
        """Old and new times of all that was simulated, in order, but for detached threads."""
        old, new = self.simulated.graph.time_ns, self.simulated.time_ns
        order = np.argsort(old, kind="stable")
        order = order[~self._detached[order]]
        return old[order], np.maximum.accumulate(new[order])


_T = TypeVar("_T", bound=Timed)
_H = TypeVar("_H", bound=HostWork)
_ON_HOST = ("syncs", "ranges", "modules", "cpu_ops", "frames", "samples", "host_events", "overheads")  # but calls


def retimed(simulated: Simulation) -> Trace:
    """The trace of a simulation. Operators, ranges and frames keep their place between the calls of their thread."""
    trace, graph = simulated.graph.trace, simulated.graph
    start, end = simulated.time_ns[0::2], simulated.time_ns[1::2]
    host = HostTimes.of(simulated)
    calls = _at(trace.api_calls, *host.of_table(trace.api_calls))
    order = np.argsort(calls.start_ns, kind="stable")
    new_row = np.append(np.argsort(order), NO_ID)
    work: list[Any] = []
    for number, table in enumerate(trace.device_work):
        of_table = graph.work.table == number
        times = np.empty((2, len(table)), np.int64)
        times[:, graph.work.row[of_table]] = start[len(graph.calls) :][of_table], end[len(graph.calls) :][of_table]
        work.append(_sorted(_at(table, *times, call=new_row[table.call])))
    syncs = trace.syncs
    waits = (host.at(places) for places in Places.of_syncs(simulated.graph.calls, syncs, trace.api_calls))
    rows = {"call": new_row[syncs.call], "record_call": new_row[syncs.record_call]}
    return replace(
        trace,
        **dict(zip(DEVICE_WORK, work, strict=True)),
        api_calls=_at(calls, calls.start_ns, calls.end_ns, parent=new_row[calls.parent]).take(order),
        syncs=_sorted(_at(syncs, *waits, **rows)),
        **{name: _host_table(host, getattr(trace, name)) for name in _ON_HOST if name != "syncs"},
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
    waited = np.where(waits.call == NO_ID, waits.time_ns, at(calls.start_ns, waits.call, 0))
    recorded = np.where(waits.record_call == NO_ID, waits.recorded_ns, at(calls.start_ns, waits.record_call, 0))
    rows = {name: new_row[getattr(waits, name)] for name in ("call", "record_call")}
    return with_columns(waits, time_ns=waited, recorded_ns=recorded, **rows)


def _host_table(host: HostTimes, table: _H) -> _H:
    return _sorted(_at(table, *host.of_table(table)))


def _at(table: _T, start_ns: Int64, end_ns: Int64, **columns: Int64) -> _T:
    """The table with other times, and other rows where it speaks of those."""
    return with_columns(table, start_ns=start_ns, end_ns=np.maximum(start_ns, end_ns), **columns)


def _sorted(table: _T) -> _T:
    return table.take(np.argsort(table.start_ns, kind="stable"))


def length_ns(simulated: Simulation, window: Window) -> int:
    """The length of a window in a simulation, in ns; with nothing changed, that of the window in the trace."""
    return window_after(simulated, window).wall_ns


def window_after(simulated: Simulation, window: Window) -> Window:
    """The window of the simulated trace that stands for a window of the trace, occurrence by occurrence.

    Ranges stay what they are. An interval begins when all has happened that had happened at its begin in the trace, and
    ends when all has that had happened at its end.
    """
    rows = range_rows(simulated.graph.trace, window)
    if rows is not None:
        start, end = _ranges_after(simulated, simulated.graph.trace.ranges.take(rows))
    elif window.is_whole:
        start, end = (np.array([moment]) for moment in _first_and_last(simulated))
    else:
        edges = zip(window.start_ns.tolist(), window.end_ns.tolist(), window.process.tolist(), strict=True)
        reached = [[_reached_ns(simulated, each, process) for each in (first, last)] for first, last, process in edges]
        start, end = np.array(reached, np.int64).reshape(-1, 2).T
    return replace(window, start_ns=start, end_ns=np.maximum(start, end))


def _ranges_after(simulated: Simulation, ranges: Ranges) -> tuple[Int64, Int64]:
    """The begin of some ranges in a simulation, and their end with the work that they issued."""
    trace = simulated.graph.trace
    empty: dict[str, Any] = {name: TABLES[name].empty(trace.names) for name in _ON_HOST}
    calls_only = replace(simulated, graph=replace(simulated.graph, trace=replace(trace, **empty)))
    after = _at(ranges, *HostTimes.of(simulated).of_table(ranges))
    return after.start_ns, ends_with_work(retimed(calls_only), after)


def _reached_ns(simulated: Simulation, moment_ns: int, of: int) -> int:
    """The time in a simulation at which all of a process, or of all, has happened that had happened at a moment.

    The busiest thread of each process has come as far, and the work that had begun has run as long.
    """
    graph, work = simulated.graph, simulated.graph.work
    process = np.unique(graph.calls.process) if len(graph.calls) else np.array([NO_ID])
    process, here = (process, work.process == work.process) if of == NO_ID else (np.array([of]), work.process == of)
    host = HostTimes.of(simulated).moved(process, np.full(len(process), NO_ID), np.full(len(process), moment_ns))
    begun = np.flatnonzero(here & (work.start_ns < moment_ns))
    start, end = (simulated.time_ns[node(begun)] for node in (graph.work_start, graph.work_end))
    ran = np.where(work.end_ns[begun] <= moment_ns, end, np.minimum(start + moment_ns - work.start_ns[begun], end))
    return int(max(host.max(), ran.max(initial=host.max())))


def _first_and_last(simulated: Simulation) -> tuple[int, int]:
    """From the first to the last device work; see `work_window`.

    Host work that a change adds before the first work counts: the begin comes no later after the first call that issued
    work than in the trace.
    """
    graph, first_work = simulated.graph, 2 * len(simulated.graph.calls)
    if not len(graph.work):
        return work_window(graph.trace)
    calls = 2 * np.unique(graph.work.call[graph.work.call != NO_ID])
    begin, recorded = (times[first_work:].min() for times in (simulated.time_ns, graph.time_ns))
    if len(calls):
        lead_ns = max(recorded - graph.time_ns[calls].min(), 0)
        begin = min(begin, simulated.time_ns[calls].min() + lead_ns)
    return int(begin), int(simulated.time_ns[first_work:].max())
