"""Memory of a GPU is reused while another stream may still use it.

## What happens
PyTorch's allocator knows on which stream a tensor was made, and no other. When the host drops the tensor, its memory
goes to the next tensor of that stream at once: work on that stream is in order anyway. Work on another stream that
still reads the dropped tensor is not: it reads what the next one writes, without an error, and only sometimes.
`Tensor.record_stream` tells the allocator of the other stream; it then waits for that one's work.

## How it shows in a trace
A recording of `overlapscope record` says which memory is handed out again, which operators used it before and after,
and whether `record_stream` was called. The finding is certain where the work after starts before the work before, on
another stream, ends. Where nothing orders the two, and it came out right by chance, it has medium confidence. Other
traces do not say which memory work uses: there nothing is reported.

## Fix
```python
# before
with torch.cuda.stream(side):
    batch = source.to(device, non_blocking=True)
torch.cuda.current_stream().wait_stream(side)
loss = model(batch)
del batch  # the next upload on side takes its memory
# after
torch.cuda.current_stream().wait_stream(side)
batch.record_stream(torch.cuda.current_stream())
loss = model(batch)
```

## What the saving assumes
This is about correctness; there is no saving. `record_stream` keeps memory until the GPU is done with it, so that more
of it is used at a time; a buffer that is made once, with an event, does not.

## When this misleads
Only memory that is handed out at the same address counts, and only what torch's own operators use: kernels of other
libraries are not seen. Orders that a trace does not show would make a finding of medium confidence wrong.

## Sources
PyTorch, `torch.Tensor.record_stream`; CUDA semantics, Memory management. `overlapscope.workloads.freed_memory`.
"""

from __future__ import annotations

from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.races import race_report
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.ordering.accesses import early_reuses


def view(context: DeviceContext) -> Report | None:
    """Report memory that was handed out again before its use on another stream is known to be complete."""
    message = "Memory of the GPU was freed and used again, and nothing orders that behind {} on another stream."
    confirm_with = "the program: does something else order the two streams?"
    return race_report(context, early_reuses(context.order), message, confirm_with, "use")


RULE = Rule(
    waited_for="memory that is reused too early",
    fix="batch.record_stream(torch.cuda.current_stream())  # of the stream that uses it",
)
