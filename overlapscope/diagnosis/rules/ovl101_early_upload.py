"""A host buffer is uploaded while its download may still run.

## What happens
A state goes to the host and comes back: a key-value cache, activations, the parameters of an expert. A stream is in
order within itself only. An upload on a side stream starts as soon as it is issued, though the download into the same
buffer still waits behind kernels of another stream: old bytes come back, without an error, and only sometimes.

## How it shows in a trace
A recording of `overlapscope record` says which host tensors the copies read and write. The finding is certain where the
upload of a tensor starts before its download ends. Where no stream order, event or synchronisation stands between the
two, but they came one after the other by chance, it has medium confidence. What a wait was for is unknown in Kineto
traces of CUDA 12.9 and later: it may have been for all work that was complete by then, which is not reported. A
download into pageable memory is complete when its call returns, so that nothing about it is reported.

Other traces do not say what a copy reads. There the finding is a suspicion, with low confidence: more uploads of one
size have started than downloads of it have arrived, though the first went down and no more go up than down. The order
of issue has to fit as well. Either four or more of the size go down before the first goes up, with kernels between, as
where states are put away one after the other. Or each goes up right after one went down that follows a kernel, with no
other work issued between, three times or more. With three or more sizes, it is enough if all of each go down before it
goes up, or each right after.

## Fix
```python
# before
host.copy_(state, non_blocking=True)
with torch.cuda.stream(side):
    back.copy_(host, non_blocking=True)  # what is in host now?
# after
host.copy_(state, non_blocking=True)
left = torch.cuda.current_stream().record_event()
with torch.cuda.stream(side):
    side.wait_event(left)
    back.copy_(host, non_blocking=True)
```

## What the saving assumes
This is about correctness; there is no saving. The right program may take longer, since its upload waits.

## When this misleads
A tensor is known by its memory and its object. Slices and other views of the same memory are not compared, nor what a
program copies without torch's own operators. Orders that a trace does not show, such as a flag that host threads share,
would make a finding of medium confidence wrong.

A suspicion is wrong where what goes up is not what came down: a loop that sends its next input right after its last
result, of one size and without waiting for it, or that moves different data in pieces of one size, first down and then
up. It is silent where the first goes up, as in a loop that is recorded from its begin, and where a state goes back
later than that, three or fewer at a time. A recording decides.

## Sources
CUDA C++ Programming Guide, Streams and Events. `overlapscope.workloads.host_round_trip`. The offloaded cache of
transformers 5.17 uploads on its prefetch stream, which waits for nothing.
"""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.races import race_report
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import counted
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.ordering.accesses import accesses_known, early_uploads
from overlapscope.whatif.host_memory import put_away


def view(context: DeviceContext) -> Report | None:
    """Report uploads that their downloads are not ordered before; suspect some where it is not known what they read."""
    message = "Nothing orders {} behind the download into the same host buffer."
    confirm_with = "the program: does something else order the upload?"
    report = race_report(context, early_uploads(context.order), message, confirm_with)
    return _suspected(context) if report is None and not accesses_known(context.graph) else report


def _suspected(context: DeviceContext) -> Report | None:
    """Uploads of sizes that seem to come back, of which more have started than have come down before."""
    graph = context.graph
    down, up = (_pinned(context, direction) for direction in (Direction.DTOH, Direction.HTOD))
    early = [each.early(graph) for each in put_away(graph, down, up)]
    copies = np.sort(graph.work.row[np.concatenate([np.empty(0, np.int64), *early])])
    if not len(copies):
        return None
    message = (
        f"Suspected: {counted(len(copies), 'upload')} started before as many copies of the same size had arrived at "
        "the host, though each size goes down first: if they bring back what came down, values are wrong."
    )
    evidence = {"unordered": len(copies), "began_early": len(copies)}
    confirm_with = "a recording of overlapscope record, which says what each copy reads"
    return Report(message, evidence, confirm_with, suspicion=True, hazard=True, copies=copies)


def _pinned(context: DeviceContext, direction: Direction) -> Int64:
    """Copies of a direction between this device and pinned memory, as work."""
    work, copies, key = context.graph.work, context.trace.copies, context.key
    pinned = np.append((context.facts.host_kind == MemoryKind.PINNED) & (copies.size_bytes > 0), False)
    of_device = (work.process == key.process) & (work.device == key.device) & (work.call != NO_ID)
    return np.flatnonzero(of_device & (work.engine == direction) & pinned[work.copy])


RULE = Rule(
    waited_for="uploads that do not wait for their download",
    about_copies=True,
    fix="left = torch.cuda.current_stream().record_event()  # right after the download\n"
    "side.wait_event(left)  # before the upload",
)
