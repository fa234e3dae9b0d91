"""The sparse layers of a Switch Transformer whose experts stay in host memory, and what copies them to the GPU.

For the workloads that prefetch experts. The layers are HuggingFace's own (`transformers`, extra ``moe``), randomly
initialised.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from overlapscope.capture.annotate import annotate
from overlapscope.errors import CaptureError
from overlapscope.workloads.streams import Mark, keep_for, on

if TYPE_CHECKING:
    import torch

Weights = dict[str, "torch.Tensor"]
Expert = list[Weights]  # of a block: the weights of each expert, by name


@dataclass(frozen=True)
class Shape:
    """Sizes of the sparse layers: ``width`` is d_model, ``inner`` is d_ff."""

    blocks: int
    experts: int
    width: int
    inner: int
    tokens: int


def sparse_blocks(sizes: Shape, device: str) -> list[Any]:
    """HuggingFace's sparse layers, each with its router on the GPU."""
    if find_spec("transformers") is None:
        raise CaptureError("this workload needs transformers: pip install transformers")
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


def experts_of(block: Any) -> list[Any]:
    """The modules of a block's experts, by their numbers."""
    return [block.experts[f"expert_{number}"] for number in range(len(block.experts))]


def on_host(block: Any, *, pin: bool) -> Expert:
    """The experts' weights, pinned on request; they are removed from the modules."""
    experts = []
    for expert in experts_of(block):
        weights = {name: weight.detach() for name, weight in expert.named_parameters()}
        experts.append({name: weight.pin_memory() if pin else weight for name, weight in weights.items()})
    block.experts.to("meta")
    return experts


def route(block: Any, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Run the block's router: the expert of each token (one-hot), and its weight.

    Releases of transformers return these in different orders; the mask is the one of integers.
    """
    answer = block.router(hidden[None])
    (mask,) = [part for part in answer if not part.is_floating_point()]
    weight = next(part for part in answer if part.is_floating_point() and part.shape[-1] == 1)
    return mask.reshape(len(hidden), -1), weight.reshape(len(hidden), 1)


class Fetcher:
    """Copies experts to the GPU: `send` starts the copies, `take` returns the experts, `done` releases them."""

    def __init__(self, hosts: list[Expert], device: str, stream: torch.cuda.Stream | None, *, blocking: bool) -> None:
        self._hosts = hosts
        self._device = device
        self._stream = stream
        self._blocking = blocking

    def send(self, block: int, experts: list[int]) -> None:
        """Start copying these experts of a block."""
        raise NotImplementedError

    def take(self, block: int, experts: list[int]) -> dict[int, Weights]:
        """Return these experts of a block, ready for the current stream."""
        raise NotImplementedError

    def done(self, block: int) -> None:
        """Release the block's experts: all work that uses them has been issued to the current stream."""


class OnDemand(Fetcher):
    """Prefetches into new tensors for every block, as a first version of a prefetch does."""

    def __init__(self, hosts: list[Expert], device: str, stream: torch.cuda.Stream | None, *, blocking: bool) -> None:
        super().__init__(hosts, device, stream, blocking=blocking)
        self._sent: dict[int, dict[int, Weights]] = {}

    def send(self, block: int, experts: list[int]) -> None:
        """Copy on the side stream."""
        with annotate("prefetch", color="orange"), on(self._stream):
            sent = self._sent.setdefault(block, {})
            sent.update((number, self.copy_expert(block, number)) for number in experts)

    def take(self, block: int, experts: list[int]) -> dict[int, Weights]:
        """Make the current stream wait for the side stream; copy experts that were not predicted."""
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
                    here[number] = self.copy_expert(block, number)
        return here

    def copy_expert(self, block: int, number: int) -> Weights:
        """Copy the weights of one expert to the GPU."""
        weights = self._hosts[block][number]
        return {name: weight.to(self._device, non_blocking=not self._blocking) for name, weight in weights.items()}


class Ahead(Fetcher):
    """Prefetches into two sets of buffers: one is filled while the other is used, ordered by events."""

    def __init__(self, hosts: list[Expert], device: str, stream: torch.cuda.Stream | None, *, blocking: bool) -> None:
        import torch

        super().__init__(hosts, device, stream, blocking=blocking)
        self._sets = [
            [{name: torch.empty_like(w, device=device) for name, w in expert.items()} for expert in hosts[0]]
            for _ in range(2)
        ]
        self._filled, self._free = ([Mark(device) for _ in range(2)] for _ in range(2))

    def send(self, block: int, experts: list[int]) -> None:
        """Fill the buffers of this block as soon as the block that used them has finished."""
        with annotate("prefetch", color="orange"), on(self._stream):
            self._free[block % 2].hold()
            for number in experts:
                for name, weight in self._hosts[block][number].items():
                    self._sets[block % 2][number][name].copy_(weight, non_blocking=not self._blocking)
            self._filled[block % 2].set()

    def take(self, block: int, experts: list[int]) -> dict[int, Weights]:
        """Make the current stream wait until they are filled."""
        self._filled[block % 2].hold()
        return {number: self._sets[block % 2][number] for number in experts}

    def done(self, block: int) -> None:
        """Allow the buffers to be filled again when the work queued so far has finished."""
        self._free[block % 2].set()
