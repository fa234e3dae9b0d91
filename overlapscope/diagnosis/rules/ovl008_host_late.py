"""The host launches late.

## What happens
The GPU finishes its work before the launching thread has launched more. Nothing is queued, so neither copies nor host
work can be hidden. What the thread did meanwhile makes five kinds, each a finding of its own:

- `data-loading`: it waited for the next batch of a `DataLoader`, or made it.
- `launch-bound`: it issued operators, each taking the host longer than the GPU, but not more than 0.2 ms each, which is
  what a CUDA graph is simulated to save.
- `host-work`: it made no CUDA call for a long time, inside a range, an operator or a Python function.
- `first-use`: it loaded modules or set up a library (cuBLAS, the caching allocator, the profiler). This happens once.
- `not-recorded`: it made no CUDA call, and nothing else of it is recorded.

## How it shows in a trace
The GPU is idle while the launching thread is in no copy call, no synchronisation and no allocation but a first one, and
no earlier call of that kind had used up its launch run-ahead. Otherwise the idle time is attributed to that call. The
place given is the innermost range and operator that covers most of the idle time, not the launch that came late.

Data loading is PyTorch's range `enumerate(DataLoader)` or a Python frame of a loader's `__next__`. First use is a call
that loads a module or makes a context; a launch or an operator whose first call takes ten times as long as the later
ones; the allocations of an operator's first call, where later calls seldom make any; and the first allocation or other
call of its name, where it takes ten times as long as the later ones or there are few later ones.

## Fix
```python
# before
loader = DataLoader(dataset)
for batch in loader:
    loss = step(batch)  # hundreds of small launches
# after
# data-loading: batches are made by other processes, ahead of time
loader = DataLoader(dataset, num_workers=8, prefetch_factor=4, persistent_workers=True, pin_memory=True)
# launch-bound: fewer launches
step = torch.compile(step, mode="reduce-overhead")  # fuses kernels, and launches a CUDA graph
# host-work: move it off the launching thread, or after the launches that do not need it
# first-use: nothing; warm up before you measure
```

## What the saving assumes
For `launch-bound`, that the loop can be captured in a CUDA graph. No change of the other kinds is simulated: how long
a loader with more workers takes is not in the trace.

## When this misleads
- Profilers lengthen every call. A recording made by `overlapscope.record` knows by how much; recording without stacks
  has the lowest overhead.
- A pause without an operator (garbage collection, another process) counts as host time too; the trace does not show
  more.
- At the beginning of a window the GPU waits for the first launch. This is not counted, up to a limit.
- A loader written by hand is Python like any other; annotate it with a range to see it by name.

## Sources
PyTorch documentation of `torch.utils.data`, `torch.compile` modes and CUDA graphs; CUDA C++ Programming Guide, "Lazy
Loading". The time of a launch: 4 to 10 us, measured on an H200.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.diagnosis.causes import HOST_CAUSES, Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Confidence
from overlapscope.diagnosis.lateness import Lateness
from overlapscope.diagnosis.loaders import workers_fix
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted, time
from overlapscope.model.columns import Bool, Int64

_EVIDENCE = {
    "data_loading": Cause.DATA_LOADING,
    "first_use": Cause.FIRST_USE,
    "host_work": Cause.HOST_WORK,
    "api_call": Cause.API_CALL,
    "host_not_recorded": Cause.HOST_NOT_RECORDED,
    "copy_call": Cause.COPY_CALL,
    "launch_latency": Cause.LAUNCH_LATENCY,
}


@dataclass(frozen=True)
class _Kind:
    """A kind: what the launching thread did, the fix for PyTorch and for CUDA C++, and the change that simulates it."""

    did: str
    fix: str
    cuda_fix: str
    change: str | None = None


_KINDS = {
    Lateness.LAUNCH_BOUND: _Kind(
        "launched more slowly than the GPU ran the kernels",
        'step = torch.compile(step, mode="reduce-overhead")  # static shapes, no synchronisation',
        "cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);  // the launches of the loop once, as a graph\n"
        "cudaGraphLaunch(graph, stream);  // then one call for all of them",
        "cuda-graph",
    ),
    Lateness.HOST_WORK: _Kind(
        "made no CUDA call",
        "# do this once, before the loop, or on another thread; or launch first what does not need it",
        "// do this once, before the loop, or on another thread; or launch first what does not need it",
    ),
    Lateness.DATA_LOADING: _Kind(
        "waited for the data loader",
        "loader = DataLoader(dataset, num_workers=8, prefetch_factor=4, persistent_workers=True)  # batches made ahead",
        "// another thread makes the next batch ahead of time",
    ),
    Lateness.FIRST_USE: _Kind(
        "loaded modules or made first calls", "# once: warm up, then measure", "// once: warm up, then measure"
    ),
    Lateness.NOT_RECORDED: _Kind(
        "made no CUDA call, and nothing else of it is recorded",
        "# record with CPU activity and stacks to see what it does: profile(with_stack=True)",
        "nsys profile -t cuda,nvtx,osrt --sample=process-tree ./program  # and NVTX ranges: what the host does",
    ),
}


def claims(context: DeviceContext) -> Bool:
    """Idle because the host launched late, without a blocking call to attribute it to; or because of launch latency."""
    return context.has_cause(*HOST_CAUSES, Cause.LAUNCH_LATENCY) & ~context.startup & ~context.insufficient_data


def parts(context: DeviceContext, rows: Int64) -> tuple[Int64, ...]:
    """The intervals of each kind."""
    kind = context.lateness[rows]
    return tuple(rows[kind == number] for number in np.unique(kind).tolist())


def describe(context: DeviceContext, rows: Int64) -> Report:
    """What the launching thread did while the GPU was idle."""
    duration, cause = context.idle.duration_ns[rows], context.cause[rows]
    lateness = Lateness(int(context.lateness[rows[0]]))
    kind, launches = _KINDS[lateness], int(np.unique(context.idle.launch_call[rows]).size)
    before = counted(launches, "launch", "launches")
    message = f"The GPU was idle for {time(context.idle_ns(rows))} before {before}: the launching thread {kind.did}."
    recording = context.trace.metadata.recording
    factor = recording.profiler_factor if recording is not None else None
    evidence = {f"{name}_ns": int(duration[cause == value].sum()) for name, value in _EVIDENCE.items()}
    confirm = "" if factor is not None else f"{_measuring(context)}, which measures the profiler overhead"
    return Report(
        message,
        evidence | {"launches": launches, "profiler_factor": None if factor is None else round(factor, 3)},
        Confidence.HIGH if factor is not None else Confidence.MEDIUM,
        confirm,
        informational=lateness is Lateness.FIRST_USE,
        change=kind.change,
        fix=(workers_fix(context.trace) if lateness is Lateness.DATA_LOADING else None) or kind.fix,
        cuda_fix=kind.cuda_fix,
        kind=lateness.label,
        waited_for=lateness.waited_for,
    )


def _measuring(context: DeviceContext) -> str:
    """What tells how much the profiler lengthened the calls."""
    if context.trace.metadata.recording is not None:
        return "a recording with --unprofiled 5"
    return "a recording by overlapscope.record" if context.pytorch else "the time of a run without the profiler"


RULE = Rule(
    code="OVL008",
    name="host-late",
    page=__doc__,
    waited_for="late launches",
    not_simulated="the trace cannot show whether this work can move",
    by_kind=True,
    fix=_KINDS[Lateness.LAUNCH_BOUND].fix,
    cuda_fix=_KINDS[Lateness.LAUNCH_BOUND].cuda_fix,
    claims=claims,
    parts=parts,
    describe=describe,
)
