"""accelerate: a DataLoader that was prepared."""

from __future__ import annotations

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import resnet18, resnet50

from benchmarks.wild.loop import Loop, Step, size
from benchmarks.wild.texts import FixKind, Text


def _make(fixed: bool, device: str) -> Step:
    side, batch = size(device, 224, 32), size(device, 64, 2)
    images = torch.rand(8 * batch, 3, side, side)
    labels = torch.randint(0, 1000, (8 * batch,))
    accelerator = Accelerator(
        mixed_precision="bf16" if device == "cuda" else "no",
        cpu=device != "cuda",
        dataloader_config=DataLoaderConfiguration(non_blocking=fixed),
    )
    loader = DataLoader(
        TensorDataset(images, labels), batch, num_workers=size(device, 4, 1),
        persistent_workers=True, pin_memory=fixed and device == "cuda",
    )  # fmt: skip
    model = size(device, resnet50, resnet18)()
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    model, optimiser, loader = accelerator.prepare(model, optimiser, loader)

    def step() -> torch.Tensor:
        losses = []
        for pictures, targets in loader:
            loss = functional.cross_entropy(model(pictures), targets)
            accelerator.backward(loss)
            optimiser.step()
            optimiser.zero_grad()
            losses.append(loss.detach())
        return torch.stack(losses)

    return step


TEXT = Text(
    package="accelerate",
    title="a prepared DataLoader",
    does="A ResNet-50 is trained on eight batches of 64 pictures, from a DataLoader with four workers.",
    fix="The loader pins its batches, and accelerate copies them asynchronously.",
    kind=FixKind.SWITCH,
    before="Accelerator()\nDataLoader(data, 64, num_workers=4)",
    after="Accelerator(dataloader_config=DataLoaderConfiguration(non_blocking=True))\n"
    "DataLoader(data, 64, num_workers=4, pin_memory=True)",
    changes=("pin", "non-blocking"),
)
LOOP = Loop(TEXT, _make)
