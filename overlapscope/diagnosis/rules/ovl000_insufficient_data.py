"""The trace does not say why.

## What happens
Device time was lost, and the fact that would tell why is not in the file. No reason is guessed.

## How it shows in a trace
- The call that issued the next work is missing: its correlation id is absent or joins nothing, or the profile began
  after the call (a clipped window).
- Issued work waits, a copy ends just before it starts, and a stream was made to wait in between, but synchronisation
  events were not recorded.
- A copy call holds its thread and the file has no memory kinds (ROCm does not record them), so that pageable memory
  is only one of the possible reasons.
- CUDA graphs were traced as a whole: what ran inside them is not in the file.
- Device times are of another clock than the host's.

## Fix
Record again, with what is missing:

```python
# before
with torch.profiler.profile() as p:
    ...
# after: synchronisation events, a warm-up, everything on one clock
with overlapscope.record("trace.json.gz", steps=3) as recording:
    for batch in loader:
        train(batch)
        recording.step()
```

With Nsight Systems: `nsys profile -t cuda,nvtx --cuda-graph-trace=node`, and export with a version that is not older.

## What the saving assumes
Nothing: no saving is given.

## When this misleads
The time is lost all the same; a reason below the noise may be hidden in it.

## Sources
Kineto's `_ExperimentalConfig(enable_cuda_sync_events=True)` adds synchronisation events (PyTorch, torch/profiler).
Nsight Systems User Guide, option `--cuda-graph-trace`.
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Confidence
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import time
from overlapscope.model.columns import Bool, Int64

_OWN = (Cause.UNKNOWN, Cause.WAIT_NOT_RECORDED)
_UNTRUSTWORTHY = {
    "whole-graph-trace": "CUDA graphs were traced whole (record with --cuda-graph-trace=node)",
    "far-from-host": "device times are of another clock than the host's",
    "copies-not-recorded": "copies were not recorded, only their calls",
}


def untrustworthy(context: DeviceContext) -> Bool:
    """Every stretch, where what ran on the device is not in the file or not at its time."""
    return ~context.nothing if missing_work(context) else context.nothing


def missing_work(context: DeviceContext) -> list[str]:
    """What makes gaps on the device doubtful."""
    return [text for code, text in _UNTRUSTWORTHY.items() if context.trace.health.has(code)]


def describe(context: DeviceContext, rows: Int64) -> Report:
    """Name the missing facts, and how long nothing can be said for each."""
    untold = context.idle.take(rows)
    by_cause = {
        "unjoined_ns": int(untold.duration_ns[untold.cause == Cause.UNKNOWN].sum()),
        "queued_ns": int(untold.duration_ns[untold.cause == Cause.WAIT_NOT_RECORDED].sum()),
        "unknown_memory_ns": int(untold.duration_ns[(untold.cause != Cause.UNKNOWN) & (untold.copy >= 0)].sum()),
        "unjoined_copies_ns": int(untold.duration_ns[~np.isin(untold.cause, _OWN) & (untold.copy < 0)].sum()),
    }
    reasons = missing_work(context) or _reasons(context, by_cause)
    message = (
        f"For {time(context.idle_ns(rows))} the trace does not say what the device waited for: {'; '.join(reasons)}."
    )
    evidence = dict(by_cause) | {"missing": "; ".join(reasons)}
    return Report(message, evidence, Confidence.LOW, "record again with what is missing")


def _reasons(context: DeviceContext, by_cause: dict[str, int]) -> list[str]:
    health = context.trace.health
    reasons = []
    if by_cause["unjoined_ns"]:
        reasons.append("work has no call that issued it (clipped, or its correlation is missing)")
    if by_cause["queued_ns"] and health.has("syncs-not-recorded"):
        reasons.append("synchronisation events were not recorded (enable_cuda_sync_events=True)")
    elif by_cause["queued_ns"]:
        reasons.append("work was queued behind nothing that was recorded")
    if by_cause["unknown_memory_ns"] and health.has("unknown-memory-kind"):
        reasons.append("memory kinds were not recorded, so pageable cannot be told from pinned")
    if by_cause["unjoined_copies_ns"]:
        reasons.append("copies and their calls cannot be joined, or where copies go is not recorded")
    return reasons or ["no recorded fact fits"]


RULE = Rule(
    code="OVL000",
    name="insufficient-data",
    page=__doc__,
    fix='with overlapscope.record("trace.json.gz", steps=3) as recording: ...  # records what is missing',
    claims=untrustworthy,
    describe=describe,
)
