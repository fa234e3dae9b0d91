"""Weights for later are streamed beside the step: does the small copy that a step begins with come first?

As in decoding, each step begins with a few kilobytes that the host has made from the result of the step before, and the
weights of the next step are copied meanwhile. If the weights are issued first, the small copy waits for all of them:
copies of one direction share a copy engine, also on streams of their own. The kernels wait with it.

    python -m overlapscope.workloads.copy_order --variant weights-first --trace out.json.gz
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from overlapscope.capture.annotate import annotate
from overlapscope.workloads.harness import Program, Variant, Workload, main
from overlapscope.workloads.streams import CopyStream, Mark, Memory, copy_stream, finish, on, pins


class First(StrEnum):
    """What each step copies first."""

    WEIGHTS = "weights"
    IDS = "ids"


@dataclass(frozen=True)
class Choices:
    """One way to write the loop."""

    first: First = First.WEIGHTS


@dataclass(frozen=True)
class Sizes:
    """Sizes of a pass, for a data-centre GPU."""

    steps: int = 6
    layers: int = 8  # whose weights are copied in each step
    layer_mib: int = 16  # of each, in MiB
    tokens: int = 4096
    matmuls: int = 2  # per step
    width: int = 4096  # of the square float32 matrices


VARIANTS = (
    Variant("weights-first", Choices(), "the next step's weights, then the ids that this step waits for", "ids-first"),
    Variant("ids-first", Choices(First.IDS), "the ids, then the weights"),
)


class _Weights:
    """The weights of a step on the host, and two sets of buffers on the device that take turns."""

    def __init__(self, sizes: Sizes, device: str) -> None:
        import torch

        pin, length = pins(Memory.PINNED, device), sizes.layer_mib * 2**18
        self.hosts = [torch.full((length,), 1.0 + layer, pin_memory=pin) for layer in range(sizes.layers)]
        self.sets = [[torch.zeros_like(host, device=device) for host in self.hosts] for _ in range(2)]
        self.stream = copy_stream(CopyStream.SIDE, device)
        self.filled, self.free = ([Mark(device) for _ in range(2)] for _ in range(2))

    def copy_ahead(self, step: int) -> None:
        """Copy the weights of the next step; of the first too, before it."""
        for later in (step + 1,) if step else (0, 1):
            self._copy(later)

    def _copy(self, step: int) -> None:
        with annotate("weights", color="orange"), on(self.stream):
            self.free[step % 2].hold()
            for host, there in zip(self.hosts, self.sets[step % 2], strict=True):
                there.copy_(host, non_blocking=True)
            self.filled[step % 2].set()


def make(choices: Choices, sizes: Sizes, device: str) -> Program:
    """Allocate the weights, the ids and what the loop needs beside."""
    import torch

    weights = _Weights(sizes, device)
    ids, result = (torch.zeros(sizes.tokens, dtype=torch.int64, pin_memory=device != "cpu") for _ in range(2))
    ids_there = torch.zeros_like(ids, device=device)
    matrix = torch.randn(sizes.width, sizes.width, generator=torch.Generator().manual_seed(0)).to(device)
    product = torch.zeros_like(matrix)
    side, sent, ready = copy_stream(CopyStream.SIDE, device), Mark(device), Mark(device)

    def copy_ids(_step: int) -> None:
        with annotate("ids", color="orange"), on(side):
            ids_there.copy_(ids, non_blocking=True)
            sent.set()

    def compute(turn: int) -> None:
        with annotate("compute", color="green"):
            sent.hold()
            weights.filled[turn].hold()
            for _ in range(sizes.matmuls):
                torch.mm(matrix, matrix, out=product)
            following = ids_there + weights.sets[turn][-1][: sizes.tokens].long()
            weights.free[turn].set()
            result.copy_(following, non_blocking=True)
            ready.set()

    copies = (copy_ids, weights.copy_ahead) if choices.first is First.IDS else (weights.copy_ahead, copy_ids)

    def one_pass() -> None:
        ids.zero_()
        with annotate("copy_order"):
            for step in range(sizes.steps):
                with annotate("step"):
                    for copy in copies:
                        copy(step)
                    compute(step % 2)
                    with annotate("read"):
                        ready.wait()
                        ids.copy_(result)
            finish(device)

    return Program(one_pass, result=lambda: [product, ids.clone()])


WORKLOAD = Workload(
    module="overlapscope.workloads.copy_order",
    question="A small copy is needed at once, large ones later: which is issued first?",
    variants=VARIANTS,
    sizes=Sizes(),
    on_cpu=Sizes(steps=3, layers=2, layer_mib=1, tokens=64, width=64),
    make=make,
)
build, measure = WORKLOAD.build, WORKLOAD.measure

if __name__ == "__main__":
    main(WORKLOAD)
