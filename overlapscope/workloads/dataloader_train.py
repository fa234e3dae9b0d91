"""A DataLoader with workers and a training loop: which of its settings make the copies run beside the kernels?

``pin_memory=True`` alone makes the copies fast. But a blocking ``.to()`` still waits for each copy, and therefore for
the step before. ``non_blocking=True`` alone has no effect on pageable batches. A batch type of your own is pinned only
if it has a ``pin_memory()`` method. Without one, the loader returns it pageable and gives no warning. ``.item()`` in
every step makes the host wait, whatever the copies do. On one stream the copies never run beside the kernels. The
workload `overlapscope.workloads.prefetcher` shows how to overlap them.

    python -m overlapscope.workloads.dataloader_train --variant custom-not-pinned --trace out.json.gz
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any

from overlapscope.capture.annotate import annotate
from overlapscope.workloads.harness import Program, Variant, Workload, main
from overlapscope.workloads.prefetcher import network
from overlapscope.workloads.streams import Stopwatch, finish

if TYPE_CHECKING:
    import torch


class BatchKind(StrEnum):
    """The kind of batch that the loader's ``collate_fn`` returns."""

    TUPLE = "tuple"
    CUSTOM = "custom"
    CUSTOM_WITHOUT_PIN = "custom-without-pin"


@dataclass(frozen=True)
class Choices:
    """Settings of the loader and of the training loop."""

    pin: bool = False
    blocking: bool = True
    batch: BatchKind = BatchKind.TUPLE
    item: bool = False


@dataclass(frozen=True)
class Sizes:
    """Sizes of a pass within a long epoch, on a data-centre GPU."""

    steps: int = 10
    images: int = 64  # per step
    image: int = 128  # width and height of a float32 image with three channels
    channels: int = 384
    workers: int = 8


_EPOCH_STEPS = 100_000  # more than any run needs


VARIANTS = (
    Variant("pageable-blocking", Choices(), "no pinning, blocking copies", "pinned-non-blocking"),
    Variant(
        "pageable-non-blocking",
        Choices(blocking=False),
        "no pinning, non_blocking=True: still staged",
        "pinned-non-blocking",
    ),
    Variant(
        "pinned-blocking",
        Choices(pin=True),
        "pin_memory=True, but the host waits for every copy",
        "pinned-non-blocking",
    ),
    Variant("pinned-non-blocking", Choices(pin=True, blocking=False), "pin_memory=True and non_blocking=True"),
    Variant(
        "custom-not-pinned",
        Choices(pin=True, blocking=False, batch=BatchKind.CUSTOM_WITHOUT_PIN),
        "pin_memory=True and a batch type without pin_memory(): still pageable",
        "custom-pinned",
    ),
    Variant(
        "custom-pinned",
        Choices(pin=True, blocking=False, batch=BatchKind.CUSTOM),
        "pin_memory=True and a batch type with pin_memory()",
    ),
    Variant(
        "pinned-item",
        Choices(pin=True, blocking=False, item=True),
        "pinned, non-blocking, and loss.item() in every step",
        "pinned-non-blocking",
    ),
)


@dataclass
class LooseBatch:
    """A custom batch type without ``pin_memory()``."""

    images: torch.Tensor
    labels: torch.Tensor

    def to(self, device: str, *, non_blocking: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Its tensors on ``device``."""
        return (
            self.images.to(device, non_blocking=non_blocking),
            self.labels.to(device, non_blocking=non_blocking),
        )


class PinnableBatch(LooseBatch):
    """A custom batch type with ``pin_memory()``, which the loader calls."""

    def pin_memory(self) -> PinnableBatch:
        """Called by the loader's pinning thread; returns the batch that the loop receives."""
        return PinnableBatch(self.images.pin_memory(), self.labels.pin_memory())


class Images:
    """A map-style dataset of random images in memory, so that loading costs no more than collating."""

    def __init__(self, count: int, size: int) -> None:
        import torch

        generator = torch.Generator().manual_seed(0)
        self._pool = torch.randn(64, 3, size, size, generator=generator)
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self._pool[index % len(self._pool)], index % 10


class Collate:
    """Collates samples to a batch of the selected kind; a class, because workers may need to unpickle it."""

    def __init__(self, kind: BatchKind) -> None:
        self._kind = kind

    def __call__(self, samples: list[tuple[torch.Tensor, int]]) -> Any:
        """Stack the samples."""
        import torch

        images = torch.stack([image for image, _ in samples])
        labels = torch.tensor([label for _, label in samples])
        if self._kind is BatchKind.TUPLE:
            return images, labels
        return (PinnableBatch if self._kind is BatchKind.CUSTOM else LooseBatch)(images, labels)


def make(choices: Choices, sizes: Sizes, device: str) -> Program:
    """Start the loader's workers and make a small network."""
    import torch

    torch.manual_seed(0)
    model = network(sizes.channels).to(device)
    loader: torch.utils.data.DataLoader[Any] = torch.utils.data.DataLoader(
        Images(_EPOCH_STEPS * sizes.images, sizes.image),  # type: ignore[arg-type]
        batch_size=sizes.images,
        num_workers=sizes.workers,
        pin_memory=choices.pin and device != "cpu",
        collate_fn=Collate(choices.batch),
    )
    batches = iter(loader)  # shared by all passes, so that workers are ahead when a pass starts
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clock = StepClock(device)
    losses: list[torch.Tensor] = []

    def train_step(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with annotate("train", color="green"):
            loss: torch.Tensor = criterion(model(images), labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return loss

    def one_pass() -> None:
        losses.clear()
        with annotate("dataloader_train"):
            for batch in islice(batches, sizes.steps):
                with annotate("step"):
                    with annotate("copy batch", color="orange"), clock.transfer:
                        images, labels = _to(batch, device, non_blocking=not choices.blocking)
                    with clock.kernels:
                        losses.append(train_step(images, labels).detach())
                    if choices.item:
                        with annotate("item", color="red"):
                            losses[-1].item()
            finish(device)

    return Program(one_pass, lambda: [float(loss) for loss in losses], clock.facts)


def _to(batch: Any, device: str, *, non_blocking: bool) -> tuple[torch.Tensor, torch.Tensor]:
    if isinstance(batch, LooseBatch):
        return batch.to(device, non_blocking=non_blocking)
    images, labels = batch
    return images.to(device, non_blocking=non_blocking), labels.to(device, non_blocking=non_blocking)


class StepClock:
    """Transfer time and kernel time per step, separately."""

    def __init__(self, device: str) -> None:
        self.transfer, self.kernels = Stopwatch(device), Stopwatch(device)

    def facts(self) -> dict[str, Any]:
        """Device time between the marks around the copies, and around the training of a step."""
        return {"transfer_ms": self.transfer.median_ms(), "kernels_ms": self.kernels.median_ms()}


WORKLOAD = Workload(
    module="overlapscope.workloads.dataloader_train",
    question="Which settings of a DataLoader and its loop make the copies run beside the kernels?",
    variants=VARIANTS,
    sizes=Sizes(),
    on_cpu=Sizes(steps=3, images=2, image=32, channels=2, workers=1),
    make=make,
)
build, measure = WORKLOAD.build, WORKLOAD.measure

if __name__ == "__main__":
    main(WORKLOAD)
