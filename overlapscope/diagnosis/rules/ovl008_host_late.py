"""The host launches late.

## What happens
The GPU finishes its work before the launching thread has launched more. Nothing is queued, so neither copies nor host
work can be hidden. What the thread did meanwhile makes kinds, each a finding of its own:

- `data-loading`: it waited for the next batch of a `DataLoader`, or made it.
- `launch-bound`: it issued operators, each taking the host longer than the GPU, but not more than 0.2 ms each, which is
  what a CUDA graph is simulated to save.
- `garbage-collection`: Python looked for objects that only refer to each other: `gc.collect()`, or by itself.
- `interpreter-lock`: it had Python to run, but another thread of the process ran Python.
- `sleep`: it slept.
- `file`: it read or wrote files, such as by `torch.save` and `torch.load`.
- `logging`: it printed or logged.
- `host-work`: it made no CUDA call for a long time, inside a range, an operator or a Python function.
- `first-use`: it loaded modules or set up a library (cuBLAS, the caching allocator, the profiler). This happens once.
- `not-recorded`: it made no CUDA call, and nothing else of it is recorded.

## How it shows in a trace
The GPU is idle while the launching thread is in no copy call, no synchronisation and no allocation but a first one, and
no earlier call of that kind had used up its launch run-ahead. Otherwise the idle time is attributed to that call, and
between the reads of a loop to these (OVL005). Of `launch-bound`, the message names the operators that took the host
most time, with their calls, their launches and the host's time for each launch; the fix is the operators' own, where
PyTorch has one. The place given is the innermost range and operator that covers most of the idle time, not the launch
that came late.

What ran is named by function, file and line, the three with most time: from the events and samples of a recording by
`overlapscope record`, else from Python frames (`with_stack=True`), else by operators. Nsight Systems has calls of the
operating system (`-t osrt`); those of threads that launch count from 1 ms on. A thread waited for the interpreter lock
where it had the processor for less than half of its samples, was in no function that waits for others, and other
threads of the process had it for half of them in Python.

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
optimizer = torch.optim.AdamW(parameters, fused=True)  # where the optimizer loops over parameters; or foreach=True
torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)  # where norms are taken one by one
# and bigger batches: as many launches for more work
# garbage-collection: once, after the setup; what lives on is not walked again. No gc.collect() in the loop
gc.collect()
gc.freeze()
# interpreter-lock: Python of other threads runs in processes, which have locks of their own
worker = torch.multiprocessing.Process(target=work, args=(queue,))
# sleep: wait for what it waits for, as long as that takes
item = work_queue.get()
# file: another thread writes what was copied to the host before
threading.Thread(target=torch.save, args=(state_on_cpu, path)).start()
# logging: seldom, and only values that are on the host already
if number % 100 == 0:
    print(last_loss)
# host-work: move it off the launching thread, or after the launches that do not need it
# first-use: nothing; warm up before you measure
```

### Garbage collection
CPython frees an object when the last reference to it goes; the collector is for cycles of objects. Its full collection
walks every object that Python tracks: 0.1 s for 237,000 of them, with torch, pandas and transformers imported. The
thread that triggered it does nothing else. `gc.freeze()` exempts what there is after the setup.

### Interpreter lock
One thread of a process runs Python at a time, and another one gets its turn after 5 ms (`sys.setswitchinterval`) unless
the first one waits. Threads that compute in Python belong into processes; those in C code that releases the lock do not
hinder.

### Sleep, files, logging
A loop that polls with `sleep` waits up to a whole interval too long; an event, a queue or a blocking call ends when it
should. Files can be written by a thread, since the interpreter lock is released meanwhile:
`torch.distributed.checkpoint.async_save` does that for checkpoints. Printing a tensor of the GPU reads it first
(OVL005).

## What the saving assumes
For `launch-bound`, that the loop can be captured in a CUDA graph; a trace may show that it cannot. No change of the
other kinds is simulated, but `no-gc`, and `workers` where the loop's thread makes the batches. What the time would be
if the work took no time is, and bounds what any fix saves (`no-host-work`).

## When this misleads
- Profilers lengthen every call. A recording made by `overlapscope.record` knows by how much; recording without stacks
  has the lowest overhead.
- A pause without an operator (garbage collection, another process) counts as host time too; without samples or stacks
  the trace does not show more.
- A thread without the processor may also have waited for a file or the network, while another one ran C code without
  the interpreter lock: samples do not tell who holds it.
- At the beginning of a window the GPU waits for the first launch. This is not counted, up to a limit.
- Workers do not help with tiny batches: to take one from a worker costs the loop 1 ms and more (`explain workers`).
- A loader written by hand is Python like any other; annotate it with a range to see it by name.

## Sources
PyTorch documentation of `torch.optim`, "Algorithms": for-loop, foreach and fused implementations
(https://docs.pytorch.org/docs/stable/optim.html), and of `clip_grad_norm_`
(https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html). PyTorch documentation of
`torch.utils.data`, `torch.compile` modes, CUDA graphs and `torch.distributed.checkpoint`. Python documentation of `gc`,
of `sys.setswitchinterval`, and "global interpreter lock". CUDA C++ Programming Guide, "Lazy Loading". The time of a
launch: 4 to 10 us, measured on an H200.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from overlapscope.diagnosis.causes import HOST_CAUSES, Cause, Lateness
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Bound, Ran
from overlapscope.diagnosis.host_names import ran
from overlapscope.diagnosis.launch_costs import Answer, Cost, answer, costs
from overlapscope.diagnosis.loaders import workers_fix
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted, share
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.whatif.changes.workers import pays

_EVIDENCE = (
    *(Cause.DATA_LOADING, Cause.FIRST_USE, Cause.HOST_WORK, Cause.API_CALL),
    *(Cause.HOST_NOT_RECORDED, Cause.COPY_CALL, Cause.LAUNCH_LATENCY),
    *(Cause.GARBAGE_COLLECTION, Cause.INTERPRETER_LOCK, Cause.SLEEP, Cause.FILE, Cause.LOGGING),
)
_COLLATE_ONCE = (
    "batches = [batch.to(device) for batch in loader]  # once, before the loop, if they fit on the GPU\n"
    "# batches are so small that taking them from workers costs the loop about as much as making them"
)
_NAMED_SHARE = 0.5
"""Where less than this share of the idle time has a name, another recording would tell more than a fix."""


@dataclass(frozen=True)
class _Kind:
    """A kind: what the launching thread did, the fix for PyTorch and for CUDA C++, and the change that simulates it."""

    did: str
    fix: str
    cuda_fix: str = "// do this once, before the loop, or on another thread; or launch first what does not need it"
    change: str | None = None


_MOST_OPERATORS = 2
"""Operators that a message names, at most: those that take half of the host's time."""
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
    ),
    Lateness.GARBAGE_COLLECTION: _Kind(
        "collected garbage",
        "gc.collect(); gc.freeze()  # once, after the setup; no gc.collect() in the loop",
        change="no-gc",
    ),
    Lateness.INTERPRETER_LOCK: _Kind(
        "waited for the interpreter lock",
        "# that thread's Python in a process: torch.multiprocessing.Process(target=work, args=(queue,))",
    ),
    Lateness.SLEEP: _Kind(
        "slept",
        "# wait for what the sleep waits for: queue.get(), threading.Event().wait(), or event.synchronize()",
        "// wait for what the sleep waits for: a condition variable, or cudaEventSynchronize",
    ),
    Lateness.FILE: _Kind(
        "read or wrote files",
        "# on another thread, of tensors copied to the host before:\n"
        "threading.Thread(target=torch.save, args=(state_on_cpu, path)).start()",
        "// on another thread, of buffers copied to the host before",
    ),
    Lateness.LOGGING: _Kind(
        "printed or logged",
        "if step % 100 == 0:\n    print(last_loss)  # seldom, and what is on the host already",
        "// seldom, or by another thread",
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
        "",
        "nsys profile -t cuda,nvtx,osrt --sample=process-tree ./program  # and NVTX ranges: what the host does",
    ),
}


def claims(context: DeviceContext) -> Bool:
    """Idle because the host launched late, without a blocking call to attribute it to; or because of launch latency."""
    return context.has_cause(*HOST_CAUSES, Cause.LAUNCH_LATENCY) & ~context.startup & ~context.insufficient_data


def parts(context: DeviceContext, rows: Int64) -> tuple[Int64, ...]:
    """The intervals of each kind."""
    kind = context.lateness[rows]
    return tuple(rows[kind == number] for number in np.unique(kind))


def describe(context: DeviceContext, rows: Int64) -> Report:
    """The work that the launching thread did while the GPU was idle."""
    lateness = Lateness(int(context.lateness[rows[0]]))
    kind, launches = _KINDS[lateness], int(np.unique(context.idle.launch_call[rows]).size)
    before = counted(launches, "launch", "launches")
    work = lateness.host_work
    names = () if work is None else ran(context.trace, context.idle.take(rows), work)
    total_ns = context.idle_ns(rows)
    named_ns = sum(each.idle_ns for each in names)
    idle = context.without_kernel(rows, capital=True)
    costly = _launched_by(context, rows) if lateness is Lateness.LAUNCH_BOUND else []
    instead = answer(costly[0]) if costly else None
    if costly:
        message = f"{idle} before {before}, which take the host longer than the GPU, most of all in "
        message += f"{' and '.join(map(str, costly))}."
    else:
        unknown = lateness in {Lateness.HOST_WORK, Lateness.NOT_RECORDED}
        message = f"{idle} before {before}: the launching thread {kind.did}"
        message += _what(names, total_ns, operators=unknown and len(context.trace.cpu_ops) > 0)
    factor = context.trace.calibration.profiler_factor
    cause = context.idle.cause[rows]
    evidence = {f"{each.name.lower()}_ns": context.idle_ns(rows[cause == each]) for each in _EVIDENCE}
    confirm = "" if factor is not None else f"{_measuring(context)}, which measures the profiler overhead"
    return Report(
        message,
        evidence | {"launches": launches, "profiler_factor": None if factor is None else round(factor, 3)},
        confirm,
        informational=lateness is Lateness.FIRST_USE,
        change=_change(context, lateness, instead) or kind.change,
        fix=_fix(context, lateness, instead, named=named_ns >= _NAMED_SHARE * total_ns),
        cuda_fix=kind.cuda_fix,
        kind=lateness.label,
        waited_for=lateness.waited_for,
        ran=names,
        bound=None if work is None else Bound(f"no-host-work:kind={work}"),
    )


def _what(names: Sequence[Ran], total_ns: int, *, operators: bool) -> str:
    """The end of a sentence: what ran, or how much of the time lies outside of all operators."""
    if names and any(each.source != "operator" for each in names):
        return ": " + ", ".join(f"{each.name} {share(each.idle_ns, total_ns)}" for each in names) + "."
    outside_ns = total_ns - sum(each.idle_ns for each in names)
    if operators and outside_ns >= _NAMED_SHARE * total_ns:
        return f", and ran no operator for {share(outside_ns, total_ns)} of that."
    return f": {', '.join(each.name for each in names)}." if len(names) > 1 else "."  # the place has a single one


def _change(context: DeviceContext, lateness: Lateness, instead: Answer | None) -> str | None:
    """The change of a data loader that workers make faster, or of an operator that PyTorch has an answer to."""
    if lateness is Lateness.DATA_LOADING:
        return "workers=8" if pays(context.graph) else None
    return None if instead is None else instead.change


def _fix(context: DeviceContext, lateness: Lateness, instead: Answer | None, *, named: bool) -> str:
    """The fix for PyTorch; where nothing says what the host did, how to find out."""
    if instead is not None:
        return instead.fix
    if lateness is Lateness.DATA_LOADING and pays(context.graph) is False:
        return _COLLATE_ONCE
    if lateness is Lateness.DATA_LOADING:
        return workers_fix(context.trace) or _KINDS[lateness].fix
    if named or lateness not in {Lateness.HOST_WORK, Lateness.NOT_RECORDED}:
        return _KINDS[lateness].fix or _KINDS[Lateness.HOST_WORK].fix
    if context.amd or len(context.trace.samples):
        return "# which functions these are: profile(with_stack=True), or ranges around them by record_function"
    return "# to see which functions these are: overlapscope record SCRIPT"


def _launched_by(context: DeviceContext, rows: Int64) -> list[Cost]:
    """The operators that cost the host most, of those that launched what the GPU waited for."""
    launches = context.idle.launch_call[rows]
    found = [each for each in costs(context.trace, np.unique(launches[launches != NO_ID])) if each.launches]
    named = np.cumsum([each.host_ns for each in found])
    half = int(np.searchsorted(2 * named, named[-1])) + 1 if found else 0
    return found[: min(half, _MOST_OPERATORS)]


def _measuring(context: DeviceContext) -> str:
    """The recording that tells how much the profiler lengthened the calls."""
    if context.trace.metadata.recording is not None:
        return "a recording with --unprofiled 5"
    return "a recording by overlapscope.record" if context.pytorch else "the time of a run without the profiler"


RULE = Rule(
    look=("#076F5A", "#2FA88C", "#BBBBBB", "//////"),
    kind_looks={Lateness.DATA_LOADING: ("#BAE156", "", "#D1D1D1", "oooooo")},
    waited_for="late launches",
    not_simulated="the trace cannot show whether this work can move",
    fix=_KINDS[Lateness.LAUNCH_BOUND].fix,
    cuda_fix=_KINDS[Lateness.LAUNCH_BOUND].cuda_fix,
)
