"""The few things that programs do with streams and host memory, also where there is no GPU."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class Memory(StrEnum):
    """Where host buffers lie. Without a GPU all of them are pageable."""

    PAGEABLE = "pageable"
    PINNED = "pinned"


class CopyStream(StrEnum):
    """Which stream copies go to: one of their own, or the kernels'."""

    SIDE = "side"
    SAME = "same"


def copy_stream(choice: CopyStream, device: str) -> torch.cuda.Stream | None:
    """A stream of the copies' own, or None for the current one."""
    import torch

    wanted = choice is CopyStream.SIDE and device != "cpu"
    return torch.cuda.Stream(device) if wanted else None  # type: ignore[no-untyped-call]


def on(stream: torch.cuda.Stream | None) -> AbstractContextManager[Any]:
    """Make ``stream`` the current one, or leave the current one be."""
    import torch

    return nullcontext() if stream is None else torch.cuda.stream(stream)


def pins(memory: Memory, device: str) -> bool:
    """Whether buffers are to be pinned: as wanted, where there is a GPU."""
    return memory is Memory.PINNED and device != "cpu"


def finish(device: str) -> None:
    """Wait for everything that was queued on the device."""
    import torch

    if device != "cpu":
        torch.cuda.synchronize(device)


def keep_for(tensor: torch.Tensor, stream: torch.cuda.Stream | None) -> None:
    """Tell the allocator that ``stream`` uses ``tensor``, so that its memory is not given away too early."""
    if stream is not None and tensor.is_cuda:
        tensor.record_stream(stream)


class Stopwatch:
    """Times each stretch between its begin and end on the device's own clock; the host's where there is no GPU."""

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
        """Median over all uses so far; waits for none of them."""
        times = [a.elapsed_time(b) if self._on_gpu else (b - a) / 1e6 for a, b in self._marks]
        return float(round(median(times), 3))
