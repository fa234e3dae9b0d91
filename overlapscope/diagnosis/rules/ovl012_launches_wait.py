"""Launches are forced to wait.

## What happens
With `CUDA_LAUNCH_BLOCKING=1` every launch returns after its kernel has ended. The host never runs ahead, nothing is
queued, and copies overlap with kernels only by accident. A profiler's own work (flushing its buffers) stops the
launching thread in the same way.

## How it shows in a trace
Most launch calls end after their kernel has ended; or the profiler recorded time of its own on the launching thread.

## Fix
```sh
# before
CUDA_LAUNCH_BLOCKING=1 python train.py
# after
python train.py
```

It is set for debugging and then forgotten: in shell profiles, job scripts, `os.environ`. Profile again without it,
and without other tools that wait after each launch (compute-sanitizer, anomaly detection).

## What the saving assumes
None is given: the trace does not show how the program runs without it.

## When this misleads
`CUDA_DEVICE_MAX_CONNECTIONS=1` makes streams wait for each other without any call that waits; a trace does not show
that, and it is needed by some tensor-parallel programs.

## Sources
CUDA C++ Programming Guide, "Environment variables": `CUDA_LAUNCH_BLOCKING`, `CUDA_DEVICE_MAX_CONNECTIONS`.
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import LATE_HOST, Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import share, time
from overlapscope.model.columns import Bool, Int64


def claims(context: DeviceContext) -> Bool:
    """Time in the profiler, and all of a late host's where launches wait for their kernels."""
    profiling = context.of_cause(Cause.PROFILER)
    if not _blocked(context)[0]:
        return profiling
    return profiling | context.of_cause(*LATE_HOST, Cause.LAUNCH_LATENCY)


def _blocked(context: DeviceContext) -> tuple[bool, int, int]:
    """Whether launches wait, how many of them, and of how many.

    Only kernels count that take longer than a launch: others are over before it returns anyway.
    """
    kernels, calls = context.trace.kernels, context.trace.api_calls
    mine = context.activity.key.rows(kernels) & (kernels.call >= 0) & (kernels.graph_node < 0)
    mine &= kernels.duration_ns > context.config.dependencies.host.most_enqueue_ns
    inside = context.window.touches(kernels.process, kernels.start_ns, kernels.end_ns)
    call, rows = kernels.call[mine & inside], np.flatnonzero(mine & inside)
    # Clocks may be some microseconds apart; a call that waits is longer than its kernel all the same.
    host = context.config.dependencies.host
    around = np.abs(calls.end_ns[call] - kernels.end_ns[rows]) <= host.tolerance * host.most_enqueue_ns
    around &= calls.duration_ns[call] >= kernels.duration_ns[rows]
    late = int(around.sum())
    return late > context.config.blocking_share * len(rows), late, len(rows)


def describe(context: DeviceContext, rows: Int64) -> Report:
    """How many launches waited, and what the profiler took."""
    blocked, late, total = _blocked(context)
    profiling = int(context.idle.duration_ns[rows][np.isin(context.cause[rows], Cause.PROFILER)].sum())
    what = f"{share(late, total)} of the launches returned only after their kernel had ended (CUDA_LAUNCH_BLOCKING=1?)"
    message = f"{what}: the device waited {time(context.idle_ns(rows))} for the host, which never ran ahead."
    evidence = {"launches_waited": late, "launches": total, "profiling_ns": profiling}
    if blocked:
        return Report(message, evidence)
    message = f"The profiler held the launching thread: the device waited {time(profiling)} for it."
    return Report(message, evidence, fix="# record less: no stacks, fewer steps, larger profiler buffers")


RULE = Rule(
    code="OVL012",
    name="launches-wait",
    page=__doc__,
    fix="unset CUDA_LAUNCH_BLOCKING  # and profile again",
    claims=claims,
    describe=describe,
    always=lambda context: _blocked(context)[0],  # the setting serialises everything, whatever it costs in this window
)
