"""accelerate: a model whose weights stay on the host."""

from __future__ import annotations

import torch
from accelerate import cpu_offload
from transformers import LlamaConfig, LlamaModel

from benchmarks.wild.loop import Loop, Step, pinned, size
from benchmarks.wild.texts import FixKind, Text


def _make(fixed: bool, device: str) -> Step:
    config = LlamaConfig(
        vocab_size=size(device, 32_000, 100),
        hidden_size=size(device, 2048, 64),
        intermediate_size=size(device, 5632, 64),
        num_hidden_layers=size(device, 8, 2),
        num_attention_heads=size(device, 16, 4),
    )
    model = LlamaModel(config).to(torch.bfloat16).eval()
    weights = {name: pinned(weight, device) for name, weight in model.state_dict().items()} if fixed else None
    cpu_offload(model, execution_device=torch.device(device), state_dict=weights)
    tokens = torch.randint(0, config.vocab_size, (4, size(device, 2048, 16)), device=device)

    def step() -> torch.Tensor:
        with torch.no_grad():
            hidden: torch.Tensor = model(input_ids=tokens, use_cache=False).last_hidden_state
        return hidden[:, -1]

    return step


TEXT = Text(
    package="accelerate",
    title="cpu_offload",
    does="A Llama of 8 layers, whose weights stay on the host, reads four texts of 2048 tokens.",
    fix="The weights that are handed to `cpu_offload` are pinned first.",
    kind=FixKind.SWITCH,
    before="cpu_offload(model, execution_device=gpu)",
    after="cpu_offload(model, execution_device=gpu,\n"
    "            state_dict={name: weight.pin_memory() for name, weight in model.state_dict().items()})",
    changes=("pin",),
)
LOOP = Loop(TEXT, _make)
