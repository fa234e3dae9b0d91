"""What this machine's link and its profiler cost: measured in a fraction of a second, before a recording.

The figures let an analysis say what a copy *would* take from pinned memory, and how much of a recorded
time is the profiler's. Figures are medians; what issuing something costs is the least of many, since whatever else the
machine does can only add to it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

SIZES = (1 << 16, 1 << 20, 1 << 24, 1 << 26)
"""Bytes of the copies that are timed: from where the call dominates to where the link does."""
REPEATS = 3
GATHERED = (1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 22)
"""Bytes of the pieces whose gathering is timed."""
_GATHERED_BYTES, _MOST_PIECES = 1 << 25, 512
_BATCH_BYTES = 1 << 26  # copies of one measurement together, so that its two synchronisations weigh little
_MOST_COPIES = 64
_CALLS, _BATCHES = 20, 30  # between two synchronisations, and how often


def link_speeds(device: int) -> list[dict[str, Any]]:
    """Time one copy of each size, direction and kind of host memory, on its own on ``device``.

    Returns:
        Rows of ``device``, ``direction`` (HtoD, DtoH), ``host_memory`` (pageable, pinned), ``size_bytes`` and
        ``copy_ns``, the wall time per copy where copies follow each other without a pause.
    """
    import torch

    there = torch.empty(SIZES[-1], dtype=torch.uint8, device=f"cuda:{device}")
    pageable = torch.ones(SIZES[-1], dtype=torch.uint8)
    rows = []
    with registered(torch.ones(SIZES[-1], dtype=torch.uint8)) as pinned:
        hosts = {"pageable": pageable, "pinned": pinned}
        for direction, kind, size in product(("HtoD", "DtoH"), hosts, SIZES):
            ends = (there[:size], hosts[kind][:size])
            target, source = ends if direction == "HtoD" else ends[::-1]
            copy_ns = _copy_ns(target, source, size)
            row = {"device": device, "direction": direction, "host_memory": kind}
            rows.append({**row, "size_bytes": size, "copy_ns": copy_ns})
    return rows


def gather_times() -> list[dict[str, int]]:
    """Time the host's part of sending many tensors as one: copying pieces of each size to a pinned buffer.

    Returns:
        Rows of ``size_bytes``, of a piece, and ``gather_ns``, the wall time a piece.
    """
    import torch

    source = torch.ones(_GATHERED_BYTES // 4)
    rows = []
    with registered(torch.ones(_GATHERED_BYTES // 4)) as target:
        for size in GATHERED:
            count = min(_MOST_PIECES, _GATHERED_BYTES // size)
            pieces = torch.split(source[: count * size // 4], size // 4)
            buffer = target[: count * size // 4]
            total = _median_ns(partial(torch.cat, pieces, out=buffer))
            rows.append({"size_bytes": size, "gather_ns": max(1, total // count)})
    return rows


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


def _copy_ns(target: torch.Tensor, source: torch.Tensor, size: int) -> int:
    count = max(1, min(_MOST_COPIES, _BATCH_BYTES // size))

    def copies() -> None:
        for _ in range(count):
            target.copy_(source, non_blocking=True)

    return _median_ns(copies) // count


def op_costs() -> dict[str, int]:
    """Host time to issue a tiny kernel and a tiny pinned copy from Python, in ns each.

    Measured with and without a profiler on, the difference is what the profiler adds to each call.
    """
    import torch

    with registered(torch.ones(1024)) as here:
        there = torch.empty(1024, device="cuda")
        return {
            "kernel_ns": _issue_ns(lambda: there.add_(1)),
            "copy_ns": _issue_ns(lambda: there.copy_(here, non_blocking=True)),
        }


def _issue_ns(issue: Callable[[], object]) -> int:
    """The least host time of one call among many; the queue is emptied between batches, outside of the time."""
    import torch

    times = []
    for _ in range(_BATCHES):
        begin = time.perf_counter_ns()
        for _ in range(_CALLS):
            issue()
        times.append((time.perf_counter_ns() - begin) // _CALLS)
        torch.cuda.synchronize()
    return min(times)


def _median_ns(work: Callable[[], object]) -> int:
    """Wall time of ``work`` with everything it queued, after one run that does not count."""
    import torch

    times = []
    for _ in range(REPEATS + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter_ns() - begin)
    return int(statistics.median(times[1:]))
