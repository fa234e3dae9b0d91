"""The host reads a scalar from the GPU in the loop.

## What happens
`.item()`, `.cpu()`, `float(loss)`, `if tensor:`, `nonzero()` and boolean masks need a number on the host. A D2H copy of
a few bytes runs, and the thread waits for it, that is, for all kernels queued before. The transfer takes microseconds;
the rest is waiting for the queue. Then nothing is queued, and the GPU is idle until the next launch.

## How it shows in a trace
A small D2H copy in a call that blocks the thread much longer than the copy takes, or followed by
`cudaStreamSynchronize`. After it the GPU is idle until the host has launched again. A copy of at most 16 bytes, the
largest number that `.item()` reads, is a scalar read; others of up to 1 MiB are counted as small copies.

A loop of reads is eight or more in a row on one thread, with at most 128 launches between two of them, no step of the
program that begins there, and no kernel for at least half of its time. After each read the queue is empty, and the next
read comes before the host is ahead of the GPU again. So the idle time before the launches between two reads is
attributed to the reads, and not to the launching thread (OVL008): neither a compiler nor a CUDA graph takes in more
than the few launches between two reads.

What a value is read for shows in the operators: `nonzero`, `masked_select`, `unique` and `repeat_interleave` read how
large their result is; `is_nonzero`, `equal`, and an `item()` of one byte or right after a comparison read what to do
next. The program cannot do without these values, so another fix is given for them.

## Fix
```python
# before
for batch in loader:
    total += step(batch).item()  # waits for every kernel of the step
# after: accumulate on the GPU, read once
for batch in loader:
    total += step(batch).detach()
print(total.item())
# or copy the value to pinned memory, and read it a step later, when its event has completed
```

In a loop, one read before it has all values: `boxes = boxes.cpu()`, `torch.stack(values).tolist()`. Experts and other
choices take rows that are sorted by choice, and read once how many each has.

Instead of `nonzero()` and boolean masks: `torch.where`, multiplication by the mask, or sizes that are known
beforehand.

## What the saving assumes
The program does not need the value to decide what to launch next. Pinning does not help: the thread waits for the
queue, not for the transfer.

## When this misleads
If the host would launch late anyway (OVL008), removing the read gains little. A loop with a stopping criterion has to
read a value now and then.

Where something else holds the host, nothing is queued, and a read waits for nothing: it is no finding then. Hundreds of
reads beside pageable copies (OVL001) become what costs once the copies are pinned. The plan has them as its next step.

## Sources
PyTorch CUDA semantics, "Asynchronous execution". PyTorch performance tuning guide, "Avoid unnecessary CPU-GPU
synchronization". PyTorch documentation, torch.compile, "Common Graph Breaks",
"Data-dependent operations" (https://docs.pytorch.org/docs/stable/compile/programming_model.common_graph_breaks.html).
"""

from __future__ import annotations

import numpy as np

from overlapscope.dependencies.threads import autograd_threads
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.host_reads import NEEDED, Purpose, operators, purposes
from overlapscope.diagnosis.rule import OUTPUT_SIZE_FIX, FixFor, Report, Rule, median_or_none
from overlapscope.formatting import counted, safe, time
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.whatif.calls import scalar_reads
from overlapscope.whatif.changes.read_once import ReadOnce


def claims(context: DeviceContext) -> Bool:
    """Attributed to a scalar read: a small D2H copy whose call mostly waited for queued work."""
    return context.scalar_read


def describe(context: DeviceContext, rows: Int64) -> Report:
    """What read, how long that blocked the host, and the launches between the reads of a loop."""
    calls, copies = context.blocking_calls_of(rows), context.read_loops.with_last(context.copies_of(rows))
    blocked = context.blocked_ns(calls)
    transfer = int(context.facts.total_ns[copies].sum())
    reads = int(scalar_reads(context.trace)[copies].sum())
    others = len(copies) - reads
    small = counted(others, "small copy to the host", "small copies to the host")
    what = " and ".join(filter(None, [_read(context, copies), small * bool(others)]))
    launches, between_ns = _between(context, rows)
    lost = f"{context.without_kernel(rows)} because of it"
    if launches:
        message = (
            f"{what}{_loops(context, copies)}, each a wait of the host: {lost}, "
            f"{time(between_ns)} of that before {counted(launches, 'launch', 'launches')} between the reads."
        )
    else:
        message = f"{what} blocked the host for {time(blocked)}, of which the transfers took {time(transfer)}; {lost}."
    sizes = context.trace.copies.size_bytes[copies]
    median = median_or_none(sizes[sizes >= 0].astype(float))
    evidence = {
        "reads": reads,
        "small_copies": others,
        "median_size_bytes": None if median is None else int(median),
        "blocked_ns": blocked,
        "transfer_ns": transfer,
        "late_launch_ns": context.idle_ns(rows),
        "launches_between": launches,
        "between_ns": between_ns,
    }
    purpose = purposes(context.trace, copies)
    evidence |= {f"{each.name.lower()}_reads": int((purpose == each).sum()) for each in NEEDED}
    most = Purpose(int(np.bincount(purpose, minlength=len(Purpose)).argmax())) if len(copies) else Purpose.UNKNOWN
    waited_for = "scalar reads and small copies" if reads else "small copies to the host"
    fix = (_ONCE if launches else _FIXES).get(most)
    change = ReadOnce.name if launches else None
    return Report(message, evidence, fix=fix, change=change, waited_for=waited_for if others else None)


def _read(context: DeviceContext, copies: Int64) -> str:
    """The number of reads, with the operators that read, their sizes, and the thread of a backward pass."""
    trace = context.trace
    reads = copies[scalar_reads(trace)[copies]]
    if not len(reads):
        return ""
    calls, sizes = trace.copies.call[reads], np.unique(trace.copies.size_bytes[reads]).tolist()
    calls = calls[calls != NO_ID]
    known = operators(trace, calls)
    each = [name if count == len(reads) else f"{name} {count:,}" for name, count in known.most_common(_MOST_OPERATORS)]
    each += [f"{len(known) - len(each)} more"] * (len(known) > len(each))
    by = safe(", ".join(each)) or "such as item()" * context.pytorch
    size = f"{sizes[0]} to {sizes[-1]} bytes" if len(sizes) > 1 else counted(sizes[0], "byte")
    table, backward = trace.api_calls, autograd_threads(context.graph)
    threads = set(zip(table.process[calls].tolist(), table.thread[calls].tolist(), strict=True))
    on = " on the autograd thread" if threads and threads <= backward else ""
    return f"{counted(len(reads), 'scalar read')}{f' ({by})' * bool(by)} of {size}{on}"


def _between(context: DeviceContext, rows: Int64) -> tuple[int, int]:
    """The launches between reads of loops in some idle intervals, and for how long the GPU waited for them, in ns."""
    calls, launch = context.trace.api_calls, context.idle.launch_call[rows]
    known = launch != NO_ID
    rows, launch = rows[known], launch[known]
    inside = context.read_loops.around(calls.process[launch], calls.thread[launch], calls.start_ns[launch]) != NO_ID
    return len(np.unique(launch[inside])), context.idle_ns(rows[inside])


def _loops(context: DeviceContext, copies: Int64) -> str:
    """The number of loops of some reads, and how many reads they have."""
    loops = context.read_loops
    here = np.isin(loops.copy, copies) | np.isin(loops.following, copies)
    stretches = np.bincount(loops.loop[here])
    reads = stretches[stretches > 0] + 1
    most = f"{'up to ' if (reads != reads.max()).any() else ''}{reads.max():,}"
    these = "" if reads.sum() >= len(copies) else f", {reads.sum():,} of them"
    return f"{these} in {'a loop' if len(reads) == 1 else f'{len(reads):,} loops'} of {most}"


_MOST_OPERATORS = 4
"""Operators that a message names: those that read most."""
_FIXES = {
    Purpose.SIZE: OUTPUT_SIZE_FIX.fix,
    Purpose.DECISION: "flag.copy_(comparison, non_blocking=True)  # flag: pinned, made once\n"
    "arrived.record()  # a step later: if arrived.query() and flag: break\n"
    "y = torch.where(condition, a, b)  # instead of a Python if on a tensor",
}
"""What fits reads that the program needs, by what it needs them for."""
_BY_EXPERT = (
    "order = chosen.argsort()  # rows of each choice, once for all\n"
    "counts = torch.bincount(chosen, minlength=choices).tolist()  # one read, before the loop\n"
    "for rows in order.split(counts): ...  # instead of any(), nonzero() and masks"
)
_ONCE = {
    Purpose.SIZE: _BY_EXPERT,
    Purpose.DECISION: _BY_EXPERT,
    Purpose.UNKNOWN: "boxes = boxes.cpu()  # once, before the loop; then pieces of it wait for nothing\n"
    "values = torch.stack([one, other]).tolist()  # several values in one read",
}
"""What fits the reads of a loop, by what the program needs them for."""

RULE = Rule(
    look=("#BCB53F", "", "#5C5C5C", "......"),
    fixes=(
        OUTPUT_SIZE_FIX,
        FixFor(
            "place.copy_(value, non_blocking=True)  # place: pinned, made once, instead of value.cpu()\n"
            "arrived = torch.cuda.Event(); arrived.record()  # arrived.synchronize() when the host needs it",
            op="aten::(to|_to_copy|copy_)$",
        ),
        FixFor("# cudaMemcpyAsync to pinned memory, and read it after the loop", op="^$", api="Memcpy"),
    ),
    waited_for="scalar reads",
    cuda_fix="cudaMemcpyAsync(pinned, value, bytes, cudaMemcpyDeviceToHost, stream);  // read it a step later",
    fix="total += loss.detach()  # stays on the GPU; total.item() once, after the loop",
    change="no-scalar-sync",
)
