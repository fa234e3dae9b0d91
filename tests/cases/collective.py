"""Two ranks that reduce gradients: what the collective case files record.

    python tests/cases/collective.py CASE OUT.json.gz         rank 0 as a Kineto trace, rank 1 as OUT.rank1.json.gz

Needs two GPUs. ``exposed``: each all-reduce is waited for before the next product. ``beside``: it runs asynchronously
while the next products run. ``copies_beside``: results go to pinned memory both during the all-reduces and during the
products. ``copies_apart``: only during the products. Run with NCCL_P2P_DISABLE=1 to have the all-reduces go through
host memory, as between GPUs without NVLink: the case files are ``copies_beside`` with it (``_shm``) and without
(``_nvlink``).
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from overlapscope import annotate, record

CASES = ("exposed", "beside", "copies_beside", "copies_apart")


class Gradients:
    """Three large gradients, each reduced before or beside the next products."""

    def __init__(self, *, beside: bool) -> None:
        self.beside = beside
        self.weight = torch.randn(4096, 4096, device="cuda")
        self.gradients = [torch.ones(64 << 20, device="cuda") for _ in range(3)]

    def __call__(self) -> None:
        for gradient in self.gradients:
            torch.mm(self.weight, self.weight)
            work = dist.all_reduce(gradient, async_op=True)
            if not self.beside:
                work.wait()
            for _ in range(2):
                torch.mm(self.weight, self.weight)
            work.wait()


class WithCopies:
    """Gradients that are reduced, and results that go to the host on a stream of their own."""

    def __init__(self, *, beside: bool) -> None:
        self.beside = beside
        self.side = torch.cuda.Stream()
        self.weight = torch.randn(4096, 4096, device="cuda")
        self.gradient = torch.ones(16 << 20, device="cuda")
        self.result = torch.ones(8 << 20, device="cuda")
        self.places = [torch.empty(8 << 20, pin_memory=True) for _ in range(2)]

    def offload(self, place: torch.Tensor) -> None:
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            place.copy_(self.result, non_blocking=True)

    def __call__(self) -> None:
        for _ in range(8):
            if self.beside:
                self.offload(self.places[0])
            dist.all_reduce(self.gradient, async_op=True).wait()
            self.offload(self.places[1])
            torch.mm(self.weight, self.weight)
            if not self.beside:
                self.offload(self.places[0])
            torch.mm(self.weight, self.weight)
            torch.cuda.current_stream().wait_stream(self.side)


def rank(number: int, case: str, path: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}
    torch.cuda.set_device(number)
    dist.init_process_group("nccl", rank=number, world_size=2)
    program = (WithCopies if case.startswith("copies") else Gradients)(beside=case.endswith("beside"))

    def one_pass() -> None:
        with annotate("pass"):
            program()
            torch.cuda.synchronize()

    mine = path if number == 0 else path.replace(".json", f".rank{number}.json")
    with record(mine, steps=1, warmup=2, unprofiled=0, calibrate=False) as recording:
        recording.run(one_pass)
    dist.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1] not in CASES:
        sys.exit(f"no case {sys.argv[1]!r}: there are {', '.join(CASES)}")
    mp.spawn(rank, (sys.argv[1], sys.argv[2]), nprocs=2)
