"""diffusers: a sampling loop, whose scheduler is handed the time step as a tensor on the GPU."""

from __future__ import annotations

import torch
from diffusers import DDIMScheduler, UNet2DConditionModel

from benchmarks.wild.loop import Loop, Step, size
from benchmarks.wild.texts import FixKind, Text


def _make(fixed: bool, device: str) -> Step:
    kind = torch.float16 if device == "cuda" else torch.float32
    channels = size(device, (320, 640, 1280, 1280), (32, 32, 32, 32))
    with torch.device(device):
        unet = UNet2DConditionModel(
            sample_size=size(device, 64, 16), block_out_channels=channels, cross_attention_dim=size(device, 768, 32)
        )
    unet = unet.to(kind).eval()
    scheduler = DDIMScheduler(clip_sample=False)
    scheduler.set_timesteps(size(device, 8, 2), device=device)
    times = scheduler.timesteps.tolist() if fixed else scheduler.timesteps
    side = unet.config.sample_size
    noise = torch.randn(4, 4, side, side, device=device, dtype=kind)
    prompt = torch.randn(4, size(device, 77, 8), unet.config.cross_attention_dim, device=device, dtype=kind)

    def step() -> torch.Tensor:
        latents = noise
        with torch.no_grad():
            for index, time in enumerate(times):
                predicted = unet(latents, scheduler.timesteps[index], encoder_hidden_states=prompt).sample
                latents = scheduler.step(predicted, time, latents).prev_sample
        return latents

    return step


TEXT = Text(
    package="diffusers",
    title="a DDIM scheduler's steps",
    does="A U-Net of the size of Stable Diffusion's makes four latents in eight steps, as the pipelines do it.",
    fix="The scheduler is handed numbers instead of elements of a tensor on the GPU, which it would read.",
    kind=FixKind.USE,
    before="for time in scheduler.timesteps: ... scheduler.step(predicted, time, latents)",
    after="for time in scheduler.timesteps.tolist(): ... scheduler.step(predicted, time, latents)",
    changes=("no-scalar-sync",),
)
LOOP = Loop(TEXT, _make)
