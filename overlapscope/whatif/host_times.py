"""Where the times of host threads go in a simulation: they keep their distance from the call before them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from overlapscope.dependencies.apart import apart
from overlapscope.dependencies.graph import Calls
from overlapscope.dependencies.simulate import Simulation
from overlapscope.measure.threads import rows_by_thread
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.tables import ApiCalls, HostWork, Syncs


@dataclass(frozen=True, eq=False)
class Places:
    """Times of host threads, and for each the last call that its thread began by then.

    That is the first one of the thread for what is ``before`` all of them, and `NO_ID` in processes without calls and
    for synchronisations whose call is not recorded.
    """

    moment_ns: Int64
    call: Int64
    before: Bool

    def take(self, rows: Bool | Int64) -> Places:
        """Some of them."""
        return Places(self.moment_ns[rows], self.call[rows], self.before[rows])

    def beside(self, other: Places) -> Places:
        """These and others."""
        columns = ((getattr(each, name) for each in (self, other)) for name in ("moment_ns", "call", "before"))
        return Places(*(np.concatenate(list(pair)) for pair in columns))

    @classmethod
    def of(cls, calls: Calls, process: Int64, thread: Int64, moment_ns: Int64) -> Places:
        """Those of some times; a thread without calls goes with the busiest of its process."""
        by_thread = rows_by_thread(calls.process, calls.thread)
        busiest: dict[int, Int64] = {}
        for (owner, _), rows in by_thread.items():
            if len(rows) > len(busiest.get(owner, ())):
                busiest[owner] = rows
        call, before = np.full(len(moment_ns), NO_ID, np.int64), np.zeros(len(moment_ns), np.bool_)
        for place, mine in rows_by_thread(process, thread).items():
            if place[0] in busiest:
                rows = by_thread.get(place, busiest[place[0]])
                last = np.searchsorted(calls.start_ns[rows], moment_ns[mine], "right") - 1
                call[mine], before[mine] = rows[np.maximum(last, 0)], last < 0
        return cls(moment_ns, call, before)

    @classmethod
    def of_syncs(cls, calls: Calls, syncs: Syncs, api_calls: ApiCalls) -> tuple[Places, Places]:
        """Those of the begins of synchronisations, and of their ends."""
        thread = np.append(api_calls.thread, NO_ID)[syncs.call]
        begins, ends = (cls.of(calls, syncs.process, thread, moment) for moment in (syncs.start_ns, syncs.end_ns))
        known = syncs.call != NO_ID
        return begins.only(known), ends.only(known)

    def only(self, known: Bool) -> Places:
        """The same, with no calls but for those rows."""
        return Places(self.moment_ns, np.where(known, self.call, NO_ID), self.before & known)


@dataclass(frozen=True, eq=False)
class HostTimes:
    """Where times go. ``start_ns`` and ``end_ns`` are the new ones of calls, with a 0 appended.

    Threads apart from the others, and those of a process without calls, such as a loader's worker, keep their place
    among all the rest that was simulated.
    """

    simulated: Simulation
    start_ns: Int64
    end_ns: Int64

    @classmethod
    def of(cls, simulated: Simulation) -> HostTimes:
        """Those of a simulation."""
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
    def _apart(self) -> Bool:
        return apart(self.simulated.graph)

    @cached_property
    def _alone(self) -> Bool:
        """Which calls are of threads apart; none is for rows without a call."""
        return np.append(self._apart[: 2 * (len(self.start_ns) - 1) : 2], False)

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
        """Old and new times of all that was simulated, in order, but for threads apart."""
        old, new = self.simulated.graph.time_ns, self.simulated.time_ns
        order = np.argsort(old, kind="stable")
        order = order[~self._apart[order]]
        return old[order], np.maximum.accumulate(new[order])
