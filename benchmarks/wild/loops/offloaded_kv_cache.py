"""transformers: ``generate`` with the key-value cache offloaded to the host."""

from __future__ import annotations

from typing import Any

import torch
from transformers import DynamicCache, Qwen3Config, Qwen3ForCausalLM

from benchmarks.wild.loop import Loop, Step, size
from benchmarks.wild.texts import FixKind, Text


class SideStreamCache(DynamicCache):
    """Layers leave on a stream of their own, and come back once they have arrived at the host."""

    def __init__(self, config: Any) -> None:
        super().__init__(config=config, offloading=True)
        self.offload_stream = torch.cuda.Stream()
        self.arrived: dict[int, torch.cuda.Event] = {}

    def offload(self, layer_idx: int, only_non_sliding: bool = True) -> None:
        """Send a layer to the host, once its work is done."""
        layer = self.layers[layer_idx]
        self.offload_stream.wait_stream(torch.cuda.current_stream())
        for tensor in (layer.keys, layer.values):
            tensor.record_stream(self.offload_stream)
        with torch.cuda.stream(self.offload_stream):
            super().offload(layer_idx, only_non_sliding)
        self.arrived[layer_idx] = self.offload_stream.record_event()

    def prefetch(self, layer_idx: int, only_non_sliding: bool = True) -> None:
        """Bring a layer back, once it has arrived at the host."""
        layer_idx %= len(self.layers)
        if layer_idx in self.arrived:
            self.prefetch_stream.wait_event(self.arrived[layer_idx])
        super().prefetch(layer_idx, only_non_sliding)
        layer = self.layers[layer_idx]
        if layer.is_initialized:
            for tensor in (layer.keys, layer.values):
                tensor.record_stream(torch.cuda.current_stream())


def _make(device: str, way: str) -> Step:
    config = Qwen3Config(
        vocab_size=size(device, 32_000, 100),
        hidden_size=size(device, 2048, 64),
        intermediate_size=size(device, 6144, 64),
        num_hidden_layers=size(device, 12, 2),
        num_attention_heads=size(device, 32, 4),
        num_key_value_heads=size(device, 8, 2),
        head_dim=size(device, 128, 16),
        eos_token_id=None,
    )
    with torch.device(device):
        model = Qwen3ForCausalLM(config).to(torch.bfloat16).eval()
    prompts = torch.randint(0, config.vocab_size, (size(device, 8, 2), size(device, 2048, 16)), device=device)
    mask = torch.ones_like(prompts)
    mask[0, :8] = 0
    caches = {"as it is": {"cache_implementation": "offloaded"}, "on the GPU": {}} if device == "cuda" else {}

    def step() -> torch.Tensor:
        fixed = way == "fixed" and device == "cuda"
        how = {"past_key_values": SideStreamCache(config)} if fixed else caches.get(way, {})
        tokens = model.generate(prompts, attention_mask=mask, max_new_tokens=8, do_sample=False, pad_token_id=0, **how)
        return tokens[:, prompts.shape[1] :]

    return step


TEXT = Text(
    package="transformers",
    title="generate with an offloaded cache",
    does="Eight padded prompts of 2048 tokens are continued by eight tokens, with the key-value cache on the host.",
    fix="Layers leave on a stream of their own, and come back only after they have left; 20 lines in a subclass.",
    kind=FixKind.PATCH,
    before='model.generate(**inputs, cache_implementation="offloaded")',
    after="model.generate(**inputs, past_key_values=SideStreamCache(config))",
    changes=("side-stream",),
)
LOOP = Loop(
    TEXT,
    lambda fixed, device: _make(device, "fixed" if fixed else "as it is"),
    reference=lambda device: _make(device, "on the GPU"),
)
