"""Measure the ways to copy a tensor to the GPU over many sizes, for the figure of PyTorch's guide.

python -m overlapscope.workloads.pinning_sweep --out sweep.json
overlapscope transfers sweep.json -o transfers.pdf
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlapscope.calibration.data import plain
from overlapscope.capture.machine import devices, versions
from overlapscope.errors import OverlapscopeError
from overlapscope.workloads.harness import positive, spread, use_device, walls_ns
from overlapscope.workloads.pinning_guide import (
    WAYS,
    WORKLOAD,
    Choices,
    Load,
    Way,
    host_tensors,
    pinned_before,
    transfer,
)
from overlapscope.workloads.streams import finish

if TYPE_CHECKING:
    import torch

SCHEMA = "overlapscope.transfers/2"
_LARGEST_POWER = {"cpu": 20}  # bytes, as a power of two
_USUAL_LARGEST = 28
_MANY = {
    f"{load}-{way}": Choices(load, way) for load in (Load.LIST, Load.TENSORDICT) for way in Way if way in WAYS[load]
}
_MANY["coalesced"] = Choices(Load.COALESCED, Way.PINNED_AHEAD)


def sweep(device: str = "cuda", repeats: int = 9) -> dict[str, Any]:
    """Time every way for sizes from 1 KiB up, and for many small tensors.

    Returns:
        ``transfers``: rows of ``way``, ``size_bytes``, ``median_us``, ``min_us`` and ``max_us``, the wall time until
        one tensor has arrived, including the time to pin it where that is part of the way. ``many``: the figures of
        `measure` for many small tensors, as a list, as a TensorDict and as one packed buffer, with ``count`` and
        ``size_bytes`` of the tensors.

    Raises:
        CaptureError: torch is missing, or there is no GPU and ``device`` is one.
    """
    use_device(device)
    sizes = WORKLOAD.on_cpu if device == "cpu" else WORKLOAD.sizes
    many = [
        {"variant": name, "count": sizes.small, "size_bytes": sizes.small_kib * 1024}
        | WORKLOAD.measure(choices, device, repeats)
        for name, choices in _MANY.items()
    ]
    machine = {"schema": SCHEMA, "versions": versions(), "devices": plain(devices() if device != "cpu" else ())}
    return machine | {"transfers": list(_transfers(device, repeats)), "many": many}


def _transfers(device: str, repeats: int) -> Iterator[dict[str, Any]]:
    for power in range(10, _LARGEST_POWER.get(device, _USUAL_LARGEST) + 1, 2):
        for way in (each for each in Way if each in WAYS[Load.LARGE]):
            (source,) = host_tensors(1, 2**power // 4, pin=pinned_before(way, device))
            walls = walls_ns(partial(_deliver, source, way, device), repeats, warmup=2)
            yield {"way": str(way), "size_bytes": 2**power} | spread(walls, "us", 1e3)


def _deliver(source: torch.Tensor, way: Way, device: str) -> None:
    transfer(source, way, device)
    finish(device)


def main(argv: Sequence[str] | None = None) -> None:
    """Time everything and write JSON."""
    parser = argparse.ArgumentParser(prog="python -m overlapscope.workloads.pinning_sweep", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the JSON to write")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to try the program without a GPU")
    parser.add_argument("--repeats", type=positive, default=9, metavar="N")
    options = parser.parse_args(argv)
    try:
        result = sweep(options.device, options.repeats)
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    except (OverlapscopeError, OSError) as error:
        print(f"pinning_sweep: {error}", file=sys.stderr)  # noqa: T201
        raise SystemExit(2) from error


if __name__ == "__main__":
    main()
