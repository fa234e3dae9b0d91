"""Send a state to the host and bring it back on another stream: does the upload wait for the download?

Streams are in order within themselves only. An upload on a side stream reads the host buffer at once, though the
download into it is still queued behind kernels on another stream: what comes back is the state before. The program
counts how many states are wrong.

    python -m overlapscope.workloads.host_round_trip --variant upload-unordered --trace out.json.gz
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from overlapscope.capture.annotate import annotate
from overlapscope.workloads.harness import Program, Variant, Workload, counting_program, main
from overlapscope.workloads.streams import CopyStream, Mark, Memory, copy_stream, finish, on, pins

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Choices:
    """Whether the upload waits for the download."""

    ordered: bool = False


@dataclass(frozen=True)
class Sizes:
    """Sizes of a pass, for a data-centre GPU."""

    rounds: int = 4
    state_mib: int = 64
    matmuls: int = 2  # per round
    width: int = 4096  # of the square float32 matrices


VARIANTS = (
    Variant("upload-unordered", Choices(), "the upload waits for nothing", "upload-ordered"),
    Variant("upload-ordered", Choices(ordered=True), "the upload waits for an event after the download"),
)


def make(choices: Choices, sizes: Sizes, device: str) -> Program:
    """Allocate the state, its place on the host and the buffer for what comes back, and a matrix to multiply."""
    import torch

    matrix = torch.randn(sizes.width, sizes.width, generator=torch.Generator().manual_seed(0)).to(device)
    state = torch.zeros(sizes.state_mib * 2**18, device=device)
    back = torch.zeros_like(state)
    place = torch.zeros(len(state), pin_memory=pins(Memory.PINNED, device))
    left, returned = Mark(device), Mark(device)
    side = copy_stream(CopyStream.SIDE, device)
    read: list[float] = []

    def send() -> None:
        with annotate("download", color="orange"):
            place.copy_(state, non_blocking=True)
            left.set()

    def bring() -> None:
        with annotate("upload", color="orange"), on(side):
            if choices.ordered:
                left.hold()
            back.copy_(place, non_blocking=True)
            returned.set()

    def one_round() -> torch.Tensor:
        with annotate("compute", color="green"):
            for _ in range(sizes.matmuls):
                torch.mm(matrix, matrix)
            state.add_(1)
        send()
        bring()
        returned.hold()
        state.copy_(back)
        return state.mean()

    def one_pass() -> None:
        state.zero_()
        place.zero_()
        finish(device)
        with annotate("host_round_trip"):
            means = [one_round() for _ in range(sizes.rounds)]
            finish(device)
        read.extend(float(mean) for mean in means)

    return counting_program(one_pass, read, sizes.rounds, "states")


WORKLOAD = Workload(
    module="overlapscope.workloads.host_round_trip",
    question="Does an upload wait for the download into its host buffer?",
    variants=VARIANTS,
    sizes=Sizes(),
    on_cpu=Sizes(rounds=2, state_mib=1, matmuls=1, width=64),
    make=make,
)
build, measure = WORKLOAD.build, WORKLOAD.measure

if __name__ == "__main__":
    main(WORKLOAD)
