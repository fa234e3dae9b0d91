"""What is to be said about single loops beside their times: read in the recordings and in the libraries' sources."""

from __future__ import annotations

TAUGHT = (
    """Where copies from pageable memory, or copies on the kernels' stream, were the largest cause, the audit put the
right fix first, and the loops took 22 to 89 % less: the first three rows of the table.""",
    """`pin` is too optimistic for a data loader. The simulation pins for free, but the loader pins its batches one
after the other. One of the two loops became slower.""",
    """`no-scalar-sync` removes every read. A fix that leaves others in place may gain nothing, as two of ours
did.""",
    """In five loops the audit puts `cuda-graph` first, which was not tried. Our fixes there are ones that it does not
propose, and none gained more than 11 %.""",
    """The audit reported no hazard in the one loop that computes wrong answers.""",
)
"""What the loops say about the tool as a whole."""

NOTES = {
    "fsdp2_cpu_offload": """The tool was right about the cause and the fix, and 13 ms too high. In the recording,
`zero_grad` takes 14 ms a step, since it frees gradients in pageable memory, and in the fixed loop next to nothing,
since pinned memory is cached. The simulation pins the copies and leaves the other work of the host as it was.""",
    "accelerate_cpu_offload": """The tool was right. It says that more is possible: `cudaMalloc` and `cudaFree` take
22 ms of each step, and each copy is still waited for. Neither was tried.""",
    "offloaded_kv_cache": """The tool was right about the time. It does not see that the loop as it is computes wrong
answers. The library brings a layer back on a stream that waits for nothing. No order is given between the copy of a
layer to the host and the copy back, nor between the copy back of the layer after next and the concatenation that
still reads the memory which that copy may be given. Only the pace of the host keeps them apart: in the recording, the
later copy begins 1.5 ms after the concatenation at the median, and once in 166 times before it has ended. Which of
the two spoils the answers was not measured. The patch orders both: each copy back waits for the event of the copy
out, and `record_stream` keeps the memory until its readers are done. Without a profiler, 79 % of the tokens as it is
differ from those with a cache on the GPU. Of the fixed loop 2 of 192 do, which may be near ties of a model with
random weights.""",
    "accelerate_loader": """The tool was right to propose `pin`, but too optimistic. The loader's thread that pins
takes 8 ms for each batch, one after the other, so that each batch arrives later: the loop waits for the loader 78 ms
a step, and 45 ms before. The simulation pins for free.""",
    "sentence_transformers_encode": """The tool was right about the time, but did not propose this fix: for 3 % of the
time the GPU is idle because of reads, too little for a finding, while `what-if` saves 8 % without them. What the
audit names first, Python between launches, stays; the library tokenises the texts there.""",
    "generate_stop_check": """The tool was right that the reads cost time, and our patch is not enough: it removes one
of two reads for each token. The other one asks whether the attention mask has only ones, and now waits as long: 299
ms in two steps before, 297 ms after. `what-if` removes all reads, and even that gains only 7 %. 64 of 3072 tokens
differ; whether two runs of the loop as it is differ too was not measured.""",
    "torchmetrics_validation": """Our fix does nothing. With scores in floating point the library checks no labels, so
the switch removes no read: both recordings have the same 504 copies. The reads come from `bincount`, two for each
call. The audit did not propose to remove them: it names launches. The prediction is of a loop without any of these
reads.""",
    "timm_prefetch_loader": """Pinning made the loop slower. The audit did not propose it: it names the data loader,
and offers no fix. But `what-if pin` was wrong: it predicts a gain. The loader's thread that pins hands over a batch
each 15 ms, 8 ms of it for pinning, and all six batches are ready at about the same time: the loop waits for the
loader 105 ms a step, and 59 ms before. These 46 ms are the error. The simulation pins for free.""",
    "torchaudio_conformer": """The tool was right: it names launches, not the one read of each batch, and predicts
that removing it gains next to nothing.""",
    "grad_scaler": """The prediction is near by luck. The simulation of the unchanged loop is 21 % too long: of 369 ms
under the profiler it does not take enough away. And the fused optimiser has other kernels, and fewer launches, which
`no-scalar-sync` does not say. The audit names launches.""",
    "diffusers_ddim": """The tool was right that these reads cost nothing here: the loop is bound by its launches. The
error is that of the baseline: the loop took 248 ms without a profiler when it was recorded, and 223 ms when it was
timed. Single times are from 202 to 288 ms as it is and from 197 to 292 ms fixed, so the gain may be chance.""",
}

NOT_MEASURED = {
    "diffusers_group_offload": "not run",
    "lightning_progress_bar": "not run",
    "pyg_batches": "timed, 35 ms as it is and 40 ms fixed, single times from 26 to 52 ms, but not recorded",
    "trainer_nan_filter": "timed with twelve steps, 829 ms as it is and 815 ms fixed, but not recorded",
}
"""The loops that have no result, and how far they came."""
