"""`record`: record a part of a program with what the analysis needs, the profiler's own overhead included."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from overlapscope.capture import calibrate, kineto_file, profilers
from overlapscope.capture.machine import devices, require_cuda, require_torch, versions, wait_for_devices
from overlapscope.capture.profilers import NSYS, OutsideProfiler, Profiler, TorchProfiler, outside_tool
from overlapscope.errors import CaptureError, OverlapscopeError

SCHEMA = "overlapscope.recording/2"
_UNPROFILED, _WARM_UP, _RECORDED = "unprofiled", "warm-up", "recorded"


@dataclass
class _Phase:
    """Consecutive steps of a recording, timed as a whole between two device synchronisations.

    ``steps`` is None for a phase that ends with the block.
    """

    name: str
    steps: int | None
    begin_ns: int = 0
    ticks_ns: list[int] = field(default_factory=list)
    wall_ns: int = 0

    @property
    def profiled(self) -> bool:
        return self.name in {_WARM_UP, _RECORDED}

    def to_dict(self) -> dict[str, Any]:
        edges = [self.begin_ns, *self.ticks_ns]
        host = [end - begin for begin, end in pairwise(edges)]
        return {"steps": len(self.ticks_ns), "wall_ns": self.wall_ns, "host_ns": host}


class record:  # noqa: N801 - reads as a verb where it is used
    """Record what a ``with`` block does on the GPU into a Kineto trace.

    Without ``steps`` the whole block is recorded. With ``steps``, call `step` at the end of each step of your loop, or
    pass a step function to `run`. Then ``warmup`` steps run unmeasured, ``unprofiled`` steps are timed without a
    profiler, ``warmup`` more run with the profiler on (its first calls are slow), and ``steps`` are recorded. The rest
    of the block runs without a profiler again.

    The trace has CUDA synchronisation events, which the analysis needs, and a calibration under the key
    ``overlapscope``: versions, GPUs, PCIe link and copy engines; copy times for several sizes from pageable and pinned
    memory and in both directions at once; the time of the steps with and without the profiler; and the operators that
    consume the data of copies. It names no host, user, command line or environment variable, and no path unless
    ``stacks`` asks for source files. The file appears when it is complete. It has the calls, ranges and operators of
    all threads; with releases of torch before ``profile_all_threads``, ranges and operators of this thread and of
    autograd's threads only.

    The recorded part is also bracketed with cudaProfilerStart and cudaProfilerStop. Under another profiler, such as
    ``nsys profile -c cudaProfilerApi python program.py``, no trace is written, because CUPTI serves one profiler at a
    time. The calibration then goes into NVTX marks at the end of the recorded part, so that an Nsight Systems trace
    carries it too.

    Only the first recording of a process can time steps without profiler overhead: once torch's profiler has recorded,
    CUDA calls stay slower.

    Args:
        path: the trace to write, gzip when it ends in ``.gz``. Each process needs a path of its own. None to write no
            trace, and only mark for an outside profiler what to record.
        steps: how many steps to record; None for the whole block.
        warmup: steps that run before anything is measured.
        unprofiled: steps to time without a profiler; 0 for none.
        stacks: record Python call stacks too. Findings can then name source lines; the trace grows, names the
            paths of source files, and the program slows down.
        device: ``"cuda"``, or ``"cpu"`` to try a program without a GPU: the trace then has host events only.
        calibrate: measure the link, and the host cost of packing and of issuing work. This takes about a second, up to
            128 MiB of GPU memory and 256 MiB of host memory, before the timed steps and before the recorded ones.

    Raises:
        CaptureError: no GPU, no torch, another profiler is recording, or the block ended before
            anything was recorded.
        OutputError: the trace cannot be written there; raised before the block runs where possible.
        ValueError: a negative count, ``steps`` of 0, or no such device.

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
    ) -> None:
        if (steps is not None and steps < 1) or warmup < 0 or unprofiled < 0:
            raise ValueError("steps is at least 1, warmup and unprofiled at least 0")
        if device.partition(":")[0] not in {"cpu", "cuda"}:
            raise ValueError(f"no device {device!r}: there are cuda and cpu")
        self.path = Path("recording" if path is None else path)
        self._target = self.path.absolute()  # stays the same when the block changes the working directory
        self._writes = path is not None
        self._process = os.getpid()
        self._on_gpu = device.partition(":")[0] == "cuda"
        self._stacks = stacks
        self._calibrate = calibrate
        self._plan = _phases(steps, warmup, unprofiled)
        self._done: list[_Phase] = []
        self._about: dict[str, Any] = {}
        self._profiler: Profiler | None = None
        self._failure: OverlapscopeError | None = None
        self._entered = self._saved = False
        self._keeps_unprofiled = True

    @property
    def done(self) -> bool:
        """Whether everything that was asked for is recorded, or recording has failed."""
        return not self._plan

    @property
    def saved(self) -> bool:
        """Whether the trace is in its file."""
        return self._saved

    def check(self) -> None:
        """Raise now if the block cannot be recorded: no GPU, no torch, or the file cannot be written."""
        (require_cuda if self._on_gpu else require_torch)()
        if self._recorded_elsewhere:
            return
        kineto_file.check_target(self._target)

    def __enter__(self) -> Self:
        if self._entered:
            raise CaptureError(f"{self.path}: this recording was used already; make a new one for another block")
        self.check()
        self._process = os.getpid()
        self._entered = True
        self._keeps_unprofiled = not profilers.TorchProfiler.used
        if self._writes and self._tool is not None:
            warnings.warn(
                f"{self._tool} is set: another profiler runs this program and records it; {self.path} is not written",
                stacklevel=2,
            )
        self._about = self._describe()
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._in_fork:
            return
        if self._plan:
            self._guarded(self._end_early)
        if self._failure is None:
            return
        if error is None:
            raise self._failure
        error.add_note(f"overlapscope: {self._failure}")  # the program's own error matters more

    def step(self) -> None:
        """Mark the end of a step of the program; does nothing once everything is recorded."""
        if not self._plan or self._in_fork:
            return
        phase = self._plan[0]
        phase.ticks_ns.append(time.perf_counter_ns())
        if len(phase.ticks_ns) == phase.steps:
            self._guarded(self._end)
        elif phase.profiled:
            self._guarded(self._running.step)

    def run(self, step: Callable[[], object]) -> None:
        """Call ``step`` until everything is recorded; once for a recording without ``steps``."""
        if self._plan and self._plan[-1].steps is None:
            step()
            return
        while not self.done:
            step()
            self.step()

    @property
    def _tool(self) -> str | None:
        """The environment variable of a profiling tool that wraps this program."""
        return outside_tool() if self._on_gpu else None

    @property
    def _recorded_elsewhere(self) -> bool:
        """Whether another tool writes the trace."""
        return self._tool is not None or not self._writes

    @property
    def _in_fork(self) -> bool:
        """Whether this is a forked process: the recording belongs to its parent."""
        return os.getpid() != self._process

    @property
    def _running(self) -> Profiler:
        if self._profiler is None:
            raise CaptureError("nothing is being recorded: use `with record(...)`")
        return self._profiler

    def _choose_profiler(self) -> Profiler:
        warmup, steps = max(1, self._plan[-2].steps or 0), self._plan[-1].steps
        if self._recorded_elsewhere:
            return OutsideProfiler(warmup)
        return TorchProfiler(self._target, warmup, steps, on_gpu=self._on_gpu, stacks=self._stacks)

    def _describe(self) -> dict[str, Any]:
        """Calibrate and describe the machine before the program runs."""
        about: dict[str, Any] = {"schema": SCHEMA, "versions": versions()}
        if self._on_gpu:
            import torch

            if self._calibrate and self._tool in {None, NSYS}:  # other tools would profile the calibration's kernels
                with suppress(RuntimeError):  # with no GPU memory left, the program can still be recorded
                    about["copies"] = calibrate.link_speeds(torch.cuda.current_device())
                    about["bidirectional"] = calibrate.bidirectional_copies(torch.cuda.current_device())
                    about |= calibrate.pack_times()
                    about["issue"] = {"unprofiled": calibrate.op_costs()} if self._keeps_unprofiled else {}
            about["devices"] = devices()  # after the copies: an idle link reports a lower generation
        return about

    def _begin(self) -> None:
        """Start the next phase of the plan."""
        phase = self._plan[0]
        if phase.name == _WARM_UP:
            # Not earlier: CUDA calls are slower as soon as a profiler exists.
            self._profiler = self._choose_profiler()
            self._profiler.start()
            self._warm_up()
        self._synchronize()
        phase.begin_ns = time.perf_counter_ns()
        if phase.steps == 0:
            self._end()

    def _warm_up(self) -> None:
        """Make some calls under the profiler before the program does, and time them: the overhead per call."""
        if not self._on_gpu:
            return
        with suppress(RuntimeError):
            if not self._recorded_elsewhere:
                self._about.get("issue", {})["profiled"] = calibrate.op_costs()
            if "copies" in self._about:
                self._about["post_staging"] = calibrate.issue_after_staging()

    def _issue_again(self) -> None:
        """Time issuing once more and keep the minimum: other load may have disturbed the first measurement."""
        issue = self._about.get("issue", {})
        with suppress(RuntimeError):
            if costs := issue.get("unprofiled"):
                again = calibrate.op_costs()
                issue["unprofiled"] = {name: min(cost, again.get(name, cost)) for name, cost in costs.items()}

    def _end(self) -> None:
        """End the current phase and start the next."""
        self._synchronize()
        phase = self._plan.pop(0)
        phase.wall_ns = time.perf_counter_ns() - phase.begin_ns
        self._done.append(phase)
        if phase.name == _UNPROFILED:
            self._issue_again()
        if phase.name == _WARM_UP:
            self._running.step()
        if self._plan:
            self._begin()
        else:
            self._finish()

    def _end_early(self) -> None:
        """Handle a block that ended before the plan did: keep what was recorded, or raise."""
        at = self._plan[0]
        if at.name == _RECORDED and (at.ticks_ns or at.steps is None):
            self._end()
            return
        planned = [*self._done, *self._plan]
        self._plan.clear()
        if at.profiled:
            self._running.stop({})
        raise CaptureError(
            f"{self.path}: nothing was recorded, because the block ended after "
            f"{sum(len(each.ticks_ns) for each in planned)} of {sum(each.steps or 0 for each in planned)} steps; "
            "call step() at the end of each, or ask for fewer"
        )

    def _finish(self) -> None:
        kept = {_RECORDED, _UNPROFILED} if self._keeps_unprofiled else {_RECORDED}
        walls = {each.name: each.to_dict() for each in self._done if each.name in kept}
        self._running.stop(self._about | {"steps": walls})
        self._saved = self._running.save()

    def _guarded(self, action: Callable[[], None]) -> None:
        """Run ``action`` within the user's loop: a failure does not stop the loop, and is raised at its end."""
        try:
            action()
        except OverlapscopeError as error:
            self._failure = self._failure or error
            if self._plan and self._plan[0].profiled:
                with suppress(OverlapscopeError):  # only the first failure is reported
                    self._running.stop({})
            self._plan.clear()

    def _synchronize(self) -> None:
        if not self._on_gpu:
            return
        try:
            wait_for_devices()
        except RuntimeError as error:
            raise CaptureError(f"{self.path}: not recorded, because the GPU reports an error ({error})") from error


def _phases(steps: int | None, warmup: int, unprofiled: int) -> list[_Phase]:
    """The phases of a recording, in order. Without ``steps`` there is no step to warm the profiler up with."""
    if steps is None:
        return [_Phase(_WARM_UP, 0), _Phase(_RECORDED, None)]
    first = [_Phase("settling", warmup), _Phase(_UNPROFILED, unprofiled)] if unprofiled else []
    return [*first, _Phase(_WARM_UP, warmup), _Phase(_RECORDED, steps)]
