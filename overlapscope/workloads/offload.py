"""Activations that go to the host after the forward pass of a layer and come back before its backward pass.

This can save GPU memory, at the cost of two copies per layer. From pageable memory, the copies block the host. On the
kernels' stream, they run between the kernels. From pinned memory on a separate stream, they run beside the kernels.
The copies of the backward pass are issued by autograd's own thread, as early as the host gets there. The host runs
ahead. How much memory is saved in the end depends on a limit of this run-ahead, which this program does not set.

    python -m overlapscope.workloads.offload --variant pageable-same --trace out.json.gz
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from overlapscope.capture.annotate import annotate
from overlapscope.workloads.harness import Program, Variant, Workload, main
from overlapscope.workloads.streams import CopyStream, Memory, copy_stream, finish, keep_for, on, pins

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Choices:
    """Where the activations go, and on which stream."""

    memory: Memory = Memory.PAGEABLE
    stream: CopyStream = CopyStream.SAME


@dataclass(frozen=True)
class Sizes:
    """Sizes of a pass on a data-centre GPU."""

    layers: int = 6
    tokens: int = 4096  # rows of an activation
    width: int = 4096  # of the square float32 layers


VARIANTS = (
    Variant("pageable-same", Choices(), "to pageable memory, on the kernels' stream", "pinned-side"),
    Variant(
        "pageable-side", Choices(stream=CopyStream.SIDE), "to pageable memory, on a separate stream", "pinned-side"
    ),
    Variant("pinned-same", Choices(Memory.PINNED), "to pinned memory, on the kernels' stream", "pinned-side"),
    Variant("pinned-side", Choices(Memory.PINNED, CopyStream.SIDE), "to pinned memory, on a separate stream"),
)


def make(choices: Choices, sizes: Sizes, device: str) -> Program:
    """Allocate a stack of residual linear layers, and host memory for the input of each."""
    import torch

    generator = torch.Generator().manual_seed(0)
    scale = sizes.width**-0.5 / sizes.layers
    weights = [
        (torch.randn(sizes.width, sizes.width, generator=generator) * scale).to(device).requires_grad_()
        for _ in range(sizes.layers)
    ]
    batch = torch.randn(sizes.tokens, sizes.width, generator=generator).to(device)
    shelf = Shelf(choices, sizes, device, stays=weights)

    def one_pass() -> None:
        for weight in weights:
            weight.grad = None
        with annotate("offload"):
            with annotate("forward"), shelf.saving():
                hidden = batch
                for weight in weights:
                    hidden = hidden + hidden @ weight
                loss = hidden.mean()
            with annotate("backward"):
                loss.backward()  # type: ignore[no-untyped-call]
            finish(device)

    return Program(one_pass, result=lambda: [weight.grad for weight in weights])


@dataclass(frozen=True)
class _Kept:
    """Saved on the device."""

    tensor: torch.Tensor


@dataclass(frozen=True)
class _Away:
    """Saved on the host."""

    place: torch.Tensor


class Shelf:
    """Host memory for the tensors that autograd saves for the backward pass, and the copies there and back.

    The tensors in ``stays`` (weights) are left on the device.
    """

    def __init__(self, choices: Choices, sizes: Sizes, device: str, stays: list[torch.Tensor]) -> None:
        import torch

        self._device = device
        self._stream = copy_stream(choices.stream, device)
        self._stays = {tensor.data_ptr() for tensor in stays}
        pin = pins(choices.memory, device)
        # Filled, because pages of pageable memory exist from their first use on.
        self._places = [torch.zeros(sizes.tokens, sizes.width, pin_memory=pin) for _ in range(sizes.layers)]
        self._used = 0

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Within this context, tensors saved by autograd go to the host."""
        import torch

        self._used = 0
        with torch.autograd.graph.saved_tensors_hooks(self._put, self._get):
            yield

    def _put(self, tensor: torch.Tensor) -> _Kept | _Away:
        if tensor.data_ptr() in self._stays:
            return _Kept(tensor)
        away = _Away(self._places[self._used])
        self._used += 1
        with annotate("offload to host", color="orange"):
            self._follow()
            with on(self._stream):
                away.place.copy_(tensor, non_blocking=True)
            keep_for(tensor, self._stream)
        return away

    def _get(self, saved: _Kept | _Away) -> torch.Tensor:
        if isinstance(saved, _Kept):
            return saved.tensor
        with annotate("bring back", color="orange"):
            with on(self._stream):
                back = saved.place.to(self._device, non_blocking=True)
            self._lead(back)
        return back

    def _follow(self) -> None:
        """The copies' stream waits for what the current one has computed so far."""
        import torch

        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream())

    def _lead(self, tensor: torch.Tensor) -> None:
        """The current stream waits for the copies, and then owns ``tensor``."""
        import torch

        if self._stream is not None:
            current = torch.cuda.current_stream()
            current.wait_stream(self._stream)
            keep_for(tensor, current)


WORKLOAD = Workload(
    module="overlapscope.workloads.offload",
    question="Do the copies of offloaded activations run beside the layers?",
    variants=VARIANTS,
    sizes=Sizes(),
    on_cpu=Sizes(layers=2, tokens=16, width=32),
    make=make,
)
build, measure = WORKLOAD.build, WORKLOAD.measure

if __name__ == "__main__":
    main(WORKLOAD)
