"""How a program is timed before and after it was fixed, and recorded before.

    python -m benchmarks.pairs.programs NAME OUT.json.gz [--steps N]
    python -m benchmarks.pairs.programs NAME OUT.json.gz --plain OUT.json    # and as torch's profiler does by itself
    nsys profile -c cudaProfilerApi python -m benchmarks.pairs.programs NAME --bracket
    python -m benchmarks.pairs.programs --list

The other sets have the same commands. The first times the faulty and the fixed program in turns, in one
process, since processors are faster in one second than in the next; adds the medians to ``truth.json`` beside OUT; and
then records the faulty one. The traces beside this file are scrubbed, and have three steps, but for the programs that
the benchmark prefetches for: the replay does so from step to step, where the fixed programs begin anew.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from overlapscope import annotate, record
from overlapscope.workloads.harness import in_turns_ns

Step = Callable[[], None]
Program = Callable[..., Step]

TURNS = 15


def timed(faulty: Step, fixed: Step) -> dict[str, float]:
    """What a step takes without a profiler before and after, in ms: medians of steps that take turns."""
    walls = in_turns_ns([_with_its_work(faulty), _with_its_work(fixed)], TURNS, warmup=3)
    before, after = (round(statistics.median(each) / 1e6, 3) for each in walls)
    return {"before_ms": before, "after_ms": after}


def recorded(step: Step, path: Path, steps: int) -> None:
    """Some steps with their calibration and their time without a profiler."""
    with record(path, steps=steps, warmup=3, unprofiled=TURNS) as recording:
        recording.run(_annotated(step))


def bracketed(step: Step, *, bare: bool) -> None:
    """One step for Nsight Systems: with its calibration, or ``bare`` as a program that does not know of us."""
    if not bare:
        with record(None, steps=1, warmup=3, unprofiled=TURNS) as recording:
            recording.run(_annotated(step))
        return
    _warm_up(step)
    torch.cuda.cudart().cudaProfilerStart()
    with torch.cuda.nvtx.range("step"):
        step()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


def plainly_profiled(step: Step, path: Path) -> None:
    """One step with torch's profiler as it comes."""
    _warm_up(step)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        with torch.profiler.record_function("step"):
            step()
        torch.cuda.synchronize()
    profiler.export_chrome_trace(str(path))


def main(those: Sequence[Program], doc: str) -> None:
    """The command line of a set of programs."""
    programs = {program.__name__: program for program in those}
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("name", nargs="?", choices=programs, metavar="NAME")
    parser.add_argument("path", nargs="?", type=Path, metavar="OUT", help="the trace to write")
    parser.add_argument("--steps", type=int, default=1, help="how many to record")
    parser.add_argument("--plain", type=Path, metavar="OUT", help="then profile a step with torch.profiler alone")
    parser.add_argument("--bracket", action="store_true", help="bracket it for nsys")
    parser.add_argument("--bare", action="store_true", help="with --bracket: without a calibration")
    parser.add_argument("--list", action="store_true", help="list the names and end")
    options = parser.parse_args()
    if options.list:
        print("\n".join(programs))
        return
    if options.name is None or (options.path is None) != options.bracket:
        parser.error("NAME, and either OUT or --bracket")
    faulty = _made(programs[options.name], fixed=False)
    if options.bracket:
        bracketed(faulty, bare=options.bare)
        return
    _add_truth(options.path.with_name("truth.json"), options.name, timed(faulty, _made(programs[options.name])))
    recorded(faulty, options.path, options.steps)
    if options.plain:
        plainly_profiled(faulty, options.plain)


def _made(program: Program, *, fixed: bool = True) -> Step:
    torch.manual_seed(0)
    step = program(fixed=fixed)
    torch.cuda.synchronize()
    return step


def _add_truth(path: Path, name: str, truth: dict[str, float]) -> None:
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(known | {name: truth}, indent=1, sort_keys=True) + "\n")


def _with_its_work(step: Step) -> Step:
    def until_done() -> None:
        step()
        torch.cuda.synchronize()

    return until_done


def _annotated(step: Step) -> Step:
    def annotated() -> None:
        with annotate("step"):
            step()

    return annotated


def _warm_up(step: Step) -> None:
    for _ in range(3):
        step()
    torch.cuda.synchronize()
