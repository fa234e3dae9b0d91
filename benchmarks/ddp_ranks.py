"""Record the ranks of a data-parallel job in which one rank has pageable input, and of the same job without that fault.

    python benchmarks/ddp_ranks.py OUT

Needs one GPU for each rank. OUT gets the scrubbed traces of every rank, in a folder for each job, and ``times.json``:
what a step of either job takes without a profiler, measured in turns in the same processes.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from overlapscope.capture.recorder import record
from overlapscope.scrub.kineto import scrub_kineto

JOBS = {"pageable": 1, "pinned": None}
"""The rank with pageable input in each job; the others are pinned."""
Batches = Iterator[torch.Tensor]


@dataclass(frozen=True)
class Sizes:
    """Sizes of the program: rows of a batch, width of the layers, layers; and of what is timed and recorded."""

    rows: int = 4096
    width: int = 4096
    layers: int = 4
    batches: int = 3
    rounds: int = 9
    timed_steps: int = 10
    recorded_steps: int = 4


SMALL = Sizes(rows=16, width=16, layers=2, rounds=2, timed_steps=2)
"""For a machine without a GPU."""


def rank_main(rank: int, ranks: int, port: int, out: str, small: bool) -> None:
    """What each rank does: time both jobs in turns, then record one after the other."""
    sizes, on_gpu = (SMALL, False) if small else (Sizes(), True)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": str(ranks)}
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
        torch.backends.cuda.matmul.allow_tf32 = True
    distributed.init_process_group("nccl" if on_gpu else "gloo", rank=rank, world_size=ranks)
    torch.manual_seed(rank)
    layers = [part for _ in range(sizes.layers) for part in (nn.Linear(sizes.width, sizes.width), nn.ReLU())]
    model = DistributedDataParallel(nn.Sequential(*layers).to(device), device_ids=[rank] if on_gpu else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(inputs: Batches) -> None:
        batch = next(inputs).to(device, non_blocking=True)
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    inputs = {job: _batches(sizes, pinned=on_gpu and late != rank) for job, late in JOBS.items()}
    times: dict[str, list[float]] = {job: [] for job in JOBS}
    for turn in range(sizes.rounds + 1):
        for job, batches in inputs.items():
            taken = _steps_ms(step, batches, sizes.timed_steps, on_gpu=on_gpu)
            if turn:  # the first warms up
                times[job].append(taken)
    for job, batches in inputs.items():
        with tempfile.TemporaryDirectory() as scratch:
            trace = Path(scratch) / f"rank{rank}.json.gz"
            _record(step, batches, trace, sizes.recorded_steps, device=device.type)
            scrub_kineto(trace, Path(out) / job / trace.name)
    if rank == 0:
        _write_times(Path(out) / "times.json", times, ranks, sizes, on_gpu=on_gpu)
    distributed.barrier()
    distributed.destroy_process_group()


def _batches(sizes: Sizes, *, pinned: bool) -> Batches:
    kept = [torch.randn(sizes.rows, sizes.width) for _ in range(sizes.batches)]
    return cycle([batch.pin_memory() for batch in kept] if pinned else kept)


def _steps_ms(step, batches: Batches, count: int, *, on_gpu: bool) -> float:  # type: ignore[no-untyped-def]
    distributed.barrier()
    _wait(on_gpu)
    begin = time.perf_counter()
    for _ in range(count):
        step(batches)
    _wait(on_gpu)
    return (time.perf_counter() - begin) / count * 1e3


def _record(step, batches: Batches, trace: Path, steps: int, *, device: str) -> None:  # type: ignore[no-untyped-def]
    distributed.barrier()
    warmup = 2
    with record(trace, steps=steps, warmup=warmup, unprofiled=0, calibrate=False, device=device) as recording:
        for _ in range(2 * warmup + steps):
            step(batches)
            recording.step()
        _wait(device == "cuda")


def _wait(on_gpu: bool) -> None:
    if on_gpu:
        torch.cuda.synchronize()


def _write_times(path: Path, times: dict[str, list[float]], ranks: int, sizes: Sizes, *, on_gpu: bool) -> None:
    medians = {job: round(statistics.median(values), 3) for job, values in times.items()}
    found = {
        "gpu": torch.cuda.get_device_name() if on_gpu else "none",
        "torch": torch.__version__,
        "ranks": ranks,
        "batch_mib": sizes.rows * sizes.width * 4 / 2**20,
        "step_ms": medians,
        "rounds_ms": {job: [round(value, 3) for value in values] for job, values in times.items()},
    }
    path.write_text(json.dumps(found, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--small", action="store_true", help="try it out without a GPU")
    options = parser.parse_args()
    for job in JOBS:
        (options.out / job).mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = (options.ranks, port, str(options.out.absolute()), options.small)
    torch.multiprocessing.spawn(rank_main, arguments, options.ranks)  # type: ignore[attr-defined,no-untyped-call]
    print((options.out / "times.json").read_text())


if __name__ == "__main__":
    main()
