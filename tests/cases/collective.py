"""Two ranks that reduce gradients, after the computation or beside it: what the collective case files record.

    python tests/cases/collective.py exposed OUT.json.gz         rank 0 as a Kineto trace
    python tests/cases/collective.py beside OUT.json.gz

Needs two GPUs. ``exposed``: each all-reduce is waited for before the next product. ``beside``: it runs asynchronously
while the next products run.
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from overlapscope import annotate, record


def rank(number: int, beside: bool, path: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}
    torch.cuda.set_device(number)
    dist.init_process_group("nccl", rank=number, world_size=2)
    weight = torch.randn(4096, 4096, device="cuda")
    gradients = [torch.ones(64 << 20, device="cuda") for _ in range(3)]

    def one_pass() -> None:
        with annotate("pass"):
            for gradient in gradients:
                torch.mm(weight, weight)
                work = dist.all_reduce(gradient, async_op=True)
                if not beside:
                    work.wait()
                for _ in range(2):
                    torch.mm(weight, weight)
                work.wait()
            torch.cuda.synchronize()

    if number:
        for _ in range(3):
            one_pass()
    else:
        with record(path, steps=1, warmup=2, unprofiled=0, calibrate=False) as recording:
            recording.run(one_pass)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(rank, (sys.argv[1] == "beside", sys.argv[2]), nprocs=2)
