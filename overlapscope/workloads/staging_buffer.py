"""Fill one pinned buffer again and again: does the host wait until it has been uploaded?

An asynchronous upload returns before it has begun, and reads its buffer only when its turn comes. A host that fills the
buffer with the next batch by then sends that one twice. The program counts how many sums are wrong.

    python -m overlapscope.workloads.staging_buffer --variant refilled-early --trace out.json.gz
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from overlapscope.capture.annotate import annotate
from overlapscope.workloads.harness import BatchSizes, Program, Variant, Workload, counting_program, main
from overlapscope.workloads.streams import Mark, Memory, finish, pins

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Choices:
    """Whether the host waits before it fills the buffer again."""

    waits: bool = False


VARIANTS = (
    Variant("refilled-early", Choices(), "the buffer is filled while its upload may still run", "refilled-after"),
    Variant("refilled-after", Choices(waits=True), "the host waits for an event after the upload first"),
)


def make(choices: Choices, sizes: BatchSizes, device: str) -> Program:
    """Allocate batches of ordinary memory, each of other numbers, one pinned buffer, and a matrix to multiply."""
    import torch

    matrix = torch.randn(sizes.width, sizes.width, generator=torch.Generator().manual_seed(0)).to(device)
    numbers = sizes.batch_mib * 2**18
    sources = [torch.full((numbers,), float(number)) for number in range(1, sizes.batches + 1)]
    staging = torch.zeros(numbers, pin_memory=pins(Memory.PINNED, device))
    batch = torch.zeros(numbers, device=device)
    sent = Mark(device)
    read: list[float] = []

    def sum_of(source: torch.Tensor) -> torch.Tensor:
        with annotate("stage", color="orange"):
            if choices.waits:
                sent.wait()
            staging.copy_(source)
            batch.copy_(staging, non_blocking=True)
            sent.set()
        with annotate("compute", color="green"):
            mean = batch.mean()
            for _ in range(sizes.matmuls):
                torch.mm(matrix, matrix)
        return mean

    def one_pass() -> None:
        with annotate("staging_buffer"):
            means = [sum_of(source) for source in sources]
            finish(device)
        read.extend(float(mean) for mean in means)

    return counting_program(one_pass, read, sizes.batches, "sums")


WORKLOAD = Workload(
    module="overlapscope.workloads.staging_buffer",
    question="Does the host wait before it fills a pinned buffer again?",
    variants=VARIANTS,
    sizes=BatchSizes(batch_mib=16),
    on_cpu=BatchSizes(batches=2, batch_mib=1, matmuls=1, width=64),
    make=make,
)
build, measure = WORKLOAD.build, WORKLOAD.measure

if __name__ == "__main__":
    main(WORKLOAD)
