"""``overlapscope record``: run an unmodified script and record what it does on the GPU."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from overlapscope.cli.messages import ExitCode, complain, refuse_to_replace, say
from overlapscope.errors import CaptureError, OverlapscopeError
from overlapscope.formatting import counted, time

if TYPE_CHECKING:
    from overlapscope.capture.recorder import record

SETTINGS = {"allow_extra_args": True, "allow_interspersed_args": False}
_AUTO = "auto"
_AUTO_STEPS = 5
_NOISY = 1.1  # unprofiled over profiled steps: from there on, more than the usual jitter
"""Steps that ``--steps auto`` records: enough to see what varies between them, in a trace that stays small."""


@dataclass(frozen=True)
class _Part:
    """What part of the script to record, as the options have it; None for what was not given."""

    range_name: str | None
    steps: str | None
    warmup: int | None
    unprofiled: int | None
    delay: float
    duration: float | None

    def __post_init__(self) -> None:
        """Raise a usage error where options contradict each other, or would have no effect."""
        timed = self.delay > 0 or self.duration is not None
        if self.auto and self.range_name is not None:
            raise typer.BadParameter("--steps auto finds the steps itself: give --range, or auto, not both")
        if timed and (self.auto or self.range_name is not None):
            raise typer.BadParameter("--delay and --duration record by time: leave --range and --steps out")
        for name in ("steps", "warmup", "unprofiled"):
            if getattr(self, name) is not None and not self.auto and self.range_name is None:
                raise typer.BadParameter(
                    f"--{name} counts steps: say what a step is with --range NAME, or use --steps auto"
                )
        if not self.auto and self.steps is not None and not (self.steps.isdecimal() and int(self.steps)):
            raise typer.BadParameter(f"--steps takes a number from 1 on, or auto, not {self.steps!r}")

    @property
    def auto(self) -> bool:
        return self.steps == _AUTO

    @property
    def count(self) -> int | None:
        """How many steps to record; None where there are none to count."""
        if self.auto:
            return _AUTO_STEPS
        return None if self.range_name is None else int(self.steps or 1)

    @property
    def from_begin(self) -> bool:
        """Whether to record before the first step is found: not where steps are to be timed without a profiler."""
        return self.auto and not self.unprofiled


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
            "--range",
            help="Record occurrences of this range of the main thread (* and ? match): annotate, record_function or "
            "NVTX, and those of torch, such as 'Optimizer.step*'.",
        ),
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(
            metavar="INTEGER|auto",
            help="With --range: number of occurrences to record, 1 without. auto: record five steps, each "
            "until the next batch of its DataLoader, or without one until its optimizer steps again.",
        ),
    ] = None,
    warmup: Annotated[int | None, typer.Option(min=0, help="Steps to skip before measuring, 1 without.")] = None,
    unprofiled: Annotated[int | None, typer.Option(min=0, help="Steps to time without profiler.")] = None,
    stacks: Annotated[
        bool, typer.Option(help="Record Python call stacks: findings name source lines; larger and slower.")
    ] = False,
    modules: Annotated[
        bool, typer.Option(help="Record calls of torch modules: findings name them as the model does.")
    ] = True,
    memory: Annotated[
        bool, typer.Option(help="Record which GPU memory is handed out again: findings say where that is too early.")
    ] = True,
    device: Annotated[str, typer.Option(help="cuda, or cpu to record a program without a GPU.")] = "cuda",
    calibrate: Annotated[bool, typer.Option(help="Measure the link and the host first.")] = True,
) -> None:
    """Run SCRIPT as python would and record it into a Kineto trace.

    Options of this command go before SCRIPT, those of the script after it. Without options that select a part, all of
    the script is recorded or, where it calls cudaProfilerStart and cudaProfilerStop through torch, what is between
    them. Without --output the trace is named after SCRIPT, with the rank where a launcher such as torchrun sets one.
    The exit status is that of the script, or 2 when nothing was recorded. The GPUs are queried before the script runs,
    so set CUDA_VISIBLE_DEVICES outside of it. Processes that the script starts are not recorded.
    """
    from overlapscope.capture.recorder import record
    from overlapscope.capture.runner import run_script

    part = _Part(range_name, steps, warmup, unprofiled, delay, duration)
    try:
        recording = record(
            target(output, script[0].rpartition(".")[2] if module else script[0], os.environ.get("RANK", "")),
            steps=None if part.from_begin else part.count,
            warmup=1 if warmup is None else warmup,
            unprofiled=unprofiled or 0,
            stacks=stacks,
            device=device,
            calibrate=calibrate,
            modules=modules,
            memory=memory,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    process, status = os.getpid(), 0
    try:
        if not (_is_module(script[0]) if module else Path(script[0]).is_file()):
            raise CaptureError(f"{script[0]}: no such {'module' if module else 'script'}")
        if not module:
            refuse_to_replace(Path(script[0]), recording.path, what="the script")
        recording.check()
        with recording.watching(), _recording(recording, part):
            status = run_script(script, module=module)
    except OverlapscopeError as error:
        complain(error)
        raise typer.Exit(status or ExitCode.UNUSABLE) from error
    finally:
        if os.getpid() != process:
            _leave_fork(status)
        if recording.saved:
            _say_recorded(recording, part, status)
    raise typer.Exit(status)


def _recording(recording: record, part: _Part) -> AbstractContextManager[None]:
    """Record the part of the script that runs within."""
    from overlapscope.capture.by_profiler_api import recording_whole
    from overlapscope.capture.by_range import recording_by_range
    from overlapscope.capture.by_step import recording_by_step
    from overlapscope.capture.by_time import Times, recording_by_time

    if part.range_name is not None:
        return recording_by_range(recording, part.range_name)
    if part.auto:
        return recording_by_step(recording, part.count or _AUTO_STEPS, from_begin=part.from_begin)
    times = Times(part.delay, part.duration)
    return recording_whole(recording, say) if times == Times() else recording_by_time(recording, times, say)


def _say_recorded(recording: record, part: _Part, status: int) -> None:
    """Say how much is recorded, where, and what to do with it."""
    what = "recorded"
    if part.auto and recording.marker and not recording.recorded_steps:
        say(_ended_before_steps(recording.marker))
    elif part.count is not None and recording.marker:
        done = recording.recorded_steps
        asked = "" if done == part.count else f" of {part.count}"
        steps = "step" if done == 1 and not asked else "steps"
        what = f"recorded {done}{asked} {steps} (counted by {recording.marker!r})"
    elif part.auto:
        say(_without_steps(recording.path))
    until = f"; the script failed (exit status {status}), so the trace ends there" if status else ""
    say(f"{what} to {recording.path}{until}; {_what_next(recording)}")
    if recording.step_times_ns is not None and (words := noise_of(*recording.step_times_ns)):
        say(words)


def noise_of(profiled_ns: float, unprofiled_ns: float) -> str:
    """A warning where steps were slower without the profiler, which only noise makes them; else nothing."""
    if unprofiled_ns <= _NOISY * profiled_ns:
        return ""
    return (
        f"a step took {time(unprofiled_ns)} without the profiler, {time(profiled_ns)} with it: steps vary by more than "
        "the profiler costs, so predictions without it will be off; record on an idle machine, with larger --warmup, "
        "--unprofiled and --steps"
    )


def _what_next(recording: record) -> str:
    if not recording.on_gpu:
        return "it has no GPU work to audit: it was recorded with --device cpu"
    return f"analyse it with: overlapscope audit {recording.path}"


def _ended_before_steps(marker: str) -> str:
    """That what was recorded is the script's begin, because its steps were too few."""
    return (
        f"the script ended before a step was recorded: it made too few (counted by {marker!r}) after those that "
        "--warmup skips; what was recorded from its begin until its steps were found is kept"
    )


def _without_steps(path: Path) -> str:
    """That no steps were found while the script ran, and what repeats in its recording."""
    from overlapscope.measure.repetition import repetition
    from overlapscope.read.opening import open_trace

    none = (
        "fewer than two steps of an optimizer, and too few batches of a DataLoader to count steps by: all of the "
        "script is recorded"
    )
    trace = open_trace(path)
    found = repetition(trace)
    if found is None:
        return f"{none}, and nothing in it repeats"
    if found.range is not None:
        repeats = f"its range {found.range!r} repeats {found.count} times"
        return f"{none}; {repeats}: overlapscope audit --within {found.range!r} selects it"
    begin, end = ((at - trace.start_ns) / 1e6 for at in (found.start_ns, found.end_ns))
    sequence = f"a sequence of {counted(found.length, found.what.removesuffix('s'))} repeats {found.count} times"
    return f"{none}; {sequence}: overlapscope audit --from {begin:.3f} --to {end:.3f} selects them"


def _leave_fork(status: int) -> NoReturn:
    """Exit from a process that the script forked, when it reaches the end of the script.

    This is what Python does, but without shutting down a profiler whose threads exist only in the parent.
    """
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
