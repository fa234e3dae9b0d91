"""torchmetrics: metrics that are updated after each batch."""

from __future__ import annotations

import torch
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassConfusionMatrix, MulticlassF1Score
from torchvision.models import resnet18

from benchmarks.wild.loop import Loop, Step, size
from benchmarks.wild.texts import FixKind, Text


def _make(fixed: bool, device: str) -> Step:
    side, batch, classes = size(device, 224, 32), size(device, 64, 2), 1000
    model = resnet18().to(device).eval()
    pictures = torch.randn(batch, 3, side, side, device=device)
    labels = torch.randint(0, classes, (10, batch), device=device)
    kinds = (MulticlassAccuracy, MulticlassF1Score, MulticlassConfusionMatrix)
    metrics = MetricCollection([kind(classes, validate_args=not fixed) for kind in kinds]).to(device)

    def step() -> torch.Tensor:
        metrics.reset()
        with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16):
            for truth in labels:
                metrics.update(model(pictures).float(), truth)
        found = metrics.compute()
        return torch.stack([value.float().mean() for value in found.values()])

    return step


TEXT = Text(
    package="torchmetrics",
    title="metrics after each batch",
    does="A ResNet-18 classifies ten batches of 64 pictures, and accuracy, F1 and a confusion matrix are updated.",
    fix="The arguments are not checked: the checks count the distinct labels and read their number.",
    kind=FixKind.SWITCH,
    before="MulticlassAccuracy(1000)",
    after="MulticlassAccuracy(1000, validate_args=False)",
    changes=("no-scalar-sync",),
)
LOOP = Loop(TEXT, _make)
