"""One GPU waits for another.

## What happens
Work is queued on a GPU, and its stream waits for an event of another GPU, for its kernels or its copies. With pipeline
stages that run one after the other, or replicas that exchange gradients, each GPU waits for the other.

## How it shows in a trace
The work was issued and its own stream was free. Its stream, or that of the copies before it, waits for an event of
another GPU's stream, and the work starts when the work before that event ends. Where the GPU has a stream with the same
number itself, the event is assumed to be on that one, and this is not found. Indirect waits through a third stream are
not found either.

## Fix
Keep all GPUs busy:

```python
# before: the whole batch goes through both stages, one of which is always idle
hidden = first(batch)
out = second(hidden.to("cuda:1", non_blocking=True))
# after: in micro-batches, so that both stages compute at the same time
hidden = [first(piece) for piece in batch.chunk(8)]
out = torch.cat([second(each.to("cuda:1", non_blocking=True)) for each in hidden])
```

Replicas can exchange the gradients of one layer while the backward pass computes the next (DistributedDataParallel
does). Where one GPU has more work, or gets its data later, fix that first.

## What the saving assumes
Nothing: no saving is given, since the trace does not show how the work could be divided.

## When this misleads
The other GPU may be late for a reason that has a finding of its own: then fix that one.

## Sources
CUDA C++ Programming Guide, "Multi-Device System": ``cudaStreamWaitEvent`` succeeds for events of other devices.
Micro-batches: GPipe (Huang et al., NeurIPS 2019).
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted, time
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import SyncKind


def claims(context: DeviceContext) -> Bool:
    """Idle because work waited for an event of another GPU."""
    return context.has_cause(Cause.OTHER_DEVICE)


def describe(context: DeviceContext, rows: Int64) -> Report:
    """How long the GPU waited for another one, and how often."""
    waited, waits = context.idle_ns(rows), len(np.unique(context.idle.launch_call[rows]))
    often = "once" if waits == 1 else counted(waits, "time")
    message = f"The GPU waited {time(waited)} for work of another GPU, {often}."
    evidence = {"waited_ns": waited, "waits": waits}
    syncs = context.trace.syncs
    events = (syncs.kind == SyncKind.STREAM_WAIT_EVENT) & np.isin(syncs.device, (context.key.device, NO_ID))
    inferred = bool(syncs.inferred[events].any())
    confirm_with = context.confirmed_by(
        "an Nsight Systems trace, which records what each event waits for", "the program: what does the event wait for?"
    )
    return Report(message, evidence, confirm_with if inferred else "")


RULE = Rule(
    look=("#271991", "#5A50D8", "#B3B3B3", r"\\\\\\"),
    waited_for="another GPU",
    not_simulated="how the work could be split between the GPUs is not in a trace",
    cuda_fix="// in parts: one GPU computes the next part while the other has this one",
    fix="out = [second(first(piece).to(other, non_blocking=True)) for piece in batch.chunk(8)]  # micro-batches",
)
