"""``overlapscope record``: run an unmodified script and record what it does on the GPU."""

from __future__ import annotations

import atexit
import os
import sys
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from overlapscope.cli.messages import ExitCode, complain, say
from overlapscope.errors import CaptureError, OverlapscopeError

SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}


def record_command(  # noqa: PLR0913, PLR0917 - one parameter per option
    script: Annotated[list[str], typer.Argument(metavar="SCRIPT [ARG]...", help="What to run, and its arguments.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The trace to write; {rank} stands for the process's rank.")
    ] = None,
    module: Annotated[bool, typer.Option("--module", "-m", help="SCRIPT names a module, as in python -m.")] = False,
    delay: Annotated[float, typer.Option(min=0, help="Start after so many seconds.")] = 0.0,
    duration: Annotated[float | None, typer.Option(min=0.001, help="Record for so many seconds.")] = None,
    range_name: Annotated[
        str | None,
        typer.Option(
            "--range", help="Record occurrences of this range of the main thread: annotate, record_function or NVTX."
        ),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="With --range: number of occurrences to record.")] = 1,
    warmup: Annotated[int, typer.Option(min=0, help="With --range: number to skip before measuring.")] = 1,
    unprofiled: Annotated[int, typer.Option(min=0, help="With --range: number to time without profiler.")] = 0,
    stacks: Annotated[
        bool, typer.Option(help="Record Python call stacks: findings name source lines; larger and slower.")
    ] = False,
    device: Annotated[str, typer.Option(help="cuda, or cpu to record a program without a GPU.")] = "cuda",
    calibrate: Annotated[bool, typer.Option(help="Measure the link and the host first.")] = True,
) -> None:
    """Run SCRIPT as python would and record it into a Kineto trace.

    Options of this command go before SCRIPT, those of the script after it. Without --output the trace is named after
    SCRIPT, with the rank where a launcher such as torchrun sets one. The exit status is that of the script, or 2 when
    nothing was recorded. The GPUs are queried before the script runs, so set CUDA_VISIBLE_DEVICES outside of it.
    Processes that the script starts are not recorded.
    """
    from overlapscope.capture.recorder import record
    from overlapscope.capture.runner import Times, recording_by_range, recording_by_time, run_script

    try:
        recording = record(
            target(output, script[0].rpartition(".")[2] if module else script[0], os.environ.get("RANK", "")),
            steps=None if range_name is None else steps,
            warmup=warmup,
            unprofiled=unprofiled,
            stacks=stacks,
            device=device,
            calibrate=calibrate,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    times, process, status = Times(delay, duration), os.getpid(), 1
    try:
        if range_name is not None and times != Times():
            raise CaptureError("--range selects what is recorded by name: leave --delay and --duration out")
        if not (_is_module(script[0]) if module else Path(script[0]).is_file()):
            raise CaptureError(f"{script[0]}: no such {'module' if module else 'script'}")
        recording.check()
        timed = range_name is None
        chosen = recording_by_time(recording, times, say) if timed else recording_by_range(recording, range_name or "")
        with chosen:
            status = run_script(script, module=module)
    except OverlapscopeError as error:
        complain(error)
        raise typer.Exit(ExitCode.UNUSABLE) from error
    finally:
        if os.getpid() != process:
            _leave_fork(status)
        if recording.saved:
            say(f"recorded to {recording.path}; analyse it with: overlapscope audit {recording.path}")
    raise typer.Exit(status)


def _leave_fork(status: int) -> NoReturn:
    """Exit from a process that the script forked, when it reaches the end of the script.

    This is what Python does, but without shutting down a profiler whose threads exist only in the parent.
    """
    if (error := sys.exception()) is not None:
        traceback.print_exception(error)
    atexit._run_exitfuncs()  # noqa: SLF001
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _is_module(name: str) -> bool:
    sys.path.insert(0, "")  # as python -m has it
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False
    finally:
        sys.path.remove("")


def target(output: Path | None, script: str, rank: str) -> Path:
    """The path of the trace; every rank of a distributed run needs a file of its own."""
    if output is not None:
        return Path(str(output).replace("{rank}", rank or "0"))
    return Path(f"{Path(script).stem}{'.rank' + rank if rank else ''}.json.gz")
