"""torchaudio: a Conformer, which is handed the lengths of its inputs."""

from __future__ import annotations

from unittest import mock

import torch
from torchaudio.models import Conformer, conformer

from benchmarks.wild.loop import Loop, Step, size
from benchmarks.wild.texts import FixKind, Text


def _make(fixed: bool, device: str) -> Step:
    width, frames = size(device, 256, 16), size(device, 400, 20)
    model = Conformer(width, 4, 4 * width, size(device, 8, 2), 31).to(device).eval()
    batches = [torch.randn(16, frames, width, device=device) for _ in range(8)]
    lengths = [torch.randint(frames // 2, frames + 1, (16,), device=device) for _ in batches]
    for each in lengths:
        each[0] = frames

    def mask(found: torch.Tensor) -> torch.Tensor:
        return torch.arange(frames, device=device).expand(len(found), frames) >= found.unsqueeze(1)

    def step() -> torch.Tensor:
        with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16):
            return torch.stack([model(*each)[0][:, 0].float() for each in zip(batches, lengths, strict=True)])

    def patched() -> torch.Tensor:
        with mock.patch.object(conformer, "_lengths_to_padding_mask", mask):
            return step()

    return patched if fixed else step


TEXT = Text(
    package="torchaudio",
    title="a Conformer's lengths",
    does="A Conformer of 8 layers reads eight batches of 16 sounds of 4 seconds, whose lengths are on the GPU.",
    fix="The mask is as long as the input is, which the host knows, instead of as the longest length, which it reads.",
    kind=FixKind.PATCH,
    before="max_length = int(torch.max(lengths).item())",
    after="max_length = input.shape[1]",
    changes=("no-scalar-sync",),
)
LOOP = Loop(TEXT, _make)
