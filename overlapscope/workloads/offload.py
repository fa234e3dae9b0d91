"""Offload activations to the host after the forward pass of a layer, and fetch them before its backward pass.

This can save GPU memory, at the cost of two copies per layer. With pageable memory the copies block the host; on the
stream of the kernels they delay the kernels; with pinned memory on a side stream they overlap them. The copies of the
backward pass are issued by autograd's thread, as early as it gets there. How much memory is saved depends on how far
the host runs ahead, which this program does not limit.

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
    """Host memory of the activations, and the stream of the copies."""

    memory: Memory = Memory.PAGEABLE
    stream: CopyStream = CopyStream.SAME


@dataclass(frozen=True)
class Sizes:
    """Sizes of a pass, for a data-centre GPU."""

    layers: int = 6
    tokens: int = 4096  # rows of an activation
    width: int = 4096  # of the square float32 layers


VARIANTS = (
    Variant("pageable-same", Choices(), "to pageable memory, on the kernels' stream", "pinned-side"),
    Variant(
        "pageable-side", Choices(stream=CopyStream.SIDE), "to pageable memory, on a stream of their own", "pinned-side"
    ),
    Variant("pinned-same", Choices(Memory.PINNED), "to pinned memory, on the kernels' stream", "pinned-side"),
    Variant("pinned-side", Choices(Memory.PINNED, CopyStream.SIDE), "to pinned memory, on a stream of their own"),
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
    offloader = Offloader(choices, sizes, device, stays=weights)

    def one_pass() -> None:
        for weight in weights:
            weight.grad = None
        with annotate("offload"):
            with annotate("forward"), offloader.saving():
                hidden = batch
                for weight in weights:
                    hidden = hidden + hidden @ weight
                loss = hidden.mean()
            with annotate("backward"):
                loss.backward()  # type: ignore[no-untyped-call]
            finish(device)

    return Program(one_pass, result=lambda: [weight.grad for weight in weights])


_Saved = tuple["torch.Tensor", bool]
"""A tensor that autograd saves, on the GPU or on the host, and whether it is offloaded."""


class Offloader:
    """Offloads the tensors that autograd saves for the backward pass to host memory, and fetches them back.

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
        """Within this context, tensors that autograd saves are offloaded."""
        import torch

        self._used = 0
        with torch.autograd.graph.saved_tensors_hooks(self._put, self._get):
            yield

    def _put(self, tensor: torch.Tensor) -> _Saved:
        if tensor.data_ptr() in self._stays:
            return tensor, False
        place = self._places[self._used]
        self._used += 1
        with annotate("offload to host", color="orange"):
            self._wait_for_current()
            with on(self._stream):
                place.copy_(tensor, non_blocking=True)
            keep_for(tensor, self._stream)
        return place, True

    def _get(self, saved: _Saved) -> torch.Tensor:
        place, offloaded = saved
        if not offloaded:
            return place
        with annotate("bring back", color="orange"):
            with on(self._stream):
                back = place.to(self._device, non_blocking=True)
            self._hand_over(back)
        return back

    def _wait_for_current(self) -> None:
        """Make the copy stream wait for the work issued so far to the current stream."""
        import torch

        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream())

    def _hand_over(self, tensor: torch.Tensor) -> None:
        """Make the current stream wait for the copies, before it uses ``tensor``."""
        import torch

        if self._stream is not None:
            current = torch.cuda.current_stream()
            current.wait_stream(self._stream)
            keep_for(tensor, current)


WORKLOAD = Workload(
    module="overlapscope.workloads.offload",
    question="Do the copies of offloaded activations overlap the layers?",
    variants=VARIANTS,
    sizes=Sizes(),
    on_cpu=Sizes(layers=2, tokens=16, width=32),
    make=make,
)
build, measure = WORKLOAD.build, WORKLOAD.measure

if __name__ == "__main__":
    main(WORKLOAD)
