"""The host launches late.

## What happens
The GPU finishes kernels faster than the thread launches new ones: Python between the launches, operators with many
small kernels, data preparation on the launching thread. Nothing is queued, so neither copies nor host work can be
hidden.

## How it shows in a trace
The GPU is idle while the launching thread runs operators, Python or plain launches. It is in no copy call, no
synchronisation and no allocation, and no earlier call of that kind had used up its launch run-ahead. Otherwise the idle
time is attributed to that call.

## Fix
```python
# before
for batch in loader:
    loss = step(batch)  # hundreds of small launches
# after: fewer launches
step = torch.compile(step, mode="reduce-overhead")  # fuses kernels, and launches a CUDA graph
# and no data preparation on the launching thread
loader = DataLoader(dataset, num_workers=8, pin_memory=True, prefetch_factor=4)
```

## What the saving assumes
The host's work can be reduced, moved to other threads or processes, or captured in a CUDA graph.

## When this misleads
- Profilers lengthen every call. A recording made by `overlapscope.record` knows by how much; recording without stacks
  has the lowest overhead.
- A pause without an operator (garbage collection, another process) counts as host time too; the trace does not show
  more.
- At the beginning of a window the GPU waits for the first launch. This is not counted, up to a limit.

## Sources
PyTorch documentation of `torch.compile` modes and CUDA graphs. The time of a launch: 4 to 10 us, measured on an H200.
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import HOST_CAUSES, Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Confidence
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted, time
from overlapscope.model.columns import Bool, Int64

_ACTIVITIES = {
    "host_work": (Cause.HOST_WORK, "the launching thread ran operators or Python"),
    "api_call": (Cause.API_CALL, "the launching thread was in launches and other CUDA calls"),
    "host_not_recorded": (Cause.HOST_NOT_RECORDED, "the launching thread did something that was not recorded"),
    "copy_call": (Cause.COPY_CALL, "the launching thread was blocked in copy calls that need not block"),
    "launch_latency": (Cause.LAUNCH_LATENCY, "a kernel had been launched and not started yet"),
}
"""What the launching thread did, by evidence key: the cause, and how to say it."""


def claims(context: DeviceContext) -> Bool:
    """Idle because the host launched late, without a blocking call to attribute it to; or because of launch latency."""
    return context.has_cause(*HOST_CAUSES, Cause.LAUNCH_LATENCY) & ~context.startup & ~context.insufficient_data


def describe(context: DeviceContext, rows: Int64) -> Report:
    """What the launching thread did while the GPU was idle."""
    duration, cause = context.idle.duration_ns[rows], context.cause[rows]
    evidence = {f"{name}_ns": int(duration[cause == value].sum()) for name, (value, _) in _ACTIVITIES.items()}
    launches = int(np.unique(context.idle.launch_call[rows]).size)
    most = max(_ACTIVITIES, key=lambda name: evidence[f"{name}_ns"])
    before = counted(launches, "launch", "launches")
    message = f"The host launched late: the GPU was idle for {time(context.idle_ns(rows))} before {before}; for "
    message += f"{time(evidence[f'{most}_ns'])} of it {_ACTIVITIES[most][1]}."
    recording = context.trace.metadata.recording
    factor = recording.profiler_factor if recording is not None else None
    numbers = dict(evidence) | {"launches": launches, "profiler_factor": None if factor is None else round(factor, 3)}
    if factor is not None:
        return Report(message, numbers)
    return Report(
        message, numbers, Confidence.MEDIUM, "a recording by overlapscope.record, which measures the profiler overhead"
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
