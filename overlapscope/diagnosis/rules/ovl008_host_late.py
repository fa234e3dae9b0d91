"""The host launches late.

## What happens
The device finishes its kernels faster than the thread launches new ones: Python between the launches, operators with
many small kernels, data preparation on the launching thread. There is nothing queued, so nothing can be hidden,
neither copies nor the host's own work.

## How it shows in a trace
Time without a kernel during which the launching thread was at operators, Python or plain launches, was in no copy
call, no synchronisation and no allocation, and had not been held by one earlier for as long. Where the time was lost
because such a call had taken the thread's lead, it is laid to that call.

## Fix
```python
# before
for batch in loader:
    loss = step(batch)  # hundreds of small launches
# after: fewer launches
step = torch.compile(step, mode="reduce-overhead")  # fuses, and replays a CUDA graph
# data preparation away from the launching thread
loader = DataLoader(dataset, num_workers=8, pin_memory=True, prefetch_factor=4)
```

## What the saving assumes
The host's work can be made less, moved to other threads or processes, or captured in a graph.

## When this misleads
- Profilers lengthen every call. A recording made by `overlapscope.record` knows by how much; without stacks it is
  least.
- A pause that no operator explains (garbage collection, another process) is the host's too; nothing more is known of
  it.
- At the beginning of a window the device waits for the first launch. Up to a limit that is not counted.

## Sources
PyTorch documentation of `torch.compile` modes and CUDA graphs. The time of a launch: 4 to 10 us, measured on an H200.
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import LATE_HOST, Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Confidence
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted, time
from overlapscope.model.columns import Bool, Int64


def claims(context: DeviceContext) -> Bool:
    """Late, and laid to no other call; or the launches themselves. Not the beginning of the window."""
    return context.of_cause(*LATE_HOST, Cause.LAUNCH_LATENCY) & ~context.beginning & ~context.doubtful


def describe(context: DeviceContext, rows: Int64) -> Report:
    """What the launching thread was at."""
    duration, cause = context.idle.duration_ns[rows], context.cause[rows]
    parts = {
        "working_ns": Cause.HOST_WORK,
        "calling_ns": Cause.API_CALL,
        "not_recorded_ns": Cause.HOST_NOT_RECORDED,
        "held_in_calls_ns": Cause.COPY_CALL,
        "launching_ns": Cause.LAUNCH_LATENCY,
    }
    evidence = {name: int(duration[cause == value].sum()) for name, value in parts.items()}
    launches = int(np.unique(context.idle.launch_call[rows]).size)
    words = {
        "working_ns": "at operators, Python or named ranges",
        "calling_ns": "in launches and other calls",
        "not_recorded_ns": "at something that was not recorded",
        "held_in_calls_ns": "held in calls that copy, though they need not wait",
        "launching_ns": "between a launch and its start",
    }
    most = max(evidence, key=lambda name: evidence[name])
    front = counted(launches, "launch", "launches")
    message = f"The host launched late: the device waited {time(context.idle_ns(rows))} in front of {front}, "
    message += f"for {time(evidence[most])} of it the thread was {words[most]}."
    recording = context.trace.metadata.recording
    factor = recording.profiler_factor if recording is not None else None
    numbers = dict(evidence) | {"launches": launches, "profiler_factor": None if factor is None else round(factor, 3)}
    if factor is not None:
        return Report(message, numbers)
    return Report(
        message, numbers, Confidence.MEDIUM, "a recording by overlapscope.record, which knows the profiler's own cost"
    )


RULE = Rule(
    code="OVL008",
    name="host-late",
    page=__doc__,
    fix='step = torch.compile(step, mode="reduce-overhead")  # fewer launches; data preparation in loader workers',
    change="cuda-graph",
    claims=claims,
    describe=describe,
)
