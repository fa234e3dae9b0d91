"""Helpers of the workloads for streams and host memory; they also work without a GPU."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class Memory(StrEnum):
    """Memory of host buffers. Without a GPU all of them are pageable."""

    PAGEABLE = "pageable"
    PINNED = "pinned"


class CopyStream(StrEnum):
    """Stream of the copies: a side stream, or that of the kernels."""

    SIDE = "side"
    SAME = "same"


def copy_stream(choice: CopyStream, device: str) -> torch.cuda.Stream | None:
    """A side stream for copies, or None for the current stream."""
    import torch

    wanted = choice is CopyStream.SIDE and device != "cpu"
    return torch.cuda.Stream(device) if wanted else None  # type: ignore[no-untyped-call]


def on(stream: torch.cuda.Stream | None) -> AbstractContextManager[Any]:
    """Make ``stream`` the current stream; None keeps the current one."""
    import torch

    return nullcontext() if stream is None else torch.cuda.stream(stream)


def pins(memory: Memory, device: str) -> bool:
    """Whether to pin buffers: as chosen, where there is a GPU."""
    return memory is Memory.PINNED and device != "cpu"


def finish(device: str) -> None:
    """Synchronise with the device."""
    import torch

    if device != "cpu":
        torch.cuda.synchronize(device)


def keep_for(tensor: torch.Tensor, stream: torch.cuda.Stream | None) -> None:
    """Tell the allocator that ``stream`` uses ``tensor``, so that its memory is not reused too early."""
    if stream is not None and tensor.is_cuda:
        tensor.record_stream(stream)


class Mark:
    """A mark after the work that was issued to a stream, a new event each time; without a GPU, all work is complete."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._event: torch.cuda.Event | None = None

    def set(self) -> None:
        """Mark the work that was issued so far to the current stream."""
        import torch

        if self._device != "cpu":
            self._event = torch.cuda.current_stream().record_event()

    def hold(self) -> None:
        """Let the current stream wait for the marked work."""
        import torch

        if self._event is not None:
            torch.cuda.current_stream().wait_event(self._event)

    def wait(self) -> None:
        """Let the host wait for it."""
        if self._event is not None:
            self._event.synchronize()


class Stopwatch:
    """Measures time between begin and end with CUDA events; with the host's clock where there is no GPU."""

    def __init__(self, device: str) -> None:
        self._on_gpu = device != "cpu"
        self._marks: list[tuple[Any, Any]] = []
        self._first: Any = None

    def __enter__(self) -> None:
        self._first = self._mark()

    def __exit__(self, *failure: object) -> None:
        self._marks.append((self._first, self._mark()))

    def _mark(self) -> Any:
        if not self._on_gpu:
            return time.perf_counter_ns()
        import torch

        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def median_ms(self) -> float:
        """Median of all intervals so far, without synchronising."""
        times = [a.elapsed_time(b) if self._on_gpu else (b - a) / 1e6 for a, b in self._marks]
        return float(round(median(times), 3))
