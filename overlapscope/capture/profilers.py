"""The profilers that a recording can use: torch's own, or a tool such as Nsight Systems that wraps the program."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol

from overlapscope.capture import kineto_file
from overlapscope.capture.annotate import DOMAIN
from overlapscope.capture.copy_consumers import copy_consumers, d2h_consumers
from overlapscope.errors import CaptureError, OverlapscopeError

NSYS = "NSYS_PROFILING_SESSION_ID"
_TOOL_VARIABLES = (
    NSYS,
    "CUDA_INJECTION64_PATH",
    "NV_COMPUTE_PROFILER_PERFWORKS_DIR",
    "NV_NSIGHT_INJECTION_TRANSPORT_TYPE",
)
"""What Nsight Systems, Nsight Compute and other tools that load into the CUDA driver set in a program's environment."""


def outside_tool() -> str | None:
    """The environment variable that shows that a profiling tool wraps this program, or None."""
    return next((name for name in _TOOL_VARIABLES if os.environ.get(name)), None)


MARK = "overlapscope.recording"
_NOTE_LENGTH = 500  # characters
_ENDLESS = 1 << 30  # steps: until it is stopped


class Profiler(Protocol):
    """The interface of a profiler that a recording drives."""

    def start(self) -> None:
        """Begin the warm-up."""

    def step(self) -> None:
        """End a step, of the warm-up first."""

    def stop(self, about: Mapping[str, Any]) -> None:
        """End the recording, and store the calibration ``about`` with it."""

    def save(self) -> bool:
        """Write the trace; False where this profiler writes none."""


class OutsideProfiler:
    """A tool that wraps the program records; this class calls cudaProfilerStart and cudaProfilerStop for it.

    This is what ``nsys profile -c cudaProfilerApi`` waits for.
    """

    def __init__(self, warmup: int) -> None:
        self._before = warmup
        self._running = False

    def start(self) -> None:
        """Call cudaProfilerStart at once where there is no warm-up."""
        self._begin_when_warm()

    def step(self) -> None:
        """Count a step of the warm-up; call cudaProfilerStart after the last."""
        self._before -= 1
        self._begin_when_warm()

    def stop(self, about: Mapping[str, Any]) -> None:
        """Leave the calibration in NVTX marks and call cudaProfilerStop."""
        if self._running:
            note(about)
            _cuda_profiler("stop")
            self._running = False

    def save(self) -> bool:
        """Write nothing: the tool writes the trace, with the calibration in NVTX marks."""
        return False

    def _begin_when_warm(self) -> None:
        if self._before <= 0 and not self._running:
            _cuda_profiler("start")
            self._running = True


class TorchProfiler:
    """torch.profiler with the settings that the analysis needs; writes a Kineto trace.

    CUDA synchronisation events are on. The recorded part is also bracketed with cudaProfilerStart and
    cudaProfilerStop, for tools that torch does not know of.

    Attributes:
        used: whether torch.profiler has recorded a GPU in this process. CUDA calls stay slower afterwards, since CUPTI
            stays attached: on an H200 a small pinned copy took 6.6 us to issue, and 3.6 before.
    """

    used: ClassVar[bool] = False

    def __init__(self, path: Path, warmup: int, steps: int | None, *, on_gpu: bool, stacks: bool) -> None:
        from torch.profiler import ProfilerActivity, profile, schedule

        self._path = path
        self._on_gpu = on_gpu
        self._before = warmup
        self._bracket = OutsideProfiler(warmup) if on_gpu else None
        self._profile = profile(
            activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])],
            schedule=schedule(wait=0, warmup=warmup, active=steps or _ENDLESS, repeat=1),
            with_stack=stacks,
            record_shapes=True,  # operators' arguments come with the shapes; they show which operators use a copy
            acc_events=True,  # there is one cycle only; without this some releases warn of a second
            experimental_config=_settings(on_gpu=on_gpu),
        )

    def start(self) -> None:
        """Start the warm-up; nothing is kept yet."""
        _require_no_other_profiler()
        with _as_capture_error("start"):
            self._profile.start()
        TorchProfiler.used = TorchProfiler.used or self._on_gpu
        if self._bracket is not None:
            self._bracket.start()

    def step(self) -> None:
        """End a step; what comes after the last step of the warm-up is kept."""
        self._before -= 1
        with _as_capture_error("go on"):
            self._profile.step()
        if self._bracket is not None:
            self._bracket.step()

    def stop(self, about: Mapping[str, Any]) -> None:
        """Stop collecting."""
        if self._before <= 0 and not _profiling():
            raise CaptureError("another torch.profiler in the program has ended this recording: leave one of them out")
        self._profile.add_metadata_json(kineto_file.ABOUT_KEY, json.dumps(about))
        if self._bracket is not None:
            self._bracket.stop(about)
        with _as_capture_error("stop"):
            self._profile.stop()

    def save(self) -> bool:
        """Write the trace, see `kineto_file.save`."""
        with _as_capture_error("write its trace"):
            kineto_file.save(
                self._profile.export_chrome_trace, self._path, must_have_gpu=self._on_gpu, extra=self._consumers()
            )
        return True

    def _consumers(self) -> dict[str, dict[str, list[int]]]:
        """The consumers of copies; empty where this release of torch does not know them."""
        try:
            tree = self._profile.profiler.kineto_results.experimental_event_tree()  # type: ignore[union-attr]
            return {"copy_consumers": copy_consumers(tree), "d2h_consumers": d2h_consumers(tree)}
        except (AttributeError, RuntimeError):
            return {}


def _settings(*, on_gpu: bool) -> Any:
    """Record synchronisation events, and all threads where this release of torch can."""
    from torch._C._profiler import _ExperimentalConfig

    try:
        return _ExperimentalConfig(enable_cuda_sync_events=on_gpu, profile_all_threads=True)
    except TypeError:
        return _ExperimentalConfig(enable_cuda_sync_events=on_gpu)


def _require_no_other_profiler() -> None:
    """Raise where torch's profiler is on already: some releases let a second profiler end the first silently."""
    if _profiling():
        raise CaptureError("torch's profiler is already recording in this program, and there can be one at a time")


def _profiling() -> bool:
    """Whether torch's profiler is on, on this thread or on all. Continuing a session that was ended can crash."""
    import torch

    here: bool = torch._C._autograd._profiler_enabled()  # noqa: SLF001
    return here or torch.autograd.profiler._is_profiler_enabled  # noqa: SLF001


@contextmanager
def _as_capture_error(action: str) -> Iterator[None]:
    """Turn errors of torch's profiler, as when the program ended it, into `CaptureError`."""
    try:
        yield
    except OverlapscopeError:
        raise
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise CaptureError(
            f"torch's profiler cannot {action} ({reason}); perhaps the program uses a profiler of its own"
        ) from error


def note(about: Mapping[str, Any]) -> None:
    """Leave the calibration ``about`` in NVTX marks, in pieces, since tools may cut long texts."""
    try:
        import nvtx
    except ImportError:
        return
    text = json.dumps(about, separators=(",", ":"))
    pieces = [text[begin : begin + _NOTE_LENGTH] for begin in range(0, len(text), _NOTE_LENGTH)]
    for number, piece in enumerate(pieces, 1):
        nvtx.mark(f"{MARK} {number}/{len(pieces)} {piece}", domain=DOMAIN)


def _cuda_profiler(what: str) -> None:
    import torch

    getattr(torch.cuda.profiler, what)()
