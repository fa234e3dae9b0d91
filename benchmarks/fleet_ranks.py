"""Make the traces of a data-parallel job of any number of ranks, with known stragglers and their causes.

    python benchmarks/fleet_ranks.py OUT --ranks 64 --straggler 17=pageable --cut 3 --missing 5 --twice 9

Each step of each rank copies its input to the GPU, runs kernels, and reduces the gradient of each layer with all other
ranks. A collective of a rank begins when its gradient is there, and all end within some microseconds. The clocks of the
ranks differ.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

Event = dict[str, Any]
CAUSES = {"pageable": "OVL001", "host": "OVL008", "kernels": ""}
"""What makes a rank late, and the rule that says so; slow kernels are no finding."""
_COMPUTE, _REDUCE = 7, 20  # streams
_KERNEL_US, _ISSUE_US, _COPY_US, _MOVE_US = 400.0, 6.0, 90.0, 150.0
_ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
_SHOWN_RANKS = 8
_APART_US = 4.0  # ends of one collective


@dataclass(frozen=True)
class Job:
    """A job: its size, and what is wrong with which of its ranks.

    ``late_us`` is how late a straggler is in each step, ``skew_us`` how far clocks lie apart at most. Ranks in ``cut``
    have a truncated file, those in ``missing`` none, and those in ``twice`` two. Without ``numbered`` collectives have
    neither a process group nor a sequence number, as in older traces.
    """

    ranks: int
    steps: int = 3
    layers: int = 3
    late_us: float = 5000.0
    skew_us: float = 50_000.0
    stragglers: dict[int, str] = field(default_factory=dict)
    cut: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    twice: tuple[int, ...] = ()
    numbered: bool = True
    seed: int = 1


@dataclass
class _Rank:
    """A rank while it runs: its time, the end of the work on its GPU, and its events."""

    number: int
    skew_us: float
    chance: random.Random
    now: float = 0.0
    free: float = 0.0
    events: list[Event] = field(default_factory=list)
    ids: Iterator[int] = field(default_factory=lambda: count(1))

    def host(self, category: str, name: str, us: float, **args: Any) -> None:
        self._add(category, name, 100 + self.number, 100 + self.number, (self.now, us), args)
        self.now += us

    def work(self, category: str, name: str, stream: int, when: tuple[float, float], **args: Any) -> None:
        about = {"device": self.number % 8, "context": 1, "stream": stream}
        self._add(category, name, self.number % 8, stream, when, about | args)

    def kernel(self, name: str, us: float) -> float:
        """Launch a kernel, and say when it will end."""
        number = next(self.ids)
        self.host("cuda_runtime", "cudaLaunchKernel", _ISSUE_US, correlation=number)
        begin = max(self.now + 4, self.free)
        self.work("kernel", name, _COMPUTE, (begin, us), correlation=number, grid=[64, 1, 1], block=[256, 1, 1])
        self.free = begin + us
        return self.free

    def _add(self, category: str, name: str, pid: int, tid: int, when: tuple[float, float], args: Event) -> None:
        at = round(when[0] + self.skew_us, 3)
        entry = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": at, "dur": round(when[1], 3)}
        self.events.append(entry | {"args": args})


def make(folder: Path, job: Job) -> list[Path]:
    """Write the traces of a job."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(job.seed)
    ranks = [
        _Rank(number, 1e6 + chance.uniform(0, job.skew_us), random.Random(f"{job.seed} {number}"))
        for number in range(job.ranks)
    ]
    for step in range(job.steps):
        _step(ranks, step, job)
    written = []
    for rank in ranks:
        if rank.number not in job.missing:
            names = ["trace", "again"] if rank.number in job.twice else ["trace"]
            written += [_write(folder / f"rank{rank.number}_{name}.json.gz", rank, job) for name in names]
    return written


def _step(ranks: list[_Rank], step: int, job: Job) -> None:
    begins = [rank.now for rank in ranks]
    ready = [_compute(rank, job) for rank in ranks]
    done = 0.0
    for layer in range(job.layers):
        arrivals = [max(done, gradients[layer] + 3) for gradients in ready]
        done = max(arrivals) + _MOVE_US
        for rank, arrival in zip(ranks, arrivals, strict=True):
            _all_reduce(rank, arrival, done, step * job.layers + layer, job)
    for rank, begin in zip(ranks, begins, strict=True):
        rank.free = max(rank.free, done)
        rank.kernel("optimizer", 100)
        number = next(rank.ids)
        rank.host("cuda_runtime", "cudaDeviceSynchronize", max(rank.free + 5 - rank.now, 1), correlation=number)
        rank.host("cpu_op", "aten::zero_", 20)
        after, rank.now = rank.now, begin
        rank.host("user_annotation", f"ProfilerStep#{step + 3}", after - begin)


def _compute(rank: _Rank, job: Job) -> list[float]:
    """The input, the forward and the backward pass; the times at which each layer's gradient is there."""
    cause = job.stragglers.get(rank.number)
    rank.host("cpu_op", "aten::stack", 40)
    _copy(rank, job.late_us if cause == "pageable" else 0)
    slower = job.late_us / job.layers if cause == "kernels" else 0
    for _ in range(job.layers):
        rank.kernel("forward", _KERNEL_US * rank.chance.uniform(0.99, 1.01))
    if cause == "host":
        rank.host("cpu_op", "aten::sort", job.late_us)
    return [rank.kernel("backward", _KERNEL_US * rank.chance.uniform(0.99, 1.01) + slower) for _ in range(job.layers)]


def _copy(rank: _Rank, blocked_us: float) -> None:
    number, called = next(rank.ids), rank.now
    rank.host("cuda_runtime", "cudaMemcpyAsync", blocked_us or _ISSUE_US, correlation=number)
    begin, us = (called + 5, blocked_us - 10) if blocked_us else (max(rank.now + 2, rank.free), _COPY_US)
    kind = "Pageable" if blocked_us else "Pinned"
    rank.work("gpu_memcpy", f"Memcpy HtoD ({kind} -> Device)", _COMPUTE, (begin, us), correlation=number, bytes=4 << 20)
    rank.free = begin + us


def _all_reduce(rank: _Rank, begin: float, end: float, sequence: int, job: Job) -> None:
    number = next(rank.ids)
    rank.host("cuda_runtime", "cudaLaunchKernelExC", _ISSUE_US, correlation=number)
    begin = max(begin, rank.now)
    shown = ", ".join(map(str, range(min(job.ranks, _SHOWN_RANKS)))) + (", ..." if job.ranks > _SHOWN_RANKS else "")
    args = {"Process Group Name": "0", "Process Group Ranks": f"[{shown}]", "Seq": sequence} if job.numbered else {}
    until = end + rank.chance.uniform(-_APART_US, _APART_US)
    rank.work("kernel", _ALL_REDUCE, _REDUCE, (begin, until - begin), correlation=number, **args)


def _write(path: Path, rank: _Rank, job: Job) -> Path:
    about = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": number, "name": "NVIDIA H200"} for number in range(8)],
        "distributedInfo": {"backend": "nccl", "rank": rank.number, "world_size": job.ranks},
        "baseTimeNanoseconds": 10**18,
    }
    text = json.dumps(about | {"traceEvents": sorted(rank.events, key=lambda event: event["ts"])}, indent=1).encode()
    if "again" in path.name:
        text += b"\n"
    data = gzip.compress(text, mtime=0)
    path.write_bytes(data[: len(data) * 2 // 3] if rank.number in job.cut else data)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--straggler", action="append", default=[], metavar=f"RANK={'|'.join(CAUSES)}")
    for name in ("cut", "missing", "twice"):
        parser.add_argument(f"--{name}", type=int, nargs="*", default=[], metavar="RANK")
    options = parser.parse_args()
    stragglers = {int(rank): cause for rank, _, cause in (text.partition("=") for text in options.straggler)}
    job = Job(
        options.ranks,
        options.steps,
        options.layers,
        stragglers=stragglers,
        cut=tuple(options.cut),
        missing=tuple(options.missing),
        twice=tuple(options.twice),
    )
    print(f"{len(make(options.out, job))} traces in {options.out}")


if __name__ == "__main__":
    main()
