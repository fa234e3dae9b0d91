"""``overlapscope record``: run an unmodified script and record what it does on the GPU."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from overlapscope.cli.command import command
from overlapscope.cli.output import ExitCode, complain, refuse_to_replace, say
from overlapscope.errors import CaptureError, OverlapscopeError
from overlapscope.formatting import counted, time

if TYPE_CHECKING:
    from overlapscope.capture.recorder import record

_AUTO, _ALL = "auto", "all"
_NOISY = 1.1  # unprofiled over profiled steps: from there on, more than jitter
_AUTO_STEPS = 5
"""Steps that ``--steps auto`` records: enough to see what varies between them, in a trace that stays small."""
_UNPROFILED = 5
"""Steps to time without the profiler where no option says what to record."""
_TO_FIND = 2  # steps


@dataclass(frozen=True)
class _Part:
    """The part of the script to record, as the options have it; None for an option that was not given."""

    delay: Annotated[float, typer.Option(min=0, help="Start after so many seconds.")] = 0.0
    duration: Annotated[float | None, typer.Option(min=0.001, help="Record for so many seconds.")] = None
    range_name: Annotated[
        str | None,
        typer.Option(
            "--range",
            help="Record occurrences of this range of the main thread (* and ? match): annotate, record_function or "
            "NVTX, and those of torch, such as 'Optimizer.step*'.",
        ),
    ] = None
    steps: Annotated[
        str | None,
        typer.Option(
            metavar="INTEGER|auto|all",
            help="With --range: number of occurrences to record, 1 without. auto: record five steps, each "
            "until the next batch of its DataLoader, or without one until its optimizer steps again. all: the script.",
        ),
    ] = None
    warmup: Annotated[int | None, typer.Option(min=0, help="Steps to skip before measuring, 1 without.")] = None
    unprofiled: Annotated[int | None, typer.Option(min=0, help="Steps to time without profiler.")] = None

    def __post_init__(self) -> None:
        """Raise a usage error where options contradict each other, or would have no effect."""
        if self.steps in {_AUTO, _ALL} and self.range_name is not None:
            raise typer.BadParameter(f"--steps {self.steps} needs no range: give --range, or {self.steps}, not both")
        if self._timed and (self.auto or self.whole or self.range_name is not None):
            raise typer.BadParameter("--delay and --duration record by time: leave --range and --steps out")
        for name in ("steps", "warmup", "unprofiled"):
            if getattr(self, name) is not None and not self.auto and self.range_name is None and self.steps != _ALL:
                raise typer.BadParameter(
                    f"--{name} counts steps: say what a step is with --range NAME, or use --steps auto"
                )
        if self.steps not in {None, _AUTO, _ALL} and not (str(self.steps).isdecimal() and int(self.steps or 0)):
            raise typer.BadParameter(f"--steps takes a number from 1 on, auto or all, not {self.steps!r}")

    @property
    def _timed(self) -> bool:
        return self.delay > 0 or self.duration is not None

    @property
    def auto(self) -> bool:
        return self.steps == _AUTO

    @property
    def whole(self) -> bool:
        return self.steps == _ALL

    @property
    def count(self) -> int | None:
        """The number of steps to record; None where there are none to count."""
        if self.auto:
            return _AUTO_STEPS
        return None if self.range_name is None else int(self.steps or 1)

    @property
    def from_begin(self) -> bool:
        """Whether to record before the first step is found: not where steps are to be timed without a profiler."""
        return self.auto and not self.unprofiled

    @property
    def short_below(self) -> int:
        """The batches that a loop needs for steps without the profiler; 0 where these were asked for, or are none."""
        return 0


class _DefaultPart(_Part):
    """Steps of which some are timed without the profiler, where no option said what to record."""

    @property
    def short_below(self) -> int:
        return _TO_FIND + 2 + (self.unprofiled or 0) + _AUTO_STEPS  # and before each of the others one to warm up


def _chosen(part: _Part, text: str) -> _Part:
    """The part to record of a script with this ``text``."""
    from overlapscope.capture.by_step import promises_steps
    from overlapscope.capture.by_time import brackets

    if part != _Part():
        return part
    if brackets(text):
        return _Part(steps=_ALL)
    return _DefaultPart(steps=_AUTO, unprofiled=_UNPROFILED) if promises_steps(text) else _Part(steps=_AUTO)


@command("record")
def record_command(  # noqa: PLR0913, PLR0917 - one parameter per option
    script: Annotated[list[str], typer.Argument(metavar="SCRIPT [ARG]...", help="What to run, and its arguments.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The trace to write; {rank} stands for the process's rank.")
    ] = None,
    module: Annotated[bool, typer.Option("--module", "-m", help="SCRIPT names a module, as in python -m.")] = False,
    part: _Part = _Part(),
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
    sampling: Annotated[bool, typer.Option(help="Sample Python stacks: findings name what the host did.")] = True,
) -> int:
    """Run SCRIPT as python would and record it into a Kineto trace.

    Options of this command go before SCRIPT, those of the script after it. Without options that select a part, it
    records what is between cudaProfilerStart and cudaProfilerStop where SCRIPT calls them through torch, else five
    steps as with --steps auto, and all of SCRIPT where it has none. If SCRIPT makes a DataLoader or an optimizer, five
    steps before those are timed without the profiler. Without --output the trace is named after SCRIPT, with the rank
    where a launcher such as torchrun sets one. The exit status is that of the script, or 2 when nothing was recorded.
    The GPUs are queried before the script runs, so set CUDA_VISIBLE_DEVICES outside of it. Processes that the script
    starts are not recorded.
    """
    from overlapscope.capture.recorder import record
    from overlapscope.capture.runner import run_script

    part = _chosen(part, _source(script[0], module=module))
    try:
        recording = record(
            target(output, script[0].rpartition(".")[2] if module else script[0], os.environ.get("RANK", "")),
            steps=None if part.from_begin else part.count,
            warmup=1 if part.warmup is None else part.warmup,
            unprofiled=part.unprofiled or 0,
            stacks=stacks,
            device=device,
            calibrate=calibrate,
            modules=modules,
            memory=memory,
            sampling=sampling,
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
    return status


def _recording(recording: record, part: _Part) -> AbstractContextManager[None]:
    """Record the part of the script that runs within."""
    from overlapscope.capture.by_step import recording_by_range, recording_by_step
    from overlapscope.capture.by_time import Times, recording_by_time, recording_whole

    if part.range_name is not None:
        return recording_by_range(recording, part.range_name)
    if part.auto:
        steps = part.count or _AUTO_STEPS
        return recording_by_step(recording, steps, from_begin=part.from_begin, short_below=part.short_below)
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
    return f"analyse it with: overlapscope audit {recording.path}" if recording.on_gpu else seen_on_host(recording.path)


def seen_on_host(path: Path) -> str:
    """What a recording without a GPU tells: for how long the loop waited for batches, and what ranges took."""
    from overlapscope.measure.ranges import waited_for_batches_ns
    from overlapscope.read.opening import open_trace

    trace = open_trace(path)
    waited_ns, parts = waited_for_batches_ns(trace), ["it has no GPU work to audit: it was recorded with --device cpu"]
    if waited_ns:
        whole = time(trace.end_ns - trace.start_ns)
        parts.append(f"the loop waited for batches of its DataLoader for {time(waited_ns)} of {whole}")
    if len(trace.ranges):
        parts.append(f"overlapscope ranges {path} lists what ranges took on the host")
    return "; ".join([*parts, "what copies and kernels cost shows only on a GPU"])


def _ended_before_steps(marker: str) -> str:
    """A note that only the begin of the script was recorded, because its steps were too few."""
    return (
        f"the script ended before a step was recorded: it made too few (counted by {marker!r}) after those that "
        "--warmup skips; what was recorded from its begin until its steps were found is kept"
    )


def _without_steps(path: Path) -> str:
    """A note that no steps were found while the script ran, with what repeats in its recording."""
    from overlapscope.measure.ranges import repetition
    from overlapscope.read.opening import open_trace

    none = (
        "fewer than two steps of an optimizer, and too few batches of a DataLoader to count steps by: all of the "
        "script is recorded"
    )
    trace = open_trace(path)
    repeated = repetition(trace)
    if repeated is None:
        return f"{none}, and nothing in it repeats"
    if repeated.range is not None:
        repeats = f"its range {repeated.range!r} repeats {repeated.count} times"
        return f"{none}; {repeats}: overlapscope audit --within {repeated.range!r} selects it"
    begin, end = ((at - trace.start_ns) / 1e6 for at in (repeated.start_ns, repeated.end_ns))
    sequence = (
        f"a sequence of {counted(repeated.length, repeated.what.removesuffix('s'))} repeats {repeated.count} times"
    )
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
    return _spec(name) is not None


def _spec(name: str) -> ModuleSpec | None:
    sys.path.insert(0, "")  # as python -m has it
    try:
        return find_spec(name)
    except (ImportError, ValueError):
        return None
    finally:
        sys.path.remove("")


def _source(name: str, *, module: bool) -> str:
    """The text of a script or module; empty where there is none to read."""
    spec = _spec(name) if module else None
    try:
        return Path((spec.origin or "") if spec else name).read_text(errors="replace")
    except OSError:
        return ""


def target(output: Path | None, script: str, rank: str) -> Path:
    """The path of the trace; every rank of a distributed run needs a file of its own."""
    if output is not None:
        return Path(str(output).replace("{rank}", rank or "0"))
    return Path(f"{Path(script).stem}{'.rank' + rank if rank else ''}.json.gz")
