"""What copies take between this machine's host and GPUs."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from overlapscope.calibration.schema import CopyTime, DuplexTime
from overlapscope.capture.calibrate.timing import REPEATS, device_ns, registered

if TYPE_CHECKING:
    import torch

SIZES = (1 << 16, 1 << 20, 1 << 24, 1 << 26)
"""Bytes of the copies that are timed: from where the call dominates to where the link does."""
_BATCH_BYTES = 1 << 26  # copies of one measurement together, so that its two synchronisations weigh little
_MOST_COPIES = 64
_COPIES_IN_A_ROW = 4  # so that little of the last of one direction is alone


def copy_times(device: int) -> tuple[CopyTime, ...]:
    """Time one copy of each size, direction and kind of host memory, on its own on the GPU with this CUDA ordinal."""
    import torch

    there = torch.empty(SIZES[-1], dtype=torch.uint8, device=f"cuda:{device}")
    pageable = torch.ones(SIZES[-1], dtype=torch.uint8)
    times = []
    with registered(torch.ones(SIZES[-1], dtype=torch.uint8)) as pinned:
        hosts = {"pageable": pageable, "pinned": pinned}
        for direction, kind, size in product(("HtoD", "DtoH"), hosts, SIZES):
            ends = (there[:size], hosts[kind][:size])
            target, source = ends if direction == "HtoD" else ends[::-1]
            copy_ns = _copy_ns(target, source, size)
            times.append(CopyTime(direction, kind, size, copy_ns, device))
    return tuple(times)


def duplex_times(device: int) -> tuple[DuplexTime, ...]:
    """Time large pinned copies of each direction on the GPU, alone and while others go in the other direction."""
    import torch

    half = SIZES[-1] // 2
    there = torch.ones(SIZES[-1], dtype=torch.uint8, device=f"cuda:{device}")
    with registered(torch.ones(SIZES[-1], dtype=torch.uint8)) as here:
        ends = {"HtoD": (there[:half], here[:half]), "DtoH": (here[half:], there[half:])}
        alone = [_together_ns([pair])[0] for pair in ends.values()]
        beside = _together_ns(list(ends.values()))
    return tuple(map(DuplexTime, ends, alone, beside))


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


def _copy_ns(target: torch.Tensor, source: torch.Tensor, size: int) -> int:
    count = max(1, min(_MOST_COPIES, _BATCH_BYTES // size))

    def copies() -> None:
        for _ in range(count):
            target.copy_(source, non_blocking=True)

    return device_ns(copies) // count
