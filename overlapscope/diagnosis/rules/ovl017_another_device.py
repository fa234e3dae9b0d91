"""One GPU waits for another.

## What happens
Work is queued on a GPU, and its stream was made to wait for an event of another GPU: for what that one computes, or
sends. While stages of a model take turns, or replicas exchange what they have learnt, each GPU waits for the other.

## How it shows in a trace
The work was issued and its own stream was free; its stream, or that of the copies before it, waits for an event of
another device's stream, and begins when the work before that event ends. Where the device itself has a stream of that
number, its own is taken to be meant, and this is not found; nor are waits that a third stream passes on.

## Fix
Give each GPU something to do meanwhile:

```python
# before: the whole batch goes through both stages, of which one waits
hidden = first(batch)
out = second(hidden.to("cuda:1", non_blocking=True))
# after: in pieces, so that one computes a piece while the other has the next
hidden = [first(piece) for piece in batch.chunk(8)]
out = torch.cat([second(each.to("cuda:1", non_blocking=True)) for each in hidden])
```

Replicas can exchange a layer's gradients while the backward pass computes those of the next (DistributedDataParallel
does). Where one has more to do, or its data later, mend that first.

## What the saving assumes
Nothing: no saving is given, since how the work could be divided is not in the trace.

## When this misleads
The other GPU may be late for a reason that has a finding of its own: then that is the one to mend.

## Sources
CUDA C++ Programming Guide, "Multi-Device System": ``cudaStreamWaitEvent`` succeeds for events of other devices. The
idea of pieces: GPipe (Huang et al., NeurIPS 2019).
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.finding import Confidence
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted, time
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import SyncKind


def claims(context: DeviceContext) -> Bool:
    """Queued behind work of another device."""
    return context.of_cause(Cause.OTHER_DEVICE)


def describe(context: DeviceContext, rows: Int64) -> Report:
    """How long it waited, and how often."""
    waited, times = context.idle_ns(rows), len(np.unique(context.idle.launch_call[rows]))
    often = "once" if times == 1 else counted(times, "time")
    message = f"The device waited {time(waited)} for work of another one, {often}."
    evidence = {"waited_ns": waited, "times": times}
    syncs = context.trace.syncs
    waits = (syncs.kind == SyncKind.STREAM_WAIT_EVENT) & np.isin(syncs.device, (context.activity.key.device, NO_ID))
    inferred = bool(syncs.inferred[waits].any())
    doubt = "an Nsight Systems trace, which records what each event waits for" if inferred else ""
    return Report(message, evidence, Confidence.MEDIUM if inferred else Confidence.HIGH, doubt)


RULE = Rule(
    code="OVL017",
    name="another-device",
    page=__doc__,
    fix="out = [second(first(piece).to(other, non_blocking=True)) for piece in batch.chunk(8)]  # both at once",
    claims=claims,
    describe=describe,
)
