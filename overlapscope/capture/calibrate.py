"""What this machine's link and its profiler cost: measured in a fraction of a second, before a recording.

The figures let an analysis say what a copy *would* take from pinned memory, and how much of a recorded
time is the profiler's. Figures are medians; what issuing something costs is the least of many, since whatever else the
machine does can only add to it.
"""

from __future__ import annotations

import ctypes
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
_COPIES_IN_A_ROW = 4  # so that little of the last of one direction is alone
_TO_DEVICE = 1  # cudaMemcpyHostToDevice
_RUNTIMES = {"11": "libcudart.so.11.0"}
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


def both_ways(device: int) -> list[dict[str, Any]]:
    """Time large pinned copies of each direction on ``device``, alone and while others go the other way.

    Returns:
        Rows of ``direction``, ``alone_ns`` and ``beside_ns``, the device's time per copy.
    """
    import torch

    half = SIZES[-1] // 2
    there = torch.ones(SIZES[-1], dtype=torch.uint8, device=f"cuda:{device}")
    with registered(torch.ones(SIZES[-1], dtype=torch.uint8)) as here:
        ends = {"HtoD": (there[:half], here[:half]), "DtoH": (here[half:], there[half:])}
        alone = [_together_ns([pair])[0] for pair in ends.values()]
        beside = _together_ns(list(ends.values()))
    rows = zip(ends, alone, beside, strict=True)
    return [dict(zip(("direction", "alone_ns", "beside_ns"), row, strict=True)) for row in rows]


def _together_ns(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> list[int]:
    """Device time of a copy of each pair, several in a row on a stream of its own, all streams at once: the least."""
    import torch

    times: list[list[float]] = [[] for _ in pairs]
    streams = [torch.cuda.Stream() for _ in pairs]  # type: ignore[no-untyped-call]
    for _ in range(2 * REPEATS):
        torch.cuda.synchronize()
        marks = []
        for stream, (target, source) in zip(streams, pairs, strict=True):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            with torch.cuda.stream(stream):
                begin.record()
                for _ in range(_COPIES_IN_A_ROW):
                    target.copy_(source, non_blocking=True)
                end.record()
            marks.append((begin, end))
        torch.cuda.synchronize()
        for each, (begin, end) in zip(times, marks, strict=True):
            each.append(begin.elapsed_time(end))
    return [round(1e6 * min(each) / _COPIES_IN_A_ROW) for each in times]


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
    """Host time to issue a tiny kernel and a tiny pinned copy from Python, and that of the copy's call, in ns each.

    Measured with and without a profiler on, the difference is what the profiler adds to each call. ``call_ns`` is
    absent where CUDA's runtime library cannot be called.
    """
    import torch

    with registered(torch.ones(1024)) as here:
        there = torch.empty(1024, device="cuda")
        costs = {
            "kernel_ns": _issue_ns(lambda: there.add_(1)),
            "copy_ns": _issue_ns(lambda: there.copy_(here, non_blocking=True)),
        }
        call_ns = _call_ns(there, here)
    return costs if call_ns is None else costs | {"call_ns": call_ns}


def _call_ns(target: torch.Tensor, source: torch.Tensor) -> int | None:
    """What cudaMemcpyAsync itself takes to the device, without what it takes to call a function from Python."""
    import torch

    version = (torch.version.cuda or "").partition(".")[0]
    try:
        copy = ctypes.CDLL(_RUNTIMES.get(version, f"libcudart.so.{version}")).cudaMemcpyAsync
        nothing = ctypes.CDLL(None).memcmp
    except (OSError, AttributeError):
        return None
    copy.argtypes = nothing.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_void_p,
    ]
    size, there, here = target.numel() * target.element_size(), target.data_ptr(), source.data_ptr()
    stream = torch.cuda.current_stream(target.device).cuda_stream
    call = _issue_ns(lambda: copy(there, here, size, _TO_DEVICE, stream))
    none = _issue_ns(lambda: nothing(here, here, 0, _TO_DEVICE, stream))
    return max(call - none, 1)


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
