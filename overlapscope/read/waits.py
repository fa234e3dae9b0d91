"""Resolve which stream a ``cudaStreamWaitEvent`` waits for.

Some profilers record it: by the correlation id of the ``cudaEventRecord`` call, or by event ids. Kineto on CUDA 12.9
and later does not. Then it is inferred, and marked as inferred: by the order of event ids (see `event_order`), else as
the latest ``cudaEventRecord`` of the same thread before the wait (PyTorch records, then waits). The stream of that
record is the one whose work ends just before the waiting stream continues, on any device. Where the timing does not
show it (the event had completed before, or several waits precede one op) and several streams are possible, it stays
unknown. A stream that goes on while the work of all others still runs has waited for none of them: if its wait directly
follows the record, and is the only one for its event, the event is its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind, SyncKind
from overlapscope.read.draft import Arrays
from overlapscope.read.event_order import WORK, by_creation

_LATEST = np.iinfo(np.int64).max
_NEVER = np.iinfo(np.int64).min
_CLEARLY_NS = 10_000  # work that ends this long after a stream went on cannot have been waited for


@dataclass(frozen=True)
class DeviceOps:
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
    open_waits = by_creation(syncs, calls, open_waits)
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
        mine = waits[(calls["process"][wait_calls] == process) & (calls["thread"][wait_calls] == thread)]
        here = recorded[(calls["process"][recorded] == process) & (calls["thread"][recorded] == thread)]
        position = np.searchsorted(calls["start_ns"][here], calls["start_ns"][syncs["call"][mine]]) - 1
        found = position >= 0
        syncs["record_call"][mine[found]] = here[position[found]]
        syncs["inferred"][mine[found]] = True


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
        mine = np.flatnonzero((syncs["process"][waits] == process) & (syncs["device"][waits] == device))
        if len(mine) and streams:
            result[mine] = _most_likely(syncs, calls, ops, waits[mine], streams)
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
    found = np.where(releases.any(axis=0), best, np.where(possible.sum(axis=0) == 1, only, NO_ID))
    running = ends > np.where(resumed == _NEVER, _LATEST - _CLEARLY_NS, resumed) + _CLEARLY_NS
    none_of_them = possible.any(axis=0) & (running | ~possible).all(axis=0)
    elsewhere = (ops.process == syncs["process"][waits[0]]) & (ops.device != syncs["device"][waits[0]])
    none_of_them &= ~np.isin(waiting, ops.stream[elsewhere])  # it may have waited for that one
    return np.where(none_of_them & _right_after_its_record(syncs, calls, waits), waiting, found)


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
        result[number] = not (same & np.isin(calls["kind"][between], WORK)).any()
    return result


def _resumption(ops: DeviceOps, waiting: Int64, wait_ns: Int64, streams: dict[int, Int64]) -> tuple[Int64, Int64, Bool]:
    """For each wait: start of the stream's next op, when it was ready without the wait, and whether no other wait is.

    With several waits before one op, the start of the op only shows the last one to be released.
    """
    resumed = np.full(len(waiting), _NEVER, np.int64)
    ready = np.full(len(waiting), _LATEST, np.int64)
    alone = np.zeros(len(waiting), np.bool_)
    for stream, rows in streams.items():
        mine = np.flatnonzero(waiting == stream)
        following = np.searchsorted(ops.issued_ns[rows], wait_ns[mine])
        has_next = following < len(rows)
        mine, following = mine[has_next], following[has_next]
        resumed[mine] = ops.start_ns[rows[following]]
        before = np.where(following > 0, ops.end_ns[rows[np.maximum(following - 1, 0)]], _NEVER)
        ready[mine] = np.maximum(before, ops.issued_ns[rows[following]])
        _, which, count = np.unique(following, return_inverse=True, return_counts=True)
        alone[mine] = count[which] == 1
    return resumed, ready, alone


def _last_end(ops: DeviceOps, rows: Int64, moment_ns: Int64) -> Int64:
    """End of the last of the ops ``rows`` that was issued before each moment."""
    position = np.searchsorted(ops.issued_ns[rows], moment_ns) - 1
    return np.where(position >= 0, ops.end_ns[rows[np.maximum(position, 0)]], _NEVER)
