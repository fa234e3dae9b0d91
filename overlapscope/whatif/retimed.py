"""A simulation as a trace: everything at its new time, to be measured and drawn like the original."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from overlapscope.dependencies.simulate import Simulation
from overlapscope.model.columns import NO_ID, NO_TIME, Int64
from overlapscope.model.metadata import Metadata
from overlapscope.model.tables import ApiCalls, EventWaits, HostWork, Timed
from overlapscope.model.trace import DEVICE_WORK, Trace
from overlapscope.whatif.host_times import HostTimes, Places

_T = TypeVar("_T", bound=Timed)
_H = TypeVar("_H", bound=HostWork)


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
        mine = graph.work.table == number
        times = np.empty((2, len(table)), np.int64)
        times[:, graph.work.row[mine]] = start[len(graph.calls) :][mine], end[len(graph.calls) :][mine]
        work.append(_sorted(_at(table, *times, call=new_row[table.call])))
    syncs = trace.syncs
    waits = (host.at(places) for places in Places.of_syncs(simulated.graph.calls, syncs, trace.api_calls))
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


def _host_table(host: HostTimes, table: _H) -> _H:
    return _sorted(_at(table, *host.of_table(table)))


def _at(table: _T, start_ns: Int64, end_ns: Int64, **columns: Int64) -> _T:
    """The table with other times, and other rows where it speaks of those."""
    narrowed: dict[str, Any] = {name: values.astype(getattr(table, name).dtype) for name, values in columns.items()}
    return replace(table, start_ns=start_ns, end_ns=np.maximum(start_ns, end_ns), **narrowed)


def _sorted(table: _T) -> _T:
    return table.take(np.argsort(table.start_ns, kind="stable"))
