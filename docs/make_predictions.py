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

For each pair the faulty program's trace is replayed with the changes named, and compared with the time that the really
mended program takes without a profiler. *Before* is the faulty program's own such time,
*unchanged* what a replay with nothing changed gives for it. Durations, gaps and speeds come
from the trace or its calibration; what passes between two nodes of a CUDA graph was measured on the H200 that made
these traces. *Low to high* is given where a trace leaves the order of work open.

**How blind this is.** Faults that the pairs showed were mended, so the figures are not blind, but these were:

- of the first seven programs of `benchmarks/pairs`, three were within 6 % at first sight, six are within 8 % now;
- the fourteen of `benchmarks/pairs/blind.py` were written by somebody who had not seen the replay. At first sight 8 of
  14 were within 6 % from recorded Kineto traces (median 4.4 %), 7 from Nsight Systems, and 1 (median 29 %) from torch's
  profiler used by itself: its first step begins with milliseconds in which the profiler gets its buffers. It records
  them, and they are taken out now.

## From recorded Kineto traces

`overlapscope record` puts a calibration into them, so the predictions are for the program without the profiler.

"""
NSYS = """
## From Nsight Systems traces

These know neither the profiler's cost nor this machine's bandwidth: copies are predicted at what the GPU's usual link
reaches, and what the profiler adds to the host's work stays in. (A program that uses `overlapscope.record` tells Nsight
Systems its calibration as well; these samples are older than that.)

"""
PLAIN = """
## From torch's profiler by itself

One step in `torch.profiler.profile()`, as it comes: no calibration and no warm-up under the profiler. What the profiler
recorded of its own affairs is taken out; what each event cost is not known, and stays in.

"""
TAIL = """
## Where they miss, and why

- `concurrent-one-stream`, `producer_thread`: kernels and copies share a stream, and a kernel does not read the copy
  before it, which a trace does not show. The prediction keeps it waiting; the lower bound that comes with it does not,
  and is right.
- `list-*`, `tensordict-*`, `layer_metrics`: hundreds of small calls, of which the profiler makes two to three times as
  much as they are. A calibration takes most of it out; what a copy call costs once its memory is pinned is not in the
  faulty trace. Without one, nothing of it is taken out.
- `coalesced`, `small_copies`: gathering on the host is predicted at the speed of staging; of many small tensors it is
  slower, so these are predicted too short. Recordings made today measure it (`ragged_tokens`).
- `moe_prefetch-pageable` to `pinned` and to `ahead`: the host's own work after a hundred held calls counts, and a
  host that was held works slower for a while; `ahead` also does less on the host than the faulty program.
- `moe_prefetch-pinned`: its calibration was measured in a slow moment of the machine (steps took longer without the
  profiler than with it).
- `concurrent-pageable`: the host works for 0.2 ms after each held call, and for 0.03 where it is not held.
- `gradient_offload`: the host computes with what was copied. From staging it found that in its caches; where the device
  wrote it to pinned memory, it does not.
- `evaluation_results`: the recorded step was 10 % faster than those timed before it; the host's arithmetic scatters.

A replay with nothing changed gives the trace back exactly, because the graph is made so; that says nothing of the
model. What the model is worth shows in the column *unchanged* (without the profiler, against *before*), and
in the predictions. Bounds are given for the order of work only, not for speeds.
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
