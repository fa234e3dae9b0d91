"""How a program is recorded before and after it was mended.

    python -m benchmarks.pairs.programs NAME faulty|mended OUT.json.gz
    python -m benchmarks.pairs.programs NAME faulty --plain OUT.json      # as torch's profiler does by itself
    nsys profile -c cudaProfilerApi python -m benchmarks.pairs.programs NAME faulty --bracket
    python -m benchmarks.pairs.programs --list

``blind`` and ``unseen`` have the same commands. Each variant has a process of its own, since CUDA calls stay slower in
one in which torch's profiler has recorded. The traces beside this file are scrubbed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import torch

from overlapscope import annotate, record

Step = Callable[[], None]
Program = Callable[..., Step]


def recorded(step: Step, path: str) -> None:
    """One step with its calibration and its time without a profiler."""
    with record(path, steps=1, warmup=3, unprofiled=15) as recording:
        recording.run(_annotated(step))


def bracketed(step: Step, *, bare: bool) -> None:
    """One step for Nsight Systems: with its calibration, or ``bare`` as a program that does not know of us."""
    if not bare:
        with record(None, steps=1, warmup=3, unprofiled=3) as recording:
            recording.run(_annotated(step))
        return
    _warm_up(step)
    torch.cuda.cudart().cudaProfilerStart()
    with torch.cuda.nvtx.range("step"):
        step()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


def plainly_profiled(step: Step, path: str) -> None:
    """One step with torch's profiler as it comes."""
    _warm_up(step)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        with torch.profiler.record_function("step"):
            step()
        torch.cuda.synchronize()
    profiler.export_chrome_trace(path)


def main(those: Sequence[Program], doc: str) -> None:
    """The command line of a set of programs."""
    programs = {program.__name__: program for program in those}
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("name", nargs="?", choices=programs, metavar="NAME")
    parser.add_argument("variant", nargs="?", choices=("faulty", "mended"))
    parser.add_argument("path", nargs="?", metavar="OUT.json.gz", help="record it into this trace")
    parser.add_argument("--plain", metavar="OUT.json", help="profile it with torch.profiler alone")
    parser.add_argument("--bracket", action="store_true", help="bracket it for nsys")
    parser.add_argument("--bare", action="store_true", help="with --bracket: without a calibration")
    parser.add_argument("--list", action="store_true", help="list the names and end")
    options = parser.parse_args()
    if options.list:
        print("\n".join(programs))
        return
    ways = (options.path is not None, options.plain is not None, options.bracket)
    if options.variant is None or sum(ways) != 1:
        parser.error("NAME, faulty or mended, and one of OUT.json.gz, --plain and --bracket")
    torch.manual_seed(0)
    step = programs[options.name](mended=options.variant == "mended")
    torch.cuda.synchronize()
    if options.bracket:
        bracketed(step, bare=options.bare)
    elif options.plain is not None:
        plainly_profiled(step, options.plain)
    else:
        recorded(step, options.path)


def _annotated(step: Step) -> Step:
    def annotated() -> None:
        with annotate("step"):
            step()

    return annotated


def _warm_up(step: Step) -> None:
    for _ in range(3):
        step()
    torch.cuda.synchronize()
