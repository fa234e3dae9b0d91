"""The host goes on without waiting for a copy that is on its way to it.

## What happens
`tensor.to("cpu", non_blocking=True)` and `place.copy_(tensor, non_blocking=True)` into pinned memory return before
the bytes have arrived. A program that reads them before a synchronisation reads what was there before: wrong numbers,
without an error, and only sometimes.

## How it shows in a trace
An asynchronous copy to pinned memory; after it, while it is still on its way and before its thread issues anything
else or any thread waits for the device, the host runs an operator that reads numbers and makes no call itself. Where
operators are not recorded, with low confidence: the thread makes no call for some time, records no event, and then
synchronises. A trace does not show which memory the host reads, so this is a warning to check.

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
The host may be at something else than the copied data, and synchronise before it reads that. A read that comes after
the next launch, or that no operator and no pause shows, is not seen.

## Sources
PyTorch tutorial "A guide on good usage of non_blocking and pin_memory", on copies towards the host. Shown by
`overlapscope.workloads.pinning_guide --variant read-early`: all of its checksums are wrong.
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Confidence
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted, time
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import SYNC_CALLS, ApiKind, Direction, MemoryKind

_NEVER = np.iinfo(np.int64).max
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
    "aten::resolve_conj",  # of tolist() and numpy()
)
"""Operators that read numbers, on tensors of the host where they make no call."""
_PREPARING = (ApiKind.OTHER, ApiKind.EVENT_RECORD, ApiKind.WAIT_EVENT)
"""Calls that may stand between the copy and the read: they neither issue work nor wait."""
_WAITING = (*SYNC_CALLS, ApiKind.QUERY)


def view(context: DeviceContext) -> Report | None:
    """Copies to pinned memory after which the host went on: by an operator, or by its silence."""
    rows = _on_their_way(context)
    if not len(rows):
        return None
    calls, copies = context.trace.api_calls, context.trace.copies
    call = copies.call[rows].astype(np.int64)
    following = _next_call(context, call, _PREPARING)
    waited = _first_wait(context, calls.end_ns[call])
    until = np.minimum(np.minimum(np.append(calls.start_ns, _NEVER)[following], waited), copies.end_ns[rows])
    read = _operator_between(context, call, until)
    silence = np.zeros(len(call), np.int64) if len(context.trace.cpu_ops) else _silence(context, call, waited)
    found = rows[read | (silence > context.config.went_on_ns)]
    if not len(found):
        return None
    return _report(context, found, int(read.sum()), int(silence.max()))


def _report(context: DeviceContext, found: Int64, reads: int, silence: int) -> Report:
    how = "an operator read numbers" if reads else f"the host was at work for up to {time(silence)}"
    message = (
        f"{counted(len(found), 'copy', 'copies')} to pinned memory had not arrived when {how}, with no synchronisation "
        "in between: if that was the copied data, it was wrong."
    )
    evidence = {"copies": len(found), "read_by_operator": reads, "host_went_on": len(found) - reads}
    calls = np.unique(context.trace.copies.call[found]).astype(np.int64)
    doubt = "the program itself: does the host read the copied tensor there?"
    sure = Confidence.MEDIUM if reads else Confidence.LOW
    return Report(message, evidence, sure, doubt, hazard=True, copies=found, calls=calls, idle_ns=0)


def _on_their_way(context: DeviceContext) -> Int64:
    """Copies to pinned memory whose call returned before they had arrived."""
    copies, calls = context.trace.copies, context.trace.api_calls
    inside = context.window.touches(copies.process, copies.start_ns, copies.end_ns)
    rows = np.flatnonzero(
        inside
        & context.activity.key.rows(copies)
        & (copies.direction == Direction.DTOH)
        & (context.facts.host_kind == MemoryKind.PINNED)
        & (copies.call != NO_ID)
    )
    rows = rows[calls.kind[copies.call[rows]] == ApiKind.COPY]
    early: Int64 = rows[calls.end_ns[copies.call[rows]] < copies.end_ns[rows]]
    return early


def _next_call(context: DeviceContext, call: Int64, between: tuple[ApiKind, ...]) -> Int64:
    """The next call of the same thread that is none of some kinds; `NO_ID` after the last."""
    calls = context.trace.api_calls
    telling = np.flatnonzero(~np.isin(calls.kind, between) & (calls.parent == NO_ID))
    result = np.full(len(call), NO_ID, np.int64)
    for thread in np.unique(calls.thread[call]).tolist():
        mine = np.flatnonzero(calls.thread[call] == thread)
        theirs = telling[(calls.thread[telling] == thread) & (calls.process[telling] == context.activity.key.process)]
        position = np.searchsorted(calls.start_ns[theirs], calls.end_ns[call[mine]])
        result[mine] = np.append(theirs, NO_ID)[position]
    return result


def _first_wait(context: DeviceContext, moment_ns: Int64) -> Int64:
    """When any thread of the process first waits for the device, or asks it, after each moment."""
    calls = context.trace.api_calls
    waits = calls.start_ns[np.isin(calls.kind, _WAITING) & (calls.process == context.activity.key.process)]
    first: Int64 = np.append(waits, _NEVER)[np.searchsorted(waits, moment_ns)]
    return first


def _operator_between(context: DeviceContext, call: Int64, until: Int64) -> Bool:
    """Whether the copy's thread began an operator that reads numbers, and makes no call, before a moment."""
    ops, calls = context.trace.cpu_ops, context.trace.api_calls
    rows = np.flatnonzero(np.isin(ops.name_id, context.trace.names.find(*_READS)))
    result = np.zeros(len(call), np.bool_)
    for number in np.unique(calls.thread[call]).tolist():
        made = calls.start_ns[(calls.thread == number) & (calls.process == context.activity.key.process)]
        theirs = rows[ops.thread[rows] == number]
        silent = np.searchsorted(made, ops.start_ns[theirs]) == np.searchsorted(made, ops.end_ns[theirs])
        starts = ops.start_ns[theirs[silent]]
        mine = calls.thread[call] == number
        begin = calls.end_ns[call[mine]]
        result[mine] = np.searchsorted(starts, until[mine]) > np.searchsorted(starts, begin)
    return result


def _silence(context: DeviceContext, call: Int64, waited: Int64) -> Int64:
    """How long each thread made no call before it waited itself; 0 where another call or thread came first."""
    calls = context.trace.api_calls
    following = _next_call(context, call, (ApiKind.OTHER,))
    begin = np.append(calls.start_ns, _NEVER)[following]
    waits = np.isin(np.append(calls.kind, ApiKind.OTHER)[following], SYNC_CALLS) & (waited == begin)
    return np.where(waits, begin - calls.end_ns[call], 0)


RULE = Rule(
    code="OVL014",
    name="unsafe-read",
    page=__doc__,
    fix="arrived = torch.cuda.Event(); arrived.record()  # right after the copy\n"
    "arrived.synchronize()  # before the host reads",
    view=view,
)
