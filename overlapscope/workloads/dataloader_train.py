"""A DataLoader with workers and a training loop: which settings let the host run ahead of the GPU?

``pin_memory=True`` alone makes the copies fast, but a blocking ``.to()`` still waits for each copy, and with it for the
step before. ``non_blocking=True`` alone changes nothing for pageable batches. A custom batch type is pinned only if it
has a ``pin_memory()`` method; without one the loader passes it on unchanged and without a warning. ``.item()`` in every
step makes the host wait, however the batches are copied. Copies on the stream of the kernels never overlap them; see
`overlapscope.workloads.prefetcher` for that.

The loop of the article that recommends both settings undoes them: it adds an L2 penalty, parameter by parameter, and
reads the loss and the number of correct predictions with ``.item()`` in every step. ``--workers 0`` loads the batches
in the training process, where nothing overlaps their loading.

    python -m overlapscope.workloads.dataloader_train --variant custom-not-pinned --trace out.json.gz
"""

from __future__ import annotations

from dataclasses import dataclass, field
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
    """The type of batch that the loader's ``collate_fn`` returns."""

    TUPLE = "tuple"
    CUSTOM = "custom"
    CUSTOM_WITHOUT_PIN = "custom-without-pin"


class Reads(StrEnum):
    """What the host reads of a step: nothing, its loss, or its loss and its hits; or both once, after the last step."""

    NONE = "none"
    LOSS = "loss"
    EACH = "each"
    ONCE = "once"


@dataclass(frozen=True)
class Choices:
    """Settings of the loader and of the loop."""

    pin: bool = False
    blocking: bool = True
    batch: BatchKind = BatchKind.TUPLE
    reads: Reads = Reads.NONE
    l2: bool = False


@dataclass(frozen=True)
class Sizes:
    """Sizes of a pass through a part of an epoch, for a data-centre GPU."""

    steps: int = 10
    images: int = 64  # per step
    image: int = 128  # width and height of a float32 image with three channels
    channels: int = 384
    workers: int = field(default=8, metadata={"least": 0})


_EPOCH_STEPS = 100_000  # more than anyone waits for
_L2 = 0.001


VARIANTS = (
    Variant("pageable-blocking", Choices(), "no pinning, blocking copies", "pinned-non-blocking"),
    Variant(
        "pageable-non-blocking",
        Choices(blocking=False),
        "no pinning, non_blocking=True: still staged",
        "pinned-non-blocking",
    ),
    Variant("pinned-blocking", Choices(pin=True), "pin_memory=True, but blocking copies", "pinned-non-blocking"),
    Variant("pinned-non-blocking", Choices(pin=True, blocking=False), "pin_memory=True and non_blocking=True"),
    Variant(
        "custom-not-pinned",
        Choices(pin=True, blocking=False, batch=BatchKind.CUSTOM_WITHOUT_PIN),
        "pin_memory=True and a batch type without pin_memory(): stays pageable",
        "custom-pinned",
    ),
    Variant(
        "custom-pinned",
        Choices(pin=True, blocking=False, batch=BatchKind.CUSTOM),
        "pin_memory=True and a batch type with pin_memory()",
    ),
    Variant(
        "pinned-item",
        Choices(pin=True, blocking=False, reads=Reads.LOSS),
        "pinned, non-blocking, and loss.item() in every step",
        "pinned-non-blocking",
    ),
    Variant(
        "article-loop",
        Choices(pin=True, blocking=False, reads=Reads.EACH, l2=True),
        "the same with an L2 penalty, and with a second item() in every step, for the hits",
        "article-loop-deferred",
    ),
    Variant(
        "article-loop-deferred",
        Choices(pin=True, blocking=False, reads=Reads.ONCE, l2=True),
        "both summed on the GPU, and read after the last step",
    ),
)


@dataclass
class LooseBatch:
    """A custom batch type without ``pin_memory()``."""

    images: torch.Tensor
    labels: torch.Tensor

    def to(self, device: str, *, non_blocking: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """The batch with its tensors copied to ``device``."""
        return (
            self.images.to(device, non_blocking=non_blocking),
            self.labels.to(device, non_blocking=non_blocking),
        )


class PinnableBatch(LooseBatch):
    """A custom batch type with the ``pin_memory()`` method that the loader looks for."""

    def pin_memory(self) -> PinnableBatch:
        """Pin the tensors; the loader's pinning thread calls this."""
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
    """Collate samples to a batch of the chosen type; a class, since worker processes must be able to unpickle it."""

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
    batches = iter(loader)  # the same for all passes: workers are ahead when one starts
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    transfer, kernels = Stopwatch(device), Stopwatch(device)
    losses: list[torch.Tensor] = []
    score = Score(choices.reads)

    def train_step(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with annotate("train", color="green"):
            output: torch.Tensor = model(images)
            loss: torch.Tensor = criterion(output, labels)
            if choices.l2:
                loss = loss + _L2 * sum(weight.pow(2.0).sum() for weight in model.parameters())
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        losses.append(loss.detach())
        return output.detach()

    def one_pass() -> None:
        losses.clear()
        score.clear()
        with annotate("dataloader_train"):
            for batch in islice(batches, sizes.steps):
                with annotate("step"):
                    with annotate("copy batch", color="orange"), transfer:
                        images, labels = _to(batch, device, non_blocking=not choices.blocking)
                    with kernels:
                        output = train_step(images, labels)
                    score.add(losses[-1], output, labels)
            score.finish()
            finish(device)

    def facts() -> dict[str, Any]:
        return {"transfer_ms": transfer.median_ms(), "kernels_ms": kernels.median_ms()}

    return Program(one_pass, lambda: [*(float(loss) for loss in losses), *score.totals], facts)


class Score:
    """Sums the losses and the hits of a pass, and reads them as chosen; ``totals`` has what was read."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._on_device: list[torch.Tensor] = []
        self.totals: list[float] = []

    def clear(self) -> None:
        """Begin a pass."""
        self._on_device.clear()
        self.totals.clear()

    def add(self, loss: torch.Tensor, output: torch.Tensor, labels: torch.Tensor) -> None:
        """Take a step's loss and predictions."""
        if self._reads is Reads.NONE:
            return
        with annotate("item", color="red"):
            if self._reads is Reads.LOSS:
                loss.item()
                return
            hits = output.max(1)[1].eq(labels).sum()
            if self._reads is Reads.EACH:
                self._sum_up(loss.item(), hits.item())
            else:
                self._add_on_device(loss, hits)

    def finish(self) -> None:
        """Read what was summed on the GPU."""
        if self._on_device:
            with annotate("item", color="red"):
                self.totals[:] = [float(total) for total in self._on_device]

    def _sum_up(self, *values: float) -> None:
        self.totals[:] = [total + value for total, value in zip(self.totals or (0.0, 0.0), values, strict=True)]

    def _add_on_device(self, *values: torch.Tensor) -> None:
        before = self._on_device
        self._on_device = [a + b for a, b in zip(before, values, strict=True)] if before else list(values)


def _to(batch: Any, device: str, *, non_blocking: bool) -> tuple[torch.Tensor, torch.Tensor]:
    if isinstance(batch, LooseBatch):
        return batch.to(device, non_blocking=non_blocking)
    images, labels = batch
    return images.to(device, non_blocking=non_blocking), labels.to(device, non_blocking=non_blocking)


WORKLOAD = Workload(
    module="overlapscope.workloads.dataloader_train",
    question="Which settings of a DataLoader and its loop let the host run ahead of the GPU?",
    variants=VARIANTS,
    sizes=Sizes(),
    on_cpu=Sizes(steps=3, images=2, image=32, channels=2, workers=1),
    make=make,
)
build, measure = WORKLOAD.build, WORKLOAD.measure

if __name__ == "__main__":
    main(WORKLOAD)
