"""What is to be said about single loops beside their times: read in the recordings and in the libraries' sources."""

from __future__ import annotations

TAUGHT = (
    """Where copies from pageable memory, or copies on the kernels' stream, were the largest cause, the audit put the
right fix first, and the loops took 22 to 89 % less: the first four rows of the table.""",
    """`pin` is still too optimistic for a data loader, by 13 and 14 %. It counts what pinning takes the loader's
thread, which brought 1 and 4 of these points. It does not count that the loader's batches come later altogether. One
of the two loops became slower, and is predicted to become 1 % quicker.""",
    """`no-scalar-sync` removes every read, and waits for larger copies to the host too. A fix that leaves others in
place may gain nothing, as two of ours did, and a prediction may be near for another reason.""",
    """In five loops the audit puts `cuda-graph` first, which was not tried. Our fixes there are ones that it does not
propose, and none gained more than 11 %.""",
    """The audit reports no race in the one loop that computes wrong answers. It has rules for both of its races,
[OVL101](rules/OVL101.md) and [OVL104](rules/OVL104.md), but they rest on notes of memory, which that recording is
without.""",
)
"""What the loops say about the tool as a whole."""

OTHERWISE = {
    "diffusers_group_offload": """The fix copies no block back to the host; `what-if` makes these copies quick, and
keeps them.""",
    "generate_stop_check": """The fix removes one of two reads for each token, `no-scalar-sync` both.""",
    "grad_scaler": """The fused optimiser has other kernels, and fewer launches, too.""",
    "lightning_progress_bar": """The fix removes 24 small reads of a step; `no-scalar-sync` removes all, and the waits
for 150 copies of the model to the host too.""",
    "offloaded_kv_cache": """The patch also gives the copies an order, which the simulation of this recording does
not.""",
    "sentence_transformers_encode": """The fix removes 15 of 16 waits for embeddings, and leaves 16 reads of one byte;
`no-scalar-sync` removes all.""",
    "torchmetrics_validation": """The fix removes no read, `no-scalar-sync` all.""",
    "trainer_nan_filter": """The fix removes 12 of 20 reads of a step, `no-scalar-sync` all.""",
}
"""What a fix does otherwise than the changes that were predicted for it, by loop; the others do the same."""

NOTES = {
    "fsdp2_cpu_offload": """The tool was right about the cause and the fix, and 13 ms too high. In the recording,
`zero_grad` takes 14 ms a step, since it frees gradients in pageable memory, and in the fixed loop next to nothing,
since pinned memory is cached. The simulation pins the copies and leaves the other work of the host as it was. The
interval reaches down by what freeing pages takes. That was measured in this loop, so that it is no test of it.""",
    "diffusers_group_offload": """The tool was right about the cause and its first fix, and 6 ms too high. It does not
take enough away of what the recording cost: copies alone block the host for 223 ms a step there, while a whole step
takes 160 ms without the profiler, and 213 ms in the simulation of the unchanged loop. So the interval is wide: its ends
are a factor of 3.6 apart. The gain is not that of overlap: of the 33 ms of copies in the recording of the fixed loop,
kernels hide 0.9 ms. It is that blocks come from pinned memory and are not copied back: of 622 copies to the host in two
steps, 34 are left.""",
    "accelerate_cpu_offload": """The tool was right. It says that more is possible: `cudaMalloc` and `cudaFree` take
20 ms of each step, and each copy is still waited for. Neither was tried.""",
    "offloaded_kv_cache": """The tool was right about the time. It does not see that the loop as it is computes wrong
answers. The library brings a layer back on a stream that waits for nothing. No order is given between the copy of a
layer to the host and the copy back (OVL101), nor between the copy back of the layer after next and the concatenation
that still reads the memory which that copy may be given (OVL104). The audit has these two rules, and is silent: this
recording is older than the notes of host tensors and memory of the GPU that the rules rest on. Whether they find the
two races in a new recording was not measured. Only the pace of the host keeps them apart: in the recording, the later
copy begins 1.5 ms after the concatenation at the median, and once in 166 times before it has ended. Which of the two
spoils the answers was not measured. The patch orders both: each copy back waits for the event of the copy out, and
`record_stream` keeps the memory until its readers are done. Without a profiler, 79 % of the tokens as it is differ
from those with a cache on the GPU. Of the fixed loop 2 of 192 do, which may be near ties of a model with random
weights.""",
    "accelerate_loader": """The tool was right to propose `pin`, but too optimistic, and the time reached is 2 ms
outside the interval. The loader's thread that pins takes 8 ms for each batch, which the prediction counts. But the
loop waits for the loader 78 ms a step, and 45 ms before, most of it at the beginning, which is more than that. And the
unchanged loop is simulated 7 % too short, so that part of the error is there before anything is pinned.""",
    "sentence_transformers_encode": """The tool was right about the time, but did not propose this fix: for 3 % of the
time the GPU is idle because of reads, too little for a finding, while `what-if` saves 8 % without them. What the
audit names first, Python between launches, stays; the library tokenises the texts there.""",
    "grad_scaler": """The prediction is near, but the gain has another cause. `no-scalar-sync` is predicted to save 14
ms; the loop took 11 ms less, and the kernels of the fixed loop take 8 ms less of the GPU. Single times are
from 173 to 202 ms as it is and from 160 to 202 ms fixed. The audit names launches.""",
    "torchaudio_conformer": """The tool was right: it names launches, not the one read of each batch, and predicts
that removing it gains next to nothing. The loop took 3 ms less; single times are from 55 to 64 ms as it is and from
54 to 59 ms fixed, so this may be chance.""",
    "trainer_nan_filter": """The tool was right: it proposes to remove the reads, predicts that this saves 18 ms of a
step, and the loop took 18 ms less. Single times are from 502 to 595 ms as it is and from 488 to 530 ms fixed, so the
agreement may be chance. What the audit names first, Python between launches, is mostly before the first kernel of a
step: each step here is a whole call of `train`, with its set-up, for six batches only.""",
    "diffusers_ddim": """The tool was right that these reads cost little here: the loop is bound by its launches.
It predicts a gain of 2 %, and the loop took 3 % less. Single times are from 192 to 242 ms as it is and from 184 to 200
ms fixed, so the gain may be chance.""",
    "lightning_progress_bar": """The prediction is near by luck. It takes 15 % away from a loop that is simulated 10 %
too long; the fix took 3 % away, which may be chance: single times are from 279 to 333 ms as it is and from 280 to 321
ms fixed. Of the 50 ms that are predicted to be saved, 46 are waits for copies of the model to the host: the library
moves it to the GPU at the beginning of each `fit` and back at the end, from and to pageable memory. Of the reads alone,
`no-scalar-sync` predicts 333 ms (267 to 392), 13 % too long. The audit names the copies of the model, after launches,
and offers `pin` first; that was not tried. A `fit` of more than twelve batches has no more of them.""",
    "torchmetrics_validation": """Our fix does nothing. With scores in floating point the library checks no labels, so
the switch removes no read: both recordings have the same 504 copies. The reads come from `bincount`, two for each
call. The audit did not propose to remove them: it names launches. The prediction is of a loop without any of these
reads.""",
    "generate_stop_check": """The tool was right that the reads cost time, and our patch is not enough: it removes one
of two reads for each token. The other one asks whether the attention mask has only ones, and now waits as long: 299
ms in two steps before, 297 ms after. `what-if` removes all reads, and even that gains only 7 %. 64 of 3072 tokens
differ; whether two runs of the loop as it is differ too was not measured.""",
    "timm_prefetch_loader": """Pinning made the loop slower. The audit did not propose it: it names the data loader,
and offers no fix. `what-if pin` predicts next to no gain, and is 37 ms too low; the time reached is 20 ms above the
interval. It counts the 8 ms that the loader's thread takes to pin a batch, as the recording of the fixed loop has them.
But that thread hands over a batch each 15 ms, and the first one comes 20 to 35 ms later than unpinned: the loop waits
for the loader 105 ms a step, and 59 ms before.""",
}

NOT_MEASURED = {
    "pyg_batches": """torch-geometric: batches of molecules. It was measured with a mistake of ours: `Batch.to` moves a
batch in place, so that the batches stayed on the GPU after the first step and nothing was copied.""",
}
"""Loops that are to be measured again, and why."""
