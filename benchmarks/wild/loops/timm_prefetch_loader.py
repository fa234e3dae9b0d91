"""timm: evaluation with the loader that copies batches ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
import timm
import torch
from timm.data import create_loader
from torch.utils.data import Dataset

from benchmarks.wild.loop import Loop, Step, size
from benchmarks.wild.texts import FixKind, Text


class Pictures(Dataset[Any]):
    """Pictures that are decoded already, so that workers keep up."""

    def __init__(self, count: int, side: int) -> None:
        pixels = np.random.default_rng(0).integers(0, 256, (16, 3, side, side), dtype=np.uint8)
        self.pixels, self.count = pixels, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return self.pixels[index % len(self.pixels)], index % 1000


def _make(fixed: bool, device: str) -> Step:
    side, batch = 224, size(device, 256, 2)
    kind = size(device, torch.float16, torch.float32)
    data = Pictures(6 * batch, side)
    loader = create_loader(
        data, (3, side, side), batch, no_aug=True, num_workers=size(device, 8, 1), persistent_workers=True,
        pin_memory=fixed and device == "cuda", device=torch.device(device), img_dtype=kind,
    )  # fmt: skip
    model = timm.create_model(size(device, "resnet50", "resnet18"), num_classes=1000).to(device, kind).eval()

    def step() -> torch.Tensor:
        with torch.no_grad():
            scores = [model(pictures).argmax(1) for pictures, _ in loader]
        return torch.cat(scores)

    return step


TEXT = Text(
    package="timm",
    title="create_loader and its prefetcher",
    does="A ResNet-50 classifies six batches of 256 pictures from `create_loader`, which prefetches on a stream.",
    fix="The loader pins its batches, which it does not do unless it is asked to.",
    kind=FixKind.SWITCH,
    before="create_loader(data, (3, 224, 224), 256)",
    after="create_loader(data, (3, 224, 224), 256, pin_memory=True)",
    changes=("pin",),
)
LOOP = Loop(TEXT, _make)
