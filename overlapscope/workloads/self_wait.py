"""Copy a batch on a side stream and sum it on another one: which stream waits for the copy?

Inside `with torch.cuda.stream(side)` the current stream is the side stream. A wait there makes it wait for itself, and
the sum reads what is in the buffer before the batch has arrived. The program counts how many sums are wrong.

    python -m overlapscope.workloads.self_wait --variant read-unordered --trace out.json.gz
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from overlapscope.capture.annotate import annotate
from overlapscope.workloads.harness import BatchSizes, Program, Variant, Workload, counting_program, main
from overlapscope.workloads.streams import CopyStream, Memory, copy_stream, finish, on, pins

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Choices:
    """Where the wait stands."""

    inside: bool = True


VARIANTS = (
    Variant("read-unordered", Choices(), "the wait stands inside, so that the side stream waits", "read-ordered"),
    Variant("read-ordered", Choices(inside=False), "the wait stands outside, so that the stream of the sums waits"),
)


def make(choices: Choices, sizes: BatchSizes, device: str) -> Program:
    """Allocate pinned batches, each of other numbers, one buffer on the GPU, and a matrix to multiply."""
    import torch

    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(sizes.width, sizes.width, generator=generator).to(device)
    numbers = sizes.batch_mib * 2**18
    sources = torch.ones(sizes.batches, numbers, pin_memory=pins(Memory.PINNED, device))
    sources *= torch.arange(1, sizes.batches + 1)[:, None]
    batch = torch.zeros(numbers, device=device)
    side = copy_stream(CopyStream.SIDE, device)
    read: list[float] = []

    def bring(source: torch.Tensor) -> None:
        with annotate("copy", color="orange"):
            with on(side):
                batch.copy_(source, non_blocking=True)
                if choices.inside:
                    _current_waits_for(side)
            if not choices.inside:
                _current_waits_for(side)

    def one_pass() -> None:
        batch.zero_()
        finish(device)
        with annotate("self_wait"):
            for source in sources:
                bring(source)
                with annotate("sum", color="green"):
                    mean = batch.mean()
                    for _ in range(sizes.matmuls):
                        torch.mm(matrix, matrix)
                read.append(float(mean))
            finish(device)

    return counting_program(one_pass, read, sizes.batches, "sums")


def _current_waits_for(side: torch.cuda.Stream | None) -> None:
    import torch

    if side is not None:
        torch.cuda.current_stream().wait_stream(side)


WORKLOAD = Workload(
    module="overlapscope.workloads.self_wait",
    question="Which stream waits for a copy, where the wait stands inside of the stream's context?",
    variants=VARIANTS,
    sizes=BatchSizes(),
    on_cpu=BatchSizes(batches=2, batch_mib=1, matmuls=1, width=64),
    make=make,
)
build, measure = WORKLOAD.build, WORKLOAD.measure

if __name__ == "__main__":
    main(WORKLOAD)
