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

from overlapscope.diagnosis.causes import Cause, IdleTime
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Confidence
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.fitness.unknown import of_amd
from overlapscope.formatting import counted, time
from overlapscope.measure.cycles import unrecorded
from overlapscope.measure.host import blocked_from_ns
from overlapscope.measure.issue import first_copy_of
from overlapscope.measure.spans import covered, intersect, union
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import SYNC_CALLS, ApiKind, Direction
from overlapscope.model.trace import Trace

_OWN = (Cause.UNKNOWN, Cause.WAIT_NOT_RECORDED)
_INCOMPLETE = {
    "whole-graph-trace": "CUDA graphs were traced as a whole (record with --cuda-graph-trace=node)",
    "wrong-device-clock": "device timestamps come from another clock than host timestamps",
    "kernels-not-recorded": "kernels were not recorded, only their launches",
    "copies-not-recorded": "copies were not recorded, only their calls",
}
"""Health warnings that make every idle interval doubtful, with what they mean."""


def claims(context: DeviceContext) -> Bool:
    """Every idle interval, where device work is missing or has wrong timestamps; else those without the profiler."""
    if missing_work(context):
        return ~context.none
    mostly: Bool = 2 * _unrecorded_ns(context.trace, context.idle) > context.idle.duration_ns
    return mostly


def _unrecorded_ns(trace: Trace, idle: IdleTime) -> Int64:
    """How much of each idle interval lies between two profiling cycles."""
    return covered(idle.start_ns, idle.end_ns, unrecorded(trace))


def missing_work(context: DeviceContext) -> list[str]:
    """What makes every idle interval doubtful."""
    return [text for code, text in _INCOMPLETE.items() if context.trace.health.has(code)]


def describe(context: DeviceContext, rows: Int64) -> Report:
    """Name the missing data, and the GPU idle time for which each is missing."""
    idle = context.idle.take(rows)
    by_cause = {
        "profiler_off_ns": int(_unrecorded_ns(context.trace, idle).sum()),
        "work_without_call_ns": int(idle.duration_ns[idle.cause == Cause.UNKNOWN].sum()),
        "wait_not_recorded_ns": int(idle.duration_ns[idle.cause == Cause.WAIT_NOT_RECORDED].sum()),
        "unknown_memory_ns": int(idle.duration_ns[(idle.cause != Cause.UNKNOWN) & (idle.copy >= 0)].sum()),
        "copies_without_call_ns": int(idle.duration_ns[~np.isin(idle.cause, _OWN) & (idle.copy < 0)].sum()),
    }
    missing = "; ".join(missing_work(context) or _missing(context, by_cause))
    message = f"The GPU was idle for {time(context.idle_ns(rows))} and the trace does not record why: {missing}."
    message += _meanwhile(context, rows[idle.cause == Cause.WAIT_NOT_RECORDED], context.idle_ns(rows))
    return Report(message, dict(by_cause) | {"missing": missing}, Confidence.LOW, "a new recording with this data")


def _meanwhile(context: DeviceContext, rows: Int64, idle_ns: int) -> str:
    """In which calls of one name a thread was blocked, where that is most of the idle time."""
    trace, idle = context.trace, context.idle.take(rows)
    calls = trace.api_calls
    since = blocked_from_ns(trace, context.config.dependencies.host)
    some = np.flatnonzero(
        np.isin(calls.kind, (ApiKind.COPY, *SYNC_CALLS)) & (calls.process == context.activity.key.process)
    )
    blocked = [
        (spans.total_ns, number, mine)
        for number in np.unique(calls.name_id[some]).tolist()
        for mine in [some[calls.name_id[some] == number]]
        for spans in [intersect(union(since[mine], calls.end_ns[mine]), union(idle.start_ns, idle.end_ns))]
    ]
    longest, number, mine = max(blocked, key=lambda entry: entry[:2], default=(0, NO_ID, some))
    if 2 * longest <= idle_ns:
        return ""
    within = covered(since[mine], calls.end_ns[mine], union(idle.start_ns, idle.end_ns)) > 0
    copy = first_copy_of(trace)[mine[within]]
    directions = {Direction(each).label for each in trace.copies.direction[copy[copy != NO_ID]].tolist()}
    where = f"{counted(int(within.sum()), 'call')} of {trace.names[number]}"
    where += f" ({', '.join(sorted(directions))})" if directions else ""
    return f" Meanwhile the host was blocked for {time(longest)} in {where}; what that waited for is not in the trace."


def _missing(context: DeviceContext, by_cause: dict[str, int]) -> list[str]:
    health = context.trace.health
    missing = []
    if by_cause["profiler_off_ns"]:
        missing.append("the profiler was off between two profiling cycles")
    if by_cause["work_without_call_ns"]:
        missing.append("the call that issued the next work is not in the trace (clipped, or without correlation id)")
    if by_cause["wait_not_recorded_ns"] and health.has("syncs-not-recorded"):
        how = "ROCm records none" if of_amd(context.trace) else "enable_cuda_sync_events=True"
        missing.append(f"synchronisation events were not recorded ({how})")
    elif by_cause["wait_not_recorded_ns"]:
        missing.append("the next work had been issued, and what it waited for was not recorded")
    if by_cause["unknown_memory_ns"] and health.has("unknown-memory-kind"):
        missing.append("memory kinds were not recorded, so copies may be pageable or pinned")
    if by_cause["copies_without_call_ns"]:
        missing.append("copies have no call or no direction")
    return missing or ["no recorded cause fits"]


RULE = Rule(
    code="OVL000",
    name="insufficient-data",
    page=__doc__,
    waited_for="waits that are not recorded",
    cuda_fix="nsys profile -t cuda,nvtx --cuda-graph-trace=node ./program  # and export with the same version",
    fix='with overlapscope.record("trace.json.gz", steps=3) as recording: ...  # records the missing data',
    claims=claims,
    describe=describe,
)
