"""Find what each stream was made to wait for: which stream, and which event record.

Some profilers record the source of a ``cudaStreamWaitEvent``: by the correlation id of the ``cudaEventRecord`` call, or
by event ids. Kineto on CUDA 12.9 and later does not. Then it is inferred, and marked as inferred: by the order of event
ids, else as the latest ``cudaEventRecord`` of the same thread before the wait (PyTorch records, then waits). The stream
of that record is the one whose work ends just before the waiting stream continues, on any device. Where the timing does
not show it (the event had completed before, or several waits precede one op) and several streams are possible, it stays
unknown. A stream that goes on while the work of all others still runs has waited for none of them: if its wait directly
follows the record, and is the only one for its event, the event is its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from overlapscope.model.columns import NO_ID, Bool, Columnar, Int64
from overlapscope.model.enums import ISSUING, ApiKind, SyncKind
from overlapscope.read.draft import Arrays, Draft, concat, take

_LATEST = np.iinfo(np.int64).max
_NEVER = np.iinfo(np.int64).min
_CLEARLY_NS = 10_000  # work that ends this long after a stream went on cannot have been waited for
_LEAST_WAITS = 3  # of a thread, to infer their records from event ids


@dataclass(frozen=True, eq=False)
class DeviceOps(Columnar):
    """All device work with a known call, in the order of issue."""

    issued_ns: Int64
    start_ns: Int64
    end_ns: Int64
    process: Int64
    device: Int64
    stream: Int64


def resolve(syncs: Arrays, records: Arrays, calls: Arrays, ops: DeviceOps) -> None:
    """Fill ``source_stream``, ``record_call`` and ``inferred`` of ``syncs`` in place.

    ``syncs["record_call"]`` is filled already where the trace has the correlation id of the record.
    """
    waits = np.flatnonzero(syncs["kind"] == SyncKind.STREAM_WAIT_EVENT)
    open_waits = waits[(syncs["source_stream"][waits] == NO_ID) & (syncs["record_call"][waits] == NO_ID)]
    open_waits = _by_event_id(syncs, records, calls, open_waits)
    open_waits = _by_creation(syncs, calls, open_waits)
    _by_latest_record(syncs, calls, open_waits)
    _source_streams(syncs, records, calls, ops, waits)


def _by_event_id(syncs: Arrays, records: Arrays, calls: Arrays, waits: Int64) -> Int64:
    """Match waits with records of the same event; returns the waits that stay unresolved.

    The profiler's own pairing has precedence; else the last record before the wait counts. An event without a record
    was recorded before the trace began.
    """
    if not len(waits) or not len(records["event"]):
        return waits
    issued = np.append(calls["start_ns"], _NEVER)[records["call"]]
    paired, rows_of = _records_by_event(records, issued)
    still_open = []
    for wait in waits.tolist():
        event = (int(syncs["process"][wait]), int(syncs["event"][wait]))
        row = paired.get((*event, int(syncs["event_sync"][wait])))
        if row is None and event[1] != NO_ID:
            rows = rows_of.get(event, [])
            before = bisect_right(rows, syncs["start_ns"][wait], key=lambda candidate: issued[candidate])
            row = rows[before - 1] if before else None
        if row is None:
            if event[1] == NO_ID:
                still_open.append(wait)
            continue
        syncs["source_stream"][wait] = records["stream"][row]
        syncs["record_call"][wait] = records["call"][row]
    return np.array(still_open, np.int64)


def _records_by_event(
    records: Arrays, issued: Int64
) -> tuple[dict[tuple[int, int, int], int], dict[tuple[int, int], list[int]]]:
    """Rows of records by (process, event, pairing), and by (process, event) in the order of issue."""
    paired, rows_of = {}, defaultdict(list)
    for row in np.argsort(issued, kind="stable").tolist():
        event = (int(records["process"][row]), int(records["event"][row]))
        rows_of[event].append(row)
        if records["event_sync"][row] != NO_ID:
            paired[*event, int(records["event_sync"][row])] = row
    return paired, rows_of


def _by_latest_record(syncs: Arrays, calls: Arrays, waits: Int64) -> None:
    """Match each wait with the latest event-record call of its thread."""
    waits = waits[syncs["call"][waits] != NO_ID]
    recorded = np.flatnonzero(calls["kind"] == ApiKind.EVENT_RECORD)
    if not len(waits) or not len(recorded):
        return
    wait_calls = syncs["call"][waits]
    for process, thread in {(int(calls["process"][row]), int(calls["thread"][row])) for row in wait_calls}:
        of_thread = waits[(calls["process"][wait_calls] == process) & (calls["thread"][wait_calls] == thread)]
        here = recorded[(calls["process"][recorded] == process) & (calls["thread"][recorded] == thread)]
        position = np.searchsorted(calls["start_ns"][here], calls["start_ns"][syncs["call"][of_thread]]) - 1
        known = position >= 0
        syncs["record_call"][of_thread[known]] = here[position[known]]
        syncs["inferred"][of_thread[known]] = True


def _source_streams(syncs: Arrays, records: Arrays, calls: Arrays, ops: DeviceOps, waits: Int64) -> None:
    """Fill in the streams of records of which only the call is known."""
    waits = waits[(syncs["source_stream"][waits] == NO_ID) & (syncs["record_call"][waits] != NO_ID)]
    if not len(waits):
        return
    stream_of_call = dict(zip(records["call"].tolist(), records["stream"].tolist(), strict=True))
    known = np.array([stream_of_call.get(row, NO_ID) for row in syncs["record_call"][waits].tolist()], np.int64)
    syncs["source_stream"][waits] = known
    waits = waits[known == NO_ID]
    syncs["source_stream"][waits] = _released_by(syncs, calls, ops, waits)
    syncs["inferred"][waits] = True


def _released_by(syncs: Arrays, calls: Arrays, ops: DeviceOps, waits: Int64) -> Int64:
    """The stream whose last work before the record ends just before the waiting stream continues."""
    result = np.full(len(waits), NO_ID, np.int64)
    places = {
        (int(process), int(device))
        for process, device in zip(syncs["process"][waits], syncs["device"][waits], strict=True)
    }
    for process, device in places:
        here = (ops.process == process) & ((ops.device == device) | (device == NO_ID))
        here |= (ops.process == process) & ~np.isin(ops.stream, ops.stream[here])  # other devices' streams too
        streams = {int(stream): np.flatnonzero(here & (ops.stream == stream)) for stream in np.unique(ops.stream[here])}
        waiting_rows = np.flatnonzero((syncs["process"][waits] == process) & (syncs["device"][waits] == device))
        if len(waiting_rows) and streams:
            result[waiting_rows] = _most_likely(syncs, calls, ops, waits[waiting_rows], streams)
    return result


def _most_likely(syncs: Arrays, calls: Arrays, ops: DeviceOps, waits: Int64, streams: dict[int, Int64]) -> Int64:
    waiting = syncs["stream"][waits]
    called = np.append(calls["start_ns"], _NEVER)[syncs["call"][waits]]
    wait_ns = np.where(syncs["call"][waits] == NO_ID, syncs["start_ns"][waits], called)
    record_ns = calls["start_ns"][syncs["record_call"][waits]]
    resumed, ready, alone = _resumption(ops, waiting, wait_ns, streams)
    ends = np.stack([_last_end(ops, rows, record_ns) for rows in streams.values()])
    names = np.array(list(streams), np.int64)
    possible = (ends != _NEVER) & (names[:, None] != waiting)
    # A stream releases the wait when its work ends before the waiting stream continues, and not before that stream
    # was ready without the wait.
    releases = possible & (ends <= resumed) & (ends >= ready) & alone
    best = names[np.argmax(np.where(releases, ends, _NEVER), axis=0)]
    only = names[np.argmax(possible, axis=0)]
    source = np.where(releases.any(axis=0), best, np.where(possible.sum(axis=0) == 1, only, NO_ID))
    running = ends > np.where(resumed == _NEVER, _LATEST - _CLEARLY_NS, resumed) + _CLEARLY_NS
    none_of_them = possible.any(axis=0) & (running | ~possible).all(axis=0)
    elsewhere = (ops.process == syncs["process"][waits[0]]) & (ops.device != syncs["device"][waits[0]])
    none_of_them &= ~np.isin(waiting, ops.stream[elsewhere])  # it may have waited for that one
    return np.where(none_of_them & _right_after_its_record(syncs, calls, waits), waiting, source)


def _right_after_its_record(syncs: Arrays, calls: Arrays, waits: Int64) -> Bool:
    """Which waits follow their record with no work between on their thread, as the only wait for their event."""
    every = syncs["event"][syncs["kind"] == SyncKind.STREAM_WAIT_EVENT]
    event = syncs["event"][waits]
    events, count = np.unique(every, return_counts=True)
    result: Bool = (count[np.searchsorted(events, event)] == 1) & (event != NO_ID) & (syncs["call"][waits] != NO_ID)
    for number in np.flatnonzero(result).tolist():
        call, record = syncs["call"][waits[number]], syncs["record_call"][waits[number]]
        since, until = np.searchsorted(calls["start_ns"], [calls["start_ns"][record], calls["start_ns"][call]])
        between = slice(int(since), int(until))
        same = (calls["thread"][between] == calls["thread"][call]) & (
            calls["process"][between] == calls["process"][call]
        )
        result[number] = not (same & np.isin(calls["kind"][between], ISSUING)).any()
    return result


def _resumption(ops: DeviceOps, waiting: Int64, wait_ns: Int64, streams: dict[int, Int64]) -> tuple[Int64, Int64, Bool]:
    """For each wait: start of the stream's next op, when it was ready without the wait, and whether no other wait is.

    With several waits before one op, the start of the op only shows the last one to be released.
    """
    resumed = np.full(len(waiting), _NEVER, np.int64)
    ready = np.full(len(waiting), _LATEST, np.int64)
    alone = np.zeros(len(waiting), np.bool_)
    for stream, rows in streams.items():
        on_stream = np.flatnonzero(waiting == stream)
        following = np.searchsorted(ops.issued_ns[rows], wait_ns[on_stream])
        has_next = following < len(rows)
        on_stream, following = on_stream[has_next], following[has_next]
        resumed[on_stream] = ops.start_ns[rows[following]]
        before = np.where(following > 0, ops.end_ns[rows[np.maximum(following - 1, 0)]], _NEVER)
        ready[on_stream] = np.maximum(before, ops.issued_ns[rows[following]])
        _, which, count = np.unique(following, return_inverse=True, return_counts=True)
        alone[on_stream] = count[which] == 1
    return resumed, ready, alone


def _last_end(ops: DeviceOps, rows: Int64, moment_ns: Int64) -> Int64:
    """End of the last of the ops ``rows`` that was issued before each moment."""
    position = np.searchsorted(ops.issued_ns[rows], moment_ns) - 1
    return np.where(position >= 0, ops.end_ns[rows[np.maximum(position, 0)]], _NEVER)


def _by_creation(syncs: Arrays, calls: Arrays, waits: Int64) -> Int64:
    """Fill in the records of waits where the profiler gives event ids for waits only; returns the unresolved waits.

    Event ids grow in the order of creation, and PyTorch creates an event when it is first recorded. If every wait of a
    thread is for another event, the series of waits matches a part of the thread's series of records. Only its
    beginning is unknown: it must be a place where every record follows some work, since an event stands for the work
    before it. Of several such places the latest counts. An event that was recorded before the trace began has no
    record, and counts as resolved.
    """
    numbered = waits[(syncs["call"][waits] != NO_ID) & (syncs["event"][waits] != NO_ID)]
    call = syncs["call"][numbered]
    done = np.empty(0, np.int64)
    for process, thread in {(int(calls["process"][row]), int(calls["thread"][row])) for row in call.tolist()}:
        of_thread = numbered[(calls["process"][call] == process) & (calls["thread"][call] == thread)]
        record = _records_of(
            calls, process, thread, calls["start_ns"][syncs["call"][of_thread]], syncs["event"][of_thread]
        )
        if record is not None:
            syncs["record_call"][of_thread], syncs["inferred"][of_thread] = record, True
            done = np.append(done, of_thread)
    return np.setdiff1d(waits, done)


def _records_of(calls: Arrays, process: int, thread: int, wait_ns: Int64, event: Int64) -> Int64 | None:
    """The record of each wait of a thread, `NO_ID` for records before the trace; None where it cannot be inferred."""
    if len(event) < _LEAST_WAITS or len(np.unique(event)) < len(event):
        return None
    number = event - event.min()
    rows = np.flatnonzero((calls["process"] == process) & (calls["thread"] == thread))
    rows = rows[np.isin(calls["kind"][rows], (*ISSUING, ApiKind.EVENT_RECORD, ApiKind.WAIT_EVENT))]
    rows = rows[np.argsort(calls["start_ns"][rows], kind="stable")]
    kind = calls["kind"][rows]
    follows_work = np.append(False, np.isin(kind[:-1], ISSUING))
    is_record = kind == ApiKind.EVENT_RECORD
    series: list[Int64] = []
    for name in np.unique(calls["name_id"][rows[is_record]]).tolist():
        named = is_record & (calls["name_id"][rows] == name)
        place = _place(calls["start_ns"][rows[named]], follows_work[named], wait_ns, number)
        if place is not None:
            series.append(np.append(rows[named], NO_ID)[np.where(place < 0, int(named.sum()), place)])
    return max(series, key=lambda record: int((record != NO_ID).sum()), default=None)


def _place(record_ns: Int64, follows_work: Bool, wait_ns: Int64, number: Int64) -> Int64 | None:
    """For each wait its index in the series of records, negative before the first; None where no beginning fits."""
    latest = np.searchsorted(record_ns, wait_ns) - 1
    if len(np.unique(latest - number)) == 1:  # each wait is for the latest record before it
        return latest if int(latest.min()) >= 0 else None
    for begin in range(int((latest - number).min()), -len(number), -1):
        place = begin + number
        known = place >= 0
        if 2 * known.sum() < len(number) or number.max() >= len(record_ns) + (~known).sum():
            return None
        if follows_work[place[known]].all():
            return place
    return None


def event_waits(draft: Draft) -> Arrays:
    """The columns of `EventWaits`, by the time at which each wait was issued: recorded waits, and those of calls alone.

    Profilers without synchronisation records leave the calls: a thread records an event and makes a stream wait. Then
    the event stands for the last work that the thread issued before the record, and the next work that it issues waits
    for it. Where both are on one stream there was nothing to wait for.
    """
    work = {name: draft.work(name) for name in ("process", "device", "stream", "call")}
    columns = concat([_recorded(draft, work), _from_calls(draft, work)])
    return take(columns, np.argsort(columns["time_ns"], kind="stable"))


def _recorded(draft: Draft, work: Arrays) -> Arrays:
    """Waits of synchronisation records."""
    syncs, issued = draft.tables["syncs"], np.append(draft.column("api_calls", "start_ns"), 0)
    rows = np.flatnonzero(syncs["kind"] == SyncKind.STREAM_WAIT_EVENT)
    names = ("process", "device", "stream", "source_stream", "call", "record_call", "inferred")
    columns = {name: syncs[name][rows] for name in names}
    columns["time_ns"] = np.where(columns["call"] == NO_ID, syncs["start_ns"][rows], issued[columns["call"]])
    record = columns["record_call"]
    columns["recorded_ns"] = np.where(record == NO_ID, columns["time_ns"], issued[record])
    columns["source_device"] = _device_of(work, columns)
    return columns


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
    joined = _one_thread(calls, order, (waits, record, place_of[last], place_of[first]))
    joined &= np.append(work["stream"], NO_ID)[last] != np.append(work["stream"], NO_ID)[first]
    waits, record, last, first = (rows[joined] for rows in (waits, record, last, first))
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
    """Whether calls, given as places in ``order``, are all known and of one thread."""
    thread, process = (np.append(calls[name][order], NO_ID) for name in ("thread", "process"))
    result: Bool = np.ones(len(several[0]), np.bool_)
    for place in several:
        result &= (place != NO_ID) & (thread[place] == thread[several[0]]) & (process[place] == process[several[0]])
    return result
