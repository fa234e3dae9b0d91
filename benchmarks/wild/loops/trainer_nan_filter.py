"""transformers: ``Trainer`` looks at the loss of each step, whether it is a number."""

from __future__ import annotations

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from benchmarks.wild.loop import Loop, Step, size
from benchmarks.wild.texts import FixKind, Text


def _make(fixed: bool, device: str) -> Step:
    length, words = size(device, 512, 16), size(device, 16_000, 100)
    config = GPT2Config(
        vocab_size=words, n_positions=length, n_embd=size(device, 768, 32), n_layer=size(device, 8, 2),
        n_head=size(device, 12, 2), resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    batch = size(device, 32, 4)
    texts = torch.randint(0, words, (6 * batch, length))
    data = [{"input_ids": text, "labels": text} for text in texts]
    model = GPT2LMHeadModel(config)
    arguments = TrainingArguments(
        tempfile.mkdtemp(), max_steps=6, per_device_train_batch_size=batch, learning_rate=1e-4, bf16=device == "cuda",
        logging_nan_inf_filter=not fixed, save_strategy="no", report_to=[], disable_tqdm=True,
        use_cpu=device != "cuda",
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=data)

    def step() -> torch.Tensor:
        loss = trainer.train().training_loss
        return torch.tensor([loss, model.transformer.ln_f.weight.detach().sum().item()])

    return step


TEXT = Text(
    package="transformers",
    title="Trainer, and its look at each loss",
    does="A GPT-2 of 8 layers is trained for six steps by `Trainer` with its defaults, in bfloat16.",
    fix="The look whether a loss is a number, which reads it in each step, is switched off.",
    kind=FixKind.SWITCH,
    before="TrainingArguments(...)",
    after="TrainingArguments(..., logging_nan_inf_filter=False)",
    changes=("no-scalar-sync",),
)
LOOP = Loop(TEXT, _make)
