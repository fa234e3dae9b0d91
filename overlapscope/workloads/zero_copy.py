"""Add batches that are in pinned host memory: does the kernel read them itself, or does a copy engine bring them?

A kernel can read pinned memory through its address. Then there is no copy to hide: the kernel takes as long as the link
needs, and nothing runs beside it. Copied on a side stream, all but the first batch arrive while matrix products run.

    python -m overlapscope.workloads.zero_copy --variant mapped --trace out.json.gz
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from overlapscope.capture.annotate import annotate
from overlapscope.workloads.harness import Program, Variant, Workload, main
from overlapscope.workloads.streams import CopyStream, Mark, Memory, copy_stream, finish, on, pins

if TYPE_CHECKING:
    import torch


class Access(StrEnum):
    """How a batch gets to the GPU."""

    MAPPED = "mapped"
    COPIED = "copied"


@dataclass(frozen=True)
class Choices:
    """How the kernels get at the batches."""

    access: Access = Access.MAPPED


@dataclass(frozen=True)
class Sizes:
    """Sizes of a pass, for a data-centre GPU."""

    batches: int = 6
    batch_mib: int = 64
    matmuls: int = 2  # per batch
    width: int = 4096  # of the square float32 matrices


VARIANTS = (
    Variant("mapped", Choices(), "the kernel reads pinned memory itself", "copied"),
    Variant("copied", Choices(Access.COPIED), "copied on a stream of its own, ahead of the kernels"),
)


def make(choices: Choices, sizes: Sizes, device: str) -> Program:
    """Allocate pinned batches, a sum of them on the GPU, and matrices to multiply."""
    import torch

    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(sizes.width, sizes.width, generator=generator).to(device)
    product = torch.zeros_like(matrix)
    numbers = sizes.batch_mib * 2**18
    sources = torch.ones(sizes.batches, numbers, pin_memory=pins(Memory.PINNED, device))
    sources *= torch.arange(1, sizes.batches + 1)[:, None]
    total = torch.zeros(numbers, device=device)
    batches = (_mapped if choices.access is Access.MAPPED else _copied)(list(sources), device)

    def one_pass() -> None:
        with annotate("zero_copy"):
            for arrived, batch in batches():
                with annotate("add", color="orange"):
                    arrived.hold()
                    total.add_(batch)
                with annotate("compute", color="green"):
                    total.mul_(0.5)
                    for _ in range(sizes.matmuls):
                        torch.mm(matrix, matrix, out=product)
            finish(device)

    def run() -> None:
        total.zero_()
        one_pass()

    return Program(run, result=lambda: [total, product])


Batch = tuple[Mark, "torch.Tensor"]
"""A batch that a kernel can read, and a mark after its copy."""


def _mapped(sources: list[torch.Tensor], device: str) -> Callable[[], list[Batch]]:
    """The batches as tensors of the device whose memory is the host's."""
    views = [(Mark(device), on_device(source, device)) for source in sources]
    return lambda: views


def _copied(sources: list[torch.Tensor], device: str) -> Callable[[], list[Batch]]:
    """The batches in memory of the device; all copies are issued first."""
    import torch

    side = copy_stream(CopyStream.SIDE, device)
    targets = [(Mark(device), torch.zeros_like(source, device=device)) for source in sources]

    def fetched() -> list[Batch]:
        for source, (arrived, target) in zip(sources, targets, strict=True):
            with annotate("copy", color="orange"), on(side):
                target.copy_(source, non_blocking=True)
                arrived.set()
        return targets

    return fetched


class _HostMemory:
    """Pinned memory as the CUDA array interface describes memory of a GPU: one address serves both."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.__cuda_array_interface__ = {
            "shape": tuple(tensor.shape),
            "typestr": "<f4",
            "data": (tensor.data_ptr(), False),
            "version": 3,
        }


def on_device(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """A tensor of the device over the memory of a pinned float32 tensor; the tensor itself without a GPU."""
    import torch

    return tensor if device == "cpu" else torch.as_tensor(_HostMemory(tensor), device=device)


WORKLOAD = Workload(
    module="overlapscope.workloads.zero_copy",
    question="Does a kernel read pinned memory itself, or does a copy engine bring it?",
    variants=VARIANTS,
    sizes=Sizes(),
    on_cpu=Sizes(batches=2, batch_mib=1, width=64),
    make=make,
)
build, measure = WORKLOAD.build, WORKLOAD.measure

if __name__ == "__main__":
    main(WORKLOAD)
