"""What does the host take to pack tensors and send them as one, against sending each? On a GPU.

    python benchmarks/packing.py -o benchmarks/packing.json

Tensors of one size, each with memory of its own. *Cold* means that the host has since written more than its caches
hold. Sent one by one from pageable and from pinned memory; or stacked into a new tensor, or into a pinned buffer that
is kept, and sent at once. The times of the host alone are there too: what stacking takes without the copy.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

COUNTS = (4, 16, 40, 64, 256)
SIZES = tuple(2**power for power in range(12, 23, 2))
_MOST_BYTES = 2**27
_REPEATS = 7
_OTHER_BYTES = 2**27  # of other work of the host, more than a cache holds


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).with_suffix(".json"))
    output = parser.parse_args().output
    other = torch.ones(_OTHER_BYTES // 4)
    rows = [
        row
        for size in SIZES
        for count in COUNTS
        if count * size <= _MOST_BYTES
        for row in measured(count, size, partial(other.add_, 1))
    ]
    about = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "repeats": _REPEATS,
    }
    lines = ",\n".join(json.dumps(row) for row in rows)
    output.write_text(f'{{"machine": {json.dumps(about)},\n"rows": [\n{lines}\n]}}\n', encoding="utf-8")


def measured(count: int, size: int, other_work: Callable[[], object]) -> list[dict[str, Any]]:
    """Every way for so many tensors of this size, warm and cold, in us."""
    found = []
    for name, work in ways(count, size).items():
        for state, before in (("warm", _nothing), ("cold", other_work)):
            host, done = _times_us(work, before)
            found.append(
                {"way": name, "count": count, "size_bytes": size, "state": state, "host_us": host, "done_us": done}
            )
    return found


def ways(count: int, size: int) -> dict[str, Callable[[], object]]:
    """Each way to get the tensors to the GPU, and packing by itself."""
    pieces = [torch.ones(size // 4) for _ in range(count)]
    pinned = [piece.pin_memory() for piece in pieces]
    buffer = torch.empty(count, size // 4, pin_memory=True)
    target = torch.empty(count, size // 4, device="cuda")
    return {
        "each, pageable": lambda: [piece.to("cuda", non_blocking=True) for piece in pieces],
        "each, pinned": lambda: [piece.to("cuda", non_blocking=True) for piece in pinned],
        "stacked": lambda: torch.stack(pieces).to("cuda", non_blocking=True),
        "packed": lambda: torch.stack(pieces, out=buffer).to("cuda", non_blocking=True),
        "stacking alone": lambda: torch.stack(pieces),
        "packing alone": lambda: torch.stack(pieces, out=buffer),
        "one copy, pinned": lambda: target.copy_(buffer, non_blocking=True),
    }


def _times_us(work: Callable[[], object], before: Callable[[], object]) -> tuple[float, float]:
    """Medians: until the host goes on, and until the GPU is done."""
    host, done = [], []
    for _ in range(_REPEATS + 2):
        before()
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        kept = work()
        host.append((time.perf_counter_ns() - begin) / 1e3)
        torch.cuda.synchronize()
        done.append((time.perf_counter_ns() - begin) / 1e3)
        del kept
    return round(statistics.median(host[2:]), 1), round(statistics.median(done[2:]), 1)


def _nothing() -> None:
    """What comes before a packing that follows another."""


if __name__ == "__main__":
    main()
