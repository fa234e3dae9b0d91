"""Matrix products on one stream, host-to-device copies on another: do they overlap, and does it help?

This is the small test that people write when a prefetch does not overlap. Its variants show why the test misleads.
A pageable copy can run under the kernels on the device and still make the run longer: the call of the copy blocks the
host thread, so the next kernels are launched late.

    python -m overlapscope.workloads.gemm_copy --memory pageable --order copy-first --trace out.json.gz
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import TYPE_CHECKING

from overlapscope.capture.annotate import annotate
from overlapscope.workloads.harness import Program, Variant, Workload, main
from overlapscope.workloads.streams import CopyStream, Memory, copy_stream, finish, on, pins

if TYPE_CHECKING:
    import torch


class Order(StrEnum):
    """Whether a round issues its copy or its kernels first."""

    COPY_FIRST = "copy-first"
    KERNELS_FIRST = "kernels-first"


@dataclass(frozen=True)
class Choices:
    """One way to write the loop."""

    memory: Memory = Memory.PAGEABLE
    order: Order = Order.COPY_FIRST
    blocking: bool = False
    stream: CopyStream = CopyStream.SIDE

    @property
    def name(self) -> str:
        """A file-name-safe label, such as ``pageable-copy-first-non-blocking-side``."""
        blocking = "blocking" if self.blocking else "non-blocking"
        return f"{self.memory}-{self.order}-{blocking}-{self.stream}"


@dataclass(frozen=True)
class Sizes:
    """Sizes of a pass on a data-centre GPU."""

    rounds: int = 6
    matmuls: int = 2  # per round
    width: int = 4096  # of the square float32 matrices
    copy_mib: int = 64  # per round, in MiB


def _variants() -> Iterator[Variant[Choices]]:
    """All sixteen ways to write the loop, the misleading one first."""
    for memory, order, blocking, stream in product(Memory, Order, (False, True), (CopyStream.SIDE, CopyStream.SAME)):
        choices = Choices(memory, order, blocking, stream)
        says = f"{memory} source, {order.replace('-', ' ')}, {'blocking' if blocking else 'non-blocking'}, "
        says += f"{'separate' if stream is CopyStream.SIDE else 'same'} stream"
        waits = blocking and order is Order.COPY_FIRST  # kernels queued before a blocking copy run beside it
        sound = memory is Memory.PINNED and stream is CopyStream.SIDE and not waits
        yield Variant(choices.name, choices, says, None if sound else Choices(Memory.PINNED, order).name)


def make(choices: Choices, sizes: Sizes, device: str) -> Program:
    """Allocate the buffers of one way to write the loop."""
    import torch

    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(sizes.width, sizes.width, generator=generator).to(device) for _ in range(2))
    product_out = torch.zeros_like(a)
    sources, targets = _buffers(sizes, device, pin=pins(choices.memory, device))
    side = copy_stream(choices.stream, device)

    def copy(index: int) -> None:
        with annotate("copy", color="orange"), on(side):
            targets[index].copy_(sources[index], non_blocking=not choices.blocking)

    def multiply() -> None:
        with annotate("matmul", color="green"):
            for _ in range(sizes.matmuls):
                torch.mm(a, b, out=product_out)

    def one_pass() -> None:
        with annotate("gemm_copy"):
            for index in range(sizes.rounds):
                with annotate("round"):
                    if choices.order is Order.COPY_FIRST:
                        copy(index)
                    multiply()
                    if choices.order is Order.KERNELS_FIRST:
                        copy(index)
            finish(device)

    return Program(one_pass, result=lambda: [product_out, *targets])


def _buffers(sizes: Sizes, device: str, *, pin: bool) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """A source, filled with its number, and a target per round. Rows of one pinned block stay plain pinned copies."""
    import torch

    shape = (sizes.rounds, sizes.copy_mib * 2**20 // 4)
    sources = torch.ones(shape, pin_memory=pin)
    sources *= torch.arange(1, sizes.rounds + 1)[:, None]
    return list(sources), list(torch.zeros(shape, device=device))


WORKLOAD = Workload(
    module="overlapscope.workloads.gemm_copy",
    question="Copies on one stream, matrix products on another: do they overlap, and does it help?",
    variants=tuple(_variants()),
    sizes=Sizes(),
    on_cpu=Sizes(width=256, copy_mib=1),
    make=make,
)
build, measure = WORKLOAD.build, WORKLOAD.measure

if __name__ == "__main__":
    main(WORKLOAD)
