"""Helpers of all calibrations: pinned buffers, and timing on the host and on the device."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

REPEATS = 3


@contextmanager
def registered(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Page-lock ``tensor`` in place: unlike ``pin_memory()``, this leaves nothing in torch's cache of pinned blocks."""
    import torch

    runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    failed = int(runtime.cudaHostRegister(tensor.data_ptr(), tensor.numel() * tensor.element_size(), 0))
    if failed:
        raise RuntimeError(f"cudaHostRegister: error {failed}")
    try:
        yield tensor
    finally:
        torch.cuda.synchronize()
        runtime.cudaHostUnregister(tensor.data_ptr())


def host_ns(work: Callable[[], object], before: Callable[[], object], repeats: int = REPEATS) -> int:
    """Median wall time of ``work``, each run preceded by ``before``; a first run is a warm-up and not counted."""
    times = []
    for _ in range(repeats + 1):
        before()
        begin = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - begin)
    return int(statistics.median(times[1:]))


def device_ns(work: Callable[[], object]) -> int:
    """Median wall time of ``work`` with everything it queues, from one device synchronisation to the next."""
    import torch

    def work_and_synchronize() -> None:
        work()
        torch.cuda.synchronize()

    return host_ns(work_and_synchronize, torch.cuda.synchronize)
