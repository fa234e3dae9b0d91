"""What does it cost to read a scalar from the GPU in every step?

``.item()``, ``.cpu()`` and ``nonzero()`` copy a few bytes to the host and wait for them, and with them for all kernels
that were queued before. The copy is tiny; the wait is the whole step. Host work after it (here: `host_work_us` of
Python) no longer overlaps kernels. Pinned memory does not help.

    python -m overlapscope.workloads.scalar_reads --variant item --trace out.json.gz
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from overlapscope.capture.annotate import annotate
from overlapscope.workloads.harness import Program, Variant, Workload, main
from overlapscope.workloads.streams import Mark, Memory, finish, pins

if TYPE_CHECKING:
    import torch


class Read(StrEnum):
    """How a step reads its result."""

    ITEM = "item"
    CPU = "cpu"
    NONZERO = "nonzero"


@dataclass(frozen=True)
class Choices:
    """What is read, and whether the host waits for it in the step."""

    read: Read = Read.ITEM
    deferred: bool = False


@dataclass(frozen=True)
class Sizes:
    """Sizes of a pass, for a data-centre GPU."""

    steps: int = 20
    layers: int = 12
    width: int = 2048  # of the square float32 layers, and rows of a batch
    host_work_us: int = 500  # host work in each step besides launches


VARIANTS = (
    Variant("item", Choices(Read.ITEM), "loss.item() in every step", "item-deferred"),
    Variant("item-deferred", Choices(Read.ITEM, deferred=True), "losses summed on the GPU, one item() at the end"),
    Variant("cpu", Choices(Read.CPU), "loss.cpu() in every step", "cpu-deferred"),
    Variant(
        "cpu-deferred",
        Choices(Read.CPU, deferred=True),
        "the loss copied to pinned memory asynchronously, and read one step later",
    ),
    Variant(
        "nonzero",
        Choices(Read.NONZERO),
        "rows selected with nonzero(), whose size the host reads",
        "nonzero-deferred",
    ),
    Variant("nonzero-deferred", Choices(Read.NONZERO, deferred=True), "rows masked instead: the host reads no size"),
)


def make(choices: Choices, sizes: Sizes, device: str) -> Program:
    """Allocate the layers of a loop that reads its losses in the chosen way."""
    import torch

    generator = torch.Generator().manual_seed(0)
    scale = sizes.width**-0.5
    weights = [
        (torch.randn(sizes.width, sizes.width, generator=generator) * scale).to(device) for _ in range(sizes.layers)
    ]
    batch = torch.randn(sizes.width, sizes.width, generator=generator).to(device)
    reader = _READERS[choices.read, choices.deferred](device)

    def step() -> None:
        with annotate("compute", color="green"), torch.no_grad():
            hidden = batch
            for weight in weights:
                hidden = torch.relu(hidden @ weight)
        with annotate("read", color="orange"):
            reader.read(hidden)
        with annotate("host work", color="white"):
            _work(sizes.host_work_us)

    totals: list[float] = []

    def one_pass() -> None:
        with annotate("scalar_reads"):
            for _ in range(sizes.steps):
                with annotate("step"):
                    step()
            totals.append(reader.total())
            finish(device)

    return Program(one_pass, result=lambda: totals[-1])


class _Reader:
    """Sums the losses on the host."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.sum = 0.0

    def read(self, hidden: torch.Tensor) -> None:
        self.sum += hidden.mean().item()

    def total(self) -> float:
        total, self.sum = self.sum, 0.0
        return total


class _CpuReader(_Reader):
    def read(self, hidden: torch.Tensor) -> None:
        self.sum += float(hidden.mean().cpu())


class _DeferredReader(_Reader):
    """Sums the losses on the GPU."""

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self._on_device: list[torch.Tensor] = []

    def read(self, hidden: torch.Tensor) -> None:
        self._on_device.append(hidden.mean())

    def total(self) -> float:
        import torch

        total = torch.stack(self._on_device).sum().item()
        self._on_device.clear()
        return total


class _LateReader(_Reader):
    """Copies losses to pinned memory asynchronously; reads each one after the next step has been issued."""

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self._in_flight: deque[tuple[torch.Tensor, Mark]] = deque()

    def read(self, hidden: torch.Tensor) -> None:
        import torch

        slot, arrived = torch.empty((), pin_memory=pins(Memory.PINNED, self.device)), Mark(self.device)
        slot.copy_(hidden.mean(), non_blocking=True)
        arrived.set()
        self._in_flight.append((slot, arrived))
        if len(self._in_flight) > 1:
            self._take()

    def total(self) -> float:
        while self._in_flight:
            self._take()
        return super().total()

    def _take(self) -> None:
        slot, arrived = self._in_flight.popleft()
        arrived.wait()
        self.sum += float(slot)


class _RowsReader(_DeferredReader):
    """Sums the rows that are larger than the average, selected by index."""

    def read(self, hidden: torch.Tensor) -> None:
        rows = (hidden.mean(1) > hidden.mean()).nonzero()[:, 0]  # the host waits for how many there are
        self._on_device.append(hidden[rows].sum())


class _MaskReader(_DeferredReader):
    """Sums the same rows by a mask, without reading how many there are."""

    def read(self, hidden: torch.Tensor) -> None:
        chosen = hidden.mean(1) > hidden.mean()
        self._on_device.append((hidden * chosen[:, None]).sum())


_READERS: dict[tuple[Read, bool], type[_Reader]] = {
    (Read.ITEM, False): _Reader,
    (Read.ITEM, True): _DeferredReader,
    (Read.CPU, False): _CpuReader,
    (Read.CPU, True): _LateReader,
    (Read.NONZERO, False): _RowsReader,
    (Read.NONZERO, True): _MaskReader,
}


def _work(microseconds: int) -> None:
    """Keep the host busy, as logging and Python between launches do."""
    end = time.perf_counter_ns() + microseconds * 1000
    while time.perf_counter_ns() < end:
        pass


WORKLOAD = Workload(
    module="overlapscope.workloads.scalar_reads",
    question="What does it cost to read a scalar from the GPU in every step?",
    variants=VARIANTS,
    sizes=Sizes(),
    on_cpu=Sizes(steps=3, layers=2, width=32, host_work_us=1),
    make=make,
)
build, measure = WORKLOAD.build, WORKLOAD.measure

if __name__ == "__main__":
    main(WORKLOAD)
