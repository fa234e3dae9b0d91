"""Write docs/predictions.md: its text, and the tables that benchmarks/prediction.py makes.

python docs/make_predictions.py [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.prediction import TABLES, Outcome, summary, table

TARGET = Path(__file__).with_name("predictions.md")
HEAD = """# How good predictions are

Made by `docs/make_predictions.py` from the sample traces and those of `benchmarks/pairs`; do not edit.

For each pair the faulty program's trace is replayed with the changes named, and compared with the time that the
really mended program takes without a profiler. *Before* is the faulty program's own such time,
*unchanged* what a replay with nothing changed gives for it. Durations, gaps and speeds come
from the trace or its calibration; what passes between two nodes of a CUDA graph was measured on the H200s that made
these traces. *Low to high* is given where a trace leaves the order of work open, or what gathering takes.

**What the times are worth.** The processors of these machines are shared: what works on the host or copies pageable
memory is 10 to 20 % slower in one second than in the next, now and then by half or twice. So the faulty and the
mended programs were timed in turns of five passes, each after two that did not count, in one process, which then
recorded the faulty one, having timed it once more. (Turns of one pass leave less of a program's memory in the caches
than it has alone: gathering 40 MB in `coalesced` took 7.4 ms then, and takes 4.3 now.) Where its two times were more
than a few per cent apart, it was recorded again, up to three times. Of those where they were within 10 %, the one is
here in which the faulty and the mended program together were quickest; else the one whose times were nearest to each
other, whatever was predicted from it. Programs whose large pageable copies are pinned were recorded once more, and only
those recordings were candidates; not so `weather_forcing`, whose new times never agreed, `replicas`, `thread_per_gpu`
and `gemm_copy`, each of whose variants had processes of its own. Traces of `benchmarks/pairs` have three steps (one
where something is prefetched, or made by other tools), those of the workloads one.

No prediction can be nearer than two times of the same program are to each other. The line below the first table gives
that for the recordings that are here. Of the last 285 that were made, the two times one process took for the faulty
program were 4 % apart at the median, and 16 % or more in every tenth; of the 62 pairs that were recorded more than
once, the mended program was once 6 % or more from its own median in 26, and the share that mending won in 41.

**What was aimed at.** The unchanged replay within 1 % of the program's own time at the median; predictions within 2 %
at the median and 6 % at worst, those of launch-bound programs within 10 %. From recorded traces the median is reached,
and so are the launch-bound programs (`graph` among the changes); the worst is not, and the unchanged replay is about
as near to the program's own time as another measurement of it is. From other traces neither median is reached, and
some launch-bound programs are far off.

**How blind this is.** Faults that the pairs showed were mended, so the figures are not blind, but these were:

- of the first seven programs of `benchmarks/pairs`, three were within 6 % at first sight, all but one are within 4 %
  now;
- the fourteen of `benchmarks/pairs/blind.py` were written by somebody who had not seen the replay. At first sight 8
  of 14 were within 6 % from recorded Kineto traces (median 4.4 %), 7 from Nsight Systems, and 1 (median 29 %) from
  torch's profiler used by itself: its first step begins with milliseconds in which the profiler gets its buffers. It
  records them, and they are taken out now;
- the fourteen of `benchmarks/pairs/unseen.py` were written in the same way after that. At first sight 10 of 14 were
  within 6 % from recorded Kineto traces (median 3.4 %), 7 from Nsight Systems (5.9 %), and 4 from torch's profiler
  used by itself (8.0 %). What they led to: a part of the profiler's cost is read from how operators nest, and what
  an event costs has a bound; a value that the host reads is waited for in any case; graphs have smaller gaps;
- the sixteen of `benchmarks/pairs/third.py` were written in the same way again, when all of these were as good as they
  are now. At first sight 9 of 16 were within 6 % from recorded Kineto traces (median 3.6 %), 10 from Nsight Systems
  (3.5 %), and 7 from torch's profiler used by itself (6.6 %); the worst were 38, 110 and 81 % off. What they led to:
  threads that are fed through a queue by one that goes on, and chance told from waiting by a test; autograd's thread
  is known, and a graph takes its launches; copies that a thread issues together are waited for together; operators
  that read a value go with it; pieces are gathered as fast as ones of their size are staged; a pace that differs by
  more than three of its spreads is not believed. One trace of each was recorded again where its two times differed.

- the sixteen of `benchmarks/pairs/fourth.py` were written in the same way once more. At first sight 10 of 16 were
  within 6 % from recorded Kineto traces (median 5.0 %, worst 57 %), 7 from Nsight Systems (6.2 %, 46 %), and 10 from
  torch's profiler used by itself (5.3 %, 187 %). What they led to: a thread that hands out work waits for all that it
  gave it to; what passes between two kernels is measured in the trace; what the profiler did is gone on all threads
  that waited for it; gathering may need views of the pieces. The worst was a graph of all launches where the mended
  program captures a part, which the faulty one names with a range since then;
- the seven of `benchmarks/pairs/two_gpus.py` are the first that use two GPUs, written by another who had not seen the
  replay. At first sight 1 of 7 was within 6 % from recorded Kineto traces (median 14.5 %, worst 37 %), 1 from Nsight
  Systems, and 3 from torch's profiler by itself: waits of one device for another were not in the replay, and a copy
  from one to the other on a stream of its own did not wait for what made its data. An eighth crashed in CUDA and was
  taken out.

All before `fourth.py` were timed and recorded again since, and recordings know more: the operators of all threads, what
a copy's call takes, how much slower copies of both directions at once are, when the host reads what came to it, what it
takes to gather pieces that are in the caches or in none.

## From recorded Kineto traces

`overlapscope record` puts a calibration into them, so the predictions are for the program without the profiler, at
the pace at which it worked then; and says which operators were given what a copy brings, so that only these wait for
it where it moves to a stream of its own or the host waits for it no more. The calibration tells what the profiler
spends for a call, and the trace what it spends for an operator; by how much both are off, and how fast the host was, is
found together, as what most likely makes the replay as long as the steps were without the profiler.

"""
NSYS = """
## From Nsight Systems traces

A program that uses `overlapscope.record` tells Nsight Systems its calibration, as the workloads and the programs since
`unseen.py` do; those of `blind.py` that were not made again do not: copies are predicted at what the GPU's usual link
reaches, and what the profiler adds to the host's work stays in. Nsight Systems slows a program before it records, too,
and that is in all of them.

"""
PLAIN = """
## From torch's profiler by itself

One step in `torch.profiler.profile()`, as it comes: no calibration and no warm-up under the profiler. What the
profiler recorded of its own affairs is taken out, and for each event twice what the quickest operators take around the
operators in them, most of which is the profiler's: that is the least that an event cost, and calls cost more.

"""
TAIL = """
## Where they miss, and why

From recorded traces:

- `list-*`, `tensordict-*`, `coalesced`, `detected_crops`: hundreds of small copies, each staged on the host in one
  program and only issued, or gathered, in the other; which of them a slow processor slows more differs from second to
  second: `coalesced` took 4.0 to 7.2 ms in ten processes. What is gathered may be in the caches, as is predicted, or
  not, and it may have to be made views of, as in `coalesced`, or not, as in `small_copies`: the higher bound has both,
  and most of what was predicted too short came within it. `two_towers` did not: what it gathers are matrices, its
  mended program took 15.9 and 19.2 ms in two processes, and neither's two times agreed.
- `moe_prefetch` from pageable memory, `concurrent-pageable`, `graph_sampling`, `video_upscaling`: the host is slower
  for a while after it staged a large copy, because its caches have lost what they had of the program. Predictions of
  pinned copies keep it as slow as it was in the trace.
- `activation_offload`: the GPU's clock seems to be lower where it never pauses; kernels took 5 % longer in traces of
  the mended program, beside copies or not.
- `scene_tiles`: what the host writes to buffers that are new each time in the faulty program, and old in the mended
  one, which took 16 to 19 ms in four processes.
- `lora_finetuning`, `tabular_training`: the host was slower, or faster, in one half of the process than in the other:
  the mended `lora_finetuning` took 61 and 77 ms in two processes of one hour, the faulty one 74 in both.
- `molecule_batches`: without reads of values it won more than the reads took in the trace; why, is not known.
- `streamed_vocoder`: the mended program does its work on the host after all that of the GPU, which is no change that
  can be named: without `no-host-read` the prediction waits for each copy, with it the host works beside the GPU.
- `pipeline_stages`: matrix products take longer beside copies to another GPU than alone.
- `loss_each_batch`, `layer_metrics`: what is left is bound by the host; the mended programs took 10.8 to 11.7 and 8.6
  to 13.5 ms in four processes each. Without a profiler, the host's own work took 9.1 ms a step in the faulty
  `loss_each_batch` and 7.7 in the mended one, where it waits a third as long: when it had waited for a millisecond or
  more, it was up to a tenth slower for the next one, whether it had waited for the GPU or not. That is not modelled.

From other traces also:

- `producer_thread`, and under Nsight Systems `concurrent-one-stream`: kernels and copies share a stream, and a kernel
  does not read the copy before it. The prediction keeps the kernel waiting; the lower bound that comes with it does
  not, and is within 20 % of what came.
- Nsight Systems traces were made by other processes than those that the times are from, some on other days and
  machines: `layer_metrics`, `distillation`, `clustering`, `multi_agent_replay`, `scene_tiles`, `speech_chunks`,
  `embedding_rows`, `lora_finetuning`, `molecule_batches`, `coupled_models`, `vision_transformer`. A recording knows how
  fast its host was.
- `list-*`, `tensordict-*`, `coalesced`, `moe_prefetch`, `diffusion_sampling`, `layer_metrics`, `loss_each_batch`,
  `audio_features`, `lora_requests`, `speech_chunks`, `clustering`, `paged_serving`, `lora_finetuning`,
  `speech_training`, `speculative_decoding`, `coupled_models`, `two_towers`: hundreds or thousands of small calls, of
  which a profiler makes two to three times as much as they are. Without a calibration that is only estimated, and
  under Nsight Systems, which slows a program before it records too, nothing is known that can be relied on.
  (Recording calls and device work first, without operators, costs 3 to 5 us a call by itself; predictions from that
  were no better.)
- `kv_offload`: its copies are pinned in the prediction, at the usual speed of the link.
- `embedding_rows`, `evaluation_results`, `dataloader_train`, `video_upscaling`, `point_clouds`, `growing_history`,
  `gradient_offload`, `rollout`, `scene_tiles`, `parameter_server`, `tabular_training`, `video_grading`,
  `lattice_fluid`, `radar_bursts`, `policy_epochs`, `vision_transformer`, `replicas`, `distillation`: host or pageable
  copies were slower, or faster, in the one step recorded than they usually are. A recording knows what is usual.
- `to`, `concurrent-pageable`, `moe_prefetch` under Nsight Systems: the host after it was held, which is slower for
  longer there.
- `rollout` under Nsight Systems: without operators it is not seen that `.cpu()` brings the actions, which are read at
  once; the higher bound is 7 % off.
- `detected_crops`, `multi_agent_replay`: gathering is only as long as staging such pieces was.

A replay with nothing changed gives the trace back exactly, because the graph is made so; that says nothing of the
model. What the model is worth shows in the column *unchanged* (without the profiler, against *before*), and
in the predictions. Threads that have nothing to do with each other are often taken for ones that take turns, where they
make calls at random moments: then what one wins, the other seems to win too. With three GPUs or more, a wait for an
event of another one is only known where the number of its stream is that of no other. Bounds are given for the order of
work, for what the host may read at once and for what gathering takes, not for other speeds.
"""


def text() -> str:
    tables = [_section(TABLES[name]()) for name in ("recorded", "nsys", "plain")]
    return "".join(part for pair in zip((HEAD, NSYS, PLAIN), tables, strict=True) for part in pair) + TAIL


def _section(rows: list[Outcome]) -> str:
    return "\n".join(table(rows)) + "\n\n" + summary(rows) + ".\n"


def main() -> None:
    if "--check" in sys.argv:
        if not TARGET.exists() or TARGET.read_text() != text():
            sys.exit("docs/predictions.md is out of date: run python docs/make_predictions.py")
        return
    TARGET.write_text(text())


if __name__ == "__main__":
    main()
