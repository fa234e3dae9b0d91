"""Write docs/predictions.md: its text, and tables of benchmarks/predictions.json.

python docs/make_predictions.py [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.held_out import FILE as HELD_OUT
from benchmarks.outcomes import FILE, WITHIN, Coverage, Outcome, Outcomes, Summary
from overlapscope.whatif.interval import WIDE
from overlapscope.whatif.profiler import CALL_NS, OPERATOR_NS
from overlapscope.whatif.sources import BESIDE_COPIES, DEVICE_SCATTER, FREE_PAGE_NS, HOST_SCATTER, LINK_SCATTER

NARROW = "\N{NO-BREAK SPACE}%"
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
COVERED = (
    ("known", "recorded"),
    ("known", "nsys"),
    ("known", "plain"),
    ("held_out", "recorded"),
    ("held_out", "plain"),
    ("wild", "recorded"),
)
NAMED = {"known": "all above", "held_out": "unseen programs", "wild": "libraries"}
WHY = {
    "generate_stop_check": "the fix removes one of two reads, `no-scalar-sync` both",
    "torchmetrics_validation": "the fix removes no read",
    "timm_prefetch_loader": "the first batch of a loader that pins comes later than its pinning takes",
    "accelerate_loader": "2 ms beside it; the loop as it is is simulated 7 % too short",
    "bert_classifier": "the faulty program took 74 ms beside the fixed one, and 59 ms right before it was recorded",
}
"""What is known of intervals of unseen pairs that do not hold the time."""
REASONS = {
    "order": (
        "the order of moved copies and who reads them; waits for streams that the trace does not name",
        "simulated with the least and the most order; a wait that Kineto leaves open, as it does from CUDA 12.9 on, "
        "may be for every other stream",
    ),
    "fix": (
        "what else the fix changes",
        "`pin`: copies to the host simulated as asynchronous too, pages of memory that need not be freed any more "
        "({free_page_ns:.0f} ns each), and, for batches of a DataLoader, as long for pinning as staging took",
    ),
    "profiler": (
        "what the profiler cost",
        "where steps were timed, what they leave unexplained; where only issuing was, half as much more or less; else "
        "from nothing to {operator_ns:.0f} ns an operator and {call_ns:.0f} ns a call, the most in recordings that "
        "tell; Nsight Systems slows timed steps too, so these bound the time from above only",
    ),
    "contention": ("kernels that run beside copies by the change", "{beside:.0%} of the time that they do"),
    "size": ("sizes of copies that the trace does not have", "`pin`: simulated with copies as short as tiny ones"),
    "host": ("the pace of the host from run to run", "{host:.0%} of the host's part of the critical path"),
    "link": ("the spread of the link", "how pinned copies of one size differ in the trace, at least {link:.0%}"),
    "device": ("the pace of the GPU", "{device:.0%} of its part of the critical path"),
}
SHARES = {
    "host": HOST_SCATTER,
    "link": LINK_SCATTER,
    "device": DEVICE_SCATTER,
    "beside": BESIDE_COPIES,
    "free_page_ns": FREE_PAGE_NS,
    "operator_ns": OPERATOR_NS,
    "call_ns": CALL_NS,
}
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
and the rough size of the gain.

## What the interval means

Every prediction has an interval, *112 to 121 ms, most likely 115*, on both bases: under the profiler, as recorded, and
without it. The time of the fixed program is expected in it nine times of ten. It is as wide as what the trace leaves
open; `uncertainty` in the JSON of `what-if` says which reason adds how much:

{reasons}

The last three vary by chance: they add in quadrature. What the others add is added up. The interval does not go below
what keeps the busiest engine of the GPU busy, less the pace of the GPU; and not above a slow run of the program as it
is, where the changes only take waits and work away. With nothing changed, the recorded time was measured and has no
interval. An interval wider than {wide} says which recording would narrow it.

| pairs | traces | inside | median width | wider than {wide} | with each program left out |
|---|---|---|---|---|---|
{coverage}

The spreads are measured facts of hosts and GPUs (`overlapscope/whatif/sources.py` has each with its source); none was
chosen for a pair to fit. A few of these facts come from programs of the table: what an event costs the profiler from
all recordings, `beside` from two. So the last column tests each program by the others alone: their times say by which
factor all parts have to be scaled for nine of ten of them to be inside, and that scales the parts of the one left out.
The factors are {scales}.

**Unseen programs** were written for this, as public code has them: training, validation, replay, rendering and
streaming (`held_out.json`; one H200). **Libraries** are the loops of [popular libraries](wild.md), measured on the same
day. At first sight, 11 of 14 recordings and 6 of 8 plain traces of unseen programs were inside, and 9 of 15 of the
libraries'. That showed reasons that were missing: pages that are freed, a loader that pins, kernels beside copies, what
timed steps leave unexplained, a profiler that costs next to nothing; and the pace of the host went from 16 % to {host}.
The time to free a page was measured in `fsdp2_cpu_offload`, so that this one tests it no longer. Expect of your
programs something between both figures. What is outside now:

{outside}

So the goal, nine of ten inside and a median width of 15 %, is reached for recordings of the known pairs. Programs bound
by the host are predicted to no better than a fifth, and traces without a calibration are wide where the profiler
matters: half of them wider than {wide}.

Tried, and left out, since each loses what it should hold. In 60 recordings an event cost 0.8 to 2.6 times the least
that operators of the same trace take around those in them; costs from once to 3.5 times that make plain traces a
third wide, with as many of the known pairs inside, but most likely not `char_lstm`, which the profiler hardly slowed.
The shortest gaps between calls (0.1 to 0.8 us) are no bound of what an event costs on average (1 to 5 us). How steady
the recorded steps are says nothing of the pace in the next run (rank correlation with the error: -0.2). With the
profiler's part in quadrature, 98 of 111 Nsight Systems traces are inside.

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
  in four, the fixed `lora_finetuning` 61 and 77 ms in two. That is not simulated; the interval is wide for it.
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
    recorded, within = [row for row in found.rows if row.traces == "recorded"], _percent(WITHIN, 0)
    parts = [
        HEAD.format(written=found.written, recordings=found.recordings, count=len(recorded)),
        *(f"{line}\n" for line in _summaries(found.rows)),
        USE.format(timed=_percent(Summary.of(recorded).timed), within=within, **_about_intervals(found.rows)),
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


def _about_intervals(rows: Sequence[Outcome]) -> dict[str, object]:
    """What the section about intervals says in figures."""
    unseen = Outcomes.from_json(HELD_OUT.read_text()).rows
    known = [replace(row, group="known") for row in rows]
    found = {key: Coverage.of([row for row in (*known, *unseen) if (row.group, row.traces) == key]) for key in COVERED}
    least, most = (pick(each.scales[side] for each in found.values()) for side, pick in ((0, min), (1, max)))
    return {
        "host": f"{HOST_SCATTER:.0%}".replace("%", NARROW),
        "wide": f"{WIDE:.0%}".replace("%", NARROW),
        "reasons": "\n".join(_reasons()),
        "coverage": "\n".join(_covered(*key, each) for key, each in found.items()),
        "scales": f"from {least:.2f} to {most:.2f}",
        "outside": "\n".join(_outside(row) for row in unseen if not row.inside),
    }


def _reasons() -> Iterator[str]:
    """A line for each reason."""
    yield "| reason | what is unknown | how it is found |"
    yield "|---|---|---|"
    for name, (unknown, how) in REASONS.items():
        yield f"| `{name}` | {unknown} | {how.format(**SHARES).replace('%', NARROW)} |"


def _covered(group: str, traces: str, found: Coverage) -> str:
    """A line of the table of coverage."""
    inside, left_out = (f"{number} of {found.count}" for number in (found.inside, found.left_out))
    return f"| {NAMED[group]} | {TRACES[traces]} | {inside} | {_percent(found.width, 0)} | {found.wide} | {left_out} |"


def _outside(row: Outcome) -> str:
    """An unseen pair whose time the interval does not hold."""
    times = f"{row.low_ms:.1f} to {row.high_ms:.1f} ms, took {row.after_ms:.1f}"
    return f"- `{row.program}` ({TRACES[row.traces]}): {times}: {WHY.get(row.program, 'not known why')}."


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
