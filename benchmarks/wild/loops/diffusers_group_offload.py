"""diffusers: a transformer whose blocks are on the GPU only while they run."""

from __future__ import annotations

import torch
from diffusers import PixArtTransformer2DModel

from benchmarks.wild.loop import Loop, Step, size
from benchmarks.wild.texts import FixKind, Text


def _make(fixed: bool, device: str) -> Step:
    words, width = size(device, 77, 4), size(device, 2048, 16)
    heads, head = size(device, 16, 2), size(device, 72, 8)
    model = PixArtTransformer2DModel(
        num_attention_heads=heads,
        attention_head_dim=head,
        num_layers=size(device, 14, 2),
        sample_size=size(device, 64, 8),
        cross_attention_dim=heads * head,
        caption_channels=width,
    )
    model = model.to(torch.bfloat16).eval()
    model.enable_group_offload(
        torch.device(device), offload_type="block_level", num_blocks_per_group=1, use_stream=fixed and device == "cuda"
    )
    side = model.config.sample_size
    noise = torch.randn(size(device, 8, 1), 4, side, side, device=device, dtype=torch.bfloat16)
    prompt = torch.randn(len(noise), words, width, device=device, dtype=torch.bfloat16)
    time = torch.full((len(noise),), 500, device=device)

    def step() -> torch.Tensor:
        with torch.no_grad():
            sample: torch.Tensor = model(noise, prompt, time, {"resolution": None, "aspect_ratio": None}).sample
        return sample

    return step


TEXT = Text(
    package="diffusers",
    title="enable_group_offload",
    does="A diffusion transformer of 14 blocks denoises eight latents once; each block comes to the GPU and leaves it.",
    fix="The library's own stream brings the next block while one runs. It also keeps pinned copies of the weights.",
    kind=FixKind.SWITCH,
    before='model.enable_group_offload(gpu, offload_type="block_level", num_blocks_per_group=1)',
    after='model.enable_group_offload(gpu, offload_type="block_level", num_blocks_per_group=1, use_stream=True)',
    changes=("pin", "non-blocking", "side-stream", "prefetch=1"),
)
LOOP = Loop(TEXT, _make)
