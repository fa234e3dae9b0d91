"""Upload each batch into new memory on a side stream: does the allocator know who else uses it?

Memory belongs to the stream on which it was allocated. Once the host has dropped a batch, the next upload on the side
stream gets its memory and overwrites it, while kernels of the other stream have yet to read it. ``record_stream``
tells the allocator of that stream. The program counts how many sums are wrong.

    python -m overlapscope.workloads.freed_memory --variant unguarded --trace out.json.gz
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from overlapscope.capture.annotate import annotate
from overlapscope.workloads.harness import BatchSizes, Program, Variant, Workload, counting_program, main
from overlapscope.workloads.streams import CopyStream, Memory, copy_stream, finish, keep_for, on, pins

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Choices:
    """Whether the allocator is told of the stream that uses a batch."""

    guarded: bool = False


VARIANTS = (
    Variant(
        "unguarded", Choices(), "a batch is dropped while kernels of another stream have yet to read it", "guarded"
    ),
    Variant("guarded", Choices(guarded=True), "record_stream names the stream of the kernels"),
)


def make(choices: Choices, sizes: BatchSizes, device: str) -> Program:
    """Allocate pinned batches, each of other numbers, and a matrix to multiply."""
    import torch

    matrix = torch.randn(sizes.width, sizes.width, generator=torch.Generator().manual_seed(0)).to(device)
    numbers = sizes.batch_mib * 2**18
    sources = torch.ones(sizes.batches, numbers, pin_memory=pins(Memory.PINNED, device))
    sources *= torch.arange(1, sizes.batches + 1)[:, None]
    side = copy_stream(CopyStream.SIDE, device)
    read: list[float] = []

    def brought(source: torch.Tensor) -> torch.Tensor:
        with annotate("upload", color="orange"):
            with on(side):
                batch = source.to(device, non_blocking=True)
            if side is not None:
                current = torch.cuda.current_stream()
                current.wait_stream(side)
                keep_for(batch, current if choices.guarded else None)
        return batch

    def sum_of(source: torch.Tensor) -> torch.Tensor:
        batch = brought(source)
        with annotate("compute", color="green"):
            for _ in range(sizes.matmuls):
                torch.mm(matrix, matrix)
            return batch.mean()

    def one_pass() -> None:
        with annotate("freed_memory"):
            means = [sum_of(source) for source in sources]
            finish(device)
        read.extend(float(mean) for mean in means)

    return counting_program(one_pass, read, sizes.batches, "sums")


WORKLOAD = Workload(
    module="overlapscope.workloads.freed_memory",
    question="Is the memory of a batch reused while another stream may still read it?",
    variants=VARIANTS,
    sizes=BatchSizes(),
    on_cpu=BatchSizes(batches=2, batch_mib=1, matmuls=1, width=64),
    make=make,
)
build, measure = WORKLOAD.build, WORKLOAD.measure

if __name__ == "__main__":
    main(WORKLOAD)
