"""Is ``model(images)`` a synchronisation point, and how does one prefetch the next batch?

It is not: a forward pass only queues kernels, and the host continues. The facts of a run show the host time of the call
next to its device time. A training loop may copy its batches without blocking and still not overlap, because a copy on
the stream of the kernels waits for them like any other work. `Prefetcher` copies the next batch on a side stream while
the step computes, and makes streams wait for events instead of the host.

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
    """Iterates over ``batches`` and copies each to ``device`` while the batch before it is computed.

    A batch is anything with ``.to(device, non_blocking=...)``, such as a tensor, or tuples, lists and mappings of
    batches; other values stay as they are. From pinned memory (a DataLoader with ``pin_memory=True``) the copies
    overlap the kernels; from pageable memory each of them blocks the host thread, and the kernels of the step are
    launched late.

    Create one and iterate it for every epoch: its stream, and the memory that the allocator caches for that stream,
    are reused. In a loop that never synchronises, the host runs ahead and several batches are copied at once; the loop
    has to limit that (by reading a loss, for example), not the prefetcher.

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
        """Queue the copies of a batch, and an event after them."""
        with annotate("prefetch", color="orange"), on(self._stream):
            moved = _move(batch, self._device)
            return moved, None if self._stream is None else self._stream.record_event()

    def _arrive(self, batch: Any, copied: torch.cuda.Event | None) -> Any:
        """Make the current stream, not the host, wait for the copies, and hand the batch's memory to it."""
        import torch

        if copied is not None:
            current = torch.cuda.current_stream(self._device)
            current.wait_event(copied)
            for tensor in tensors_in(batch):
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


def tensors_in(batch: Any) -> Iterator[torch.Tensor]:
    """Every tensor in a batch, including attributes of custom batch types."""
    import torch

    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from tensors_in(value)
    elif isinstance(batch, list | tuple):
        for value in batch:
            yield from tensors_in(value)
    elif hasattr(batch, "to") and hasattr(batch, "__dict__"):
        yield from tensors_in(vars(batch))


class Loop(StrEnum):
    """How the training loop copies its batches to the GPU."""

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
    """Sizes of a pass, for a data-centre GPU."""

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
    Variant("prefetcher", Choices(Loop.PREFETCHER), "a prefetcher on its own stream, from pinned memory"),
)


def make(choices: Choices, sizes: Sizes, device: str) -> Program:
    """Allocate batches and a small network that is trained on them."""
    import torch

    torch.manual_seed(0)
    batches = make_batches(choices.memory, sizes, device)
    model = network(sizes.channels).to(device)
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    host, kernels = Stopwatch("cpu"), Stopwatch(device)  # in a call that synchronises, both would be equal
    losses: list[torch.Tensor] = []
    delivered = delivery(batches, choices.loop, device)

    def train_step(images: torch.Tensor, labels: torch.Tensor) -> None:
        with annotate("forward", color="green"), kernels, host:
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

    def facts() -> dict[str, Any]:
        return {"forward_host_ms": host.median_ms(), "forward_device_ms": kernels.median_ms()}

    return Program(one_pass, lambda: [float(loss) for loss in losses], facts)


def network(channels: int) -> torch.nn.Module:
    """A small convolutional network for images with three channels, of ten classes."""
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
        nn.Linear(4 * channels, 10),
    )


def make_batches(memory: Memory, sizes: Sizes, device: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """A loader without the noise of a real one: a few batches, repeated."""
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


def delivery(batches: list[tuple[torch.Tensor, torch.Tensor]], loop: Loop, device: str) -> Iterable[Any]:
    """Yield the batches on the GPU, as the chosen loop copies them."""
    return Prefetcher(batches, device) if loop is Loop.PREFETCHER else _Copied(batches, loop, device)


class _Copied:
    """Copies each batch when it is needed, on the stream of the kernels."""

    def __init__(self, batches: list[tuple[torch.Tensor, torch.Tensor]], loop: Loop, device: str) -> None:
        self._batches, self._device = batches, device
        self._non_blocking = loop is not Loop.BLOCKING

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches:
            with annotate("copy batch", color="orange"):
                moved = tuple(tensor.to(self._device, non_blocking=self._non_blocking) for tensor in batch)
            yield moved


WORKLOAD = Workload(
    module="overlapscope.workloads.prefetcher",
    question="Is model(images) a synchronisation point, and how does one prefetch the next batch?",
    variants=VARIANTS,
    sizes=Sizes(),
    on_cpu=Sizes(steps=3, batch=2, image=32, channels=2),
    make=make,
)
build, measure = WORKLOAD.build, WORKLOAD.measure

if __name__ == "__main__":
    main(WORKLOAD)
