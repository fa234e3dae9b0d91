"""Is ``model(images)`` a synchronisation point, and how does one prefetch the next batch properly?

It is not. A forward pass only queues kernels, and the host continues. The results of a run show this: they list the
host time of the call beside the device time of its kernels. A training loop may copy its batches without blocking and
still not overlap, because a copy on the kernels' stream waits for the kernels like any other work. `Prefetcher` copies
the next batch on a separate stream while the step computes. It waits with events on the device, not on the host.

    python -m overlapscope.workloads.prefetcher --variant non-blocking --trace out.json.gz
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from overlapscope.capture.annotate import annotate
from overlapscope.workloads.harness import Program, Variant, Workload, main
from overlapscope.workloads.streams import Memory, Stopwatch, finish, keep_for, on, pins

if TYPE_CHECKING:
    import torch


class Prefetcher:
    """Iterates over ``batches`` and copies each to ``device`` while the one before computes.

    A batch is anything with ``.to(device, non_blocking=...)``, such as a tensor, or tuples, lists and mappings of
    batches; other values are returned unchanged. From pinned memory (a DataLoader with ``pin_memory=True``) the
    copies run beside the kernels; from pageable memory each copy blocks the host thread, and the kernels of
    the step are launched late.

    Create one and iterate over it again for every epoch, so that its stream, and the memory that the allocator caches
    for that stream, are used again. A loop that never waits for the device runs ahead of it. Then more than one batch
    is being copied. The loop has to limit this (for example by reading the loss); the prefetcher does not.

    >>> list(Prefetcher([(1, "a"), (2, "b")], "cpu"))
    [(1, 'a'), (2, 'b')]
    """

    def __init__(self, batches: Iterable[Any], device: str = "cuda") -> None:
        import torch

        self._batches = batches
        self._device = torch.device(device)
        on_gpu = self._device.type == "cuda"
        self._stream = torch.cuda.Stream(self._device) if on_gpu else None  # type: ignore[no-untyped-call]

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type] # TypeError where they have none, as for any iterable

    def __iter__(self) -> Iterator[Any]:
        coming = None
        for batch in self._batches:
            following = self._send(batch)
            if coming is not None:
                yield self._arrive(*coming)
            coming = following
        if coming is not None:
            yield self._arrive(*coming)

    def _send(self, batch: Any) -> tuple[Any, torch.cuda.Event | None]:
        """Queue the copies of a batch, and an event behind them."""
        with annotate("prefetch", color="orange"), on(self._stream):
            moved = _move(batch, self._device)
            return moved, None if self._stream is None else self._stream.record_event()

    def _arrive(self, batch: Any, copied: torch.cuda.Event | None) -> Any:
        """Let the current stream, not the host, wait for the copies; it owns the batch from then on."""
        import torch

        if copied is not None:
            current = torch.cuda.current_stream(self._device)
            current.wait_event(copied)
            for tensor in _tensors(batch):
                keep_for(tensor, current)
        return batch


def _move(batch: Any, device: torch.device) -> Any:
    if hasattr(batch, "to"):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, Mapping):
        return {key: _move(value, device) for key, value in batch.items()}
    if isinstance(batch, list | tuple):
        moved = [_move(value, device) for value in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch


def _tensors(batch: Any) -> Iterator[torch.Tensor]:
    """Every tensor in a batch, also in the attributes of a custom batch type."""
    import torch

    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from _tensors(value)
    elif isinstance(batch, list | tuple):
        for value in batch:
            yield from _tensors(value)
    elif hasattr(batch, "to") and hasattr(batch, "__dict__"):
        yield from _tensors(vars(batch))


class Loop(StrEnum):
    """How the training loop copies its batches to the device."""

    BLOCKING = "blocking"
    NON_BLOCKING = "non-blocking"
    PREFETCHER = "prefetcher"


@dataclass(frozen=True)
class Choices:
    """The loop, and the host memory of its batches."""

    loop: Loop = Loop.NON_BLOCKING
    memory: Memory = Memory.PINNED


@dataclass(frozen=True)
class Sizes:
    """Sizes of a pass on a data-centre GPU."""

    steps: int = 8
    batch: int = 256
    image: int = 192  # width and height of a float32 image with three channels
    channels: int = 64


VARIANTS = (
    Variant("blocking", Choices(Loop.BLOCKING, Memory.PAGEABLE), "images.cuda() from pageable memory", "prefetcher"),
    Variant("non-blocking", Choices(), "images.cuda(non_blocking=True) from pinned memory, one stream", "prefetcher"),
    Variant(
        "prefetcher-pageable",
        Choices(Loop.PREFETCHER, Memory.PAGEABLE),
        "a prefetcher, from pageable memory",
        "prefetcher",
    ),
    Variant("prefetcher", Choices(Loop.PREFETCHER), "a prefetcher on a separate stream, from pinned memory"),
)


def make(choices: Choices, sizes: Sizes, device: str) -> Program:
    """Allocate batches and a small network that is trained on them."""
    import torch

    torch.manual_seed(0)
    batches = _batches(choices.memory, sizes, device)
    model = network(sizes.channels).to(device)
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    forward = ForwardTimes(device)
    losses: list[torch.Tensor] = []
    delivered = _delivery(batches, choices.loop, device)

    def train_step(images: torch.Tensor, labels: torch.Tensor) -> None:
        with annotate("forward", color="green"), forward:
            output = model(images)
        with annotate("backward", color="green"):
            loss = criterion(output, labels)
            optimizer.zero_grad()
            loss.backward()
        with annotate("optimizer", color="green"):
            optimizer.step()
        losses.append(loss.detach())

    def one_pass() -> None:
        losses.clear()
        with annotate("prefetcher"):
            for images, labels in delivered:
                with annotate("train_step"):
                    train_step(images, labels)
            finish(device)

    return Program(one_pass, lambda: [float(loss) for loss in losses], forward.facts)


def network(channels: int, classes: int = 10) -> torch.nn.Module:
    """A small convolutional network for images with three channels."""
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, channels, 7, stride=4),
        nn.ReLU(),
        nn.Conv2d(channels, 2 * channels, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(2 * channels, 4 * channels, 3),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * channels, classes),
    )


def _batches(memory: Memory, sizes: Sizes, device: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """A few batches in a ring, in place of a loader and its noise."""
    import torch

    pin = pins(memory, device)
    shape = (sizes.batch, 3, sizes.image, sizes.image)
    pool = [
        (
            torch.zeros(shape, pin_memory=pin).normal_(),
            torch.full((sizes.batch,), label, dtype=torch.long, pin_memory=pin),
        )
        for label in range(2)
    ]
    return [pool[step % len(pool)] for step in range(sizes.steps)]


def _delivery(batches: list[tuple[torch.Tensor, torch.Tensor]], loop: Loop, device: str) -> Iterable[Any]:
    """The batches on the device, pass after pass, copied in the way of the loop."""
    return Prefetcher(batches, device) if loop is Loop.PREFETCHER else _Copied(batches, loop, device)


class _Copied:
    """Copies each batch when the loop requests it, on the stream of the kernels."""

    def __init__(self, batches: list[tuple[torch.Tensor, torch.Tensor]], loop: Loop, device: str) -> None:
        self._batches, self._device = batches, device
        self._non_blocking = loop is not Loop.BLOCKING

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches:
            with annotate("copy batch", color="orange"):
                moved = tuple(tensor.to(self._device, non_blocking=self._non_blocking) for tensor in batch)
            yield moved


class ForwardTimes:
    """Host time in ``model(images)``, and device time of its kernels."""

    def __init__(self, device: str) -> None:
        self._host, self._device = Stopwatch("cpu"), Stopwatch(device)

    def __enter__(self) -> None:
        self._device.__enter__()
        self._host.__enter__()

    def __exit__(self, *failure: object) -> None:
        self._host.__exit__(*failure)
        self._device.__exit__(*failure)

    def facts(self) -> dict[str, Any]:
        """Medians over all steps so far; if the call waited for the device, both would be as long."""
        return {"forward_host_ms": self._host.median_ms(), "forward_device_ms": self._device.median_ms()}


WORKLOAD = Workload(
    module="overlapscope.workloads.prefetcher",
    question="Is model(images) a synchronisation point, and how does one prefetch the next batch properly?",
    variants=VARIANTS,
    sizes=Sizes(),
    on_cpu=Sizes(steps=3, batch=2, image=32, channels=2),
    make=make,
)
build, measure = WORKLOAD.build, WORKLOAD.measure

if __name__ == "__main__":
    main(WORKLOAD)
