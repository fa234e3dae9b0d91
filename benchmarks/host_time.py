"""How long does a copy call keep the host, by size, memory and direction? On a GPU.

    python benchmarks/host_time.py -o benchmarks/host_time.json

Each call is timed on an idle stream, and behind work that keeps its stream busy for some milliseconds. A call that
waits for the work before it takes as long as that; one that stages its bytes and returns does not.

Pinning is timed too: of one tensor, and of pieces that threads of Python share, as a TensorDict with ``num_threads``
does. Cold, torch has no pinned memory cached; warm, it uses what it pinned before.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

SIZES = tuple(2**power for power in range(10, 29))
_REPEATS = 15
_BUSY_MS = 8.0
_WARM_UP = 3
_MOST_PINNED = 2**28
THREADS = (1, 2, 3, 4)
TOTALS = tuple(2**power for power in range(20, 31, 2))
_PIECES = 64
_COLD_REPEATS = 5


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).with_suffix(".json"))
    output = parser.parse_args().output
    import torch

    pinning = [_pinning(size) for size in SIZES if size <= _MOST_PINNED]  # first: later, pinned memory is cached
    in_threads = [_pinning_in_threads(total, threads) for total in TOTALS for threads in THREADS]
    _forget_pinned()
    cycles = _cycles_per_ms(torch.cuda)
    rows = [
        _row(direction, memory, blocking, size, cycles)
        for direction in ("HtoD", "DtoH")
        for memory in ("pageable", "pinned")
        for blocking in (False, True)
        for size in SIZES
    ]
    about = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "busy_ms": _BUSY_MS,
        "repeats": _REPEATS,
    }
    text = json.dumps({"machine": about, "copies": rows, "pinning": pinning, "pinning_threads": in_threads}, indent=0)
    output.write_text(text + "\n", encoding="utf-8")


def _sleep(cycles: int) -> None:
    """Keep the current stream busy."""
    import torch

    torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]  # noqa: SLF001 - nothing public does that


def _cycles_per_ms(cuda: Any) -> float:
    begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    _sleep(1_000_000)
    begin.record()
    _sleep(10_000_000)
    end.record()
    end.synchronize()
    return 10_000_000 / float(begin.elapsed_time(end))


def _row(direction: str, memory: str, blocking: bool, size: int, cycles: float) -> dict[str, Any]:
    """Median times of one kind of copy, in us: of its call, and until it is done."""
    import torch

    host = torch.ones(size, dtype=torch.uint8, pin_memory=memory == "pinned")
    device = torch.ones(size, dtype=torch.uint8, device="cuda")
    target, source = (device, host) if direction == "HtoD" else (host, device)
    found: dict[str, Any] = {"direction": direction, "memory": memory, "blocking": blocking, "size_bytes": size}
    for state, wait in (("idle", 0.0), ("busy", _BUSY_MS)):
        times = [_once(target, source, blocking, round(wait * cycles)) for _ in range(_REPEATS + _WARM_UP)][_WARM_UP:]
        found[f"{state}_call_us"] = round(statistics.median(call for call, _ in times), 2)
        found[f"{state}_done_us"] = round(statistics.median(done for _, done in times), 2)
    return found


def _once(target: torch.Tensor, source: torch.Tensor, blocking: bool, cycles: int) -> tuple[float, float]:
    """The time of the call, and the time until the copy is done, in us."""
    import torch

    torch.cuda.synchronize()
    if cycles:
        _sleep(cycles)
    begin = time.perf_counter_ns()
    target.copy_(source, non_blocking=not blocking)
    called = time.perf_counter_ns()
    torch.cuda.synchronize()
    return (called - begin) / 1e3, (time.perf_counter_ns() - begin) / 1e3


def _pinning(size: int) -> dict[str, float]:
    """What ``pin_memory()`` takes the first time, when it gets new memory, and later, when that is cached; in us."""
    import torch

    source = torch.ones(size, dtype=torch.uint8)
    times = []
    for _ in range(_REPEATS):
        begin = time.perf_counter_ns()
        pinned = source.pin_memory()
        times.append((time.perf_counter_ns() - begin) / 1e3)
        del pinned
    return {"size_bytes": size, "cold_us": round(times[0], 2), "warm_us": round(statistics.median(times[1:]), 2)}


def _pinning_in_threads(total: int, threads: int) -> dict[str, float]:
    """What it takes to pin pieces of this size together, shared by some threads; in us."""
    import torch

    pieces = [torch.ones(total // _PIECES, dtype=torch.uint8) for _ in range(_PIECES)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(time.sleep, [0.01] * threads))  # a pool starts its threads when it needs them

        def pin() -> list[torch.Tensor]:
            each = pool.map if threads > 1 else map
            return list(each(torch.Tensor.pin_memory, pieces))

        cold = _median_us(pin, _COLD_REPEATS, _forget_pinned)
        pin()
        warm = _median_us(pin, _REPEATS)
    return {"size_bytes": total, "pieces": _PIECES, "threads": threads, "cold_us": cold, "warm_us": warm}


def _median_us(work: Callable[[], object], repeats: int, before: Callable[[], object] = list) -> float:
    times = []
    for _ in range(repeats):
        before()
        begin = time.perf_counter_ns()
        work()
        times.append((time.perf_counter_ns() - begin) / 1e3)
    return round(statistics.median(times), 2)


def _forget_pinned() -> None:
    """Give all pinned memory that torch has cached back to the system."""
    import torch

    torch.cuda.synchronize()
    names = ("_host_emptyCache", "_accelerator_emptyHostCache")  # of older and of newer releases
    next(getattr(torch._C, name) for name in names if hasattr(torch._C, name))()  # noqa: SLF001 - nothing public does


if __name__ == "__main__":
    main()
