"""The profilers that a recording can go to: torch's own, or one that was put around the program from outside."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from overlapscope.calibration.data import to_json, to_marks
from overlapscope.calibration.schema import KEY, Calibration
from overlapscope.capture import kineto_file
from overlapscope.capture.annotate import DOMAIN, marker
from overlapscope.capture.event_tree import copy_consumers, d2h_consumers, host_accesses, reused_blocks, streams_of
from overlapscope.capture.kineto_file import TraceEvent
from overlapscope.capture.watch import replaced
from overlapscope.errors import CaptureError, OverlapscopeError

NSYS = "NSYS_PROFILING_SESSION_ID"
TOOL_VARIABLES = (
    NSYS,
    "CUDA_INJECTION64_PATH",
    "NV_COMPUTE_PROFILER_PERFWORKS_DIR",
    "NV_NSIGHT_INJECTION_TRANSPORT_TYPE",
)
"""Environment variables by which Nsight Systems, Nsight Compute and other tools load into the CUDA driver."""


_ENDLESS = 1 << 30  # steps: until it is stopped
_REFUSED = (
    "the program starts a torch.profiler of its own while overlapscope records it, and there can be one at a time: "
    "switch that one off, or record a part of the program without it"
)


def outside_tool() -> str | None:
    """The environment variable by which a profiler around this program shows itself, or None."""
    return next((name for name in TOOL_VARIABLES if os.environ.get(name)), None)


class OutsideProfiler:
    """Records nothing here: marks with cudaProfilerStart and cudaProfilerStop what a tool around it shall record.

    This is what ``nsys profile -c cudaProfilerApi`` waits for.

    Attributes:
        noted: what the recording noted itself; the tool has what it notes of the host.
    """

    noted: tuple[TraceEvent, ...] = ()

    def __init__(self, warmup: int) -> None:
        self._before = warmup
        self._running = False

    def start(self) -> None:
        """Mark the start at once where there is nothing to warm up."""
        self._begin_when_warm()

    def step(self) -> None:
        """Count a step of the warm-up; mark the start after the last."""
        self._before -= 1
        self._begin_when_warm()

    def stop(self, calibration: Calibration | None) -> None:
        """Mark the end, after the calibration; None where the recording has failed."""
        if self._running:
            if calibration is not None:
                note(calibration)
            _cuda_profiler("stop")
            self._running = False

    def save(self) -> bool:
        """Write nothing, and say so: the tool writes, with the calibration as NVTX marks."""
        return False

    def open_range(self, name: str) -> Any:
        """An NVTX range."""
        return marker(name)

    def _begin_when_warm(self) -> None:
        if self._before <= 0 and not self._running:
            _cuda_profiler("start")
            self._running = True


class TorchProfiler:
    """torch.profiler with the settings that the analysis needs, into a Kineto trace.

    CUDA synchronisation events are on. The same stretch is bracketed with cudaProfilerStart and
    cudaProfilerStop, for tools that torch does not know of.

    Attributes:
        used: whether one has recorded a GPU in this process. CUDA calls stay slower after that, since CUPTI stays: on
            an H200 a tiny pinned copy took 6.6 us to issue, and 3.6 before.
        noted: what the recording noted itself, for the trace.
    """

    used: ClassVar[bool] = False
    noted: tuple[TraceEvent, ...] = ()

    def __init__(self, path: Path, warmup: int, steps: int | None, *, on_gpu: bool, stacks: bool, memory: bool) -> None:
        from torch.profiler import ProfilerActivity, profile, schedule

        self._path = path
        self._on_gpu = on_gpu
        self._before = warmup
        self._calibration = Calibration()
        self._bracket = OutsideProfiler(warmup) if on_gpu else None
        self._refusing = ExitStack()
        self._profile = profile(
            activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])],
            schedule=schedule(wait=0, warmup=warmup, active=steps or _ENDLESS, repeat=1),
            with_stack=stacks,
            record_shapes=True,  # with them come the operators' arguments, which tell who reads a copy
            profile_memory=memory,  # tells which memory is handed out again
            acc_events=True,  # there is one cycle only; without this some releases warn of a second
            experimental_config=_settings(on_gpu=on_gpu),
        )

    def start(self) -> None:
        """Start collecting; nothing is kept yet."""
        if _profiling():  # some releases of torch let a second profiler end the first without a word
            raise CaptureError("torch's profiler is already recording in this program, and there can be one at a time")
        with _as_capture_error("start"):
            self._profile.start()
        self._refusing.enter_context(_refusing_profilers())
        TorchProfiler.used = TorchProfiler.used or self._on_gpu
        if self._bracket is not None:
            self._bracket.start()

    def step(self) -> None:
        """End a step, and keep what comes after the last one of the warm-up."""
        self._before -= 1
        with _as_capture_error("go on"):
            self._profile.step()
        if self._bracket is not None:
            self._bracket.step()

    def stop(self, calibration: Calibration | None) -> None:
        """Stop collecting."""
        self._refusing.close()
        if self._before <= 0 and not _profiling():
            raise CaptureError("another torch.profiler in the program has ended this recording: leave one of them out")
        if calibration is not None:
            self._calibration = calibration
            self._profile.add_metadata_json(KEY, json.dumps(to_json(calibration)))
        if self._bracket is not None:
            self._bracket.stop(calibration)
        with _as_capture_error("stop"):
            self._profile.stop()

    def save(self) -> bool:
        """Write the trace, see `kineto_file.save`."""
        with _as_capture_error("write its trace"):
            kineto_file.save(
                self._profile.export_chrome_trace,
                self._path,
                must_have_gpu=self._on_gpu,
                calibration=self._with_operators(),
                events=self.noted,
            )
        return True

    def open_range(self, name: str) -> Any:
        """A range that torch's profiler takes for an operator: it costs a tenth of ``record_function``."""
        import torch

        return torch._C._profiler._RecordFunctionFast(name)  # noqa: SLF001 - there since torch 2.2

    def _with_operators(self) -> Calibration:
        """The calibration with what operators were given, as far as this release of torch tells."""
        known = self._calibration
        with suppress(AttributeError, RuntimeError):
            results: Any = self._profile.profiler.kineto_results  # type: ignore[union-attr]
            tree = results.experimental_event_tree()
            known = replace(known, copy_consumers=copy_consumers(tree), d2h_consumers=d2h_consumers(tree))
            known = replace(known, host_accesses=host_accesses(tree))
            known = replace(known, reused_blocks=reused_blocks(tree, streams_of(results.events())))
        return known


Profiler = OutsideProfiler | TorchProfiler


def _settings(*, on_gpu: bool) -> Any:
    """Synchronisations, and what all threads do where this release of torch can record that."""
    from torch._C._profiler import _ExperimentalConfig

    try:
        return _ExperimentalConfig(enable_cuda_sync_events=on_gpu, profile_all_threads=True)
    except TypeError:
        return _ExperimentalConfig(enable_cuda_sync_events=on_gpu)


def _profiling() -> bool:
    """Whether torch's profiler is on, on this thread or on all. To go on with a session that was ended can crash."""
    import torch

    here: bool = torch._C._autograd._profiler_enabled()  # noqa: SLF001
    return here or torch.autograd.profiler._is_profiler_enabled  # noqa: SLF001


@contextmanager
def _as_capture_error(action: str) -> Iterator[None]:
    """Raise errors of torch's profiler as a sentence, among others where another profiler ended it."""
    try:
        yield
    except OverlapscopeError:
        raise
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise CaptureError(
            f"torch's profiler cannot {action} ({reason}); perhaps the program uses a profiler of its own"
        ) from error


def note(calibration: Calibration) -> None:
    """Tell the tool around the program the calibration: as NVTX marks, which its trace will have."""
    try:
        import nvtx
    except ImportError:
        return
    for text in to_marks(to_json(calibration)):
        nvtx.mark(text, domain=DOMAIN)


def _cuda_profiler(what: str) -> None:
    import torch

    getattr(torch.cuda.profiler, what)()


@contextmanager
def _refusing_profilers() -> Iterator[None]:
    """Raise `CaptureError` where another profiler of torch begins; else it would end ours, and nothing be left."""
    import torch

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise CaptureError(_REFUSED)

    with ExitStack() as changes:
        for kind in (torch.profiler.profile, torch.profiler.profiler._KinetoProfile):  # noqa: SLF001 - its base has a start too
            changes.enter_context(replaced(kind, "start", refuse))
        changes.enter_context(replaced(torch.autograd.profiler.profile, "__enter__", refuse))
        yield
