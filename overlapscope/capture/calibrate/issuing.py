"""What it takes the host to issue work, when it does little else."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from overlapscope.calibration.schema import IssueCost
from overlapscope.capture.calibrate.timing import registered

if TYPE_CHECKING:
    import torch

_TO_DEVICE = 1  # cudaMemcpyHostToDevice
_RUNTIMES = {"11": "libcudart.so.11.0"}
_CALLS, _BATCHES = 20, 30  # between two synchronisations, and how often


def issue_cost() -> IssueCost:
    """Host time to issue a tiny kernel and a tiny pinned copy from Python, and that of the copy's call.

    Measured with and without a profiler on, the difference is what the profiler adds to each call. ``call_ns`` is
    None where CUDA's runtime library cannot be called.
    """
    import torch

    with registered(torch.ones(1024)) as here:
        there = torch.empty(1024, device="cuda")
        return IssueCost(
            kernel_ns=_issue_ns(lambda: there.add_(1)),
            copy_ns=_issue_ns(lambda: there.copy_(here, non_blocking=True)),
            call_ns=_call_ns(there, here),
        )


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
