"""torch: training in half precision with a gradient scaler."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from benchmarks.wild.loop import Loop, Step, size
from benchmarks.wild.texts import FixKind, Text


def _make(fixed: bool, device: str) -> Step:
    width, batches = size(device, 768, 32), 8
    layer = nn.TransformerEncoderLayer(width, size(device, 12, 2), 4 * width, 0.0, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, size(device, 12, 2), enable_nested_tensor=False).to(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True if fixed else None)
    scaler = torch.amp.GradScaler(device)
    data = [torch.randn(size(device, 32, 4), size(device, 256, 8), width, device=device) for _ in range(batches)]

    def step() -> torch.Tensor:
        losses = []
        for batch in data:
            with torch.autocast(device, dtype=torch.float16 if device == "cuda" else torch.bfloat16):
                loss = functional.mse_loss(model(batch).float(), batch)
            scaler.scale(loss).backward()
            scaler.step(optimiser)
            scaler.update()
            optimiser.zero_grad()
            losses.append(loss.detach())
        return torch.stack(losses)

    return step


TEXT = Text(
    package="torch",
    title="GradScaler and AdamW",
    does="A transformer of 12 layers is trained for eight batches in half precision, with a gradient scaler.",
    fix="The fused optimiser skips a step on the GPU, so that the host need not read whether there was an overflow.",
    kind=FixKind.SWITCH,
    before="AdamW(model.parameters())",
    after="AdamW(model.parameters(), fused=True)",
    changes=("no-scalar-sync",),
)
LOOP = Loop(TEXT, _make)
