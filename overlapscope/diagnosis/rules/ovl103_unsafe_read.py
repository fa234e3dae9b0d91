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
from overlapscope.diagnosis.device_context import HOST_ACTIVE_NS, DeviceContext
from overlapscope.diagnosis.finding import Number
from overlapscope.diagnosis.races import race_report, races_of_device
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted, time
from overlapscope.measure.grouping import any_between
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import SYNC_CALLS, ApiKind, Direction, MemoryKind
from overlapscope.ordering.accesses import accesses_known, copies_before_host, early_reads

_NEVER = np.iinfo(np.int64).max
_OF_SCALARS = ("item", "_local_scalar_dense", "is_nonzero", "equal")
_OF_TENSORS = ("sum", "mean", "max", "min", "argmax", "clone", "resolve_conj")  # the last is of tolist() and numpy()
_READS = tuple(f"aten::{name}" for name in (*_OF_SCALARS, *_OF_TENSORS))
"""Operators that read data; where they make no CUDA call, they read host tensors."""
_NEITHER_WORK_NOR_WAIT = (ApiKind.OTHER, ApiKind.EVENT_RECORD, ApiKind.WAIT_EVENT)
"""Calls that may lie between the copy and the read: they neither issue work nor synchronise."""
_WAITING = (*SYNC_CALLS, ApiKind.QUERY)


def view(context: DeviceContext) -> Report | None:
    """Report D2H copies that the host reads too early, or, where no tensor is known, while which it reads any."""
    races = races_of_device(context, early_reads(context.order))
    number = len(np.unique(races.first))
    message = f"Nothing waits for {counted(number, 'D2H copy', 'D2H copies')} before the host uses the tensor."
    report = race_report(context, races, message, "the program: does something else wait for the copy?")
    return _suspected(context) if report is None else replace(report, evidence=_evidence(number, number))


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
    paused = (active > HOST_ACTIVE_NS) & _most_of_stream(context, rows, active)
    unsafe = rows[read | paused]
    return _report(context, unsafe, int(read.sum()), int(active.max())) if len(unsafe) else None


def _report(context: DeviceContext, copies: Int64, reads: int, active_ns: int) -> Report:
    how = "an operator read host data" if reads else f"the host was active for up to {time(active_ns)}"
    message = (
        f"Suspected: {counted(len(copies), 'D2H copy', 'D2H copies')} to pinned memory had not finished when {how}, "
        "without a synchronisation in between: if it read the copied data, it read wrong values."
    )
    evidence = _evidence(len(copies), reads)
    confirm_with = "the program itself: does the host read the copied tensor there?"
    suspicion = not reads or accesses_known(context.graph)
    return Report(message, evidence, confirm_with, suspicion, hazard=True, copies=copies)


def _evidence(copies: int, read: int) -> dict[str, Number]:
    return {"copies": copies, "read_by_operator": read, "host_active": copies - read}


def _in_flight(context: DeviceContext) -> Int64:
    """D2H copies to pinned memory whose call returned before the copy had finished."""
    copies, calls = context.trace.copies, context.trace.api_calls
    pinned = (copies.direction == Direction.DTOH) & (context.facts.host_kind == MemoryKind.PINNED)
    rows = context.rows_in_window(copies, pinned & (copies.call != NO_ID))
    rows = rows[calls.kind[copies.call[rows]] == ApiKind.COPY]
    early: Int64 = rows[calls.end_ns[copies.call[rows]] < copies.end_ns[rows]]
    return early


def _next_call(context: DeviceContext, call: Int64, between: tuple[ApiKind, ...]) -> Int64:
    """The next call of the same thread that has none of the kinds ``between``; `NO_ID` after the last."""
    calls = context.trace.api_calls
    others = np.flatnonzero(~np.isin(calls.kind, between) & (calls.parent == NO_ID))
    result = np.full(len(call), NO_ID, np.int64)
    for thread in np.unique(calls.thread[call]).tolist():
        members = np.flatnonzero(calls.thread[call] == thread)
        of_thread = others[(calls.thread[others] == thread) & (calls.process[others] == context.key.process)]
        position = np.searchsorted(calls.start_ns[of_thread], calls.end_ns[call[members]])
        result[members] = np.append(of_thread, NO_ID)[position]
    return result


def _first_wait(context: DeviceContext, moment_ns: Int64) -> Int64:
    """When any thread of the process first synchronises, or queries an event or stream, after each moment."""
    calls = context.trace.api_calls
    waits = calls.start_ns[np.isin(calls.kind, _WAITING) & (calls.process == context.key.process)]
    first: Int64 = np.append(waits, _NEVER)[np.searchsorted(waits, moment_ns)]
    return first


def _operator_between(context: DeviceContext, call: Int64, until: Int64) -> Bool:
    """Whether the copy's thread started an operator that reads data, and makes no CUDA call, before ``until``."""
    calls = context.trace.api_calls
    made = calls.take(calls.process == context.key.process)
    ops = context.trace.cpu_ops.take(np.isin(context.trace.cpu_ops.name_id, context.trace.names.find(*_READS)))
    ops = ops.take(~any_between(made.start_ns, made.thread, ops.thread, ops.start_ns, ops.end_ns))
    return any_between(ops.start_ns, ops.thread, calls.thread[call], calls.end_ns[call], until)


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
    paused = np.bincount(member, active > HOST_ACTIVE_NS, len(count))
    return (2 * paused > count)[member]


RULE = Rule(
    waited_for="copies that are read too early",
    about_copies=True,
    fix="arrived = torch.cuda.Event(); arrived.record()  # right after the copy\n"
    "arrived.synchronize()  # before the host reads",
)
