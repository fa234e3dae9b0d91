"""Write docs/predictions.md: its text, and the tables that benchmarks/prediction.py makes.

python docs/make_predictions.py [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.prediction import of_programs, outcomes, summary, table

TARGET = Path(__file__).with_name("predictions.md")
HEAD = """# How good predictions are

Made by `docs/make_predictions.py` from the sample traces and those of `benchmarks/pairs`; do not edit.

For each pair the faulty program's trace is replayed with the changes named, and compared with the time that the really
mended program takes without a profiler (`sample_traces/truth.json`). *Before* is the faulty program's own such time.
Durations, gaps and speeds come from the trace or its calibration; what passes between two nodes of a CUDA graph was
measured on the H200 that made these traces. Faults that the pairs showed were mended, so the figures are not blind: of
the seven programs of `benchmarks/pairs`, three were within 6 % at first sight, six are within 8 % now.

## From Kineto traces

These carry a calibration, so the predictions are for the program without the profiler.

"""
MIDDLE = """
## From Nsight Systems traces

These know neither the profiler's cost nor this machine's bandwidth: copies are predicted at what the GPU's usual link
reaches, and what the profiler adds to the host's work stays in.

"""
TAIL = """
## Where they miss, and why

- `concurrent-one-stream`: its kernels read none of the copies, which a trace does not show. The prediction keeps
  them waiting; the lower bound that comes with it does not, and is right.
- `list-*`, `tensordict-*`: hundreds of small calls, of which the profiler makes two to three times as much as they are.
  The calibration takes most of it out; what a copy call costs once its memory is pinned is not in the faulty trace.
  From Nsight Systems nothing of it is taken out.
- `coalesced`, `small_copies`: gathering on the host is predicted at the speed of staging; of many small tensors it is
  slower, so these are predicted too short. (For the guide's tensors, pinned already, coalescing loses a little.)
- `moe_prefetch-pageable` to `pinned` and to `ahead`: the host's own work after a hundred held calls counts, and a
  host that was held works slower for a while; `ahead` also does less on the host than the faulty program.
- `moe_prefetch-pinned`: its calibration was measured in a slow moment of the machine (steps took longer without the
  profiler than with it).
- `concurrent-pageable`: the host works for 0.2 ms after each held call, and for 0.03 where it is not held.

A replay with nothing changed gives the trace back exactly, because the graph is made so; that says nothing of the
model. What the model is worth shows in the column *replayed unchanged* (without the profiler, against *before*), and
in the predictions. Bounds are given for the order of work only, not for speeds.
"""


def text() -> str:
    kineto, nsys = [*outcomes("json.gz"), *of_programs()], list(outcomes("sqlite.gz"))
    parts = [HEAD, *_section(kineto), MIDDLE, *_section(nsys), TAIL]
    return "".join(parts)


def _section(rows: list) -> list[str]:  # type: ignore[type-arg]
    return ["\n".join(table(rows)), "\n\n", summary(rows), ".\n"]


def main() -> None:
    if "--check" in sys.argv:
        if not TARGET.exists() or TARGET.read_text() != text():
            sys.exit("docs/predictions.md is out of date: run python docs/make_predictions.py")
        return
    TARGET.write_text(text())


if __name__ == "__main__":
    main()
