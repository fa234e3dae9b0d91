"""How long a window takes in a simulation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from overlapscope.dependencies.graph import Calls
from overlapscope.dependencies.simulate import Simulation
from overlapscope.measure.once import once_for_each
from overlapscope.measure.windows import Window, of_range
from overlapscope.model.columns import NO_ID, NO_TIME
from overlapscope.model.tables import ApiCalls, HostWork, Syncs
from overlapscope.model.trace import TABLES
from overlapscope.whatif.host_times import HostTimes, Places
from overlapscope.whatif.retimed import retimed

_ON_HOST = ("syncs", "ranges", "modules", "cpu_ops", "frames", "overheads")  # but calls


def length_ns(simulated: Simulation, window: Window) -> int:
    """How long a window takes in a simulation: all occurrences of a range, or the whole trace."""
    if window.name is not None:
        return of_range(retimed(_ranges_only(simulated)), window.name).wall_ns
    begin, end = _first_and_last(simulated)
    return end - begin


def _ranges_only(simulated: Simulation) -> Simulation:
    """The simulation of a trace with nothing on the host but calls and ranges."""
    trace = simulated.graph.trace
    empty: dict[str, Any] = {name: TABLES[name].empty(trace.names) for name in _ON_HOST if name != "ranges"}
    return replace(simulated, graph=replace(simulated.graph, trace=replace(trace, **empty)))


def _first_and_last(simulated: Simulation) -> tuple[int, int]:
    """When the first of all that was recorded begins, and when the last of it ends."""
    host, graph = HostTimes.of(simulated), simulated.graph
    work = simulated.time_ns[2 * len(graph.calls) :]
    tables = [getattr(graph.trace, name) for name in ("api_calls", *_ON_HOST)]
    begins, ends = [work], [work]
    for table in tables:
        outermost = _outermost(graph.calls, table, graph.trace.api_calls)
        begins.append(host.at(outermost.begins))
        ends.append(host.at(outermost.ends))
    first, last = np.concatenate(begins), np.concatenate(ends)
    return (int(first.min()), int(last.max())) if len(first) else (0, 0)


@dataclass(frozen=True, eq=False)
class _Outermost:
    """Of the times of a table those that may become its first begin, and those that may become its last end."""

    begins: Places
    ends: Places


@once_for_each
def _outermost(calls: Calls, table: HostWork | Syncs, api_calls: ApiCalls) -> _Outermost:
    """The first begin and the last time before, in and after each call: of those, a later one goes no earlier."""
    if isinstance(table, Syncs):
        begins, ends = Places.of_syncs(calls, table, api_calls)
    else:
        begins, ends = (Places.of(calls, table.process, table.thread, time) for time in (table.start_ns, table.end_ns))
    return _Outermost(_extreme(calls, begins, np.minimum), _extreme(calls, begins.beside(ends), np.maximum))


def _extreme(calls: Calls, places: Places, which: np.ufunc) -> Places:
    """The first or the last of some times before, in and after each call; all that go with no call."""
    alone, some = places.take(places.call == NO_ID), places.take(places.call != NO_ID)
    stage = np.where(some.before, 0, np.where(some.moment_ns < calls.end_ns[some.call], 1, 2))
    worst = np.iinfo(np.int64).max if which is np.minimum else NO_TIME
    moment = np.full((3, len(calls)), worst)
    which.at(moment, (stage, some.call), some.moment_ns)
    stage, call = np.nonzero(moment != worst)
    return Places(moment[stage, call], call, stage == 0).beside(alone)
