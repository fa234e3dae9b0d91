"""What all calibrations need."""

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
    """Wall time of ``work``, which has something else ``before`` it, after one run that does not count: the median."""
    times = []
    for _ in range(repeats + 1):
        before()
        begin = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - begin)
    return int(statistics.median(times[1:]))


def device_ns(work: Callable[[], object]) -> int:
    """Wall time of ``work`` with everything it queues, from an idle device to an idle device: the median."""
    import torch

    def all_of_it() -> None:
        work()
        torch.cuda.synchronize()

    return host_ns(all_of_it, torch.cuda.synchronize)
