"""A host buffer is overwritten while its upload may still run.

## What happens
`tensor.to(device, non_blocking=True)` from pinned memory returns before the copy has begun. The GPU reads the buffer
when the copy's turn comes. A program that has filled the buffer with the next batch by then sends that batch twice, and
the one before never: wrong numbers, without an error, and only sometimes.

## How it shows in a trace
A recording of `overlapscope record` says which host tensors the copies read, and which operators write to them. The
finding is certain where an operator writes to a tensor, or a copy from the GPU overwrites it, before the tensor's
upload ends. Where nothing orders the two, and it came out right by chance, it has medium confidence. A tensor that goes
to several streams or GPUs is free when all have it. One in pageable memory is free when the copy's call returns: the
driver has staged it. Other traces do not say what the host writes to: there nothing is reported.

## Fix
```python
# before
for batch in batches:
    staging.copy_(batch)  # is the one before still in there?
    on_gpu.copy_(staging, non_blocking=True)
# after: two buffers with an event each, or wait for the one
for number, batch in enumerate(batches):
    staging, sent = buffers[number % 2]
    sent.synchronize()
    staging.copy_(batch)
    on_gpu.copy_(staging, non_blocking=True)
    sent.record()
```

## What the saving assumes
This is about correctness; there is no saving. With two buffers the host seldom waits.

## When this misleads
A tensor is known by its memory and its object. Slices and other views of the same memory are not compared, nor what
numpy or a library writes. PyTorch's own `pin_memory()` and DataLoaders take new memory for each batch, and reuse it
only when its copies are complete.

## Sources
CUDA Runtime API, API synchronization behavior. `overlapscope.workloads.staging_buffer`.
"""

from __future__ import annotations

from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.races import race_report
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.ordering.accesses import early_refills


def view(context: DeviceContext) -> Report | None:
    """Report host buffers that are overwritten before their uploads are known to be complete."""
    message = "Nothing waits for {} before the host buffer is overwritten."
    confirm_with = "the program: does something else wait for the upload?"
    return race_report(context, early_refills(context.order), message, confirm_with)


RULE = Rule(
    waited_for="buffers that are overwritten too early",
    about_copies=True,
    fix="sent = torch.cuda.Event(); sent.record()  # right after the upload\n"
    "sent.synchronize()  # before the host fills the buffer again; with two buffers it seldom waits",
)
