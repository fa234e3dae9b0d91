"""Fill one pinned buffer again and again: does the host wait until it has been uploaded?

An asynchronous upload returns before it has begun, and reads its buffer only when its turn comes. A host that fills the
buffer with the next batch by then sends that one twice. The program counts how many sums are wrong.

    python -m overlapscope.workloads.staging_buffer --variant refilled-early --trace out.json.gz
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from overlapscope.capture.annotate import annotate
from overlapscope.workloads.harness import Program, Variant, Workload, main
from overlapscope.workloads.streams import Mark, Memory, finish, pins

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Choices:
    """Whether the host waits before it fills the buffer again."""

    waits: bool = False


@dataclass(frozen=True)
class Sizes:
    """Sizes of a pass, for a data-centre GPU."""

    batches: int = 4
    batch_mib: int = 16
    matmuls: int = 4  # per batch
    width: int = 4096  # of the square float32 matrices


VARIANTS = (
    Variant("refilled-early", Choices(), "the buffer is filled while its upload may still run", "refilled-after"),
    Variant("refilled-after", Choices(waits=True), "the host waits for an event after the upload first"),
)


def make(choices: Choices, sizes: Sizes, device: str) -> Program:
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

    def facts() -> dict[str, Any]:
        wrong = sum(value != 1 + number % sizes.batches for number, value in enumerate(read))
        return {"sums_read": len(read), "sums_wrong": wrong}

    return Program(one_pass, result=lambda: read[-sizes.batches :], facts=facts)


WORKLOAD = Workload(
    module="overlapscope.workloads.staging_buffer",
    question="Does the host wait before it fills a pinned buffer again?",
    variants=VARIANTS,
    sizes=Sizes(),
    on_cpu=Sizes(batches=2, batch_mib=1, matmuls=1, width=64),
    make=make,
)
build, measure = WORKLOAD.build, WORKLOAD.measure

if __name__ == "__main__":
    main(WORKLOAD)
