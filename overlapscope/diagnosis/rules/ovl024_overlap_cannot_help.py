"""Perfect overlap of copies would save almost nothing.

## What happens
Copies are exposed, but hiding them gains nothing that could be measured: the kernels, the copies of one direction or
the host alone take almost as long as the program does now.

## How it shows in a trace
Copies run with no concurrent kernel, for most of their time or for a noticeable part of the run. The longest of four
times is almost the analysed time: kernels, memsets and copies within the device; copies to the device; copies from
it; operators and CUDA calls of the busiest thread that did not block it. This longest time is the ceiling of overlap:
however the program is ordered, it takes no less.

## Fix
Leave the order of copies and kernels as it is, and shorten what takes the time:

```python
# before: a side stream, events and two buffers, to hide 1 ms of copies beside 40 ms of kernels
with torch.cuda.stream(side):
    batch = source.to(device, non_blocking=True)
torch.cuda.current_stream().wait_stream(side)
# after: the plain loop, and faster kernels
model = torch.compile(model)
batch = source.to(device, non_blocking=True)
with torch.autocast("cuda", torch.bfloat16):
    out = model(batch)
```

Where a copy engine is the limit, copy fewer bytes; where the host is, issue less: `torch.compile`, CUDA graphs.

## What the saving assumes
Nothing: `saving_ns` in the evidence is the most that overlap can give. It assumes that kernels, copies and host work
all take as long as now and never wait for each other, which no program reaches.

Recorded on an H200: copies of 4 MiB before kernels of 5.3 ms each are exposed for all of their time, 0.31 of 21.8 ms.
Perfect overlap would save 2 %. With copies of 64 MiB before kernels of 2.7 ms it would save a third.

## When this misleads
Copies last as long as recorded: pinned memory makes pageable copies faster, which is no overlap, so that copies from
pageable memory are no limit here. Kernels that run beside copies are a little slower. The profiler lengthens calls
and operators: without it, a limit by the host is lower. An operator that waits without a CUDA call, such as the one
in which a DataLoader waits for its workers, counts as work of the host. So the confidence is medium where the host is
the limit. In a trace without operators that work is not recorded, and overlap may save even less.

## Sources
Arithmetic: work that runs concurrently takes at least as long as the longest of it (Amdahl, 1967). One engine serves
all copies of a direction: measured on an H200 with three copy engines (OVL007).
"""

from __future__ import annotations

from overlapscope.diagnosis.device_context import HIDEABLE_SHARE, DeviceContext
from overlapscope.diagnosis.finding import NOISE_SHARE
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import share, time
from overlapscope.measure.ceiling import HOST, Ceiling
from overlapscope.model.enums import Direction, MemoryKind


def view(context: DeviceContext) -> Report | None:
    """Report that perfect overlap would save almost nothing, where copies are exposed all the same."""
    active = context.activity
    copies, exposed = active.copies.total_ns, active.copies.total_ns - active.overlap.total_ns
    if not _noticeable(context, copies, exposed):
        return None
    most = context.ceiling
    if not most.at_limit(context.config.report_share) or _pageable(context, most):
        return None
    message = (
        f"Copies were exposed for {time(exposed)}, but perfect overlap of copies would save at most "
        f"{time(most.saving_ns)} of {time(most.now_ns)} ({share(most.saving_ns, most.now_ns)}): "
        f"{most.limit}."
    )
    evidence = most.to_dict() | {"exposed_copy_ns": exposed}
    return Report(message, evidence, _confirm(context) if most.bound_by == HOST else "", informational=True)


def _confirm(context: DeviceContext) -> str:
    """The recording that shows how much of the host's time is work, not a wait in an operator or the profiler."""
    recording = context.trace.metadata.recording
    if recording is None:
        tool = "a recording by overlapscope.record, which measures the profiler overhead"
    else:
        known = recording.profiler_factor is not None
        tool = "" if known else "a recording with --unprofiled 5, which measures the profiler overhead"
    stacks = "stacks, which show whether the host waits, such as for DataLoader workers"
    return f"{tool}; {stacks}" if tool else stacks


def _noticeable(context: DeviceContext, copies: int, exposed: int) -> bool:
    """Whether exposed copies raise the question, and OVL011 does not answer it: there are kernels to hide behind."""
    span = context.activity.span_ns
    mostly = 2 * exposed > copies and exposed >= NOISE_SHARE * span
    long = exposed >= context.config.report_share * span
    return (mostly or long) and context.kernel_only_ns >= HIDEABLE_SHARE * exposed


def _pageable(context: DeviceContext, most: Ceiling) -> bool:
    """Whether the limit is copies that are mostly pageable: pinned ones are faster."""
    if most.bound_direction not in (Direction.HTOD, Direction.DTOH):
        return False
    rows = context.key.rows(context.trace.copies)
    rows &= context.trace.copies.direction == most.bound_direction
    lengths = context.facts.total_ns
    pageable = rows & (context.facts.host_kind == MemoryKind.PAGEABLE)
    return bool(2 * lengths[pageable].sum() > lengths[rows].sum())


RULE = Rule(
    waited_for="copies whose overlap would save almost nothing",
    fix="# nothing to gain from the order of copies and kernels: shorten what takes the time",
)
