"""lightning: a loss that is shown in the progress bar."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import lightning
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.wild.loop import Loop, Step, size
from benchmarks.wild.texts import FixKind, Text


class Reader(lightning.LightningModule):
    """As in the library's tutorials."""

    def __init__(self, width: int, layers: int, words: int, *, shown: bool) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, 0.0, batch_first=True, norm_first=True)
        self.words, self.head = nn.Embedding(words, width), nn.Linear(width, words)
        self.model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.shown = shown
        self.losses: list[torch.Tensor] = []

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        """Learn to copy."""
        (texts,) = batch
        scores = self.head(self.model(self.words(texts)))
        loss = functional.cross_entropy(scores.flatten(0, 1).float(), texts.flatten())
        self.log("loss", loss, prog_bar=self.shown)
        self.losses.append(loss.detach())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Without a state, which Lightning would move after each fit."""
        return torch.optim.SGD(self.parameters(), lr=1e-3)


def _make(fixed: bool, device: str) -> Step:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    batches, batch, length, words = 12, size(device, 32, 2), size(device, 512, 8), 1000
    texts = torch.randint(0, words, (batches * batch, length))
    loader = DataLoader(TensorDataset(texts), batch, pin_memory=device == "cuda")
    program = Reader(size(device, 512, 32), size(device, 6, 2), words, shown=not fixed)

    def step() -> torch.Tensor:
        program.losses.clear()
        trainer = lightning.Trainer(
            max_epochs=1, accelerator=device.replace("cuda", "gpu"), devices=1, logger=False,
            enable_checkpointing=False, enable_model_summary=False,
            precision="bf16-mixed" if device == "cuda" else "32-true",
        )  # fmt: skip
        trainer.fit(program, loader)
        return torch.stack(program.losses)

    return step


TEXT = Text(
    package="lightning",
    title="a loss in the progress bar",
    does="A transformer of 6 layers is fitted to twelve batches of 32 pinned texts; `log` shows each loss.",
    fix="The loss is logged without the progress bar, whose values are read after each batch, whether shown or not.",
    kind=FixKind.SWITCH,
    before='self.log("loss", loss, prog_bar=True)',
    after='self.log("loss", loss)',
    changes=("no-scalar-sync",),
)
LOOP = Loop(TEXT, _make)
