"""The host goes on without waiting for a copy that is on its way to it.

## What happens
`tensor.to("cpu", non_blocking=True)` and `place.copy_(tensor, non_blocking=True)` into pinned memory return before
the bytes have arrived. A program that reads them before a synchronisation reads what was there before: wrong numbers,
without an error, and only sometimes.

## How it shows in a trace
An asynchronous copy to pinned memory; after it, while it is still on its way, the host runs an operator that reads
numbers, or is at work for some time without a call, and no synchronisation and no event stands between. A trace does
not show which memory the host reads, so this is a warning to check.

## Fix
```python
# before
place.copy_(result, non_blocking=True)
print(place.sum())  # what is in it now?
# after
place.copy_(result, non_blocking=True)
arrived = torch.cuda.Event()
arrived.record()
...  # launch other work
arrived.synchronize()
print(place.sum())
```

## What the saving assumes
This is about correctness; there is no saving.

## When this misleads
The host may be at something else than the copied data, and synchronise before it reads that.

## Sources
PyTorch tutorial "A guide on good usage of non_blocking and pin_memory", on copies towards the host. Shown by
`overlapscope.workloads.pinning_guide --variant read-early`: all of its checksums are wrong.
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.case import Case
from overlapscope.diagnosis.finding import Confidence
from overlapscope.diagnosis.rule import Rule, Said, counted
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import SYNC_CALLS, ApiKind, Direction, MemoryKind
from overlapscope.words import time

_READS = (
    "aten::item",
    "aten::_local_scalar_dense",
    "aten::is_nonzero",
    "aten::equal",
    "aten::sum",
    "aten::mean",
    "aten::max",
    "aten::min",
    "aten::argmax",
    "aten::clone",
)
"""Operators that read numbers; on tensors of the device they would make a call."""


def view(case: Case) -> Said | None:
    """Copies to pinned memory after which the host went on: by an operator, or by its silence."""
    rows, until = _on_their_way(case)
    if not len(rows):
        return None
    begin = case.trace.api_calls.end_ns[case.trace.copies.call[rows]]
    read = _operator_between(case, rows, begin, np.minimum(until, case.trace.copies.end_ns[rows]))
    silent = (until - begin > case.config.went_on_ns) & _ends_with_wait(case, rows, until)
    found = rows[read | silent]
    if not len(found):
        return None
    sure = bool(read.any())
    reads = (
        "an operator read numbers"
        if sure
        else f"the host was at work for up to {time(int((until - begin)[silent].max()))}"
    )
    what = counted(len(found), "copy", "copies")
    message = (
        f"{what} to pinned memory had not arrived when {reads}, with no synchronisation in between: "
        "if that was the copied data, it was wrong."
    )
    evidence = {"copies": len(found), "read_by_operator": int(read.sum()), "host_went_on": int((silent & ~read).sum())}
    calls = np.unique(case.trace.copies.call[found]).astype(np.int64)
    confidence, doubt = Confidence.MEDIUM, "the program itself: does the host read the copied tensor there?"
    return Said(
        message,
        evidence,
        confidence if sure else Confidence.LOW,
        doubt,
        hazard=True,
        copies=found,
        calls=calls,
        lost_ns=0,
    )


def _on_their_way(case: Case) -> tuple[Int64, Int64]:
    """Copies to pinned memory whose call returned before they arrived, and when their thread's next call began.

    Calls that only ask or prepare are no next call; an event recorded right after shows that the copy will be
    waited for.
    """
    copies, calls = case.trace.copies, case.trace.api_calls
    inside = case.window.touches(copies.process, copies.start_ns, copies.end_ns)
    rows = np.flatnonzero(
        inside
        & case.activity.key.rows(copies)
        & (copies.direction == Direction.DTOH)
        & (case.facts.host_kind == MemoryKind.PINNED)
        & (copies.call != NO_ID)
    )
    rows = rows[calls.kind[copies.call[rows]] == ApiKind.COPY]
    rows = rows[calls.end_ns[copies.call[rows]] < copies.end_ns[rows]]
    following = _next_call(case, copies.call[rows].astype(np.int64))
    kinds = np.append(calls.kind, ApiKind.OTHER)[following]
    begin = np.append(calls.start_ns, case.trace.end_ns)[following]
    open_ended = ~np.isin(kinds, (ApiKind.EVENT_RECORD, ApiKind.QUERY))
    return rows[open_ended], begin[open_ended]


def _next_call(case: Case, call: Int64) -> Int64:
    """The next call of the same thread that does something; `NO_ID` after the last."""
    calls = case.trace.api_calls
    telling = np.flatnonzero((calls.kind != ApiKind.OTHER) & (calls.parent == NO_ID))
    result = np.full(len(call), NO_ID, np.int64)
    for thread in np.unique(calls.thread[call]).tolist():
        mine = np.flatnonzero(calls.thread[call] == thread)
        theirs = telling[(calls.thread[telling] == thread) & (calls.process[telling] == case.activity.key.process)]
        position = np.searchsorted(calls.start_ns[theirs], calls.end_ns[call[mine]])
        result[mine] = np.append(theirs, NO_ID)[position]
    return result


def _operator_between(case: Case, rows: Int64, begin: Int64, until: Int64) -> Bool:
    """Whether the copy's thread began an operator that reads numbers before the copy had arrived."""
    ops, calls = case.trace.cpu_ops, case.trace.api_calls
    reading = np.flatnonzero(np.isin(ops.name_id, case.trace.names.find(*_READS)))
    thread = calls.thread[case.trace.copies.call[rows]]
    result = np.zeros(len(rows), np.bool_)
    for number in np.unique(thread).tolist():
        starts = ops.start_ns[reading[ops.thread[reading] == number]]
        mine = thread == number
        result[mine] = np.searchsorted(starts, until[mine]) > np.searchsorted(starts, begin[mine])
    return result


def _ends_with_wait(case: Case, rows: Int64, until: Int64) -> Bool:
    """Whether the silence ends with a synchronisation, or the thread makes no call any more."""
    following = _next_call(case, case.trace.copies.call[rows].astype(np.int64))
    kinds = np.append(case.trace.api_calls.kind, ApiKind.DEVICE_SYNC)[following]
    return np.isin(kinds, SYNC_CALLS) & (until > case.trace.copies.start_ns[rows])


RULE = Rule(
    code="OVL014",
    name="unsafe-read",
    page=__doc__,
    fix="arrived = torch.cuda.Event(); arrived.record()  # right after the copy\n"
    "arrived.synchronize()  # before the host reads",
    view=view,
)
