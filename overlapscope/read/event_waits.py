"""What each stream was made to wait for: one table for waits that were recorded and for those that only calls show.

Profilers without synchronisation records leave the calls: a thread records an event and makes a stream wait. Then the
event stands for the last work that the thread issued before the record, and the next work that it issues waits for it.
Where both are on one stream there was nothing to wait for.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind, SyncKind
from overlapscope.model.trace import DEVICE_WORK
from overlapscope.read.draft import Arrays, Draft


def event_waits(draft: Draft) -> Arrays:
    """The columns of `EventWaits`, by the time at which each wait was issued."""
    work = {
        name: np.concatenate([draft.column(table, name).astype(np.int64) for table in DEVICE_WORK])
        for name in ("process", "device", "stream", "call")
    }
    parts = [_recorded(draft, work), _from_calls(draft, work)]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(columns["time_ns"], kind="stable")
    return {name: values[order] for name, values in columns.items()}


def _recorded(draft: Draft, work: Arrays) -> Arrays:
    """Waits of synchronisation records."""
    syncs, issued = draft.tables["syncs"], np.append(draft.column("api_calls", "start_ns"), 0)
    rows = np.flatnonzero(syncs["kind"] == SyncKind.STREAM_WAIT_EVENT)
    names = ("process", "device", "stream", "source_stream", "call", "record_call", "inferred")
    found = {name: syncs[name][rows] for name in names}
    found["time_ns"] = np.where(found["call"] == NO_ID, syncs["start_ns"][rows], issued[found["call"]])
    record = found["record_call"]
    found["recorded_ns"] = np.where(record == NO_ID, found["time_ns"], issued[record])
    found["source_device"] = _device_of(work, found)
    return found


def _device_of(work: Arrays, waits: Arrays) -> Int64:
    """The device of each source stream: the waiting one where it works there, else the only other with its number."""
    result = waits["device"].astype(np.int64)
    if not len(result):
        return result
    places = set(zip(*(work[name].tolist() for name in ("process", "stream", "device")), strict=True))
    streams = Counter((process, stream) for process, stream, _ in places)
    for process, stream, device in places:
        if streams[process, stream] == 1:
            result[(waits["process"] == process) & (waits["source_stream"] == stream)] = device
    return result


def _from_calls(draft: Draft, work: Arrays) -> Arrays:
    """Waits of which there is no record, only the calls."""
    calls = draft.tables["api_calls"]
    recorded = np.zeros(draft.rows("api_calls") + 1, np.bool_)
    recorded[draft.tables["syncs"]["call"]] = True
    order = np.lexsort((calls["start_ns"], calls["thread"], calls["process"]))
    order = order[calls["parent"][order] == NO_ID]
    kind = calls["kind"][order]
    waits = np.flatnonzero((kind == ApiKind.WAIT_EVENT) & ~recorded[order])
    records = np.flatnonzero(kind == ApiKind.EVENT_RECORD)
    record = np.append(NO_ID, records)[np.searchsorted(records, waits)]
    place = np.full(draft.rows("api_calls") + 1, NO_ID, np.int64)
    place[order] = np.arange(len(order))
    issued = np.argsort(place[work["call"]], kind="stable")
    issued = issued[place[work["call"][issued]] != NO_ID]
    by_call = place[work["call"][issued]]
    last = np.append(NO_ID, issued)[np.searchsorted(by_call, record)]
    first = np.append(issued, NO_ID)[np.searchsorted(by_call, waits)]
    place_of = np.append(place[work["call"]], NO_ID)
    found = _one_thread(calls, order, (waits, record, place_of[last], place_of[first]))
    found &= np.append(work["stream"], NO_ID)[last] != np.append(work["stream"], NO_ID)[first]
    waits, record, last, first = (rows[found] for rows in (waits, record, last, first))
    return {
        "process": work["process"][first],
        "device": work["device"][first],
        "stream": work["stream"][first],
        "source_stream": work["stream"][last],
        "source_device": work["device"][last],
        "call": order[waits],
        "record_call": order[record],
        "inferred": np.ones(len(waits), np.bool_),
        "time_ns": calls["start_ns"][order[waits]],
        "recorded_ns": calls["start_ns"][order[record]],
    }


def _one_thread(calls: Arrays, order: Int64, several: tuple[Int64, ...]) -> Bool:
    """Where some calls, as places in ``order``, are all known and of one thread."""
    thread, process = (np.append(calls[name][order], NO_ID) for name in ("thread", "process"))
    result: Bool = np.ones(len(several[0]), np.bool_)
    for place in several:
        result &= (place != NO_ID) & (thread[place] == thread[several[0]]) & (process[place] == process[several[0]])
    return result
