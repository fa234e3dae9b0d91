"""Record a stretch of a program with what the analysis needs, and what the recording itself cost."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

from overlapscope.calibration.schema import Calibration, TimedSteps
from overlapscope.capture import calibrate, kineto_file, profilers
from overlapscope.capture.host_log import HostLog, watch_host
from overlapscope.capture.kineto_file import TraceEvent
from overlapscope.capture.loaders import LoaderNotes, watch_loaders
from overlapscope.capture.machine import devices, require_cuda, require_torch, versions, wait_for_devices
from overlapscope.capture.modules import watch_modules
from overlapscope.capture.profilers import NSYS, OutsideProfiler, Profiler, TorchProfiler, outside_tool
from overlapscope.capture.sampler import Sampler, Stacks
from overlapscope.capture.watch import watch_ranges
from overlapscope.errors import CaptureError, OverlapscopeError

SETTLING, UNPROFILED, WARM_UP, RECORDED = "settling", "unprofiled", "warm-up", "recorded"


@dataclass
class Stretch:
    """Steps in a row, timed as a whole: from GPUs that have nothing to do to ones that have done everything.

    ``steps`` is None for a stretch that ends with the block.
    """

    name: str
    steps: int | None
    begin_ns: int = 0
    ticks_ns: list[int] = field(default_factory=list)
    wall_ns: int = 0

    @property
    def profiled(self) -> bool:
        """Whether a profiler runs meanwhile."""
        return self.name in {WARM_UP, RECORDED}

    def timed(self) -> TimedSteps | None:
        """The times of the steps; None where the stretch has no steps."""
        host_ns = tuple(end - begin for begin, end in pairwise([self.begin_ns, *self.ticks_ns]))
        return TimedSteps(len(host_ns), self.wall_ns, host_ns) if host_ns else None


def _planned(steps: int | None, warmup: int, unprofiled: int) -> list[Stretch]:
    """The stretches of a recording in their order. Without ``steps`` there is none to warm the profiler up with."""
    if steps is None:
        return [Stretch(WARM_UP, 0), Stretch(RECORDED, None)]
    first = [Stretch(SETTLING, warmup), Stretch(UNPROFILED, unprofiled)] if unprofiled else []
    return [*first, Stretch(WARM_UP, warmup), Stretch(RECORDED, steps)]


class record:  # noqa: N801 - reads as a verb where it is used
    """Record what a ``with`` block does on the GPU into a Kineto trace.

    Without ``steps`` the whole block is recorded. With ``steps``, end each step of your loop with
    `step`, or hand a step function to `run`: `warmup` steps pass, `unprofiled` ones are timed without
    a profiler, `warmup` more pass with the profiler on (its first calls are slow), and ``steps`` are
    recorded. What comes after that runs without a profiler again.

    The trace has what the analysis needs (CUDA synchronisation events) and, under the key ``overlapscope``, its
    calibration: versions, GPUs, PCIe link, copy engines, what copies of several sizes take here from pageable and
    pinned memory and in both directions at once, what the steps took with and without the profiler, which operators
    were given what copies brought, how the program's DataLoaders are set up and what the parts of a batch took. Events
    of the category ``python_sample`` have the Python stacks of all threads, without variables, and those of the
    category ``host_event`` garbage collections, sleeps, files, saving and loading, output and batches. NVTX ranges of
    the program are in it, and calls of torch modules under their names in the model. It names no host, user, command
    line or environment variable, and no path unless ``stacks`` asks for source files: of DataLoaders and functions it
    has file and line, without folders. It gets its name when it is complete. Calls, ranges and operators of all threads
    are in it; with releases of torch before ``profile_all_threads``, ranges and operators of this thread and of
    autograd's only.

    The recorded stretch is also bracketed with cudaProfilerStart and cudaProfilerStop. Under another
    profiler, such as ``nsys profile -c cudaProfilerApi python program.py``, no trace is written, because CUPTI
    serves one profiler at a time: the same program serves both. What is known of machine and steps then goes
    into NVTX marks at the end of the stretch, so that an Nsight Systems trace carries it too.

    Only the first recording of a process knows what steps take without the profiler: once torch's profiler has
    recorded, CUDA calls stay slower.

    Args:
        path: the trace to write, gzip when it ends in ``.gz``. Other processes need other names. None to write
            none, and only show a profiler around the program what to record.
        steps: how many steps to record; None for the whole block.
        warmup: steps that pass before something is measured.
        unprofiled: steps to time without a profiler; 0 for none.
        stacks: record Python call stacks too. Findings can then name source lines; the trace grows, names the
            paths of source files, and the program slows down.
        device: ``"cuda"``, or ``"cpu"`` to try a program without a GPU: the trace then has host events only.
        calibrate: measure the link, and what the host takes to pack tensors and to issue work, first and between the
            steps that are timed and those that are recorded (about a second, up to 128 MiB of the GPU and 256 of the
            host).
        modules: note each call of a torch module under its name in the model, so that findings can name it. Costs about
            two microseconds for each call.
        memory: note which memory of a GPU is handed out again, so that findings can say where a stream may still use
            it. Costs about a microsecond for each allocation.
        sampling: sample the Python stacks of all threads while steps are recorded, and while they are timed, so that
            findings can name what the host did. A launch-bound loop takes 2 to 4 % longer; the calibration has the
            processor time of the sampler.

    Attributes:
        path: the trace.
        on_gpu: whether the work of GPUs is recorded.
        saved: whether the trace is in its file.
        marker: what ends each step, or begins the recording, where that was found or chosen by name.
        when_too_few: says that nothing was recorded, from the number of steps made and that of steps asked for.

    Raises:
        CaptureError: no GPU, no torch, another profiler is recording, or the block ended before
            anything was recorded.
        OutputError: the trace cannot be written there, found out before the block runs where possible.
        ValueError: a count that makes no sense, or no such device.

    Example::

        with record("trace.json.gz", steps=3) as recording:
            for batch in loader:
                train(batch)
                recording.step()
    """

    def __init__(  # noqa: PLR0913 - keyword-only settings, each with a default
        self,
        path: str | Path | None,
        *,
        steps: int | None = None,
        warmup: int = 1,
        unprofiled: int = 5,
        stacks: bool = False,
        device: str = "cuda",
        calibrate: bool = True,
        modules: bool = True,
        memory: bool = True,
        sampling: bool = True,
    ) -> None:
        if (steps is not None and steps < 1) or warmup < 0 or unprofiled < 0:
            raise ValueError("steps is at least 1, warmup and unprofiled at least 0")
        if device.partition(":")[0] not in {"cpu", "cuda"}:
            raise ValueError(f"no device {device!r}: there are cuda and cpu")
        self.path = Path("recording" if path is None else path)
        self._target = self.path.absolute()  # where it was meant, also when the block changes the folder
        self._has_path = path is not None
        self._process = os.getpid()
        self.on_gpu = device.partition(":")[0] == "cuda"
        self._stacks = stacks
        self._calibrate = calibrate
        self._names_modules = modules
        self._notes_memory = memory
        self._counts = warmup, unprofiled
        self._plan = _planned(steps, warmup, unprofiled)
        self._past: list[Stretch] = []
        self._calibration = Calibration()
        self._measured = False
        self._profiler: Profiler | None = None
        self._failure: OverlapscopeError | None = None
        self._samples = sampling
        self._sampler: Sampler | None = None
        self._stacks_seen = Stacks()
        self._log = HostLog()
        self._loaders = LoaderNotes(self._log)
        self._around, self._naming = ExitStack(), ExitStack()
        self._entered = self.saved = self._watching = False
        self._earlier: Profiler | None = None
        self.marker = ""
        self.when_too_few: Callable[[int, int], str] = self._block_too_short
        self._keeps_unprofiled = True

    @property
    def done(self) -> bool:
        """Whether everything that was asked for is recorded, or recording has failed."""
        return not self._plan

    @property
    def recorded_steps(self) -> int:
        """The number of whole steps recorded so far."""
        return sum(len(each.ticks_ns) for each in (*self._past, *self._plan) if each.name == RECORDED)

    @property
    def step_times_ns(self) -> tuple[float, float] | None:
        """Wall time of a step with the profiler and without it; None where one of them was not timed."""
        known = self._known()
        if known.recorded is None or known.unprofiled is None:
            return None
        return known.recorded.step_ns, known.unprofiled.step_ns

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Hear of NVTX ranges, DataLoaders and what takes the host before the block begins; the block always does."""
        with watch_ranges(), watch_loaders(self._loaders), watch_host(self._log):
            self._watching = True
            try:
                yield
            finally:
                self._watching = False

    def check(self) -> None:
        """Raise now what would keep the block from being recorded: no GPU, no torch, no room for the file."""
        (require_cuda if self.on_gpu else require_torch)()
        if not self.writes:
            return
        kineto_file.check_target(self._target)

    def __enter__(self) -> Self:
        if self._entered:
            raise CaptureError(f"{self.path}: a recording is made once; make another one for another block")
        self.check()
        self._process = os.getpid()
        self._entered = True
        self._keeps_unprofiled = not profilers.TorchProfiler.used
        if self._has_path and self._tool is not None:
            warnings.warn(
                f"{self._tool} is set: a profiler is around this program, and is shown what to record; "
                f"{self.path} is not written",
                stacklevel=2,
            )
        with ExitStack() as around:
            if not self._watching:
                around.enter_context(self.watching())
            self._calibration = self._describe()
            self._begin()
            self._around = around.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._around.close()
        if self._elsewhere:
            return
        self.end()
        if self._failure is None:
            return
        if error is None:
            raise self._failure
        error.add_note(f"overlapscope: {self._failure}")  # the program's own error matters more

    def step(self) -> None:
        """Say that a step of the program has ended; does nothing once everything is recorded."""
        if not self._plan or self._elsewhere:
            return
        stretch = self._plan[0]
        stretch.ticks_ns.append(time.perf_counter_ns())
        if len(stretch.ticks_ns) == stretch.steps:
            self._guarded(self._end)
        elif stretch.profiled:
            self._guarded(self._running.step)

    def end(self) -> None:
        """End the recording before the block does; what failed is said at the end of the block."""
        if self._plan and not self._elsewhere:
            self._guarded(self._end_early)

    def plan_anew(self, steps: int | None, unprofiled: int) -> None:
        """Record other steps than those first asked for; before the block begins."""
        self._counts = self._counts[0], unprofiled
        self._plan = _planned(steps, *self._counts)

    def restart(self, steps: int | None = None) -> None:
        """Record so many steps from here, or the rest of the block, instead of what is recorded so far.

        Where the block ends before one of the ``steps`` is recorded, what was recorded so far is kept after all.
        """
        if self._plan and not self._elsewhere:
            self._guarded(lambda: self._restart(steps))

    def run(self, step: Callable[[], object]) -> None:
        """Call ``step`` as often as it takes to record what was asked for; once where no ``steps`` were."""
        if self._plan and self._plan[-1].steps is None:
            step()
            return
        while not self.done:
            step()
            self.step()

    @property
    def _tool(self) -> str | None:
        """The name of a profiler around this program; None without one."""
        return outside_tool() if self.on_gpu else None

    @property
    def writes(self) -> bool:
        """Whether a trace is written here, not by a profiler around the program."""
        return self._tool is None and self._has_path

    @property
    def _elsewhere(self) -> bool:
        """Whether this is a process that was forked off: the recording is its parent's."""
        return os.getpid() != self._process

    @property
    def _running(self) -> Profiler:
        if self._profiler is None:
            raise CaptureError("nothing is being recorded: use `with record(...)`")
        return self._profiler

    def _restart(self, steps: int | None) -> None:
        self._stop_listening(self._plan[0].name)
        if self._plan[0].profiled:
            self._stop(self._known() if self.writes else None)
            self._earlier = None if steps is None else self._running
        self._keeps_unprofiled = not profilers.TorchProfiler.used
        self._past.clear()
        self._plan = _planned(steps, *self._counts)
        self._begin()

    def _stop(self, calibration: Calibration | None) -> None:
        self._naming.close()
        self._running.stop(calibration)

    def _choose_profiler(self) -> Profiler:
        warmup, steps = max(1, self._plan[-2].steps or 0), self._plan[-1].steps
        if not self.writes:
            return OutsideProfiler(warmup)
        memory = self._notes_memory and self.on_gpu
        return TorchProfiler(self._target, warmup, steps, on_gpu=self.on_gpu, stacks=self._stacks, memory=memory)

    def _describe(self) -> Calibration:
        """The calibration of the machine before the program runs on it."""
        known = Calibration(versions=versions())
        if not self.on_gpu:
            return known
        if self._calibrate and self._tool in {None, NSYS}:  # other tools look at every kernel there is
            known, self._measured = calibrate.measured(known, unprofiled=self._keeps_unprofiled)
        return replace(known, devices=devices())  # after the copies: an idle link reports a lower generation

    def _begin(self) -> None:
        """Start the stretch that is next in the plan."""
        stretch = self._plan[0]
        if stretch.name == WARM_UP:
            # Not before: a profiler that is only there already makes CUDA calls slower.
            self._profiler = self._choose_profiler()
            self._profiler.start()
            self._warm_up()
            if self._names_modules:
                self._naming.enter_context(watch_modules(self._profiler.open_range))
        self._synchronize()
        self._listen(stretch)
        stretch.begin_ns = time.perf_counter_ns()
        if stretch.steps == 0:
            self._end()

    def _listen(self, stretch: Stretch) -> None:
        """Note what the host does in a stretch that counts."""
        if stretch.name == RECORDED and self.writes:
            self._log.begin()
        if self._samples and (stretch.name == UNPROFILED or (stretch.name == RECORDED and self.writes)):
            self._sampler = Sampler(self._stacks_seen)
            self._sampler.start()

    def _stop_listening(self, name: str = "") -> None:
        """End that, and keep what was noted in the stretch of this ``name``."""
        if self._elsewhere:
            return
        self._log.keeps = False
        sampler, self._sampler = self._sampler, None
        samples: tuple[TraceEvent, ...] = ()
        if sampler is not None:
            sampler.stop()
            samples = tuple(sampler.events()) if name == RECORDED else ()
            seen = sampler.places(threading.get_ident()) if name == UNPROFILED else ()
            known = self._calibration
            total = known.sampling.plus(sampler.sampling) if known.sampling else sampler.sampling
            self._calibration = replace(known, sampling=total, unprofiled_samples=seen or known.unprofiled_samples)
        if name == RECORDED and self.writes:
            self._loaders.hear_workers()
            self._running.noted = (*samples, *self._log.events)

    def _warm_up(self) -> None:
        """Let the profiler see some calls of ours first; what they cost now is what it adds to each."""
        if not self.on_gpu:
            return
        with suppress(RuntimeError):
            if self.writes:
                cost = calibrate.issue_cost()
                if self._measured:
                    self._calibration = replace(self._calibration, issue_profiled=cost)
            if self._calibration.copies:
                self._calibration = replace(self._calibration, post_staging=calibrate.post_staging_times())

    def _issue_again(self) -> None:
        """Time issuing again, and keep the least: something else may have had the processor the first time."""
        first = self._calibration.issue_unprofiled
        if first is None:
            return
        with suppress(RuntimeError):
            self._calibration = replace(self._calibration, issue_unprofiled=first.least(calibrate.issue_cost()))

    def _end(self) -> None:
        """End the stretch at hand and start the next."""
        self._synchronize()
        stretch = self._plan.pop(0)
        stretch.wall_ns = time.perf_counter_ns() - stretch.begin_ns
        self._stop_listening(stretch.name)
        self._past.append(stretch)
        if stretch.name == UNPROFILED:
            self._issue_again()
        if stretch.name == WARM_UP:
            self._running.step()
        if self._plan:
            self._begin()
        else:
            self._finish()

    def _end_early(self) -> None:
        """End a recording whose block ended first: keep what was recorded, or say that nothing was."""
        at = self._plan[0]
        if at.name == RECORDED and (at.ticks_ns or at.steps is None):
            self._end()
            return
        asked = [*self._past, *self._plan]
        self._plan.clear()
        self._stop_listening()
        if at.profiled:
            self._stop(None)
        if self._earlier is not None:
            self.saved = self._earlier.save()
            return
        made, wanted = sum(len(each.ticks_ns) for each in asked), sum(each.steps or 0 for each in asked)
        raise CaptureError(self.when_too_few(made, wanted))

    def _block_too_short(self, made: int, asked: int) -> str:
        return (
            f"{self.path}: nothing was recorded, because the block ended after {made} of {asked} steps; "
            "call step() at the end of each, or ask for fewer"
        )

    def _finish(self) -> None:
        self._earlier = None
        self._stop(self._known())
        self.saved = self._running.save()

    def _known(self) -> Calibration:
        """The calibration, with the steps that were timed."""
        kept = {RECORDED, UNPROFILED} if self._keeps_unprofiled else {RECORDED}
        timed = {each.name: each.timed() for each in self._past if each.name in kept}
        recorded, unprofiled = timed.get(RECORDED), timed.get(UNPROFILED)
        return replace(self._calibration, recorded=recorded, unprofiled=unprofiled, loaders=self._loaders.loaders)

    def _guarded(self, action: Callable[[], None]) -> None:
        """Run what may fail in the middle of somebody's loop: the loop goes on, its end says what failed."""
        try:
            action()
        except OverlapscopeError as error:
            self._failure = self._failure or error
            self._stop_listening()
            if self._plan and self._plan[0].profiled:
                with suppress(OverlapscopeError):  # one failure is enough to tell
                    self._stop(None)
            self._plan.clear()

    def _synchronize(self) -> None:
        if not self.on_gpu:
            return
        try:
            wait_for_devices()
        except RuntimeError as error:
            raise CaptureError(f"{self.path}: not recorded, because the GPU reports an error ({error})") from error
