"""There is no kernel time to hide the copies behind.

## What happens
There is almost no kernel time that the copies could overlap: an upload before the first kernel, results copied after
the last one, or a loop with far more copy time than kernel time. Reordering can gain at most the kernel time.

## How it shows in a trace
Copies run with no concurrent kernel, and no kernel could overlap them: no work follows, or the kernels that follow
take a small fraction of the copy time.

## Fix
Copy fewer bytes, or less often; or run other work at the same time.

```python
# before: everything is uploaded, then the first batch starts
for layer in layers:
    layer.to(device)
# after: pinned once, in the data type in which it is used; the first layers compute while the others are copied
compute = torch.cuda.current_stream()
for layer in layers:
    with torch.cuda.stream(side):
        for tensor in layer.parameters():
            tensor.data = tensor.data.to(device, non_blocking=True)  # pinned, and converted on the host beforehand
            tensor.data.record_stream(compute)
    uploaded.append(side.record_event())
for layer, event in zip(layers, uploaded):
    compute.wait_event(event)
    x = layer(x)
```

Keep data on the GPU that is needed again; recompute what is cheap; compress.

## What the saving assumes
Nothing: the evidence has the kernel time that could hide copies, and it is short.

## When this misleads
A window with only the upload does not show the kernels that could overlap it.

## Sources
Arithmetic: copies and kernels that overlap completely still take as long as the longer of the two.
"""

from __future__ import annotations

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.diagnosis.rule import Report, Rule
from overlapscope.formatting import time
from overlapscope.model.columns import Bool, Int64


def claims(context: DeviceContext) -> Bool:
    """Idle except for a copy, with no other work to follow."""
    return context.has_cause(Cause.COPY_ONLY) & ~context.insufficient_data


def describe(context: DeviceContext, rows: Int64) -> Report:
    """The copies, and the kernel time that could hide them."""
    copies = context.copies_of(rows)
    kernels = context.kernel_only_ns
    what = context.copies_in_words(copies)
    left = f"the {time(kernels)} of kernels without a copy run before or after" if kernels else "no other kernel runs"
    idle = time(context.idle_ns(rows))
    message = f"{what} took {idle} beside no kernel: {left}."
    evidence = context.copies_as_evidence(copies) | {
        "copy_ns": int(context.link_copy_ns[rows].sum()),
        "kernel_only_ns": kernels,
    }
    return Report(message, evidence)


RULE = Rule(
    look=("#B8F79B", "", "#8E8E8E", r"\\\\\\"),
    waited_for="copies with no kernel to hide behind",
    not_simulated="there is no work to hide the copies behind, nor does a trace tell which bytes are needed",
    about_copies=True,
    fix="# copy fewer bytes (smaller data types, keep data on the GPU), or run other work at the same time",
)
