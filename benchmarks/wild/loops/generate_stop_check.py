"""transformers: ``generate`` asks after each token whether all sequences have ended."""

from __future__ import annotations

from unittest import mock

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.generation.utils import DeferredStopCheck

from benchmarks.wild.loop import Loop, Step, size
from benchmarks.wild.texts import FixKind, Text


def _make(fixed: bool, device: str) -> Step:
    config = LlamaConfig(
        vocab_size=size(device, 32_000, 100),
        hidden_size=size(device, 2048, 64),
        intermediate_size=size(device, 5632, 64),
        num_hidden_layers=size(device, 8, 2),
        num_attention_heads=size(device, 16, 4),
    )
    with torch.device(device):
        model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
    prompts = torch.randint(3, config.vocab_size, (size(device, 64, 2), size(device, 1024, 16)), device=device)
    mask = torch.ones_like(prompts)

    def step() -> torch.Tensor:
        tokens = model.generate(prompts, attention_mask=mask, max_new_tokens=16, do_sample=False, pad_token_id=0)
        return tokens[:, prompts.shape[1] :]

    def deferred() -> torch.Tensor:
        with mock.patch.object(DeferredStopCheck, "is_supported", staticmethod(lambda *_, **__: device == "cuda")):
            return step()

    return deferred if fixed else step


TEXT = Text(
    package="transformers",
    title="generate, and its stopping check",
    does="64 prompts of 1024 tokens are continued by 16. After each token, the host reads whether all have ended.",
    fix="The library has a check that reads one token late, and uses it on Apple GPUs only. It is let in on CUDA too.",
    kind=FixKind.PATCH,
    before='if device.type != "mps" or is_assistant: return False',
    after='if device.type not in ("mps", "cuda") or is_assistant: return False',
    changes=("no-scalar-sync",),
)
LOOP = Loop(TEXT, _make)
