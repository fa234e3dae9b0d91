"""Chunks of ordinary memory are page-locked to be copied: each in its step, or all of them once?

A copy from page-locked memory returns at once and is fast, so programs register memory that they get from elsewhere (a
mapped file, an array of another library) with ``cudaHostRegister``. Locking every page takes the host longer than the
copy takes the GPU, and unlocking takes time too. While a thread does that, it launches nothing.

    python -m overlapscope.workloads.page_locking --variant each-step --trace out.json.gz
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from overlapscope.capture.annotate import annotate
from overlapscope.workloads.harness import Program, Variant, Workload, main
from overlapscope.workloads.streams import CopyStream, Mark, copy_stream, finish, on

if TYPE_CHECKING:
    import torch


class Locking(StrEnum):
    """When the chunks are page-locked."""

    EACH_STEP = "each-step"
    ONCE = "once"


@dataclass(frozen=True)
class Choices:
    """One way to write the loop."""

    locking: Locking = Locking.EACH_STEP


@dataclass(frozen=True)
class Sizes:
    """Sizes of a pass, for a data-centre GPU."""

    steps: int = 6
    chunk_mib: int = 64  # per step, in MiB
    matmuls: int = 1  # per step
    width: int = 4096  # of the square float32 matrices


VARIANTS = (
    Variant("each-step", Choices(), "each chunk registered before its copy, and unregistered after it", "once"),
    Variant("once", Choices(Locking.ONCE), "all chunks registered before the loop"),
)


def make(choices: Choices, sizes: Sizes, device: str) -> Program:
    """Allocate the chunks, two buffers for them, and what the loop needs beside."""
    import torch

    chunks = [torch.full((sizes.chunk_mib * 2**18,), float(step)) for step in range(sizes.steps)]
    buffers = [torch.zeros_like(chunks[0], device=device) for _ in range(2)]
    arrived, used = ([Mark(device) for _ in range(2)] for _ in range(2))
    weight = torch.randn(sizes.width, sizes.width, generator=torch.Generator().manual_seed(0)).to(device)
    product = torch.zeros_like(weight)
    largest = torch.zeros(sizes.steps, device=device)
    side = copy_stream(CopyStream.SIDE, device)
    each_step = choices.locking is Locking.EACH_STEP
    for chunk in () if each_step else chunks:
        _lock(chunk, device)

    def step_with(step: int) -> None:
        if each_step:
            with annotate("lock", color="orange"):
                _lock(chunks[step], device)
        with annotate("copy", color="orange"), on(side):
            used[step % 2].hold()
            buffers[step % 2].copy_(chunks[step], non_blocking=True)
            arrived[step % 2].set()
        with annotate("compute", color="green"):
            arrived[step % 2].hold()
            for _ in range(sizes.matmuls):
                torch.mm(weight, weight, out=product)
            torch.amax(buffers[step % 2], dim=0, out=largest[step])
            used[step % 2].set()

    def done_with(step: int) -> None:
        """The chunk's copy is complete: its owner may have it back."""
        arrived[step % 2].wait()
        if each_step:
            with annotate("unlock", color="orange"):
                _unlock(chunks[step], device)

    def one_pass() -> None:
        with annotate("page_locking"):
            for step in range(sizes.steps):
                with annotate("step"):
                    step_with(step)
                    if step:
                        done_with(step - 1)
            done_with(sizes.steps - 1)
            finish(device)

    return Program(one_pass, result=lambda: [product, largest])


def _lock(memory: torch.Tensor, device: str) -> None:
    """Page-lock ordinary memory, where there is a GPU."""
    if device != "cpu":
        _check(_cudart().cudaHostRegister(memory.data_ptr(), memory.nbytes, 0))


def _unlock(memory: torch.Tensor, device: str) -> None:
    if device != "cpu":
        _check(_cudart().cudaHostUnregister(memory.data_ptr()))


def _cudart() -> Any:
    import torch

    return torch.cuda.cudart()  # type: ignore[no-untyped-call]


def _check(error: Any) -> None:
    import torch

    torch.cuda.check_error(int(error))


WORKLOAD = Workload(
    module="overlapscope.workloads.page_locking",
    question="Memory is page-locked in each step or once: what does it cost?",
    variants=VARIANTS,
    sizes=Sizes(),
    on_cpu=Sizes(steps=3, chunk_mib=1, width=64),
    make=make,
)
build, measure = WORKLOAD.build, WORKLOAD.measure

if __name__ == "__main__":
    main(WORKLOAD)
