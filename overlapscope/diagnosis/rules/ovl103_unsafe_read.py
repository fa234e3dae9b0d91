"""The host may read the target of an asynchronous D2H copy too early.

## What happens
`tensor.to("cpu", non_blocking=True)` and `place.copy_(tensor, non_blocking=True)` into pinned memory return before
the data has arrived. A program that reads it without a synchronisation reads old data: wrong numbers, without an
error, and only sometimes.

## How it shows in a trace
A recording of `overlapscope record` says which host tensors the copies write, and which operators read or change them.
The finding is certain where an operator uses a tensor before the copy into it ends, unless a recorded synchronisation
waits for the copy: the clocks of host and GPU differ by some microseconds. Where nothing waits for the copy, and it
came out right by chance, it has medium confidence. A copy that is waited for before its recorded reader is silent,
whatever else the host reads meanwhile; where no reader is recorded, what follows counts with low confidence.

Other traces do not say which memory the host reads. There it is a warning to check: an asynchronous D2H copy to pinned
memory runs. Before it ends, before its thread issues other work and before any thread synchronises, the host runs an
operator that reads data and makes no CUDA call. Where operators are not recorded, a weaker sign counts, with low
confidence: the thread makes no call for some time, records no event, and then synchronises, after most of the copies
to the host on that stream. The last copy of a loop alone, after which the host waits for everything, is none.

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
The host may read other data, and synchronise before it reads the copied data. A read after the next launch, or
without an operator or a pause, is not found.

## Sources
PyTorch tutorial "A guide on good usage of non_blocking and pin_memory", on D2H copies. Reproduced by
`overlapscope.workloads.pinning_guide --variant read-early`: all of its checksums are wrong.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from overlapscope.calibration.schema import Access
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Confidence, Number
from overlapscope.diagnosis.races import of_device, race_report
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted, time
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import SYNC_CALLS, ApiKind, Direction, MemoryKind
from overlapscope.ordering.accesses import accesses_known, copies_before_host, early_reads

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
"""Operators that read data; where they make no CUDA call, they read host tensors."""
_NEITHER_WORK_NOR_WAIT = (ApiKind.OTHER, ApiKind.EVENT_RECORD, ApiKind.WAIT_EVENT)
"""Calls that may lie between the copy and the read: they neither issue work nor synchronise."""
_WAITING = (*SYNC_CALLS, ApiKind.QUERY)


def view(context: DeviceContext) -> Report | None:
    """Report D2H copies that the host reads too early, or, where no tensor is known, while which it reads any."""
    races = of_device(context, early_reads(context.order))
    if len(races):
        number = len(np.unique(races.first))
        copies = counted(number, "D2H copy", "D2H copies")
        message = f"Nothing waits for {copies} before the host uses the tensor."
        report = race_report(context, races, message, "the program: does something else wait for the copy?")
        return replace(report, evidence=_evidence(number, number))
    return _suspected(context)


def _suspected(context: DeviceContext) -> Report | None:
    """Report D2H copies to pinned memory during which an operator read host data, or the host was active.

    Not those of which a recording knows the reader.
    """
    uses = (copies_before_host(context.graph, Access.DOWNLOAD, use)[0] for use in (Access.READ, Access.WRITE))
    used_later = context.graph.work.row[np.concatenate(list(uses))]
    rows = np.setdiff1d(_in_flight(context), used_later)
    if not len(rows):
        return None
    calls, copies = context.trace.api_calls, context.trace.copies
    call = copies.call[rows].astype(np.int64)
    following = _next_call(context, call, _NEITHER_WORK_NOR_WAIT)
    waited = _first_wait(context, calls.end_ns[call])
    until = np.minimum(np.minimum(np.append(calls.start_ns, _NEVER)[following], waited), copies.end_ns[rows])
    read = _operator_between(context, call, until)
    active = np.zeros(len(call), np.int64) if len(context.trace.cpu_ops) else _active_ns(context, call, waited)
    paused = (active > context.config.host_active_ns) & _most_of_stream(context, rows, active)
    found = rows[read | paused]
    if not len(found):
        return None
    return _report(context, found, int(read.sum()), int(active.max()))


def _report(context: DeviceContext, found: Int64, reads: int, active_ns: int) -> Report:
    how = "an operator read host data" if reads else f"the host was active for up to {time(active_ns)}"
    message = (
        f"Suspected: {counted(len(found), 'D2H copy', 'D2H copies')} to pinned memory had not finished when {how}, "
        "without a synchronisation in between: if it read the copied data, it read wrong values."
    )
    evidence = _evidence(len(found), reads)
    calls = np.unique(context.trace.copies.call[found]).astype(np.int64)
    confirm_with = "the program itself: does the host read the copied tensor there?"
    confidence = Confidence.MEDIUM if reads and not accesses_known(context.graph) else Confidence.LOW
    return Report(message, evidence, confidence, confirm_with, hazard=True, copies=found, calls=calls, idle_ns=0)


def _evidence(copies: int, read: int) -> dict[str, Number]:
    return {"copies": copies, "read_by_operator": read, "host_active": copies - read}


def _in_flight(context: DeviceContext) -> Int64:
    """D2H copies to pinned memory whose call returned before the copy had finished."""
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
    """The next call of the same thread that has none of the kinds ``between``; `NO_ID` after the last."""
    calls = context.trace.api_calls
    others = np.flatnonzero(~np.isin(calls.kind, between) & (calls.parent == NO_ID))
    result = np.full(len(call), NO_ID, np.int64)
    for thread in np.unique(calls.thread[call]).tolist():
        mine = np.flatnonzero(calls.thread[call] == thread)
        theirs = others[(calls.thread[others] == thread) & (calls.process[others] == context.activity.key.process)]
        position = np.searchsorted(calls.start_ns[theirs], calls.end_ns[call[mine]])
        result[mine] = np.append(theirs, NO_ID)[position]
    return result


def _first_wait(context: DeviceContext, moment_ns: Int64) -> Int64:
    """When any thread of the process first synchronises, or queries an event or stream, after each moment."""
    calls = context.trace.api_calls
    waits = calls.start_ns[np.isin(calls.kind, _WAITING) & (calls.process == context.activity.key.process)]
    first: Int64 = np.append(waits, _NEVER)[np.searchsorted(waits, moment_ns)]
    return first


def _operator_between(context: DeviceContext, call: Int64, until: Int64) -> Bool:
    """Whether the copy's thread started an operator that reads data, and makes no CUDA call, before ``until``."""
    ops, calls = context.trace.cpu_ops, context.trace.api_calls
    rows = np.flatnonzero(np.isin(ops.name_id, context.trace.names.find(*_READS)))
    result = np.zeros(len(call), np.bool_)
    for number in np.unique(calls.thread[call]).tolist():
        made = calls.start_ns[(calls.thread == number) & (calls.process == context.activity.key.process)]
        theirs = rows[ops.thread[rows] == number]
        no_call = np.searchsorted(made, ops.start_ns[theirs]) == np.searchsorted(made, ops.end_ns[theirs])
        starts = ops.start_ns[theirs[no_call]]
        mine = calls.thread[call] == number
        begin = calls.end_ns[call[mine]]
        result[mine] = np.searchsorted(starts, until[mine]) > np.searchsorted(starts, begin)
    return result


def _active_ns(context: DeviceContext, call: Int64, waited: Int64) -> Int64:
    """Time from each call until its thread synchronises; 0 where another call or thread comes first."""
    calls = context.trace.api_calls
    following = _next_call(context, call, (ApiKind.OTHER,))
    begin = np.append(calls.start_ns, _NEVER)[following]
    waits = np.isin(np.append(calls.kind, ApiKind.OTHER)[following], SYNC_CALLS) & (waited == begin)
    return np.where(waits, begin - calls.end_ns[call], 0)


def _most_of_stream(context: DeviceContext, rows: Int64, active: Int64) -> Bool:
    """Whether most of the copies of each one's stream are like that: one that is not read, none is, most likely."""
    stream = context.trace.copies.stream[rows]
    _, member, count = np.unique(stream, return_inverse=True, return_counts=True)
    paused = np.bincount(member, active > context.config.host_active_ns, len(count))
    return (2 * paused > count)[member]


RULE = Rule(
    code="OVL103",
    name="unsafe-read",
    page=__doc__,
    waited_for="copies that are read too early",
    about_copies=True,
    fix="arrived = torch.cuda.Event(); arrived.record()  # right after the copy\n"
    "arrived.synchronize()  # before the host reads",
    view=view,
)
