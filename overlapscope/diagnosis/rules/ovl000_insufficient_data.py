"""The trace does not record why the GPU was idle.

## What happens
The GPU was idle, and the trace lacks the data that would show why. No reason is guessed.

## How it shows in a trace
- The call that issued the next work is missing: its correlation id is absent or matches no call, or the call was made
  before the profile began.
- Work was issued and waited. A copy ends just before it starts, and a stream was made to wait in between, but
  synchronisation events were not recorded.
- A copy call blocks its thread and the trace has no memory kinds (ROCm does not record them). Pageable memory is then
  only one of the possible reasons.
- CUDA graphs were traced as a whole: the work inside them is not in the trace.
- Device timestamps come from another clock than host timestamps.
- Kernels without any call or operator are no work of PyTorch: torch's profiler sees those of JAX, but not their
  launches. Nsight Systems records both.
- ROCm records neither what a wait is for nor memory kinds: no new recording helps there.
- The profiler was off: the file has several profiling cycles, and this time is between two of them.

## Fix
Record again, with the missing data:

```python
# before
with torch.profiler.profile() as p:
    ...
# after: with synchronisation events, a warm-up, and one clock
with overlapscope.record("trace.json.gz", steps=3) as recording:
    for batch in loader:
        train(batch)
        recording.step()
```

With Nsight Systems: `nsys profile -t cuda,nvtx --cuda-graph-trace=node`, and export with the same version or a newer
one.

## What the saving assumes
Nothing: no saving is given.

## When this misleads
The idle time is real all the same. Other rules may apply to parts of it.

## Sources
Kineto's `_ExperimentalConfig(enable_cuda_sync_events=True)` adds synchronisation events (PyTorch, torch/profiler).
Nsight Systems User Guide, option `--cuda-graph-trace`.
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted, time
from overlapscope.measure.cycles import unrecorded
from overlapscope.measure.host import blocked_from_ns
from overlapscope.measure.spans import covered, intersect, union
from overlapscope.measure.waits import first_copy_of
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import SYNC_CALLS, ApiKind, Direction

_INCOMPLETE = {
    "whole-graph-trace": "CUDA graphs were traced as a whole (record with --cuda-graph-trace=node)",
    "wrong-device-clock": "device timestamps come from another clock than host timestamps",
    "kernels-not-recorded": "kernels were not recorded, only their launches",
    "copies-not-recorded": "copies were not recorded, only their calls",
}
"""Health warnings that make every idle interval doubtful, with what they mean."""
_RECORDED_BY_ALL = ("profiler_off_ns", "work_without_call_ns", "copies_without_call_ns")
"""Idle time for which what is missing can be recorded on ROCm too."""
_ON_AMD = "# ROCm records neither what waits are for nor memory kinds: look at the program around this place"

_WITH_NSYS = (
    "nsys profile -t cuda,nvtx --cuda-graph-trace=node python SCRIPT  # torch does not launch its kernels (JAX?)"
)


def claims(context: DeviceContext) -> Bool:
    """Every idle interval, where device work is missing or has wrong timestamps; else those without the profiler."""
    if missing_work(context):
        return ~context.none
    return context.mostly_in(unrecorded(context.trace))


def missing_work(context: DeviceContext) -> list[str]:
    """The reasons that make every idle interval doubtful."""
    return [text for code, text in _INCOMPLETE.items() if context.trace.health.has(code)]


def describe(context: DeviceContext, rows: Int64) -> Report:
    """Name the missing data, and the GPU idle time for which each is missing."""
    idle = context.idle.take(rows)
    other = ~np.isin(idle.cause, (Cause.UNKNOWN, Cause.WAIT_NOT_RECORDED))
    masks = {
        "work_without_call_ns": idle.cause == Cause.UNKNOWN,
        "wait_not_recorded_ns": idle.cause == Cause.WAIT_NOT_RECORDED,
        "unknown_memory_ns": (idle.cause != Cause.UNKNOWN) & (idle.copy >= 0),
        "copies_without_call_ns": other & (idle.copy < 0),
    }
    by_cause = {"profiler_off_ns": int(covered(idle.start_ns, idle.end_ns, unrecorded(context.trace)).sum())}
    by_cause |= {name: int(idle.duration_ns[mask].sum()) for name, mask in masks.items()}
    missing = "; ".join(missing_work(context) or _missing(context, by_cause))
    message = f"{context.without_kernel(rows, capital=True)} and the trace does not record why: {missing}."
    message += _meanwhile(context, rows[idle.cause == Cause.WAIT_NOT_RECORDED], context.idle_ns(rows))
    evidence = by_cause | {"missing": missing}
    if context.amd and not missing_work(context) and not any(by_cause[name] for name in _RECORDED_BY_ALL):
        return Report(message, evidence, "the program: what waits there?", True, fix=_ON_AMD, cuda_fix=_ON_AMD)
    elsewhere = not len(context.trace.api_calls) and not len(context.trace.cpu_ops)
    fix = _WITH_NSYS if elsewhere and not context.amd else None
    return Report(message, evidence, "a new recording with this data", suspicion=True, fix=fix)


def _meanwhile(context: DeviceContext, rows: Int64, idle_ns: int) -> str:
    """In which calls of one name a thread was blocked, where that is most of the idle time."""
    trace, calls = context.trace, context.trace.api_calls
    idle = union(context.idle.start_ns[rows], context.idle.end_ns[rows])
    since = blocked_from_ns(calls)
    waiting = np.isin(calls.kind, (ApiKind.COPY, *SYNC_CALLS)) & (calls.process == context.key.process)
    blocked = [
        (intersect(union(since[named], calls.end_ns[named]), idle).total_ns, number, named)
        for number in np.unique(calls.name_id[waiting]).tolist()
        for named in [np.flatnonzero(waiting & (calls.name_id == number))]
    ]
    longest, number, named = max(blocked, key=lambda entry: entry[:2], default=(0, NO_ID, rows[:0]))
    if 2 * longest <= idle_ns:
        return ""
    within = covered(since[named], calls.end_ns[named], idle) > 0
    copy = first_copy_of(trace)[named[within]]
    directions = {Direction(each).label for each in trace.copies.direction[copy[copy != NO_ID]].tolist()}
    where = f"{counted(int(within.sum()), 'call')} of {trace.names[number]}"
    where += f" ({', '.join(sorted(directions))})" if directions else ""
    return f" Meanwhile the host was blocked for {time(longest)} in {where}; what that waited for is not in the trace."


def _missing(context: DeviceContext, by_cause: dict[str, int]) -> list[str]:
    health, missing = context.trace.health, list[str]()
    if by_cause["profiler_off_ns"]:
        missing.append("the profiler was off between two profiling cycles")
    if by_cause["work_without_call_ns"]:
        missing.append("the call that issued the next work is not in the trace (clipped, or without correlation id)")
    if by_cause["wait_not_recorded_ns"] and health.has("syncs-not-recorded"):
        how = "ROCm records none" if context.amd else "enable_cuda_sync_events=True"
        missing.append(f"synchronisation events were not recorded ({how})")
    elif by_cause["wait_not_recorded_ns"]:
        missing.append("the next work had been issued, and what it waited for was not recorded")
    if by_cause["unknown_memory_ns"] and health.has("unknown-memory-kind"):
        missing.append("memory kinds were not recorded, so copies may be pageable or pinned")
    if by_cause["copies_without_call_ns"]:
        missing.append("copies have no call or no direction")
    return missing or ["no recorded cause fits"]


RULE = Rule(
    look=("#C3C9D2", "#4A5362", "#E4E4E4", "++++++"),
    waited_for="waits that are not recorded",
    cuda_fix="nsys profile -t cuda,nvtx --cuda-graph-trace=node ./program  # and export with the same version",
    fix='with overlapscope.record("trace.json.gz", steps=3) as recording: ...  # records the missing data',
)
