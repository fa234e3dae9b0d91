"""Infer which ``cudaEventRecord`` a stream wait refers to, where the profiler gives event ids for waits only.

Event ids grow in the order of creation, and PyTorch creates an event when it is first recorded. If every wait of a
thread is for another event, the series of waits matches a part of the thread's series of records. Only its beginning
is unknown: it must be a place where every record follows some work, since an event stands for the work before it. Of
several such places the latest counts.
"""

from __future__ import annotations

import numpy as np

from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind
from overlapscope.read.draft import Arrays

WORK = (ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH, ApiKind.COPY, ApiKind.MEMSET)
"""Calls that issue work."""
_LEAST = 3  # fewest waits to infer anything from


def by_creation(syncs: Arrays, calls: Arrays, waits: Int64) -> Int64:
    """Fill in the records of waits by their event ids; returns the waits that stay unresolved.

    An event that was recorded before the trace began has no record, and counts as resolved.
    """
    numbered = waits[(syncs["call"][waits] != NO_ID) & (syncs["event"][waits] != NO_ID)]
    call = syncs["call"][numbered]
    done = np.empty(0, np.int64)
    for process, thread in {(int(calls["process"][row]), int(calls["thread"][row])) for row in call.tolist()}:
        mine = numbered[(calls["process"][call] == process) & (calls["thread"][call] == thread)]
        record = _records_of(calls, process, thread, calls["start_ns"][syncs["call"][mine]], syncs["event"][mine])
        if record is not None:
            syncs["record_call"][mine], syncs["inferred"][mine] = record, True
            done = np.append(done, mine)
    return np.setdiff1d(waits, done)


def _records_of(calls: Arrays, process: int, thread: int, wait_ns: Int64, event: Int64) -> Int64 | None:
    """The record of each wait of a thread, `NO_ID` for records before the trace; None where it cannot be inferred."""
    if len(event) < _LEAST or len(np.unique(event)) < len(event):
        return None
    number = event - event.min()
    rows = np.flatnonzero((calls["process"] == process) & (calls["thread"] == thread))
    rows = rows[np.isin(calls["kind"][rows], (*WORK, ApiKind.EVENT_RECORD, ApiKind.WAIT_EVENT))]
    rows = rows[np.argsort(calls["start_ns"][rows], kind="stable")]
    kind = calls["kind"][rows]
    follows_work = np.append(False, np.isin(kind[:-1], WORK))
    is_record = kind == ApiKind.EVENT_RECORD
    found: list[Int64] = []
    for name in np.unique(calls["name_id"][rows[is_record]]).tolist():
        some = is_record & (calls["name_id"][rows] == name)
        place = _place(calls["start_ns"][rows[some]], follows_work[some], wait_ns, number)
        if place is not None:
            found.append(np.append(rows[some], NO_ID)[np.where(place < 0, int(some.sum()), place)])
    return max(found, key=lambda record: int((record != NO_ID).sum()), default=None)


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
