"""How a program is recorded before and after it was mended: one process for both, so that they have the same host.

    python -m benchmarks.pairs.programs NAME FOLDER               # NAME-faulty.json.gz and NAME-mended.json.gz
    python -m benchmarks.pairs.programs NAME --plain OUT.json     # the faulty one, as torch's profiler does by itself
    nsys profile -c cudaProfilerApi python -m benchmarks.pairs.programs NAME --bracket    # the faulty one
    python -m benchmarks.pairs.programs --list

``blind`` and ``unseen`` have the same commands. The traces beside this file are scrubbed.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable
from pathlib import Path

import torch

from overlapscope import annotate, record

Step = Callable[[], None]
Programs = dict[str, Callable[..., Step]]


def both(name: str, program: Callable[..., Step], folder: Path) -> None:
    """Record the faulty program, then the mended one, each with its calibration and its time without a profiler."""
    for variant in ("faulty", "mended"):
        torch.manual_seed(0)
        step = program(mended=variant == "mended")
        torch.cuda.synchronize()
        with record(folder / f"{name}-{variant}.json.gz", steps=1, warmup=3, unprofiled=15) as recording:
            recording.run(_annotated(step))
        del step
        gc.collect()
        torch.cuda.empty_cache()


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


def main(programs: Programs, doc: str) -> None:
    """The command line of a set of programs."""
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("name", nargs="?", choices=programs, metavar="NAME")
    parser.add_argument("folder", nargs="?", type=Path, help="record both variants into it")
    parser.add_argument("--plain", metavar="OUT.json", help="profile the faulty one with torch.profiler alone")
    parser.add_argument("--bracket", action="store_true", help="bracket the faulty one for nsys")
    parser.add_argument("--bare", action="store_true", help="with --bracket: without a calibration")
    parser.add_argument("--list", action="store_true", help="list the names and end")
    options = parser.parse_args()
    if options.list:
        print("\n".join(programs))
        return
    if options.name is None or (options.folder is None) == (options.plain is None and not options.bracket):
        parser.error("a NAME, and one of a folder, --plain and --bracket")
    program = programs[options.name]
    if options.folder is not None:
        both(options.name, program, options.folder)
        return
    torch.manual_seed(0)
    step = program(mended=False)
    if options.bracket:
        bracketed(step, bare=options.bare)
    else:
        plainly_profiled(step, options.plain)


def _annotated(step: Step) -> Step:
    def annotated() -> None:
        with annotate("step"):
            step()

    return annotated


def _warm_up(step: Step) -> None:
    for _ in range(3):
        step()
    torch.cuda.synchronize()
