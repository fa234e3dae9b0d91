"""Record a Kineto trace with what the analysis needs, and mark the same stretch for Nsight Systems."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from overlapscope.errors import CaptureError


def record_pass(run: Callable[[], None], path: str | Path | None = None) -> None:
    """Run ``run`` once to warm the profiler up and once recorded.

    With ``path``, the recorded pass becomes a Kineto trace (gzip when the name ends in ``.gz``) with
    CUDA synchronisation events. Without it, the pass is only bracketed by ``cudaProfilerStart`` and
    ``cudaProfilerStop``, which is what ``nsys profile -c cudaProfilerApi`` waits for: CUPTI serves one
    profiler at a time, so the two are never on together.

    Raises:
        CaptureError: there is no CUDA device, or the profiler cannot start.
    """
    require_cuda()
    if path is None:
        _bracketed(run)
    else:
        _profiled(run, Path(path))


def require_torch() -> None:
    """Raise `CaptureError` where torch is not installed."""
    if find_spec("torch") is None:
        raise CaptureError("this needs torch: pip install 'overlapscope[capture]'")


def require_cuda() -> None:
    """Raise `CaptureError` where torch is missing or sees no CUDA device."""
    require_torch()
    import torch

    if not torch.cuda.is_available():
        raise CaptureError("no CUDA device here: a trace without one has no copies to look at; run on a GPU machine")


def _bracketed(run: Callable[[], None]) -> None:
    import torch

    torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
    try:
        run()
    finally:
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]


def _profiled(run: Callable[[], None], path: Path) -> None:
    import torch
    from torch._C._profiler import _ExperimentalConfig

    partial = path.with_name(f".{os.getpid()}.{path.name}")
    with torch.profiler.profile(
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(partial)),
        experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True),
    ) as profiler:
        for _ in range(2):
            run()
            torch.cuda.synchronize()
            profiler.step()
    partial.replace(path)
