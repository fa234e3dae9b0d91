"""Kernel launches are blocking.

## What happens
With `CUDA_LAUNCH_BLOCKING=1` every launch returns after its kernel has ended. The host never runs ahead, nothing is
queued, and copies overlap kernels only by accident. Profiler overhead (flushing its buffers) blocks the launching
thread in the same way.

## How it shows in a trace
Most launches of long kernels take as long as their kernel and return when it has ended. Short kernels say nothing: they
end before a slow host returns. Or the profiler recorded overhead on the launching thread.

## Fix
```sh
# before
CUDA_LAUNCH_BLOCKING=1 python train.py
# after
python train.py
```

It is set for debugging and then forgotten: in shell profiles, job scripts, `os.environ`. Profile again without it,
and without other tools that synchronise after each launch (compute-sanitizer, anomaly detection).

## What the saving assumes
No saving is given: the trace does not show how the program runs without it.

## When this misleads
`CUDA_DEVICE_MAX_CONNECTIONS=1` serialises streams without any blocking call. A trace does not show that, and some
tensor-parallel programs need it.

## Sources
CUDA C++ Programming Guide, "Environment variables": `CUDA_LAUNCH_BLOCKING`, `CUDA_DEVICE_MAX_CONNECTIONS`.
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import HOST_CAUSES, Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import share, time
from overlapscope.measure.host import BLOCKING_FACTOR, MOST_ENQUEUE_NS
from overlapscope.model.columns import Bool, Int64

_LAUNCH_SHARE = 0.5
"""Launches are blocking where more than this share of them return after their kernel has ended."""
_KERNEL_FACTOR = 2.0
"""A kernel shows whether its launch is blocking if it takes this many times a launch that has nothing to wait for.

Else it may end before a slow host returns.
"""


def claims(context: DeviceContext) -> Bool:
    """Idle because of profiler overhead; where launches are blocking, because of a late host too."""
    profiler = context.has_cause(Cause.PROFILER)
    if not _blocking_launches(context)[0]:
        return profiler
    return profiler | context.has_cause(*HOST_CAUSES, Cause.LAUNCH_LATENCY)


def _blocking_launches(context: DeviceContext) -> tuple[bool, int, int]:
    """Whether launches are blocking in general, how many are, and of how many.

    Only kernels that take much longer than launches usually take count: shorter ones end before a slow host returns.
    """
    kernels, calls = context.trace.kernels, context.trace.api_calls
    launched = context.key.rows(kernels) & (kernels.call >= 0) & (kernels.graph_node < 0)
    long = kernels.duration_ns > _KERNEL_FACTOR * _plain_launch_ns(context, launched)
    rows = context.rows_in_window(kernels, launched & long)
    call = kernels.call[rows]
    # Host and device clocks may differ by some microseconds; a blocking call is longer than its kernel all the same.
    together = np.abs(calls.end_ns[call] - kernels.end_ns[rows]) <= BLOCKING_FACTOR * MOST_ENQUEUE_NS
    together &= calls.duration_ns[call] >= kernels.duration_ns[rows]
    blocking = int(together.sum())
    return blocking > _LAUNCH_SHARE * len(rows), blocking, len(rows)


def _plain_launch_ns(context: DeviceContext, launched: Bool) -> float:
    """The time of a launch without a wait: the median of launches of a kernel that is shorter than any launch."""
    kernels, least = context.trace.kernels, MOST_ENQUEUE_NS
    calls = kernels.call[launched & (kernels.duration_ns <= least)]
    return max(least, float(np.median(context.trace.api_calls.duration_ns[calls]))) if len(calls) else least


def describe(context: DeviceContext, rows: Int64) -> Report:
    """How many launches were blocking, and the GPU idle time because of the profiler."""
    mostly, blocking, total = _blocking_launches(context)
    profiler = context.idle_ns(rows[context.idle.cause[rows] == Cause.PROFILER])
    what = f"{share(blocking, total)} of the launches returned only after their kernel had ended"
    message = f"{what} (CUDA_LAUNCH_BLOCKING=1?): the host never ran ahead, and {context.without_kernel(rows)}."
    evidence = {"blocking_launches": blocking, "launches": total, "profiler_ns": profiler}
    if mostly:
        return Report(message, evidence)
    message = f"Profiler overhead blocked the launching thread; the GPU was idle for {time(profiler)} because of it."
    fix = "# record less: no stacks, fewer steps, larger profiler buffers"
    return Report(message, evidence, waited_for="the profiler", fix=fix)


def always(context: DeviceContext) -> bool:
    """Blocking launches are reported whatever they cost here: they serialise everything."""
    return _blocking_launches(context)[0]


RULE = Rule(
    look=("#4C0B2B", "#B0557F", "#1F1F1F", "||||||"),
    waited_for="blocking launches",
    not_simulated="a trace made with blocking launches does not tell how far ahead the host would launch",
    fix="unset CUDA_LAUNCH_BLOCKING  # and profile again",
)
