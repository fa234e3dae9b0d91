"""Write docs/predictions.md: its text, and tables of benchmarks/predictions.json.

python docs/make_predictions.py [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.outcomes import FILE, WITHIN, Outcome, Outcomes, Summary

TARGET = Path(__file__).with_name("predictions.md")
TRACES = {"recorded": "Kineto, recorded", "nsys": "Nsight Systems", "plain": "Kineto, plain"}
GROUPS = {
    "workloads": "workloads",
    "programs": "`programs.py`",
    "blind": "`blind.py`",
    "unseen": "`unseen.py`",
    "third": "`third.py`",
    "fourth": "`fourth.py`",
    "two_gpus": "`two_gpus.py`",
}
FIRST_SIGHT = {
    ("programs", "recorded"): "3",
    ("blind", "recorded"): "8 (4.4 %)",
    ("blind", "nsys"): "7",
    ("blind", "plain"): "1 (29 %)",
    ("unseen", "recorded"): "10 (3.4 %)",
    ("unseen", "nsys"): "7 (5.9 %)",
    ("unseen", "plain"): "4 (8.0 %)",
    ("third", "recorded"): "9 (3.6 %)",
    ("third", "nsys"): "10 (3.5 %)",
    ("third", "plain"): "7 (6.6 %)",
    ("fourth", "recorded"): "10 (5.0 %)",
    ("fourth", "nsys"): "7 (6.2 %)",
    ("fourth", "plain"): "10 (5.3 %)",
    ("two_gpus", "recorded"): "1 (14.5 %)",
    ("two_gpus", "nsys"): "1",
    ("two_gpus", "plain"): "3",
}
"""How many were within 6 % when a set was predicted for the first time, and the median error where it was noted."""
WORST = {"recorded": 8, "nsys": 5, "plain": 5}
HEAD = """# How good predictions are

Made by `docs/make_predictions.py` from `benchmarks/predictions.json`, which was written on {written} from the sample
traces and the recordings of commit {recordings}; do not edit.
`benchmarks/README.md` says how to get all recordings, and a row for each.

From the trace of a faulty program, `what-if` predicts what the program takes once it is fixed. {count} pairs of
programs, faulty and really fixed, show how near that is. The workloads are those of `sample_traces`; the other sets are
modules of `benchmarks/pairs`. All ran on H200s.

- **Recorded** traces are made by `overlapscope record`: with a calibration, with the step's time without the profiler,
  and with the operators that use each copy. **Plain** traces are one step in `torch.profiler.profile()`. Most
  **Nsight Systems** traces carry the calibration.
- **Error** is against the time of the fixed program without a profiler, from `truth.json`.
- **Simulated** is the faulty program with nothing changed and without the profiler's cost, against its own time, at the
  median. Only a trace with a calibration knows that cost. The host speed factor of a recorded trace is fitted to the
  time that its process took just before, so its simulated time cannot be nearer than two such times are.

"""
USE = """
**Use a recorded trace.** From one, expect a few per cent; from another, take the prediction for the order of the fixes
and the rough size of the gain. Low and high are given where the trace leaves open in which order work may run, whether
the host reads a result at once, or what packing costs. They do not cover slower or faster hosts.

## What noise there is

The processors of these machines are shared. Work of the host and pageable copies are 10 to 20 % slower in one second
than in the next, now and then by half or twice. So each faulty program was timed with the fixed one, in turns of five
passes in one process, which then timed the faulty one once more and recorded it. (The variants of `gemm_copy` had
processes of their own.) Where the two times of the faulty program were more than a few per cent apart, it was recorded
again, up to three times. Of the recordings with times within 10 % the quickest is used, else the one with the nearest
times, whatever was predicted from it. The Nsight Systems traces were made by other processes than the times, some on
other days and machines.

No prediction can be nearer than two measurements of one program are to each other: {timed} at the median for the
recordings used. Over the last 285 recordings they were 4 % apart at the median, and 16 % or more in every tenth. Of 62
pairs that were recorded more than once, the fixed program was once 6 % or more from its own median in 26.

## How blind this is

Faults of the simulation that a set showed were fixed afterwards, so today's figures are not blind. The last column of
the table is: it counts the pairs within {within} when a set was predicted for the first time, with the median error
in parentheses. Expect of a program of your own what that column says. The sets from `blind.py` on were written by
authors who had not seen the simulation; the workloads and `programs.py` were not. At first sight the worst from a
recorded trace was 38 % off in `third.py`, 57 % in `fourth.py` and 37 % in `two_gpus.py`. All sets before `fourth.py`
were timed and recorded again since then. An eighth program for two GPUs crashed in CUDA and was taken out.

## The worst

"""
TAIL = """
## What is known to be off

From any trace:

- **Many small copies.** Hundreds of pieces are staged in the faulty program, and packed or only issued in the fixed
  one; how fast depends on the caches and on the second. `coalesced` took 4.0 to 7.2 ms in ten processes. High covers
  pieces in no cache; matrices, as in `two_towers`, may take longer still.
- **Host-bound programs.** What is left after the fix is bound by the host, which is up to a tenth slower after it
  waited for a millisecond or more, and differs from process to process: the fixed `layer_metrics` took 8.6 to 13.5 ms
  in four, the fixed `lora_finetuning` 61 and 77 ms in two. That is not simulated.
- **Slower kernels.** A GPU that never pauses lowers its clock (`activation_offload`: 5 %); matrix products are slower
  beside copies to another GPU (`pipeline_stages`).
- **New memory.** What the host writes to buffers that are new each time is slower than to old ones (`scene_tiles`).
- **Work moved on the host.** A fixed program that does its host work after the GPU's is a change without a name
  (`streamed_vocoder`). Why `molecule_batches` gains more than its reads took is not known.
- **CUDA graphs.** What passes between two nodes of a graph was measured on H200s.
- **Threads.** A thread that waits for another is found by how promptly it goes on, each time. One that goes on after
  it worked by itself for a while, or whose waits are few among many pauses, is taken to be independent: then it gains
  nothing from the other (`distillation`, `producer_thread`). By chance, about one idle thread in a hundred seems to
  wait for another.
- **Three GPUs or more.** A wait for another GPU's event is known only where its stream's number is unique.

Without a calibration, or under Nsight Systems, also:

- **The profiler's cost.** It makes small calls two to three times as long. A plain trace shows a part of that; Nsight
  Systems also slows a program before it records. Programs of hundreds of small calls are far off.
- **Which kernel reads which copy** is not known. Where both share a stream the kernel is kept waiting, and low, where
  it is not, is nearer (`producer_thread`, `concurrent-one-stream`).
- **Usual speeds.** One step may have had a slow host or slow pageable copies; a calibration knows what is usual.
- **Reads by the host** (`.cpu()`) show in operators, which Nsight Systems does not record (`rollout`).
"""


def text(found: Outcomes) -> str:
    """The page."""
    recorded = [row for row in found.rows if row.traces == "recorded"]
    parts = [
        HEAD.format(written=found.written, recordings=found.recordings, count=len(recorded)),
        *(f"{line}\n" for line in _summaries(found.rows)),
        USE.format(timed=_percent(Summary.of(recorded).timed), within=_percent(WITHIN, 0)),
        *(f"{line}\n" for line in _worst(found.rows)),
        TAIL,
    ]
    return "".join(parts)


def _summaries(rows: Sequence[Outcome]) -> Iterator[str]:
    """A line for each kind of trace and each set."""
    within = _percent(WITHIN, 0)
    yield f"| traces | programs | pairs | within {within} | median error | worst | simulated | first sight |"
    yield "|---|---|---|---|---|---|---|---|"
    for traces, kind in TRACES.items():
        mine = [row for row in rows if row.traces == traces]
        yield f"| **{kind}** | **all** | {_figures(mine)} |  |"
        for group, name in GROUPS.items():
            some = [row for row in mine if row.group == group]
            if some:
                yield f"| {kind} | {name} | {_figures(some)} | {FIRST_SIGHT.get((group, traces), '')} |"


def _figures(rows: Sequence[Outcome]) -> str:
    found = Summary.of(rows)
    share = f"{found.within} | {_percent(found.median)} | {100 * found.worst.error:+.0f}\N{NO-BREAK SPACE}%"
    return f"{found.count} | {share} | {_percent(found.simulated)}"


def _worst(rows: Sequence[Outcome]) -> Iterator[str]:
    """Some of each kind of trace."""
    yield "| traces | program | changes | error | predicted, ms | low to high | fixed, ms | faulty, ms |"
    yield "|---|---|---|---|---|---|---|---|"
    for traces, kind in TRACES.items():
        mine = (row for row in rows if row.traces == traces)
        for row in sorted(mine, key=lambda row: -abs(row.error))[: WORST[traces]]:
            bounds = f"{row.low_ms:.1f} to {row.high_ms:.1f}" if row.low_ms < row.high_ms else ""
            error = f"{100 * row.error:+.0f}\N{NO-BREAK SPACE}%"
            times = f"{row.predicted_ms:.1f} | {bounds} | {row.after_ms:.1f} | {row.before_ms:.1f}"
            yield f"| {kind} | {row.label} | {', '.join(row.changes)} | {error} | {times} |"


def _percent(share: float | None, digits: int = 1) -> str:
    return "" if share is None else f"{100 * share:.{digits}f}\N{NO-BREAK SPACE}%"


def main() -> None:
    page = text(Outcomes.from_json(FILE.read_text()))
    if "--check" in sys.argv:
        if not TARGET.exists() or TARGET.read_text() != page:
            sys.exit("docs/predictions.md is out of date: run python docs/make_predictions.py")
        return
    TARGET.write_text(page)


if __name__ == "__main__":
    main()
