"""Experts of a Switch Transformer stay on the host and are prefetched: why does the prefetch not overlap?

The sparse layers are HuggingFace's own (`transformers`, extra ``moe``), randomly initialised. The weights of the
experts stay on the host. While a block computes, the experts that the next block will probably need are copied to the
GPU on a side stream. To select them, the router of the next block is called with the current hidden states. The
selection calls ``nonzero()``, which waits for the GPU. HuggingFace's own loop over the experts does so too.

Each variant removes one more obstacle: pageable weights (staged, so the host is blocked), blocking copies (the host
waits) and routing that the host waits for. Then the host runs ahead. New tensors for every block take more memory the
further the host runs ahead. The last variant has two sets of buffers instead, and events that say when a set may be
used again.

With the usual sizes, every block uses all of its experts, and no token exceeds an expert's capacity. All variants then
move the same bytes and compute the same result. With many experts and few tokens, neither is true: fetching all experts
costs more, and tokens beyond the capacity skip their expert.

    python -m overlapscope.workloads.moe_prefetch --variant pageable --trace out.json.gz
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from overlapscope.capture.annotate import annotate
from overlapscope.errors import CaptureError
from overlapscope.workloads.harness import Program, Variant, Workload, main
from overlapscope.workloads.streams import CopyStream, Memory, copy_stream, finish, keep_for, on, pins

if TYPE_CHECKING:
    import torch


class Routing(StrEnum):
    """Whether the host or the device selects the experts."""

    HOST = "host"
    DEVICE = "device"


@dataclass(frozen=True)
class Choices:
    """Where the experts are stored, how they are copied, and whether the host takes part in the routing.

    ``ahead``: into two sets of buffers, as soon as one is free, with events; otherwise new tensors for each block.
    """

    memory: Memory = Memory.PAGEABLE
    blocking: bool = True
    routing: Routing = Routing.HOST
    ahead: bool = False


@dataclass(frozen=True)
class Sizes:
    """Sizes of a pass on a data-centre GPU."""

    blocks: int = 6
    experts: int = 8
    width: int = 1024  # d_model
    inner: int = 4096  # d_ff
    tokens: int = 8192
    capacity_percent: int = 125  # of an even share of the tokens, for each expert, where the device routes


VARIANTS = (
    Variant("pageable", Choices(), "pageable experts, blocking copies on a side stream", "ahead"),
    Variant("pageable-non-blocking", Choices(blocking=False), "pageable experts, non_blocking=True", "ahead"),
    Variant("pinned", Choices(Memory.PINNED), "pinned experts, but the host waits for every copy", "ahead"),
    Variant(
        "pinned-non-blocking", Choices(Memory.PINNED, blocking=False), "pinned experts, non_blocking=True", "ahead"
    ),
    Variant(
        "no-host-routing",
        Choices(Memory.PINNED, blocking=False, routing=Routing.DEVICE),
        "and all experts fetched and run at a fixed capacity: the host waits for no size",
    ),
    Variant(
        "ahead",
        Choices(Memory.PINNED, blocking=False, routing=Routing.DEVICE, ahead=True),
        "and one block ahead of the computation, into two sets of buffers, with events: bounded memory",
    ),
)

Weights = dict[str, "torch.Tensor"]
Expert = list[Weights]  # of a block: the weights of each expert, by name


def make(choices: Choices, sizes: Sizes, device: str) -> Program:
    """Build the sparse blocks, with routers on the device and experts on the host."""
    import torch

    blocks = _blocks(sizes, device)
    hosts = [_on_host(block, pin=pins(choices.memory, device)) for block in blocks]
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


def _blocks(sizes: Sizes, device: str) -> list[Any]:
    """HuggingFace's sparse layers; of each, the router goes to the device."""
    if find_spec("transformers") is None:
        raise CaptureError("moe_prefetch needs transformers: pip install 'overlapscope[moe]'")
    import torch
    from transformers import SwitchTransformersConfig
    from transformers.models.switch_transformers.modeling_switch_transformers import SwitchTransformersSparseMLP

    torch.manual_seed(0)
    config = SwitchTransformersConfig(
        d_model=sizes.width,
        d_ff=sizes.inner,
        num_experts=sizes.experts,
        expert_capacity=sizes.tokens,
        router_bias=False,
        dropout_rate=0.0,
    )
    blocks = [SwitchTransformersSparseMLP(config).eval() for _ in range(sizes.blocks)]
    for block in blocks:
        block.router.to(device)
    return blocks


def _experts(block: Any) -> list[Any]:
    return [block.experts[f"expert_{number}"] for number in range(len(block.experts))]


def _on_host(block: Any, *, pin: bool) -> Expert:
    """The experts' weights, pinned if wanted; the modules themselves keep none."""
    found = []
    for expert in _experts(block):
        weights = {name: weight.detach() for name, weight in expert.named_parameters()}
        found.append({name: weight.pin_memory() if pin else weight for name, weight in weights.items()})
    block.experts.to("meta")
    return found


def _route(block: Any, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Ask the block's router: which expert each token goes to (one-hot), and with which weight.

    Releases of transformers return these in different orders; the mask is the one of integers.
    """
    answer = block.router(hidden[None])
    (mask,) = [part for part in answer if not part.is_floating_point()]
    weight = next(part for part in answer if part.is_floating_point() and part.shape[-1] == 1)
    return mask.reshape(len(hidden), -1), weight.reshape(len(hidden), 1)


def _hit(block: Any, hidden: torch.Tensor) -> list[int]:
    """The experts of at least one token; the host waits for the result."""
    mask, _ = _route(block, hidden)
    with annotate("which experts", color="red"):
        return [int(number) for number in mask.sum(0).nonzero()[:, 0].tolist()]


def _routed_by_host(blocks: list[Any], hidden: torch.Tensor, fetcher: Fetcher, sizes: Sizes) -> torch.Tensor:
    """Each block as HuggingFace runs it, after the copies of the next block's experts have been issued."""
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
    """Each block with all of its experts, at a fixed number of tokens for each: nothing is read back."""
    everyone = list(range(sizes.experts))
    fetcher.send(0, everyone)
    for number, block in enumerate(blocks):
        with annotate("block"):
            here = fetcher.take(number, everyone)
            if number + 1 < len(blocks):
                fetcher.send(number + 1, everyone)
            with annotate("compute", color="green"):
                hidden = hidden + _at_capacity(block, hidden, here, sizes)
            fetcher.done(number)
    return hidden


def _at_capacity(block: Any, hidden: torch.Tensor, here: dict[int, Weights], sizes: Sizes) -> torch.Tensor:
    """The sparse layer with HuggingFace's router and experts, but shapes that do not depend on the routing.

    Tokens beyond an expert's capacity skip it, as in the Switch Transformer paper (arXiv:2101.03961, section 2.2).
    """
    import torch

    mask, weight = _route(block, hidden)
    capacity = min(sizes.tokens, -(-sizes.tokens * sizes.capacity_percent // (100 * sizes.experts)))
    rows, taken = _places(mask, capacity)
    output = torch.zeros_like(hidden)
    for number, expert in enumerate(_experts(block)):
        result = torch.func.functional_call(expert, here[number], (hidden[rows[number]],))
        output.index_add_(0, rows[number], result * (weight[rows[number]] * taken[number][:, None]))
    return output


def _places(mask: torch.Tensor, capacity: int) -> tuple[torch.Tensor, torch.Tensor]:
    """For each expert ``capacity`` rows, its own first, and which of them are its own."""
    import torch

    counts = mask.sum(0)
    order = mask.argmax(1).argsort(stable=True)  # tokens of the first expert, then of the second, ...
    place = torch.arange(capacity, device=mask.device)
    position = (counts.cumsum(0) - counts)[:, None] + place
    return order[position.clamp(max=len(mask) - 1)], place < counts[:, None]


class Fetcher:
    """Copies experts to the device: `send` starts the copies, `take` returns the experts, `done` releases them."""

    def __init__(self, hosts: list[Expert], device: str, stream: torch.cuda.Stream | None, *, blocking: bool) -> None:
        self._hosts = hosts
        self._device = device
        self._stream = stream
        self._blocking = blocking

    def send(self, block: int, experts: list[int]) -> None:
        """Start to copy these experts of a block."""
        raise NotImplementedError

    def take(self, block: int, experts: list[int]) -> dict[int, Weights]:
        """These experts of a block, for the current stream to use."""
        raise NotImplementedError

    def done(self, block: int) -> None:
        """Release the block's experts: the current stream has all work that uses them."""


class OnDemand(Fetcher):
    """Allocates new tensors for every block, as in a first version of a prefetch."""

    def __init__(self, hosts: list[Expert], device: str, stream: torch.cuda.Stream | None, *, blocking: bool) -> None:
        super().__init__(hosts, device, stream, blocking=blocking)
        self._sent: dict[int, dict[int, Weights]] = {}

    def send(self, block: int, experts: list[int]) -> None:
        """Copy on the side stream."""
        with annotate("prefetch", color="orange"), on(self._stream):
            self._sent[block] = {number: self._copy(block, number) for number in experts}

    def take(self, block: int, experts: list[int]) -> dict[int, Weights]:
        """Make the current stream wait for the side stream; copy the experts that were not predicted."""
        import torch

        if self._stream is not None:
            current = torch.cuda.current_stream()
            current.wait_stream(self._stream)
            for expert in self._sent[block].values():
                for weight in expert.values():
                    keep_for(weight, current)
        here = self._sent.pop(block)
        for number in experts:
            if number not in here:
                with annotate("fetch missing", color="red"):
                    here[number] = self._copy(block, number)
        return here

    def _copy(self, block: int, number: int) -> Weights:
        weights = self._hosts[block][number]
        return {name: weight.to(self._device, non_blocking=not self._blocking) for name, weight in weights.items()}


class Ahead(Fetcher):
    """Two sets of buffers: one is filled while the other is used. Events say when a set may be used again."""

    def __init__(self, hosts: list[Expert], device: str, stream: torch.cuda.Stream | None, *, blocking: bool) -> None:
        import torch

        super().__init__(hosts, device, stream, blocking=blocking)
        self._sets = [
            [{name: torch.empty_like(w, device=device) for name, w in expert.items()} for expert in hosts[0]]
            for _ in range(2)
        ]
        self._filled: list[torch.cuda.Event | None] = [None, None]
        self._free: list[torch.cuda.Event | None] = [None, None]

    def send(self, block: int, experts: list[int]) -> None:
        """Fill the buffers of this block as soon as the block that used them is done."""
        with annotate("prefetch", color="orange"), on(self._stream):
            self._wait(self._stream, self._free[block % 2])
            for number in experts:
                for name, weight in self._hosts[block][number].items():
                    self._sets[block % 2][number][name].copy_(weight, non_blocking=not self._blocking)
            self._filled[block % 2] = self._event(self._stream)

    def take(self, block: int, experts: list[int]) -> dict[int, Weights]:
        """Make the current stream wait until they are filled."""
        self._wait(self._current(), self._filled[block % 2])
        return {number: self._sets[block % 2][number] for number in experts}

    def done(self, block: int) -> None:
        """Let the buffers be filled again when the work queued so far is done."""
        self._free[block % 2] = self._event(self._current())

    def _current(self) -> torch.cuda.Stream | None:
        import torch

        return None if self._stream is None else torch.cuda.current_stream()

    @staticmethod
    def _event(stream: torch.cuda.Stream | None) -> torch.cuda.Event | None:
        return None if stream is None else stream.record_event()

    @staticmethod
    def _wait(stream: torch.cuda.Stream | None, event: torch.cuda.Event | None) -> None:
        if stream is not None and event is not None:
            stream.wait_event(event)


WORKLOAD = Workload(
    module="overlapscope.workloads.moe_prefetch",
    question="Experts of a Switch Transformer are prefetched on a side stream: why does the prefetch not overlap?",
    variants=VARIANTS,
    sizes=Sizes(),
    on_cpu=Sizes(blocks=3, experts=4, width=16, inner=32, tokens=24, capacity_percent=400),
    make=make,
)
build, measure = WORKLOAD.build, WORKLOAD.measure

if __name__ == "__main__":
    main(WORKLOAD)
