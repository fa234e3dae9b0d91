"""Prefetch the experts of a Switch Transformer from host memory: why do the copies not overlap?

The sparse layers are HuggingFace's own (`transformers`, extra ``moe``), randomly initialised. The weights of the
experts stay in host memory. While a block computes, the experts that the next block will probably need are copied to
the GPU on a side stream; the router of the next block predicts them from the current hidden states. Reading which
experts are needed calls ``nonzero()``, which synchronises with the GPU, and so does HuggingFace's loop over experts.

The variants remove one obstacle after the other: pageable weights (their copies block the host), blocking copies, and
routing on the host. Then the host runs ahead, and new tensors for every block take more memory the further it runs
ahead. The last variant has two sets of buffers, and events that show when each can be reused.

With the default sizes every block needs all of its experts and no token exceeds the capacity of an expert, so all
variants copy the same bytes and compute the same. With many experts and few tokens, fetching all experts costs more,
and tokens beyond the capacity skip their expert: see `overlapscope.workloads.moe_sparse`.

    python -m overlapscope.workloads.moe_prefetch --variant pageable --trace out.json.gz
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from overlapscope.capture.annotate import annotate
from overlapscope.workloads.experts import (
    Ahead,
    Fetcher,
    OnDemand,
    Shape,
    Weights,
    experts_of,
    on_host,
    route,
    sparse_blocks,
)
from overlapscope.workloads.harness import Program, Variant, Workload, main
from overlapscope.workloads.streams import CopyStream, Memory, copy_stream, finish, pins

if TYPE_CHECKING:
    import torch


class Routing(StrEnum):
    """Where the experts to fetch are chosen, and how they are run."""

    HOST = "host"
    DEVICE = "device"


@dataclass(frozen=True)
class Choices:
    """Memory of the experts, how they are copied, and whether the host takes part in the routing.

    ``ahead``: into two sets of buffers, as soon as one is free, with events; otherwise new tensors for each block.
    """

    memory: Memory = Memory.PAGEABLE
    blocking: bool = True
    routing: Routing = Routing.HOST
    ahead: bool = False


@dataclass(frozen=True)
class Sizes(Shape):
    """Sizes of a pass, for a data-centre GPU."""

    blocks: int = 6
    experts: int = 8
    width: int = 1024  # d_model
    inner: int = 4096  # d_ff
    tokens: int = 8192
    capacity_percent: int = 125  # of an even share of the tokens, for each expert, where the device routes


VARIANTS = (
    Variant("pageable", Choices(), "pageable experts, blocking copies on a side stream", "ahead"),
    Variant("pageable-non-blocking", Choices(blocking=False), "pageable experts, non_blocking=True", "ahead"),
    Variant("pinned", Choices(Memory.PINNED), "pinned experts, but blocking copies", "ahead"),
    Variant(
        "pinned-non-blocking", Choices(Memory.PINNED, blocking=False), "pinned experts, non_blocking=True", "ahead"
    ),
    Variant(
        "no-host-routing",
        Choices(Memory.PINNED, blocking=False, routing=Routing.DEVICE),
        "and all experts fetched and run at a fixed capacity: the host reads no size",
    ),
    Variant(
        "ahead",
        Choices(Memory.PINNED, blocking=False, routing=Routing.DEVICE, ahead=True),
        "and prefetched one block ahead into two sets of buffers, with events: bounded memory",
    ),
)


def make(choices: Choices, sizes: Sizes, device: str) -> Program:
    """Build the sparse blocks, with routers on the GPU and experts on the host."""
    import torch

    blocks = sparse_blocks(sizes, device)
    hosts = [on_host(block, pin=pins(choices.memory, device)) for block in blocks]
    hidden = torch.randn(sizes.tokens, sizes.width, generator=torch.Generator().manual_seed(1)).to(device)
    side = copy_stream(CopyStream.SIDE, device)
    fetcher = (Ahead if choices.ahead else OnDemand)(hosts, device, side, blocking=choices.blocking)
    run_blocks = _routed_by_host if choices.routing is Routing.HOST else _routed_on_device

    outputs = [hidden]

    def one_pass() -> None:
        with annotate("moe_prefetch"), torch.no_grad():
            outputs[0] = run_blocks(blocks, hidden, fetcher, sizes)
            finish(device)

    return Program(one_pass, result=lambda: outputs[0])


def _hit(block: Any, hidden: torch.Tensor) -> list[int]:
    """The experts with at least one token; reading them synchronises the host."""
    mask, _ = route(block, hidden)
    with annotate("which experts", color="red"):
        return [int(number) for number in mask.sum(0).nonzero()[:, 0].tolist()]


def _routed_by_host(blocks: list[Any], hidden: torch.Tensor, fetcher: Fetcher, sizes: Sizes) -> torch.Tensor:
    """Run each block as HuggingFace does, after the copies of the next block's experts have been issued."""
    import torch

    del sizes
    fetcher.send(0, _hit(blocks[0], hidden))
    for number, block in enumerate(blocks):
        with annotate("block"):
            here = fetcher.take(number, _hit(block, hidden))
            if number + 1 < len(blocks):
                fetcher.send(number + 1, _hit(blocks[number + 1], hidden))
            weights = {
                f"experts.expert_{which}.{name}": weight
                for which, expert in here.items()
                for name, weight in expert.items()
            }
            with annotate("compute", color="green"):
                hidden = hidden + torch.func.functional_call(block, weights, (hidden[None],))[0]
            fetcher.done(number)
    return hidden


def _routed_on_device(blocks: list[Any], hidden: torch.Tensor, fetcher: Fetcher, sizes: Sizes) -> torch.Tensor:
    """Run each block with all of its experts at a fixed number of tokens each: nothing is read back."""
    all_experts = list(range(sizes.experts))
    fetcher.send(0, all_experts)
    for number, block in enumerate(blocks):
        with annotate("block"):
            here = fetcher.take(number, all_experts)
            if number + 1 < len(blocks):
                fetcher.send(number + 1, all_experts)
            with annotate("compute", color="green"):
                hidden = hidden + _at_capacity(block, hidden, here, sizes)
            fetcher.done(number)
    return hidden


def _at_capacity(block: Any, hidden: torch.Tensor, here: dict[int, Weights], sizes: Sizes) -> torch.Tensor:
    """The sparse layer with HuggingFace's router and experts, but shapes that do not depend on the routing.

    Tokens beyond an expert's capacity pass it by, as in the Switch Transformer paper (arXiv:2101.03961, section 2.2).
    """
    import torch

    mask, weight = route(block, hidden)
    capacity = min(sizes.tokens, -(-sizes.tokens * sizes.capacity_percent // (100 * sizes.experts)))
    rows, taken = _places(mask, capacity)
    output = torch.zeros_like(hidden)
    for number, expert in enumerate(experts_of(block)):
        result = torch.func.functional_call(expert, here[number], (hidden[rows[number]],))
        output.index_add_(0, rows[number], result * (weight[rows[number]] * taken[number][:, None]))
    return output


def _places(mask: torch.Tensor, capacity: int) -> tuple[torch.Tensor, torch.Tensor]:
    """For each expert ``capacity`` rows, those of its own tokens first, and which of them are its own."""
    import torch

    counts = mask.sum(0)
    order = mask.argmax(1).argsort(stable=True)  # tokens of the first expert, then of the second, ...
    place = torch.arange(capacity, device=mask.device)
    position = (counts.cumsum(0) - counts)[:, None] + place
    return order[position.clamp(max=len(mask) - 1)], place < counts[:, None]


WORKLOAD = Workload(
    module="overlapscope.workloads.moe_prefetch",
    question="Experts of a Switch Transformer are prefetched on a side stream: why do the copies not overlap?",
    variants=VARIANTS,
    sizes=Sizes(),
    on_cpu=Sizes(blocks=3, experts=4, width=16, inner=32, tokens=24, capacity_percent=400),
    make=make,
)
build, measure = WORKLOAD.build, WORKLOAD.measure

if __name__ == "__main__":
    main(WORKLOAD)
